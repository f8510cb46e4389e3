"""Share partitions (KIP-932): delivery of records to the members of a share group, and share sessions. Pure state machines."""
