"""Decision to roll a segment: by size, offset range, index size and age. Does not contain file access."""

from __future__ import annotations

from zlib import crc32

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.model import Now
from brokerd.storage.index import RELATIVE_MAX
from brokerd.storage.segment import Segment


def must_roll(segment: Segment, config: TopicConfig, incoming: int, last_offset: int, newest: int, now: Now) -> bool:
    """Return whether a new segment is necessary for `incoming` bytes with offsets up to `last_offset` and timestamps up to `newest`."""
    if segment.size + incoming > config.segment_bytes or last_offset - segment.base_offset > RELATIVE_MAX:
        return True
    if len(segment.index) * 8 >= config.segment_index_bytes:
        return True
    # Kafka's rule: use record timestamps if there are any, so that replayed records are split as the original ones.
    if segment.first_timestamp >= 0 and newest >= 0:
        age = newest - segment.first_timestamp
    else:
        age = now.wall_ms - segment.created_wall_ms
    return age > config.segment_ms - config.segment_jitter_ms and age > config.segment_ms - _jitter(segment, config)


def _jitter(segment: Segment, config: TopicConfig) -> int:
    """Deterministic part of `segment.jitter.ms`, different between partitions."""
    bound = min(config.segment_jitter_ms, config.segment_ms)
    return crc32(str(segment.path).encode()) % (bound + 1) if bound else 0
