"""Broker, group, security and client settings under Kafka's names: types, defaults, checks, and changes while the broker runs."""
