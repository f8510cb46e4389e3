"""The share coordinator: fencing by state epoch and leader epoch, replication before responses, snapshots, replay, deletion of old records."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from brokerd.cluster.model import Now
from brokerd.coordinator.share_state.coordinator import PRUNE_INTERVAL_MS, ShareCoordinator, coordinator_key
from brokerd.coordinator.share_state.records import SharePartitionKey
from brokerd.coordinator.share_state.state import NO_START, ShareState, StateBatch, StateUpdate
from brokerd.wire.errors import ErrorCode
from tests.unit.coordinator.classic.test_offsets import NOW
from tests.unit.coordinator.consumer.test_records import Log

T = UUID(int=1)
KEY = SharePartitionKey("g", T, 0)
OTHER = SharePartitionKey("g", T, 1)
ACKED = StateBatch(3, 4, 2, 1)


class PrunableMemoryLog(Log):
    deleted_below = 0

    def delete_below(self, partition: int, offset: int) -> None:
        self.deleted_below = offset


class Scene:
    def __init__(self, log: PrunableMemoryLog | None = None, updates: int = 500) -> None:
        self.log = log or PrunableMemoryLog()
        self.now = NOW
        self.topics = {T}
        memory: Any = self.log
        self.coordinator = ShareCoordinator(
            memory, lambda: self.now, updates_per_snapshot=updates, topic_exists=lambda t: t in self.topics
        )
        self.coordinator.on_election(0, 7, NOW)
        for _ in range(3):
            self.coordinator.tick(NOW)

    def successor(self) -> Scene:
        return Scene(PrunableMemoryLog(self.log.data, self.log.end))

    def initialize(self, epoch: int, start: int = NO_START, place: SharePartitionKey = KEY) -> int | None:
        errors: list[int] = []
        self.coordinator.initialize(place, epoch, start, errors.append)
        return errors[0] if errors else None

    def write(
        self, epoch: int, leader: int, start: int, *batches: StateBatch, place: SharePartitionKey = KEY
    ) -> int | None:
        errors: list[int] = []
        self.coordinator.write(place, epoch, StateUpdate(leader, start, batches, 0), errors.append)
        return errors[0] if errors else None

    def read(self, leader: int) -> tuple[int, ShareState | None] | None:
        responses: list[tuple[int, ShareState | None]] = []
        self.coordinator.read(KEY, leader, lambda error, state: responses.append((error, state)))
        return responses[0] if responses else None

    @property
    def state(self) -> ShareState | None:
        return self.coordinator.summary(KEY)[0]


def test_the_key_is_kafkas() -> None:
    assert coordinator_key(SharePartitionKey("g", UUID(int=1), 5)) == "g:AAAAAAAAAAAAAAAAAAAAAQ:5"


def test_state_survives_a_change_of_coordinator() -> None:
    scene = Scene()
    assert scene.initialize(3) == 0
    assert scene.write(3, 1, 2, ACKED) == 0
    for s in (scene, scene.successor()):
        assert s.state is not None
        assert (s.state.state_epoch, s.state.leader_epoch, s.state.start, s.state.batches) == (3, 1, 2, (ACKED,))


def test_a_share_partition_that_is_not_initialized_is_rejected() -> None:
    scene = Scene()
    assert scene.write(3, 1, 2, ACKED) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert scene.read(1) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    scene.topics = set()
    assert scene.initialize(3) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_repeated_initialization_changes_nothing_and_an_old_one_is_fenced() -> None:
    scene = Scene()
    scene.initialize(3, 0)
    scene.write(3, 1, 10)
    assert scene.initialize(3, 0) == 0
    assert scene.state is not None and scene.state.start == 10
    assert scene.initialize(2, 0) == ErrorCode.FENCED_STATE_EPOCH
    assert scene.initialize(4, 5) == 0
    assert scene.state is not None and (scene.state.start, scene.state.batches) == (5, ())
    assert scene.write(3, 1, 20) == ErrorCode.FENCED_STATE_EPOCH


def test_a_read_fences_earlier_leaders_also_after_a_change_of_coordinator() -> None:
    scene = Scene()
    scene.initialize(3, 0)
    scene.write(3, 1, 10)
    response = scene.read(2)
    assert response is not None and response[0] == 0
    for s in (scene, scene.successor()):
        assert s.write(3, 1, 20) == ErrorCode.FENCED_LEADER_EPOCH
        assert s.read(1) == (ErrorCode.FENCED_LEADER_EPOCH, None)
        assert s.write(3, 2, 20) == 0


def test_answers_wait_for_replication() -> None:
    scene = Scene()
    scene.initialize(3, 0)
    scene.log.later = []
    assert scene.write(3, 1, 10) is None
    assert scene.read(1) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None), "the state could still be lost"
    responses: list[int] = []
    scene.coordinator.write(KEY, 3, StateUpdate(1, 20, ()), responses.append)
    for done in scene.log.later:
        done(0)
    assert responses == [0]
    scene.log.later = None
    response = scene.read(1)
    assert response is not None and response[1] is not None and response[1].start == 20


def test_a_rejected_write_changes_nothing() -> None:
    scene = Scene()
    scene.initialize(3, 0)
    scene.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert scene.write(3, 1, 10) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    scene.log.error = 0
    assert scene.state is not None and scene.state.start == 0


def test_a_write_of_unknown_outcome_is_resolved_from_the_log() -> None:
    scene = Scene()
    scene.initialize(3, 0)
    scene.log.later = []
    responses: list[int] = []
    scene.coordinator.write(KEY, 3, StateUpdate(1, 10, ()), responses.append)
    scene.log.later[0](ErrorCode.REQUEST_TIMED_OUT)
    assert responses == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    scene.log.later = None
    for _ in range(3):
        scene.coordinator.tick(NOW)
    assert scene.state is not None and scene.state.start == 10


def test_the_end_of_the_leadership_answers_waiting_requests() -> None:
    scene = Scene()
    scene.initialize(3, 0)
    scene.log.later = []
    responses: list[int] = []
    scene.coordinator.write(KEY, 3, StateUpdate(1, 10, ()), responses.append)
    scene.coordinator.on_resignation(0, NOW)
    scene.log.later[0](0)
    assert responses == [ErrorCode.NOT_COORDINATOR]


def test_a_snapshot_follows_many_updates_and_the_records_before_are_deleted() -> None:
    scene = Scene(updates=3)
    scene.initialize(3, 0)
    for start in range(1, 9):
        assert scene.write(3, 1, start, StateBatch(start + 5, start + 6, 2, 1)) == 0
    assert scene.state is not None and scene.state.snapshot_epoch == 2
    scene.now = Now(NOW.mono_ms + PRUNE_INTERVAL_MS - 1, NOW.wall_ms)
    scene.coordinator.prune(scene.now)
    assert scene.log.deleted_below == 8, "the offset of the last snapshot"
    assert scene.successor().state == scene.state


def test_an_idle_share_partition_does_not_keep_old_records() -> None:
    scene = Scene()
    scene.initialize(3, 0)
    scene.write(3, 1, 4)
    scene.now = Now(NOW.mono_ms + PRUNE_INTERVAL_MS, NOW.wall_ms + PRUNE_INTERVAL_MS)
    scene.coordinator.prune(scene.now)
    assert scene.log.deleted_below == 2
    successor = scene.successor().state
    assert successor is not None and successor.start == 4


def test_deleted_state_is_gone_also_after_a_change_of_coordinator() -> None:
    scene = Scene()
    scene.initialize(3, 0)
    errors: list[int] = []
    scene.coordinator.delete(KEY, errors.append)
    scene.coordinator.delete(KEY, errors.append)
    assert errors == [0, 0]
    assert scene.state is None and scene.successor().state is None
    scene.initialize(3, 0)
    scene.coordinator.topics_deleted([T])
    assert scene.state is None
