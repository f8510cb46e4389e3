"""Closed segments are read again, slowly and for ever: a bit that flipped on a disk is found before somebody needs the record.

Laws: one slice at a time, as a job, no more bytes per second than `log.scrub.io.max.bytes.per.second`; damage counts when a second reading of the
whole segment finds it too, for the file may have been replaced meanwhile; a damaged copy serves on, and is told of (`findings`). Called by the
broker's timers. Must not come in: sockets, roles, what is done about damage. (Kafka does not look; nor does this at the segment being written.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from brokerd.cluster.model import Now, TopicPartition
from brokerd.cluster.znodes import CORRUPT
from brokerd.partitions import Partitions
from brokerd.replica import Replica
from brokerd.storage.disk import DiskFailed
from brokerd.storage.jobs import Runner
from brokerd.storage.rereading import Rereading
from brokerd.storage.segment import Segment

LOOK_MS = 1_000
"""How often there is a look whether a slice may be read."""
SLICE_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of one job: other jobs wait behind it."""
JOBS_PER_LOOK = 16
"""Slices read between two looks: a log of many small segments is to be read at its pace without taking the broker's turns."""
ROUND_MS_MIN = 30_000
"""A round through all logs begins no sooner than this after the one before: small ones need not be read for ever."""
REPLICAS_PER_LOOK = 100
"""Replicas without a closed segment passed over in one look: most of ten thousand have none."""


class Scrub:
    def __init__(
        self, partitions: Partitions, jobs: Runner, clock: Callable[[], Now], bytes_per_s: Callable[[], int]
    ) -> None:
        self._partitions, self._jobs, self._clock, self._bytes_per_s = partitions, jobs, clock, bytes_per_s
        self._round: deque[TopicPartition] = deque()
        self._at: tuple[Replica, Segment, Rereading, bool] | None = None
        """What is being read; True: for the second time, for damage was met."""
        self._busy = False
        self._next_base = 0
        self._owed = 0.0
        self._jobs_left = 0
        self._round_not_before_ms = 0
        self.bytes_read = 0
        self.rounds = 0

    def look(self, now: Now) -> None:
        """Once in LOOK_MS."""
        rate = self._bytes_per_s()
        self._owed = min(self._owed + rate * LOOK_MS / 1000, rate) if rate else 0.0
        self._jobs_left = JOBS_PER_LOOK
        self._go()

    def _go(self) -> None:
        if self._busy or self._owed < 1 or not self._jobs_left or not self._choose():
            return
        self._jobs_left -= 1
        assert self._at is not None
        replica, segment, reading, again = self._at
        amount = max(1, min(int(self._owed), SLICE_BYTES_MAX))
        job = Rereading(self._partitions.disk, segment.path, reading.position, reading.end, reading.offset, amount)
        self._busy = True
        self._jobs.submit(job.run, partial(self._read, replica, segment, job, again))

    def _choose(self) -> bool:
        """Have something to read: the slice after the last one, the next segment, or the next replica that has one."""
        if self._at is not None:
            replica, segment, reading, _ = self._at
            if self._stands(replica, segment) and reading.end == segment.size and reading.position < reading.end:
                return True
            self._next_base = segment.base_offset + 1
            if self._begin(replica):
                return True
            self._at = None
        for _ in range(REPLICAS_PER_LOOK):
            if not self._round:
                now_ms = self._clock().mono_ms
                if now_ms < self._round_not_before_ms or not self._partitions.hosted:
                    return False
                self._round.extend(self._partitions.hosted)
                self._round_not_before_ms = now_ms + ROUND_MS_MIN
                self.rounds += 1
            found = self._partitions.hosted.get(self._round.popleft())
            self._next_base = 0
            if found is not None and self._begin(found):
                return True
        return False

    def _begin(self, replica: Replica, *, at: Segment | None = None) -> bool:
        """The first closed segment of it that was not read in this round (or this one, for the second time)."""
        if replica.offline_reason is not None or replica.tp in self._partitions.findings or replica.moving:
            return False
        closed = replica.log.segments[:-1]
        chosen = at or next((s for s in closed if s.base_offset >= self._next_base and s.size), None)
        if chosen is None:
            return False
        reading = Rereading(self._partitions.disk, chosen.path, 0, chosen.size, chosen.base_offset, 0)
        self._at = (replica, chosen, reading, at is not None)
        return True

    def _stands(self, replica: Replica, segment: Segment) -> bool:
        alive = self._partitions.hosted.get(replica.tp) is replica and replica.offline_reason is None
        return alive and segment in replica.log.segments[:-1]

    def _read(
        self, replica: Replica, segment: Segment, job: Rereading, again: bool, error: BaseException | None
    ) -> None:
        self._busy = False
        before = self._at[2].position if self._at is not None else 0
        read = max(0, job.position - before)
        self._owed -= max(read, 1)
        self.bytes_read += read
        self._at = (replica, segment, job, again)
        self._judge(replica, segment, job, again, error)
        self._go()

    def _judge(
        self, replica: Replica, segment: Segment, job: Rereading, again: bool, error: BaseException | None
    ) -> None:
        if not self._stands(replica, segment) or job.end != segment.size:
            return  # cut, joined or moved meanwhile: what was read was another file
        problem = job.problem
        if isinstance(error, DiskFailed):
            if error.of_device:
                self._partitions.fail(replica, error)
                return
            problem = str(error)  # its file is gone, as when somebody removed the folder: what is open still serves
        if problem is None:
            return
        if again:
            self._partitions.findings.add(replica.name, replica.tp, CORRUPT, problem)
        else:
            self._begin(replica, at=segment)
