"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat, committed offsets and their records. Pure state machines."""
