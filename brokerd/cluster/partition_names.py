"""Names of partitions, `topic-partition`: those of their directories, of log lines, and of requests to the control plane."""

from __future__ import annotations

INDEX_DIGITS_MAX = 10
"""Maximum number of digits of a partition: Kafka's type is int32."""


def split_partition_name(name: str) -> tuple[str, int] | None:
    """(topic, partition); None if `name` has another form. The topic may contain hyphens."""
    topic, _, index = name.rpartition("-")
    if not topic or len(index) > INDEX_DIGITS_MAX or not (index.isascii() and index.isdigit()):
        return None
    return topic, int(index)
