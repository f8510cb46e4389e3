"""The consumer group protocol (KIP-848): heartbeats, target assignments, reconciliation, groups with members of both protocols. Pure."""
