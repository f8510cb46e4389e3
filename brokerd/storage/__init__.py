"""Kafka's log on disk: segments, sparse indexes, epochs, producer states, checkpoints.

Law: what was acknowledged is never changed; what cannot be trusted is rebuilt from the segments or cut. Called by `partitions`.
Must not come in: roles, networks, the metadata log.
"""
