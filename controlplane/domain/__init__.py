"""Decisions of the control plane as pure functions: moves, planning, balance, lag, alerts, restarts. No I/O, no clock, no Django."""
