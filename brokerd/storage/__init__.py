"""Kafka's log on disk: segments, sparse indexes, epochs, producer states, checkpoints.

Acknowledged records are never changed. Data that cannot be trusted is rebuilt from the segments or truncated.
Does not contain replica roles, networking or the metadata log.
"""
