"""Offsets committed within transactions: they count when the transaction does, and a coordinator that reads them from the log says the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from brokerd.cluster.model import Now
from brokerd.coordinator import events
from brokerd.coordinator.events import Answered, Offset
from brokerd.coordinator.groups import Groups
from brokerd.wire import records
from brokerd.wire.records import Marker
from tests.unit.coordinator.topics import TERMS, FakeTopics

NOW = Now(1_000, 1_000)
PLACES = [("t", 0), ("t", 1)]


class MemoryLog:
    """One partition of __consumer_offsets in memory, everything replicated at once."""

    def __init__(self, data: bytes = b"", end: int = 0) -> None:
        self.data, self.end = data, end

    def partition_count(self) -> int:
        return 1

    def leader_epoch(self, partition: int) -> int:
        return 7

    def sure(self, partition: int) -> bool:
        return True

    def append(self, partition: int, batch: bytes, leader_epoch: int, done: Callable[[int], None]) -> None:
        self.write(bytearray(batch))
        done(0)

    def write(self, batch: bytearray) -> None:
        (_, header), *_ = list(records.batches(batch))
        records.stamp(batch, 0, self.end, 7)
        self.data += batch
        self.end += header.last_offset_delta + 1

    def read(self, partition: int, offset: int, max_bytes: int) -> bytes:
        return self.data

    def start_offset(self, partition: int) -> int:
        return 0

    def end_offset(self, partition: int) -> int:
        return self.end

    high_watermark = end_offset

    def epoch_start(self, partition: int) -> int:
        return 0

    def followed(self, partition: int) -> bool:
        return True


class Scene:
    def __init__(self, log: MemoryLog | None = None) -> None:
        self.log = log or MemoryLog()
        coordinator_log: Any = self.log
        self.groups = Groups(
            coordinator_log, lambda: NOW, initial_delay_ms=0, size_max=10, retention_ms=1 << 40, metadata_bytes_max=100,
            topics=FakeTopics(), terms=lambda group_id: TERMS, draw=lambda: "id",
        )  # fmt: skip
        self.groups.became_leader(0, 7, NOW)
        for _ in range(3):
            self.groups.tick(NOW)

    def commit(self, offset: int, producer_id: int | None = None, *places: tuple[str, int], member: str = "") -> int:
        answers: list[Answered] = []
        offsets = {p: Offset(offset, -1, "", 1) for p in places or PLACES[:1]}
        if producer_id is None:
            event: Any = events.Commit(answers.append, member, None, -1, offsets)
        else:
            event = events.TransactionalCommit(answers.append, member, None, -1, offsets, producer_id, 0)
        assert self.groups.handle("g", event) == 0
        return answers[0].error

    def end(self, producer_id: int, committed: bool) -> None:
        self.log.write(records.marker(producer_id, 0, Marker(committed, 0), 1))
        self.groups.transaction_ended(0, producer_id, committed)

    def offsets(self) -> dict[tuple[str, int], int]:
        group, error = self.groups.existing("g")
        assert error == 0
        return {place: o.offset for place, o in group.commits.offsets.items()} if group is not None else {}

    def unstable(self) -> set[tuple[str, int]]:
        group, _ = self.groups.existing("g")
        return group.commits.unstable() if group is not None else set()


def test_offsets_count_when_their_transaction_is_committed_and_never_when_it_is_aborted() -> None:
    scene = Scene()
    scene.commit(5)
    assert scene.commit(9, 77) == 0
    assert scene.offsets() == {("t", 0): 5} and scene.unstable() == {("t", 0)}
    scene.end(77, False)
    assert scene.offsets() == {("t", 0): 5} and scene.unstable() == set()
    scene.commit(12, 77)
    scene.end(77, True)
    assert scene.offsets() == {("t", 0): 12}


def test_a_member_that_is_unknown_commits_nothing_in_a_transaction_either() -> None:
    scene = Scene()
    assert scene.commit(9, 77, member="nobody") == events.UNKNOWN_MEMBER_ID
    assert scene.unstable() == set()


def test_the_later_record_counts_not_the_later_end() -> None:
    """Compaction keeps the later record: a coordinator that loads what is left must come to the same."""
    scene = Scene()
    scene.commit(5, 77)
    scene.commit(9)
    scene.end(77, True)
    assert scene.offsets() == {("t", 0): 9}


def test_whoever_loads_the_log_knows_the_same_and_goes_on_alike() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        scene = Scene()
        for step in range(rng.randint(1, 25)):
            what = rng.random()
            places = rng.sample(PLACES, rng.randint(1, 2))
            if what < 0.3:
                scene.commit(step, None, *places)
            elif what < 0.7:
                scene.commit(step, rng.choice([77, 78, 79]), *places)
            else:
                scene.end(rng.choice([77, 78, 79]), rng.random() < 0.6)
        successor = Scene(MemoryLog(scene.log.data, scene.log.end))
        assert successor.offsets() == scene.offsets(), f"seed {seed}"
        assert successor.unstable() == scene.unstable(), f"seed {seed}"
        for producer_id in (77, 78, 79):
            scene.end(producer_id, True)
            successor.end(producer_id, True)
        assert successor.offsets() == scene.offsets(), f"seed {seed}"
