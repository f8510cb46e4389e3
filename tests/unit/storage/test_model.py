"""The log against a model, a list: after any operations in any order, both agree."""

from __future__ import annotations

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from brokerd.cluster.model import Now
from brokerd.storage.log import Log
from brokerd.wire import records
from brokerd.wire.records import Record
from brokerd.wire.steps import run_now
from tests.unit.storage.test_log import EVERYTHING, FOLDER, config, read_all, sim

CONFIG = config(segment_bytes="600", index_interval_bytes="150", segment_ms="5000")


class LogAgainstList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = sim()
        self.now = Now(0, 10_000)
        self.log = Log.open(FOLDER, CONFIG, self.disk, self.now)
        self.batches: list[tuple[int, int, int, int]] = []  # base, next, epoch, timestamp
        self.start = 0
        self.end = 0
        self.epoch = 0

    @rule(
        count=st.integers(1, 6), size=st.integers(0, 120), codec=st.sampled_from([0, 0, 0, 3]), step=st.integers(0, 900)
    )
    def append(self, count: int, size: int, codec: int, step: int) -> None:
        self.now = Now(0, self.now.wall_ms + step)
        data = bytearray(
            records.build([Record(i, self.now.wall_ms, None, bytes(size)) for i in range(count)], compression=codec)
        )
        appended = self.log.append(data, records.check(data), self.epoch, self.now)
        assert (appended.base_offset, appended.last_offset) == (self.end, self.end + count - 1)
        self.batches.append((self.end, self.end + count, self.epoch, self.now.wall_ms))
        self.end += count

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule(where=st.floats(0, 1))
    def truncate(self, where: float) -> None:
        point = self.start + round((self.end - self.start) * where)
        self.log.truncate_to(point)
        if point >= self.end:
            return
        kept = [b for b in self.batches if b[1] <= point]
        if kept:
            self.end = kept[-1][1]
        elif self.batches[0][0] < self.start:
            self.start = self.end = point  # the batch at the log start offset was removed: the log is reset
        else:
            self.end = self.batches[0][0]
        self.batches = kept

    @rule(where=st.floats(0, 1))
    def raise_start(self, where: float) -> None:
        self.start += round((self.end - self.start) * where)
        self.log.raise_start(self.start)
        self.batches = [b for b in self.batches if b[1] > self.start]

    @rule(clean=st.booleans(), deep=st.booleans(), flush=st.booleans())
    def restart(self, clean: bool, deep: bool, flush: bool) -> None:
        if flush:
            self.log.flush()
        if clean:
            self.log.close()
        self.disk = self.disk.killed()
        self.log = Log.open(FOLDER, CONFIG, self.disk, self.now, deep=deep)

    @rule(seed=st.integers(0, 1 << 30), limit=st.integers(0, 900))
    def read_anywhere(self, seed: int, limit: int) -> None:
        if self.start == self.end:
            return
        rng = random.Random(seed)
        at = rng.randrange(self.start, self.end)
        upto = rng.randint(at, self.end)
        found = self.log.read(at, limit, upto).bytes()
        got = [(h.base_offset, h.next_offset) for _, h in records.batches(found)]
        wanted = [(b[0], b[1]) for b in self.batches if b[1] > at and b[1] <= upto]
        assert sum(h.size for _, h in records.batches(found)) == len(found)
        assert got == wanted[: len(got)] and (got or not wanted)
        assert len(found) <= limit or len(got) == 1

    @rule(seed=st.integers(0, 1 << 30))
    def find_a_time(self, seed: int) -> None:
        wanted = random.Random(seed).randint(9_000, self.now.wall_ms + 100)
        found = run_now(self.log.offset_for_timestamp(wanted, EVERYTHING))
        hit = next(((max(b[0], self.start), b[3]) for b in self.batches if b[3] >= wanted), None)
        assert (found and found[:2]) == hit

    @invariant()
    def they_agree(self) -> None:
        log = self.log
        assert (log.start_offset, log.end_offset) == (self.start, self.end)
        assert [r.offset for r in read_all(log)] == list(range(self.start, self.end))
        assert log.size_bytes == sum(s.size for s in log.segments) == sum(self.disk.size(s.path) for s in log.segments)
        for base, following, epoch, _ in self.batches:
            assert log.epochs.epoch_at(max(base, self.start)) == epoch
            assert log.epochs.end_offset_for(epoch)[1] >= following


LogAgainstList.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestLogAgainstList = LogAgainstList.TestCase
