"""Polls of a live tail: it starts at the end, a poll is limited, a tail that is behind continues at the end, and brokers that fail are asked again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from brokerd.wire.records import Record
from controlplane.clients.connection import NoResponse
from controlplane.domain.errors import Rejected
from controlplane.domain.masking import MaskRule, MaskTarget, RecordRenderer
from controlplane.domain.record_filter import RecordFilters
from controlplane.domain.record_query import RecordQuery
from controlplane.domain.record_scan import Chunk, FetchRange, PartitionProblem
from controlplane.selectors import record_tails
from controlplane.selectors.record_tails import TailReader
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
PLAIN = RecordRenderer("orders")


class Leaders:
    """`logs`: the number of records by partition. A fetch returns at most `per_fetch` of a partition."""

    def __init__(self, logs: dict[int, int]) -> None:
        self.logs, self.per_fetch = logs, 1_000
        self.down = False
        self.fetches = self.metadata = 0
        self.renewed: list[float] = []

    def __call__(self, topic: str, seconds: float) -> Leaders:
        return self

    def renew(self, seconds: float) -> None:
        self.renewed.append(seconds)

    def load_leaders(self) -> None:
        self.metadata += 1
        if self.down:
            raise NoResponse("no broker answers")

    def log_ranges(self, partitions: Sequence[int]) -> Any:
        return {p: (0, self.logs[p]) for p in partitions}, {}

    def fetch(self, ranges: Mapping[int, FetchRange]) -> dict[int, Chunk]:
        self.fetches += 1
        if self.down:
            return {p: Chunk(r.offset, problem=PartitionProblem.LEADER_UNREACHABLE) for p, r in ranges.items()}
        return {p: self._chunk(p, r.offset) for p, r in ranges.items()}

    def _chunk(self, partition: int, at: int) -> Chunk:
        end = self.logs[partition]
        upto = min(end, at + self.per_fetch)
        found = [Record(o, 1_000 + o, b"k%d" % o, b"v") for o in range(at, upto)]
        return Chunk(upto, found, 100 * len(found), end=end)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def leaders(world: World, monkeypatch: pytest.MonkeyPatch) -> Leaders:
    world.topic("orders", (1, 2), (2, 3))
    leaders = Leaders({0: 5, 1: 7})
    monkeypatch.setattr(record_tails, "RecordReaderClient", leaders)
    return leaders


def offsets(reader: TailReader) -> list[tuple[int, int]]:
    reader.poll()
    return [(r.partition, r.offset) for r in reader.take(PLAIN)]


def test_a_tail_shows_the_records_after_its_start(leaders: Leaders) -> None:
    reader = TailReader(RecordQuery("orders"), PLAIN)
    assert offsets(reader) == []
    leaders.logs = {0: 6, 1: 9}
    assert offsets(reader) == [(1, 8), (1, 7), (0, 5)]
    assert offsets(reader) == [] and leaders.metadata == 1


def test_only_the_chosen_partitions_are_read_also_with_a_key(leaders: Leaders) -> None:
    chosen = TailReader(RecordQuery("orders", (1,)), PLAIN)
    every = TailReader(RecordQuery("orders", filters=RecordFilters(key="k5")), PLAIN)
    assert offsets(chosen) == offsets(every) == []
    leaders.logs = {0: 6, 1: 8}
    assert offsets(chosen) == [(1, 7)] and offsets(every) == [(0, 5)]
    with pytest.raises(Rejected):
        TailReader(RecordQuery("orders", (9,)), PLAIN)
    with pytest.raises(Rejected):
        TailReader(RecordQuery("absent"), PLAIN)


def test_a_poll_is_limited_and_continues_at_the_end(leaders: Leaders, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = TailReader(RecordQuery("orders"), PLAIN)
    reader.poll()
    monkeypatch.setattr(record_tails, "POLL_SECONDS", 60.0)
    monkeypatch.setattr(record_tails, "POLL_BYTES", 100 * 30)
    leaders.per_fetch, leaders.logs = 10, {0: 105, 1: 8}
    leaders.fetches = 0
    reader.poll()
    assert leaders.fetches == 3 and reader.tail.counts.unread == 70 and reader.tail.counts.scanned == 31
    leaders.logs = {0: 106, 1: 8}
    reader.take(PLAIN)
    assert offsets(reader) == [(0, 105)]


def test_brokers_that_do_not_respond_are_asked_again(leaders: Leaders) -> None:
    reader = TailReader(RecordQuery("orders"), PLAIN)
    leaders.down = True
    reader.poll()
    assert set(reader.tail.problems.values()) == {PartitionProblem.LEADER_UNREACHABLE}
    leaders.down = False
    assert offsets(reader) == [] and not reader.tail.problems
    leaders.down, leaders.logs = True, {0: 6, 1: 7}
    assert offsets(reader) == [] and reader.tail.problems
    leaders.down = False
    assert offsets(reader) == [(0, 5)] and not reader.tail.problems and reader.tail.counts.unread == 0


def test_a_filter_does_not_match_masked_text(leaders: Leaders) -> None:
    reader = TailReader(RecordQuery("orders", filters=RecordFilters(key_contains="5")), PLAIN)
    reader.poll()
    leaders.logs = {0: 6, 1: 7}
    assert offsets(reader) == [(0, 5)]
    reader.mask(RecordRenderer("orders", [MaskRule("orders", MaskTarget.KEY, "")]))
    leaders.logs = {0: 16, 1: 7}
    assert offsets(reader) == []
