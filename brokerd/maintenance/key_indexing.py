"""Builds the key indexes of segments, for topics with `weir.index.keys`, and removes those of other topics.

The build of the active segment's index begins when the segment has PART_BYTES, continues while the segment grows, and ends when it is closed: no byte is
read twice. During this time look-ups use the part that is built (`Segment.key_index_part`). A look-up without an index scans the segment.

Invariants: a build is discarded when its part was removed from the segment, for example by a truncation. Builds in progress are limited in number and in
memory. Does not contain: the format (`storage/key_index`), look-ups, the jobs (`segment_indexing`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from brokerd.cluster.model import Now, TopicPartition
from brokerd.maintenance.segment_indexing import SLICE_BYTES_MAX, CurrentSegment, SegmentIndexing
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.storage.appended_keys import AppendedKeys
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.jobs import Runner
from brokerd.storage.key_hashes import COMPILED, HashedKeys
from brokerd.storage.key_index_build import KeyIndexBuild
from brokerd.storage.segment import IndexFileState, Segment

log = logging.getLogger(__name__)

PART_BYTES = SLICE_BYTES_MAX
"""Number of bytes by which an active segment must have grown before they are indexed. A scan of as many bytes takes about 1 ms."""
GROWING_MAX = 2_000
"""Maximum number of active segments that are indexed at the same time. Look-ups scan the other active segments."""
COLLECTS_APPENDED = COMPILED
"""Collect entries when batches are appended. The walk in Python would delay the event loop."""
APPENDED_MAX = 1024 * 1024
"""Limit of the entries that are collected when batches are appended, of all logs, at the start of a tick: 8 MiB."""
ENTRIES_MAX = 2 * 1024 * 1024
"""Limit of the entries in memory of all builds: 16 MiB. Above the limit a build writes its entries early, so its index has more and smaller runs."""


class KeyIndexing(SegmentIndexing[KeyIndexBuild]):
    KIND: ClassVar[str] = "key index"

    def __init__(
        self, replica_manager: ReplicaManager, jobs: Runner, clock: Callable[[], Now], bytes_per_s: Callable[[], int]
    ) -> None:
        super().__init__(replica_manager, jobs, clock, bytes_per_s)
        self._built_with: dict[TopicPartition, str] = {}
        """The record header for which this run has built or checked the indexes. After a change of the header all indexes must be checked again."""
        self._growing: dict[Segment, CurrentSegment[KeyIndexBuild]] = {}
        """Builds that began while their segment was active, without the current build. They wait until the segment has grown or is closed."""
        self._grown: deque[Segment] = deque()
        """The builds that can continue in this tick."""
        self.entries_waiting = 0
        """Entries in memory of `_growing`."""

    def tick(self, now: Now) -> None:
        self._grown = deque(s for s, c in self._growing.items() if not self._is_current(c) or self._can_continue(c))
        self._limit_appended()
        super().tick(now)

    def _limit_appended(self) -> None:
        """Discard collected entries if all logs have too many. The builds read their batches from the log."""
        logs = [c.replica.log for c in self._growing.values()]
        if sum(log_.collected_entries for log_ in logs) > APPENDED_MAX:
            for log_ in logs:
                log_.discard_collected_entries()

    @staticmethod
    def _can_continue(c: CurrentSegment[KeyIndexBuild]) -> bool:
        """Return whether the segment has grown enough, or is closed."""
        return c.segment.size - c.build.position >= PART_BYTES or c.segment is not c.replica.log.segments[-1]

    def _choose(self) -> CurrentSegment[KeyIndexBuild] | None:
        while self._grown:
            c = self._growing.pop(self._grown.popleft())
            self.entries_waiting -= c.build.unwritten
            if self._is_current(c):
                c.build.extend(c.segment.size, closed=c.segment is not c.replica.log.segments[-1])
                self._use_appended(c.segment, c.build)
                return c
            self._discard(c)
        return super()._choose()

    def _setting(self, replica: Replica) -> str | None:
        return replica.config.index_header if replica.config.index_keys else None

    def _choose_segment(self, replica: Replica, closed: Sequence[Segment]) -> CurrentSegment[KeyIndexBuild] | None:
        """Choose the newest segment without a current index, because look-ups read the newest records first. The active segment is chosen if it is large
        enough."""
        header_name = self._setting(replica)
        if header_name is None:
            self._built_with.pop(replica.tp, None)
            replica.log.segments[-1].appended_keys = None
            self._remove(replica, closed)
            return None
        if self._built_with.setdefault(replica.tp, header_name) != header_name:
            self._built_with[replica.tp] = header_name
            for segment in closed:
                if segment.key_index is IndexFileState.CURRENT:
                    segment.key_index = IndexFileState.UNCHECKED
        active = replica.log.segments[-1]
        if active.size >= PART_BYTES and len(self._growing) < GROWING_MAX and self._may_begin(active):
            return self._begin_build(replica, active, header_name, closed=False)
        for segment in reversed(closed):
            if segment.key_index is not IndexFileState.CURRENT and self._may_begin(segment):
                return self._begin_build(replica, segment, header_name, closed=True)
        return None

    def _may_begin(self, segment: Segment) -> bool:
        return segment not in self._growing and self._may_try(segment)

    def _begin_build(
        self, replica: Replica, segment: Segment, header_name: str, *, closed: bool
    ) -> CurrentSegment[KeyIndexBuild]:
        disk, hashed = self._replica_manager.disk, HashedKeys(header_name)
        build = KeyIndexBuild(disk, segment.path, segment.base_offset, segment.size, hashed, closed=closed)
        if not closed and COLLECTS_APPENDED:
            collected = segment.appended_keys
            if collected is None or collected.hashed.header_name != hashed.header_name:
                segment.appended_keys = AppendedKeys(hashed, segment.size)
        self._use_appended(segment, build)
        return CurrentSegment(replica, segment, build, header_name)

    @staticmethod
    def _use_appended(segment: Segment, build: KeyIndexBuild) -> None:
        """The entries that were collected when the batches were appended become those of the build."""
        appended = segment.appended_keys
        if appended is not None and appended.hashed.header_name == build.hashed.header_name:
            build.use(appended.take(segment.size))
        if build.closed:
            segment.appended_keys = None

    def _remove(self, replica: Replica, closed: Sequence[Segment]) -> None:
        try:
            for segment in closed:
                segment.remove_key_index()
        except (DiskFailed, DiskFull) as e:
            log.warning("key indexes not removed: partition=%s error=%s", replica.name, e)
            self._report_io_error(segment.path, e)

    def _state(self, segment: Segment) -> IndexFileState:
        return segment.key_index

    def _slice(self, build: KeyIndexBuild, slice_bytes: int) -> Callable[[], None]:
        return partial(build.run, slice_bytes, max(0, ENTRIES_MAX - self.entries_waiting))

    def _has_content(self, c: CurrentSegment[KeyIndexBuild]) -> bool:
        if c.segment.key_index_part is not c.build.published:
            return False  # the segment was truncated, or a look-up found damage
        if c.build.closed:
            return super()._has_content(c)
        segments = c.replica.log.segments
        return (c.segment is segments[-1] or c.segment in segments) and c.segment.size >= c.build.size

    def _evaluate(self, current: CurrentSegment[KeyIndexBuild]) -> None:
        super()._evaluate(current)
        if current.build.finished:
            self._continue_with(current.replica.tp)  # segments with collected entries do not wait for the next round
        if self._current is not current or not current.build.position:
            return
        current.segment.key_index_part = current.build.published = current.build.part
        if current.build.position == current.build.size:  # of an active segment: a closed one is finished
            self._current, self._growing[current.segment] = None, current
            self.entries_waiting += current.build.unwritten

    def _discard(self, c: CurrentSegment[KeyIndexBuild]) -> None:
        if c.segment.key_index_part is c.build.published:
            c.segment.key_index_part = None
        c.segment.appended_keys = None
        super()._discard(c)

    def _set_current(self, c: CurrentSegment[KeyIndexBuild]) -> None:
        c.segment.key_index, c.segment.key_index_part = IndexFileState.CURRENT, None

    def _remove_file(self, segment: Segment) -> None:
        segment.remove_key_index()
