"""Builds index files of closed segments: a base class for the kinds of indexes.

Invariants: a job reads one slice at a time, at most `weir.index.io.max.bytes.per.second`. A finished file is renamed only if its segment is still
the segment for which the index was built. A segment without an index does not affect the replica, because no reader requires an index. After an
I/O error the next start does not trust the tails of the logs, because the kernel may also have dropped written records. An error of the device
takes the log directory offline. Every replica builds its own indexes. Only a closed segment has a finished index. Does not contain: which segments
get which index (`key_indexing`, `delay_indexing`), the formats.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar

from brokerd.cluster.model import Now, TopicPartition
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.storage.disk import DiskFailed, DiskFull, FileDamaged, FileMissing
from brokerd.storage.jobs import Runner
from brokerd.storage.segment import IndexFileState, Segment

log = logging.getLogger(__name__)

INDEX_INTERVAL_MS = 1_000
"""Interval of `tick`."""
SLICE_BYTES_MAX = 1024 * 1024
"""Maximum number of bytes per job: a few milliseconds of another thread for records of 1 KiB. Other jobs wait behind it."""
ROUND_MS_MIN = 5_000
"""Minimum time between the starts of two rounds through all logs."""
REPLICAS_PER_TICK = 500
"""Replicas without work that one tick may skip: most of 10,000 have none."""
JOBS_PER_TICK = 100
"""Slices, and checks of files of an earlier run, per tick. Limits the load of a log with many small segments."""
RETRY_MS = 600_000
"""Time after which a segment that could not be indexed is tried again."""


class IndexNotBuilt(Exception):
    """The segment cannot have an index."""


EXPECTED = (DiskFailed, DiskFull, IndexNotBuilt)
"""Errors after which the segment is tried again later."""


class IndexBuild(Protocol):
    """The build of one file, a slice of the log at a time. The methods are jobs."""

    path: Path
    """Path of the segment."""
    size: int
    """Bytes of the segment."""
    position: int
    """Bytes of the segment that are indexed."""
    finished: bool
    reused: bool
    """The file of an earlier run is valid."""

    @property
    def bytes_read(self) -> int:
        """Bytes of the segment that were read."""
        ...

    @property
    def temporary(self) -> Path: ...

    @property
    def target(self) -> Path: ...

    def check_existing(self) -> None:
        """Check the index file of an earlier run of the broker."""
        ...

    def run(self, slice_bytes: int) -> None:
        """Read at most about `slice_bytes`. Raises DiskFailed, DiskFull, IndexNotBuilt."""
        ...


Build = TypeVar("Build", bound=IndexBuild)


class CurrentSegment(Generic[Build]):
    """The segment whose index is being built. `cuts` is the number of truncations of the log when the build started. `setting` is the value of the configs on
    which the build depends."""

    __slots__ = ("build", "cuts", "replica", "segment", "setting")

    def __init__(self, replica: Replica, segment: Segment, build: Build, setting: object) -> None:
        self.replica, self.segment, self.build, self.setting = replica, segment, build, setting
        self.cuts = replica.log.flushing.cuts


class SegmentIndexing(Generic[Build]):
    KIND: ClassVar[str]
    """Name of the kind of index, for log lines."""

    def __init__(
        self, replica_manager: ReplicaManager, jobs: Runner, clock: Callable[[], Now], bytes_per_s: Callable[[], int]
    ) -> None:
        self._replica_manager, self._jobs, self._clock, self._bytes_per_s = replica_manager, jobs, clock, bytes_per_s
        self._round: deque[TopicPartition] = deque()
        self._current: CurrentSegment[Build] | None = None
        self._busy = False
        self._budget_bytes = 0.0
        self._jobs_left = self._skips_left = 0
        self._round_not_before_ms = 0
        self._retry_ms: dict[Segment, int] = {}
        """Segments that could not be indexed, with the time of the next attempt."""
        self.bytes_read = 0
        self.built = 0

    def tick(self, now: Now) -> None:
        """Called every INDEX_INTERVAL_MS."""
        rate = self._bytes_per_s()
        self._budget_bytes = min(self._budget_bytes + rate * INDEX_INTERVAL_MS / 1000, rate) if rate else 0.0
        self._jobs_left, self._skips_left = JOBS_PER_TICK, REPLICAS_PER_TICK
        self._start_next()

    def _start_next(self) -> None:
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
        if self._state(current.segment) is IndexFileState.UNCHECKED:
            job: Callable[[], None] = current.build.check_existing
        else:
            job = self._slice(current.build, max(1, min(int(self._budget_bytes), SLICE_BYTES_MAX)))
        self._busy = True
        self._jobs.submit(job, partial(self._on_job_ended, current, current.build.bytes_read))

    # -- of the kind of index ----------------------------------------------------------------------------------------------
    def _setting(self, replica: Replica) -> object:
        """The configs on which the indexes of a replica depend. None if the replica has no indexes of this kind."""
        raise NotImplementedError

    def _choose_segment(self, replica: Replica, closed: Sequence[Segment]) -> CurrentSegment[Build] | None:
        """The next closed segment of the replica to build."""
        raise NotImplementedError

    def _state(self, segment: Segment) -> IndexFileState:
        raise NotImplementedError

    def _slice(self, build: Build, slice_bytes: int) -> Callable[[], None]:
        """The next job of a build."""
        return partial(build.run, slice_bytes)

    def _has_content(self, c: CurrentSegment[Build]) -> bool:
        """Return whether the segment still has the content that the build reads."""
        return c.segment in c.replica.log.segments[:-1] and c.segment.size == c.build.size

    def _set_current(self, c: CurrentSegment[Build]) -> None:
        """Use the file, which is valid, as the index of the segment."""
        raise NotImplementedError

    def _remove_file(self, segment: Segment) -> None:
        raise NotImplementedError

    # -- selection ---------------------------------------------------------------------------------------------------------
    def _choose(self) -> CurrentSegment[Build] | None:
        while self._skips_left:
            if not self._round:
                now_ms = self._clock().mono_ms
                if now_ms < self._round_not_before_ms or not self._replica_manager.hosted:
                    return None
                self._round.extend(self._replica_manager.hosted)
                self._round_not_before_ms = now_ms + ROUND_MS_MIN
                self._retry_ms = {s: at for s, at in self._retry_ms.items() if at > now_ms}
            replica = self._replica_manager.hosted.get(self._round[0])
            chosen = self._segment_of(replica) if replica is not None else None
            if chosen is not None:
                return chosen
            self._round.popleft()
            self._skips_left -= 1
        return None

    def _continue_with(self, tp: TopicPartition) -> None:
        """The partition is the next one of the round."""
        if not self._round or self._round[0] != tp:
            self._round.appendleft(tp)

    def _segment_of(self, replica: Replica) -> CurrentSegment[Build] | None:
        if replica.offline_reason is not None or replica.moving:
            return None
        return self._choose_segment(replica, replica.log.segments[:-1])

    def _may_try(self, segment: Segment) -> bool:
        return bool(segment.size) and segment not in self._retry_ms

    def _is_current(self, current: CurrentSegment[Build]) -> bool:
        """Return whether the segment is still the segment for which the build started."""
        return (
            self._replica_manager.hosted.get(current.replica.tp) is current.replica
            and current.replica.offline_reason is None
            and not current.replica.moving
            and current.segment.path == current.build.path
            and self._has_content(current)
            and current.replica.log.flushing.cuts == current.cuts
            and self._setting(current.replica) == current.setting
        )

    # -- results -------------------------------------------------------------------------------------------------------------
    def _on_job_ended(self, current: CurrentSegment[Build], before: int, error: BaseException | None) -> None:
        self._busy = False
        read = current.build.bytes_read - before
        self._budget_bytes -= max(read, 1)
        self.bytes_read += read
        try:
            if error is not None and (
                self._is_current(current) or _is_io_error(error) or not isinstance(error, EXPECTED)
            ):
                raise error  # another error of a deleted or compacted segment is expected
            self._evaluate(current)
        except EXPECTED as e:
            log.warning(
                "%s not built partition=%s file=%s error=%s",
                self.KIND,
                current.replica.name,
                current.build.target.name,
                e,
            )
            self._report_io_error(current.build.path, e)
            self._retry_ms[current.segment] = self._clock().mono_ms + RETRY_MS
            self._discard(current)
        self._start_next()

    def _evaluate(self, current: CurrentSegment[Build]) -> None:
        if not self._is_current(current):
            self._discard(current)
        elif current.build.reused:
            self._set_current(current)
            self._current = None
        elif not current.build.position:
            self._remove_file(current.segment)  # the file of the earlier run is invalid
        elif current.build.finished:
            self._replica_manager.disk.rename(current.build.temporary, current.build.target)
            self._set_current(current)
            self._current = None
            self.built += 1

    def _discard(self, c: CurrentSegment[Build]) -> None:
        """Discard the build. Errors are ignored, because the next start removes a remaining temporary file."""
        self._current = None
        try:
            self._replica_manager.disk.unlink(c.build.temporary)
        except (DiskFailed, DiskFull) as e:
            log.warning("temporary %s not removed path=%s error=%s", self.KIND, c.build.temporary, e)
            self._report_io_error(c.build.path, e)

    def _report_io_error(self, segment: Path, error: Exception) -> None:
        """Report that unflushed data may be lost. An error of the device takes the log directory of the segment file offline."""
        if not _is_io_error(error):
            return
        log_dirs = self._replica_manager.log_dirs
        if isinstance(error, DiskFailed) and error.of_device:
            log_dirs.fail(log_dirs.directory_of(segment.parent), str(error))
        else:
            log_dirs.io_error()


def _is_io_error(error: BaseException) -> bool:
    return isinstance(error, DiskFailed) and not isinstance(error, (FileDamaged, FileMissing))
