"""Retention over both tiers (`retention.ms`, `retention.bytes`). Pure.

Invariants: the oldest records are deleted first. This module decides about remote segments only: `local.retention.*` deletes local segments, after
they are copied.
Does not contain: the deletion (`leader`).
"""

from __future__ import annotations

from brokerd.remote.lineage import Chain
from brokerd.remote.segments import RemoteSegment


def retained_start(
    chain: Chain, local_bytes: int, retention_ms: int, retention_bytes: int, wall_ms: int, log_start: int
) -> int:
    """The log start offset that retention requires: at least `log_start`, at most the end of the chain. `local_bytes`: bytes of the log above the chain."""
    start, total = log_start, local_bytes + chain.size_bytes
    for segment in chain.segments:
        if segment.end_offset <= log_start:
            total -= segment.size_bytes
            continue
        large = retention_bytes >= 0 and total - segment.size_bytes >= retention_bytes
        if not (large or expired(segment, retention_ms, wall_ms)):
            break
        total -= segment.size_bytes
        start = segment.end_offset
    return start


def expired(segment: RemoteSegment, retention_ms: int, wall_ms: int) -> bool:
    """Return whether every record is older than `retention_ms` (-1: never). Records without timestamps have the age of the copy."""
    newest = segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_ms
    return retention_ms >= 0 and newest < wall_ms - retention_ms
