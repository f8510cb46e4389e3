"""Networking: event loop, listeners, connections, TLS, connections to other brokers. Does not interpret requests."""
