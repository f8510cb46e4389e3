"""Builds the delay indexes of closed segments of front topics of delayed messages.

Invariant: a segment gets its index when every transaction in it has ended and the ends are replicated, so that its content is final. Does not contain:
the format (`storage/delay_index`), the use of the indexes (`delivery/delayed_front`), the jobs (`segment_indexing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from brokerd.maintenance.delay_index_build import DelayIndexBuild, IndexedRange
from brokerd.maintenance.segment_indexing import CurrentSegment, SegmentIndexing
from brokerd.replication.replica import Replica
from brokerd.storage.segment import IndexFileState, Segment


class DelayIndexing(SegmentIndexing[DelayIndexBuild]):
    KIND: ClassVar[str] = "delay index"

    def _setting(self, replica: Replica) -> str | None:
        return replica.config.delay_topic or None

    def _choose_segment(self, replica: Replica, closed: Sequence[Segment]) -> CurrentSegment[DelayIndexBuild] | None:
        """Choose the oldest closed segment without a current index."""
        setting = self._setting(replica)
        if setting is None:
            return None
        for segment in closed:
            if segment.delay_index is IndexFileState.CURRENT or not self._may_try(segment):
                continue
            if segment.end_offset > replica.last_stable():
                return None
            return CurrentSegment(replica, segment, self._build(replica, segment), setting)
        return None

    def _build(self, replica: Replica, segment: Segment) -> DelayIndexBuild:
        base, end = segment.base_offset, segment.end_offset
        aborted = tuple(
            (a.producer_id, a.first_offset, a.last_offset) for a in replica.log.aborted.overlapping(base, end)
        )
        decided_below = replica.core.high_watermark
        return DelayIndexBuild(
            self._replica_manager.disk, IndexedRange(segment.path, base, end, segment.size, aborted, decided_below)
        )

    def _state(self, segment: Segment) -> IndexFileState:
        return segment.delay_index

    def _set_current(self, c: CurrentSegment[DelayIndexBuild]) -> None:
        if not c.build.reused:
            c.segment.delay_index_decided = c.build.decided_below
        c.segment.delay_index = IndexFileState.CURRENT

    def _remove_file(self, segment: Segment) -> None:
        segment.remove_delay_index()
