"""Retention: which segments at the start of a log may be deleted, by age and size, and never above the high watermark.

The age is computed from the wall clock and the record timestamps, which are checked against the batches. The age of a segment without timestamps is
the time since this process created or opened it. Does not contain the deletion.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise

from brokerd.cluster.configs import TopicConfig
from brokerd.storage.segment import Segment

BATCHES_MAX = 100_000
"""Maximum number of batch headers read by one call of `may_delete`: a tenth of a second."""


def expired(segment: Segment, config: TopicConfig, wall_ms: int) -> bool:
    """Return whether every record of `segment` is older than `retention.ms`."""
    if config.retention_ms < 0:
        return False
    horizon = wall_ms - config.retention_ms
    if segment.max_timestamp >= horizon:
        return False
    newest = segment.sure_newest()
    return (newest if newest >= 0 else segment.created_wall_ms) < horizon


def new_start(segments: Sequence[Segment], config: TopicConfig, wall_ms: int, high_watermark: int) -> int:
    """The offset below which closed segments may be deleted. The base offset of the first segment if none may."""
    upto, total = segments[0].base_offset, sum(s.size for s in segments)
    for segment, following in pairwise(segments):
        if following.base_offset > high_watermark:
            break
        large = config.retention_bytes >= 0 and total - segment.size >= config.retention_bytes
        if not (large or expired(segment, config, wall_ms)):
            break
        total -= segment.size
        upto = following.base_offset
    return upto


def archived_start(
    segments: Sequence[Segment], config: TopicConfig, wall_ms: int, upto_offset: int, more_bytes: int
) -> int:
    """Like `new_start`, but for the part of a log below `upto_offset`. `more_bytes`: bytes of the log above it, on another broker. The result is at most
    `upto_offset`."""
    below = [s for s in segments if s.base_offset < upto_offset]
    if not below or not config.deletes:
        return segments[0].base_offset
    ends = [*(s.base_offset for s in below[1:]), upto_offset]
    sizes = [*(s.size for s in below[:-1]), below[-1].position_of(upto_offset)]
    start, total = below[0].base_offset, more_bytes + sum(sizes)
    for segment, end, size in zip(below, ends, sizes, strict=True):
        large = config.retention_bytes >= 0 and total - size >= config.retention_bytes
        if not (large or expired(segment, config, wall_ms)):
            break
        total -= size
        start = end
    return start


def may_delete(segments: Sequence[Segment], config: TopicConfig, wall_ms: int, offset: int) -> bool:
    """Return whether all records below `offset` may be deleted, also inside a segment: by size if enough bytes remain, by age if each record is old enough."""
    stays = sum(s.size - s.position_of(offset) for s in segments if s.end_offset > offset)
    if config.retention_bytes >= 0 and stays >= config.retention_bytes:
        return True
    return config.retention_ms >= 0 and all(
        expired(s, config, wall_ms) or _expired_below(s, offset, wall_ms - config.retention_ms)
        for s in segments
        if s.base_offset < offset
    )


def _expired_below(segment: Segment, offset: int, horizon: int) -> bool:
    """Return whether all batches below `offset` are expired. False if there are more than BATCHES_MAX."""
    if segment.sure_newest() < 0:
        return False  # the records of the segment have no timestamps
    for _, header in islice(segment.headers(0), BATCHES_MAX):
        if header.base_offset >= offset:
            return True
        if header.max_timestamp >= horizon:
            return False
    return False
