"""Offsets committed in transactions: they become visible with the commit of the transaction. A coordinator that loads
them from the log has the same state."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from brokerd.cluster.model import Now
from brokerd.coordinator.classic import events
from brokerd.coordinator.classic.events import Completed, Offset
from brokerd.coordinator.groups import GroupCoordinator
from brokerd.wire import end_transaction_marker, records
from brokerd.wire.end_transaction_marker import Marker
from brokerd.wire.errors import ErrorCode
from tests.unit.coordinator.topics import GROUP_CONFIG, FakeTopics

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

    def leadership_confirmed(self, partition: int) -> bool:
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

    def all_followers_caught_up_to_epoch(self, partition: int) -> bool:
        return True


class Scene:
    def __init__(self, log: MemoryLog | None = None) -> None:
        self.log = log or MemoryLog()
        coordinator_log: Any = self.log
        self.groups = GroupCoordinator(
            coordinator_log,
            lambda: NOW,
            initial_delay_ms=0,
            size_max=10,
            retention_ms=1 << 40,
            metadata_bytes_max=100,
            topics=FakeTopics(),
            group_config=lambda group_id: GROUP_CONFIG,
            draw=lambda: "id",
        )
        self.groups.on_election(0, 7, NOW)
        for _ in range(3):
            self.groups.tick(NOW)

    def commit(
        self,
        offset: int,
        producer_id: int | None = None,
        *places: tuple[str, int],
        member: str = "",
        generation: int = -1,
    ) -> int:
        responses: list[Completed] = []
        offsets = {p: Offset(offset, -1, "", 1) for p in places or PLACES[:1]}
        if producer_id is None:
            event: Any = events.Commit(responses.append, member, None, generation, offsets)
        else:
            event = events.TransactionalCommit(responses.append, member, None, generation, offsets, producer_id, 0)
        return self.groups.handle("g", event) or responses[0].error

    def end(self, producer_id: int, committed: bool) -> None:
        at = self.log.end
        self.log.write(end_transaction_marker.marker(producer_id, 0, Marker(committed, 0), 1))
        self.groups.transaction_ended(0, producer_id, committed, at)

    def offsets(self) -> dict[tuple[str, int], int]:
        group, error = self.groups.find_existing("g")
        assert error == 0
        return {place: o.offset for place, o in group.commits.offsets.items()} if group is not None else {}

    def unstable(self) -> set[tuple[str, int]]:
        group, _ = self.groups.find_existing("g")
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


def test_a_repeated_marker_does_not_end_the_next_transaction() -> None:
    """A repeated marker writes nothing: its offset is that of the first marker. The offsets of the next transaction are above it."""
    scene = Scene()
    scene.commit(5, 77)
    marker_at = scene.log.end
    scene.end(77, True)
    scene.commit(12, 77)
    scene.groups.transaction_ended(0, 77, True, marker_at)
    assert scene.offsets() == {("t", 0): 5}, "nothing has decided the second transaction"
    assert scene.unstable() == {("t", 0)}
    scene.groups.transaction_ended(0, 77, False, -1)  # the response of a partition that does not know the producer
    assert scene.unstable() == {("t", 0)}
    scene.end(77, True)
    assert scene.offsets() == {("t", 0): 12} and scene.unstable() == set()


def test_an_unknown_member_cannot_commit_in_a_transaction() -> None:
    scene = Scene()
    assert scene.commit(9, 77, member="nobody", generation=3) == ErrorCode.GROUP_ID_NOT_FOUND
    assert scene.offsets() == {} and not scene.groups.shards[0].groups, "a group was made for it"
    assert scene.commit(5) == 0
    assert scene.commit(9, 77, member="nobody", generation=3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.unstable() == set()
    assert scene.commit(9, 77, member="nobody") == 0, "nobody is a member, and it names no generation"


def test_the_later_commit_record_wins_and_not_the_later_transaction_end() -> None:
    """Compaction keeps the later record. A coordinator that loads the compacted log must reach the same state."""
    scene = Scene()
    scene.commit(5, 77)
    scene.commit(9)
    scene.end(77, True)
    assert scene.offsets() == {("t", 0): 9}


def test_a_coordinator_that_loads_the_log_has_the_same_state() -> None:
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
