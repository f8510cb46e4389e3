"""Scrubbing: closed segments are read again slowly and continuously, to find damage before a client needs the record.

Invariants: a job reads one slice at a time, at most `log.scrub.io.max.bytes.per.second`. Damage is reported only if a second read of the whole
segment finds it too, because the file may have been replaced since then. A damaged replica continues to serve requests (`damage_reports`).
The active segment is not scrubbed. Does not contain: sockets, roles, repairs. (Kafka has no scrubbing.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from brokerd.cluster.model import Now, TopicPartition
from brokerd.cluster.znodes import CORRUPT
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.storage.disk import DiskFailed
from brokerd.storage.jobs import Runner
from brokerd.storage.segment import Segment
from brokerd.storage.segment_scrub import SegmentScrub

SCRUB_INTERVAL_MS = 1_000
"""Interval of `tick`."""
SLICE_BYTES_MAX = 4 * 1024 * 1024
"""Maximum number of bytes per job. Other jobs wait behind it."""
JOBS_PER_TICK = 16
"""Slices read per tick. Limits the load of a log with many small segments."""
ROUND_MS_MIN = 30_000
"""Minimum time between the starts of two rounds through all logs. Small logs need no continuous reading."""
REPLICAS_PER_TICK = 100
"""Replicas without a closed segment that one tick may skip: most of 10,000 have none."""


class Scrub:
    def __init__(
        self, replica_manager: ReplicaManager, jobs: Runner, clock: Callable[[], Now], bytes_per_s: Callable[[], int]
    ) -> None:
        self._replica_manager, self._jobs, self._clock, self._bytes_per_s = replica_manager, jobs, clock, bytes_per_s
        self._round: deque[TopicPartition] = deque()
        self._current: tuple[Replica, Segment, SegmentScrub, bool] | None = None
        """The segment that is being read, and whether it is read for the second time because the first read found damage."""
        self._busy = False
        self._next_base = 0
        self._budget_bytes = 0.0
        self._jobs_left = 0
        self._round_not_before_ms = 0
        self.bytes_read = 0
        self.rounds = 0

    def tick(self, now: Now) -> None:
        """Called every SCRUB_INTERVAL_MS."""
        rate = self._bytes_per_s()
        self._budget_bytes = min(self._budget_bytes + rate * SCRUB_INTERVAL_MS / 1000, rate) if rate else 0.0
        self._jobs_left = JOBS_PER_TICK
        self._read_next()

    def _read_next(self) -> None:
        if self._busy or self._budget_bytes < 1 or not self._jobs_left or not self._choose():
            return
        self._jobs_left -= 1
        assert self._current is not None
        replica, segment, reading, again = self._current
        amount = max(1, min(int(self._budget_bytes), SLICE_BYTES_MAX))
        job = SegmentScrub(
            self._replica_manager.disk, segment.path, reading.position, reading.end, reading.offset, amount
        )
        self._busy = True
        self._jobs.submit(job.run, partial(self._on_read, replica, segment, job, again))

    def _choose(self) -> bool:
        """Choose the next read: the next slice, the next segment, or the next replica with a closed segment. False: there is nothing to read."""
        if self._current is not None:
            replica, segment, reading, _ = self._current
            if self._is_current(replica, segment) and reading.end == segment.size and reading.position < reading.end:
                return True
            self._next_base = segment.base_offset + 1
            if self._begin(replica):
                return True
            self._current = None
        for _ in range(REPLICAS_PER_TICK):
            if not self._round:
                now_ms = self._clock().mono_ms
                if now_ms < self._round_not_before_ms or not self._replica_manager.hosted:
                    return False
                self._round.extend(self._replica_manager.hosted)
                self._round_not_before_ms = now_ms + ROUND_MS_MIN
                self.rounds += 1
            found = self._replica_manager.hosted.get(self._round.popleft())
            self._next_base = 0
            if found is not None and self._begin(found):
                return True
        return False

    def _begin(self, replica: Replica, *, at: Segment | None = None) -> bool:
        """Start the first closed segment of the replica that was not read in this round, or segment `at` for the second time."""
        if replica.offline_reason is not None or replica.tp in self._replica_manager.damage_reports or replica.moving:
            return False
        closed = replica.log.segments[:-1]
        chosen = at or next((s for s in closed if s.base_offset >= self._next_base and s.size), None)
        if chosen is None:
            return False
        reading = SegmentScrub(self._replica_manager.disk, chosen.path, 0, chosen.size, chosen.base_offset, 0)
        self._current = (replica, chosen, reading, at is not None)
        return True

    def _is_current(self, replica: Replica, segment: Segment) -> bool:
        alive = self._replica_manager.hosted.get(replica.tp) is replica and replica.offline_reason is None
        return alive and segment in replica.log.segments[:-1]

    def _on_read(
        self, replica: Replica, segment: Segment, job: SegmentScrub, again: bool, error: BaseException | None
    ) -> None:
        self._busy = False
        before = self._current[2].position if self._current is not None else 0
        read = max(0, job.position - before)
        self._budget_bytes -= max(read, 1)
        self.bytes_read += read
        self._current = (replica, segment, job, again)
        self._evaluate(replica, segment, job, again, error)
        self._read_next()

    def _evaluate(
        self, replica: Replica, segment: Segment, job: SegmentScrub, again: bool, error: BaseException | None
    ) -> None:
        if not self._is_current(replica, segment) or job.end != segment.size:
            return  # truncated, merged or moved since then: another file was read
        problem = job.problem
        if isinstance(error, DiskFailed):
            if error.of_device:
                self._replica_manager.fail(replica, error)
                return
            problem = str(
                error
            )  # the file is missing, for example because the directory was deleted; open files can still be read
        if problem is None:
            return
        if again:
            self._replica_manager.damage_reports.add(replica.name, replica.tp, CORRUPT, problem)
        else:
            self._begin(replica, at=segment)
