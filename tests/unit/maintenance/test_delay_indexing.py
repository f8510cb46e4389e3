"""Delay indexing: closed segments of front topics whose transactions have ended, oldest first; an index goes with its segment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from brokerd.cluster.model import Now
from brokerd.maintenance.delay_indexing import DelayIndexing
from brokerd.maintenance.segment_indexing import ROUND_MS_MIN
from brokerd.storage.log import Log
from brokerd.storage.segment import IndexFileState
from tests.unit.maintenance.test_log_maintenance import Harness
from tests.unit.storage.test_log import FOLDER, NOW, append, config, open_log, sim

FRONT = {"weir_delay_topic": "t", "segment_bytes": "1000"}


class FrontWorld:
    def __init__(self, log: Log) -> None:
        self.harness, self.log = Harness(log.disk, log), log  # type: ignore[arg-type]
        self.mono_ms, self.stable = 0, log.end_offset
        replica: Any = self.harness.replica
        replica.last_stable = lambda: self.stable
        replica.core = SimpleNamespace(high_watermark=log.end_offset)
        replica.config = log.config
        self.indexing = DelayIndexing(self.harness, self.harness, self.now, lambda: 1_000_000)  # type: ignore[arg-type]

    def now(self) -> Now:
        return Now(self.mono_ms, NOW.wall_ms)

    def run_jobs(self, ticks: int = 10) -> list[bool]:
        """Which closed segments have an index afterwards."""
        for _ in range(ticks):
            self.mono_ms += ROUND_MS_MIN
            self.indexing.tick(NOW)
            self.harness.run_jobs()
        names = self.log.disk.listdir(FOLDER)
        assert not any(n.endswith(".tmp") for n in names)
        return [s.path.with_suffix(".delayindex").name in names for s in self.log.segments[:-1]]


def front_world(**overrides: str) -> FrontWorld:
    log = open_log(sim(), **{**FRONT, **overrides})
    for _ in range(40):
        append(log)
    assert len(log.segments) > 4
    return FrontWorld(log)


def test_closed_segments_get_an_index_when_their_transactions_have_ended() -> None:
    w = front_world()
    w.stable = w.log.segments[2].base_offset
    closed = len(w.log.segments) - 1
    assert w.run_jobs() == [True, True, *[False] * (closed - 2)]
    w.stable = w.log.end_offset
    assert w.run_jobs() == [True] * closed and w.indexing.built == closed
    assert all(s.delay_index_decided == w.log.end_offset for s in w.log.segments[:-1])


def test_other_topics_get_none() -> None:
    assert not any(front_world(weir_delay_topic="").run_jobs())


def test_an_index_of_an_earlier_run_is_checked_and_an_invalid_one_built_again() -> None:
    w = front_world()
    w.run_jobs()
    w.log.close()
    first = w.log.segments[0].path.with_suffix(".delayindex")
    of_another = w.log.disk.read(w.log.segments[1].path.with_suffix(".delayindex"))
    assert of_another is not None
    w.log.disk.replace(first, of_another)
    again = FrontWorld(Log.open(FOLDER, config(**FRONT), w.log.disk, NOW))
    assert [s.delay_index for s in again.log.segments[:-1]] == [IndexFileState.UNCHECKED] * (len(w.log.segments) - 1)
    assert all(again.run_jobs()) and again.indexing.built == 1


def test_a_start_removes_indexes_that_depend_on_a_lost_end_of_the_log() -> None:
    w = front_world()
    w.run_jobs()
    w.log.segments[1].delay_index_decided = 0
    w.log.close()
    shorter = Log.open(FOLDER, config(**FRONT), w.log.disk, NOW)
    shorter.truncate_to(shorter.end_offset - 1)
    assert not any(s.delay_index is not IndexFileState.ABSENT for s in shorter.segments)
    assert not any(n.endswith(".delayindex") for n in w.log.disk.listdir(FOLDER))
