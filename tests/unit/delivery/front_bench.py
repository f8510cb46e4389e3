"""A front partition's log and its target partitions in memory, for tests of `DelayedFront` and `HalfFront`."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path

from brokerd.cluster.model import Now
from brokerd.delivery import delay_schedule
from brokerd.delivery.front_log import FrontTarget, IndexedSegment, T, journal_key
from brokerd.delivery.front_partition import FrontPartition
from brokerd.maintenance.delay_index_build import DelayIndexBuild, IndexedRange
from brokerd.storage.delay_index import InvalidDelayIndex
from brokerd.storage.delay_index_file import open_delay_index
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import Record
from tests.simulation.disk import SimDisk

START_MS = 1_790_000_000_000
FOLDER = Path("/front")


class Bench:
    """`FrontLog` in memory. Every append is replicated at once, unless `replicated` is set."""

    def __init__(self) -> None:
        self.now = Now(1_000, START_MS)
        self.batches: list[bytes] = []
        self._next_offsets: list[int] = []
        """The offset after each batch, ascending."""
        self.start_offset = self.end_offset = 0
        self.replicated: int | None = None
        self.stable: int | None = None
        self.settled = self.writable = True
        self.cold = False
        self.batch_bytes_max = 100_000
        self.aborts: list[tuple[int, int, int]] = []
        self.sent: list[tuple[FrontTarget, bytes, Callable[[ErrorCode, Now], None]]] = []
        self.targets: dict[FrontTarget, list[Record]] = {t: [] for t in FrontTarget}
        self.sequences: set[tuple[FrontTarget, int]] = set()
        self.disk = SimDisk()
        self.disk.mkdir(FOLDER)
        self.segments: list[IndexedSegment] = []
        """Closed segments with a delay index."""
        self.jobs: deque[Callable[[], None]] = deque()
        self.discarded: list[int] = []

    @property
    def high_watermark(self) -> int:
        return self.end_offset if self.replicated is None else self.replicated

    @property
    def last_stable_offset(self) -> int:
        return self.high_watermark if self.stable is None else self.stable

    def read(self, offset: int, bytes_max: int, upto: int) -> bytes | None:
        if self.cold:
            return None
        first = bisect_right(self._next_offsets, offset)
        found = b""
        for batch in self.batches[first : bisect_right(self._next_offsets, upto)]:
            if found and len(found) + len(batch) > bytes_max:
                break
            found += batch
        return found

    def aborted_transactions(self, offset: int, upto: int) -> list[tuple[int, int, int]]:
        return self.aborts

    def indexed_segments(self) -> list[IndexedSegment]:
        return self.segments

    def discard_index(self, base_offset: int) -> None:
        self.discarded.append(base_offset)
        self.segments = [s for s in self.segments if s.base_offset != base_offset]

    def run(self, job: Callable[[], T], done: Callable[[T | None], None]) -> None:
        def run_job() -> None:
            try:
                found = job()
            except InvalidDelayIndex:
                done(None)
            else:
                done(found)

        self.jobs.append(run_job)

    def append_journal(self, target: FrontTarget, values: list[bytes]) -> int | None:
        entries = [Record(i, self.now.wall_ms, journal_key(target), v) for i, v in enumerate(values)]
        self.append(records.build(entries, base_offset=self.end_offset, control=True))
        return self.end_offset

    def delete_below(self, offset: int) -> None:
        self.start_offset = offset

    def send(self, target: FrontTarget, batch: bytes, done: Callable[[ErrorCode, Now], None]) -> None:
        self.sent.append((target, batch, done))

    # -- for the tests -----------------------------------------------------------------------------------------------
    def path(self, base_offset: int) -> Path:
        return FOLDER / f"{base_offset:020d}.log"

    def index(self, first: int, end: int) -> None:
        """The batches from offset `first` to below `end` are a closed segment with a delay index."""
        data = b"".join(b for b in self.batches if first <= records.peek(b).base_offset < end)
        path = self.path(first)
        file = self.disk.open(path, create=True)
        file.truncate(0)
        file.pwrite(data, 0)
        segment = IndexedRange(path, first, end, len(data), self.aborts, self.end_offset)
        build = DelayIndexBuild(self.disk, segment)
        while not build.finished:
            build.run(1000)
        self.disk.rename(build.temporary, build.target)
        opened = partial(open_delay_index, self.disk, path, first, len(data), delay_schedule.BUCKET_MS)
        self.segments = sorted([*self.segments, IndexedSegment(first, end, opened)], key=lambda s: s.base_offset)

    def run_jobs(self) -> None:
        """Run the jobs that were started."""
        while self.jobs:
            self.jobs.popleft()()

    def append(self, batch: bytes) -> None:
        self.batches.append(batch)
        self.end_offset = records.peek(batch).next_offset
        self._next_offsets.append(self.end_offset)

    def respond(self, error: ErrorCode = ErrorCode.NONE) -> None:
        target, batch, done = self.sent.pop(0)
        sequence = records.peek(batch).base_sequence
        if not error and (target, sequence) not in self.sequences:
            if sequence >= 0:
                self.sequences.add((target, sequence))
            self.targets[target] += records.iterate(batch)
        done(error, self.now)

    def pass_ms(self, front: FrontPartition, ms: int, *, responses: bool = True, works: bool = True) -> None:
        for _ in range(max(1, ms // 100)):
            self.now = Now(self.now.mono_ms + min(ms, 100), self.now.wall_ms + min(ms, 100))
            front.tick(self.now)
            while responses and self.sent:
                self.respond()
            while works and self.jobs:
                self.run_jobs()
                front.tick(self.now)

    @property
    def values(self) -> list[str]:
        return self.values_of(FrontTarget.TOPIC)

    @property
    def target(self) -> list[Record]:
        return self.targets[FrontTarget.TOPIC]

    def values_of(self, target: FrontTarget) -> list[str]:
        return [(r.value or b"").decode() for r in self.targets[target]]
