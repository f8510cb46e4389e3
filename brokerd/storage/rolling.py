"""When a segment is closed and the next one begun.

Law: by size, by the width of its offsets, by its index, by age. Called by `log`. Must not come in: files.
"""

from __future__ import annotations

from zlib import crc32

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.model import Now
from brokerd.storage.index import RELATIVE_MAX
from brokerd.storage.segment import Segment


def must_roll(segment: Segment, config: TopicConfig, incoming: int, last_offset: int, newest: int, now: Now) -> bool:
    """Whether `incoming` bytes that end with `last_offset`, of timestamps up to `newest`, belong into a new segment."""
    if segment.size + incoming > config.segment_bytes or last_offset - segment.base_offset > RELATIVE_MAX:
        return True
    if len(segment.index) * 8 >= config.segment_index_bytes:
        return True
    # Kafka's rule: by the records' own time where they have one, so that replayed history is cut as it happened.
    if segment.first_timestamp >= 0 and newest >= 0:
        age = newest - segment.first_timestamp
    else:
        age = now.wall_ms - segment.created_wall_ms
    return age > config.segment_ms - config.segment_jitter_ms and age > config.segment_ms - _jitter(segment, config)


def _jitter(segment: Segment, config: TopicConfig) -> int:
    """Of `segment.jitter.ms`; the same for the same segment, different between partitions, without a source of chance."""
    bound = min(config.segment_jitter_ms, config.segment_ms)
    return crc32(str(segment.path).encode()) % (bound + 1) if bound else 0
