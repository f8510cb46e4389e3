"""Builds the key indexes of closed segments, for topics with `weir.index.keys`, and removes those of other topics.

Invariants: a job reads one slice at a time, at most `weir.index.io.max.bytes.per.second`. A finished file is renamed only if its segment is still
the segment for which the index was built. An index failure does not affect the replica: a look-up without an index scans the segment. Every
replica builds its own indexes. The active segment has no index. Does not contain: the format (`storage/key_index`), look-ups.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from brokerd.cluster.model import Now, TopicPartition
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.jobs import Runner
from brokerd.storage.key_hashes import HashedKeys
from brokerd.storage.key_index_build import KeyIndexBuild
from brokerd.storage.segment import KeyIndexFile, Segment

log = logging.getLogger(__name__)

INDEX_INTERVAL_MS = 1_000
"""Interval of `tick`."""
SLICE_BYTES_MAX = 1024 * 1024
"""Bytes per job: a few milliseconds of another thread for records of 1 KiB. Other jobs wait behind it."""
ROUND_MS_MIN = 5_000
"""Minimum time between the starts of two rounds through all logs."""
REPLICAS_PER_TICK = 500
"""Replicas without work that one tick may skip: most of 10,000 have none."""
JOBS_PER_TICK = 100
"""Slices, and checks of files of an earlier run, per tick. Limits the load of a log with many small segments."""
RETRY_MS = 600_000
"""Time after which a segment that could not be indexed is tried again."""


class _Current:
    """The segment whose index is being built. `cuts`: number of truncations of the log when the build started."""

    __slots__ = ("build", "cuts", "header_name", "replica", "segment")

    def __init__(self, replica: Replica, segment: Segment, build: KeyIndexBuild) -> None:
        self.replica, self.segment, self.build = replica, segment, build
        self.cuts, self.header_name = replica.log.flushing.cuts, replica.config.index_header


class KeyIndexing:
    def __init__(
        self, partitions: ReplicaManager, jobs: Runner, clock: Callable[[], Now], bytes_per_s: Callable[[], int]
    ) -> None:
        self._partitions, self._jobs, self._clock, self._bytes_per_s = partitions, jobs, clock, bytes_per_s
        self._round: deque[TopicPartition] = deque()
        self._current: _Current | None = None
        self._busy = False
        self._budget_bytes = 0.0
        self._jobs_left = self._skips_left = 0
        self._round_not_before_ms = 0
        self._retry_ms: dict[Segment, int] = {}
        """Segments that could not be indexed, with the time of the next attempt."""
        self._built_with: dict[TopicPartition, str] = {}
        """The record header of the indexes that this run has built or checked. Another one makes them unchecked."""
        self.bytes_read = 0
        self.built = 0

    def tick(self, now: Now) -> None:
        """Called every INDEX_INTERVAL_MS."""
        rate = self._bytes_per_s()
        self._budget_bytes = min(self._budget_bytes + rate * INDEX_INTERVAL_MS / 1000, rate) if rate else 0.0
        self._jobs_left, self._skips_left = JOBS_PER_TICK, REPLICAS_PER_TICK
        self._next()

    def _next(self) -> None:
        if self._busy or self._budget_bytes < 1 or not self._jobs_left:
            return
        if self._current is not None and not self._is_current(self._current):
            self._discard(self._current)
        if self._current is None:
            self._current = self._choose()
        current = self._current
        if current is None:
            return
        self._jobs_left -= 1
        if current.segment.key_index is KeyIndexFile.UNCHECKED:
            job: Callable[[], None] = current.build.check_existing
        else:
            job = partial(current.build.run, max(1, min(int(self._budget_bytes), SLICE_BYTES_MAX)))
        self._busy = True
        self._jobs.submit(job, partial(self._ran, current, current.build.position))

    # -- selection ---------------------------------------------------------------------------------------------------------
    def _choose(self) -> _Current | None:
        while self._skips_left:
            if not self._round:
                now_ms = self._clock().mono_ms
                if now_ms < self._round_not_before_ms or not self._partitions.hosted:
                    return None
                self._round.extend(self._partitions.hosted)
                self._round_not_before_ms = now_ms + ROUND_MS_MIN
                self._retry_ms = {s: at for s, at in self._retry_ms.items() if at > now_ms}
            replica = self._partitions.hosted.get(self._round[0])
            chosen = self._segment_of(replica) if replica is not None else None
            if chosen is not None:
                return chosen
            self._round.popleft()
            self._skips_left -= 1
        return None

    def _segment_of(self, replica: Replica) -> _Current | None:
        """The newest closed segment without a current index: look-ups read the newest records first."""
        if replica.offline_reason is not None or replica.moving:
            return None
        closed = replica.log.segments[:-1]
        if not replica.config.index_keys:
            self._built_with.pop(replica.tp, None)
            self._remove(replica, closed)
            return None
        header_name = replica.config.index_header
        if self._built_with.setdefault(replica.tp, header_name) != header_name:
            self._built_with[replica.tp] = header_name
            for segment in closed:
                if segment.key_index is KeyIndexFile.CURRENT:
                    segment.key_index = KeyIndexFile.UNCHECKED
        for segment in reversed(closed):
            if segment.key_index is not KeyIndexFile.CURRENT and segment.size and segment not in self._retry_ms:
                hashed = HashedKeys(header_name)
                build = KeyIndexBuild(self._partitions.disk, segment.path, segment.base_offset, segment.size, hashed)
                return _Current(replica, segment, build)
        return None

    def _remove(self, replica: Replica, closed: Sequence[Segment]) -> None:
        try:
            for segment in closed:
                segment.remove_key_index()
        except (DiskFailed, DiskFull) as e:
            log.warning("key indexes not removed partition=%s error=%s", replica.name, e)

    def _is_current(self, c: _Current) -> bool:
        """Whether the segment is still the segment for which the build started."""
        return (
            self._partitions.hosted.get(c.replica.tp) is c.replica
            and c.replica.offline_reason is None
            and not c.replica.moving
            and c.segment in c.replica.log.segments[:-1]
            and c.segment.path == c.build.path
            and c.segment.size == c.build.size
            and c.replica.log.flushing.cuts == c.cuts
            and c.replica.config.index_keys
            and c.replica.config.index_header == c.header_name
        )

    # -- results -------------------------------------------------------------------------------------------------------------
    def _ran(self, c: _Current, before: int, error: BaseException | None) -> None:
        self._busy = False
        read = c.build.position - before
        self._budget_bytes -= max(read, 1)
        self.bytes_read += read
        try:
            if error is not None and (self._is_current(c) or not isinstance(error, DiskFailed | DiskFull)):
                raise error  # an error of a deleted or compacted segment is expected
            self._evaluate(c)
        except (DiskFailed, DiskFull) as e:
            log.warning("key index not built partition=%s file=%s error=%s", c.replica.name, c.build.target.name, e)
            self._retry_ms[c.segment] = self._clock().mono_ms + RETRY_MS
            self._discard(c)
        self._next()

    def _evaluate(self, c: _Current) -> None:
        if not self._is_current(c):
            self._discard(c)
        elif c.build.reused:
            c.segment.key_index, self._current = KeyIndexFile.CURRENT, None
        elif not c.build.position:
            c.segment.remove_key_index()  # the file of the earlier run is invalid
        elif c.build.finished:
            self._partitions.disk.rename(c.build.temporary, c.build.target)
            c.segment.key_index, self._current = KeyIndexFile.CURRENT, None
            self.built += 1

    def _discard(self, c: _Current) -> None:
        """Discard the build. Errors are ignored, because the next start removes a remaining temporary file."""
        self._current = None
        try:
            self._partitions.disk.unlink(c.build.temporary)
        except (DiskFailed, DiskFull) as e:
            log.warning("temporary key index not removed path=%s error=%s", c.build.temporary, e)
