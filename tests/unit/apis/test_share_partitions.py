"""Share partitions of a broker over a log in memory: loading, start offsets, aborted transactions, durable acknowledgements, fencing, changes of leader."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from brokerd.apis import share_partitions
from brokerd.apis.share_partitions import IDLE_MS, LOAD_RETRY_MS, FetchLimits, Shared, SharePartitions
from brokerd.cluster.model import Now, TopicPartition
from brokerd.config.share_groups import EARLIEST, ShareGroupConfig
from brokerd.coordinator.share_state.state import NO_START, ShareState, StateBatch, StateUpdate
from brokerd.sharing.delivery import Acknowledgement, AcknowledgeType, Acquired
from brokerd.sharing.share_partition import SharePartition
from brokerd.storage.transaction_index import AbortedTxn
from brokerd.wire.end_transaction_marker import Marker, marker
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import Record, build, stamp

T = UUID(int=1)
TP = TopicPartition(T, 0)
LIMITS = FetchLimits(1 << 20, 500, 0, False)


NO_DEAD_LETTERS: Any = SimpleNamespace(advance=lambda shared, current, changed: None)


class MemoryLog:
    def __init__(self) -> None:
        self.batches: list[tuple[int, int, bytes]] = []
        self.end_offset = self.bytes_read = 0
        found: list[AbortedTxn] = []
        self.found = found
        self.aborted = SimpleNamespace(counts=found, overlapping=lambda offset, upto: found)

    def write(self, count: int, producer_id: int = -1, key: bytes | None = None) -> None:
        records = [Record(i, 1, key, b"v") for i in range(count)]
        data = build(
            records, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=producer_id >= 0
        )
        self._add(bytearray(data), count)

    def end(self, producer_id: int, committed: bool) -> None:
        self._add(marker(producer_id, 0, Marker(committed, 0), 1), 1)

    def _add(self, data: bytearray, count: int) -> None:
        stamp(data, 0, self.end_offset, 0)
        self.batches.append((self.end_offset, self.end_offset + count - 1, bytes(data)))
        self.end_offset += count

    def read(self, offset: int, bytes_max: int, upto: int) -> Any:
        data = b""
        for _, last, batch in self.batches:
            if offset <= last < upto:
                if data and len(data) + len(batch) > bytes_max:
                    break
                data += batch
        self.bytes_read += len(data)
        return SimpleNamespace(bytes=lambda: data)


class WithConfirmedMembers(SharePartitions):
    """No member waits for the first write in its session."""

    def _is_confirmed(self, shared: Shared, core: SharePartition, member: str) -> bool:
        return True


class Scene:
    """A broker that leads one partition. Writes to the share coordinator wait in `writes`."""

    def __init__(
        self,
        state: ShareState | None = None,
        config: ShareGroupConfig | None = None,
        kind: type[SharePartitions] = WithConfirmedMembers,
    ) -> None:
        self.log = MemoryLog()
        log = self.log
        self.replica: Any = SimpleNamespace(
            tp=TP,
            leads=True,
            start_offset=0,
            sent_bytes=[0, 0],
            core=SimpleNamespace(leader_epoch=4),
            log=log,
            hw_key=lambda: "hw",
            last_stable=lambda: log.end_offset,
        )
        self.checked: list[Any] = []
        self.replica_manager: Any = SimpleNamespace(
            hosted={TP: self.replica},
            produce_suspended=False,
            image=SimpleNamespace(topics={T: "t"}),
            purgatory=SimpleNamespace(check=self.checked.append),
        )
        self.state = state or ShareState(1, 4, 0)
        self.read_error = 0
        self.writes: list[tuple[StateUpdate, Callable[[int], None]]] = []
        self.now = Now(1_000_000, 1_000_000)
        persister: Any = SimpleNamespace(read=self.read, write=self.write)
        self.config = config or ShareGroupConfig()
        self.confirmed = True
        self.shared = kind(
            self.replica_manager,
            persister,
            lambda group: self.config,
            lambda: self.now,
            None,
            lambda replica: self.confirmed,
            NO_DEAD_LETTERS,
        )

    def read(self, place: Any, epoch: int, done: Any) -> None:
        done(self.read_error, None if self.read_error else self.state)

    def write(self, place: Any, epoch: int, update: StateUpdate, done: Any, needed: Any) -> None:
        self.writes.append((update, done))

    def find(self) -> Shared:
        self.replica.core.high_watermark = self.log.end_offset
        found = self.shared.find("g", TP)
        assert isinstance(found, Shared)
        return found

    def acquire(self, member: str = "a") -> list[Acquired]:
        found = self.shared.acquire(self.find(), member, LIMITS)
        return found.acquired if found is not None else []

    def acknowledge(self, member: str, first: int, last: int, kind: AcknowledgeType) -> list[int]:
        errors: list[int] = []
        self.shared.acknowledge(self.find(), member, [Acknowledgement(first, last, (kind,))], False, errors.append)
        return errors

    def pass_ms(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)
        self.shared.tick(self.now)


def test_a_member_gets_its_first_records_after_a_write_that_began_in_its_session() -> None:
    scene = Scene(kind=SharePartitions)
    scene.log.write(10)
    assert scene.acquire("a") == [] and scene.acquire("b") == []
    ((update, done),) = scene.writes
    assert (update.start, update.batches) == (0, ())
    done(0)
    assert scene.checked, "the member is served when the write is durable"
    assert scene.acquire("b") == [], "its write began after the first one"
    assert scene.acquire("a") == [Acquired(0, 9, 1)]
    scene.writes[1][1](0)
    scene.shared.release("g", "a", TP)
    assert scene.acquire("b") == [Acquired(0, 9, 1)]
    assert scene.acquire("a") == [], "another session"


def test_a_new_member_gets_no_records_of_the_state_before_a_change_of_the_start_offset() -> None:
    scene = Scene(kind=SharePartitions)
    scene.log.write(10)
    scene.acquire("a")
    scene.writes[0][1](0)
    assert scene.acquire("a") == [Acquired(0, 9, 1)]
    scene.shared.release("g", "a", TP)
    scene.writes[1][1](0)
    scene.state = ShareState(2, 4, 7)
    assert scene.acquire("b") == []
    scene.writes[2][1](ErrorCode.FENCED_STATE_EPOCH)
    assert scene.acquire("b") == []
    scene.writes[3][1](0)
    assert scene.acquire("b") == [Acquired(7, 9, 1)]


def test_records_are_acquired_and_their_acknowledgement_waits_for_the_write() -> None:
    scene = Scene()
    scene.log.write(10)
    assert scene.acquire() == [Acquired(0, 9, 1)]
    assert scene.acquire("b") == []
    errors = scene.acknowledge("a", 0, 4, AcknowledgeType.ACCEPT)
    ((update, done),) = scene.writes
    assert (update.start, update.batches, errors) == (5, (), [])
    later = scene.acknowledge("a", 5, 5, AcknowledgeType.RELEASE)
    assert len(scene.writes) == 1, "one write at a time"
    done(0)
    assert (errors, later) == ([0], [])
    scene.writes[1][1](0)
    assert later == [0] and scene.checked


def test_only_the_batches_with_acquired_records_are_sent() -> None:
    scene = Scene()
    for _ in range(3):
        scene.log.write(5)
    first = scene.shared.acquire(scene.find(), "a", FetchLimits(1 << 20, 5, 0, False))
    assert first is not None and first.data == scene.log.batches[0][2]
    second = scene.shared.acquire(scene.find(), "b", LIMITS)
    assert second is not None and second.data == scene.log.batches[1][2] + scene.log.batches[2][2]


def test_an_acquisition_reads_little_more_than_it_delivers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_partitions, "READ_BYTES", 100)
    scene = Scene()
    for _ in range(200):
        scene.log.write(10)
    delivered = 0
    while found := scene.shared.acquire(scene.find(), "a", FetchLimits(1 << 26, 50, 0, False)):
        delivered += len(found.data)
    assert delivered == sum(len(data) for _, _, data in scene.log.batches)
    assert scene.log.bytes_read < 1.5 * delivered


def test_records_behind_others_that_are_not_delivered_are_found_in_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("READ_BYTES", "READ_MARGIN"):
        monkeypatch.setattr(share_partitions, name, 0)  # the first read has one batch
    scene = Scene(ShareState(1, 4, 0, (StateBatch(5, 5, 2, 1),)))
    scene.log.write(1)
    scene.log.end(7, True)
    scene.log.end(7, True)
    for _ in range(3):
        scene.log.write(1)
    assert scene.acquire("a") == [Acquired(0, 0, 1)]
    assert scene.acquire("b") == [Acquired(3, 4, 1)]


def test_a_group_with_key_order_gives_a_key_to_one_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_partitions, "READ_BYTES", 400)
    scene = Scene(config=ShareGroupConfig(key_order=True, reset=EARLIEST))
    for key in (b"a", b"a", b"b"):
        scene.log.write(10, key=key)
    shared = scene.find()
    limits = FetchLimits(1 << 20, 5, 0, True)
    first = scene.shared.acquire(shared, "x", limits)
    assert first is not None and first.acquired == [Acquired(0, 4, 1)]
    second = scene.shared.acquire(shared, "y", limits)
    assert second is not None and second.acquired == [Acquired(20, 24, 1)], "records behind those that wait are found"
    assert scene.shared.acquire(shared, "z", limits) is None
    scene.shared.release("g", "x", TP)
    third = scene.shared.acquire(shared, "z", limits)
    assert third is not None and third.acquired == [Acquired(0, 4, 1)]


@pytest.mark.parametrize(("reset", "start"), [(EARLIEST, 0), ("latest", 10)])
def test_a_new_share_partition_starts_by_the_setting_of_its_group(reset: str, start: int) -> None:
    scene = Scene(ShareState(1, 4, NO_START), ShareGroupConfig(reset=reset))
    scene.log.write(10)
    core = scene.find().core
    assert core is not None and core.start == start
    assert scene.writes[0][0].start == start, "the start offset is stored"


def test_records_of_aborted_transactions_and_markers_are_not_delivered() -> None:
    for committed, expected in (
        (True, [Acquired(0, 1, 1), Acquired(5, 6, 1)]),
        (False, [Acquired(0, 3, 1), Acquired(5, 6, 1)]),
    ):
        scene = Scene(config=ShareGroupConfig(committed=committed))
        scene.log.write(2)
        scene.log.write(2, producer_id=7)
        scene.log.end(7, False)
        scene.log.write(2, producer_id=7)
        scene.log.end(7, True)
        scene.log.found.append(AbortedTxn(7, 2, 4, 5))
        assert scene.acquire() == expected


def test_a_stretch_without_deliverable_records_is_passed_in_one_request() -> None:
    scene = Scene()
    for _ in range(3):
        scene.log.end(7, True)
    scene.log.write(1)
    assert scene.acquire() == [Acquired(3, 3, 1)]


def test_a_fenced_write_drops_the_share_partition_and_it_is_loaded_again() -> None:
    scene = Scene()
    scene.log.write(10)
    scene.acquire()
    errors = scene.acknowledge("a", 0, 4, AcknowledgeType.ACCEPT)
    scene.state = ShareState(2, 4, 7)
    scene.writes[0][1](ErrorCode.FENCED_STATE_EPOCH)
    assert errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert scene.acquire("b") == [Acquired(7, 9, 1)]


def test_a_change_of_leader_answers_waiting_acknowledgements() -> None:
    scene = Scene()
    scene.log.write(10)
    scene.acquire()
    errors = scene.acknowledge("a", 0, 4, AcknowledgeType.ACCEPT)
    scene.replica.core.leader_epoch = 5
    scene.pass_ms(1)
    assert errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    scene.writes[0][1](0)
    assert errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    scene.replica.leads = False
    assert scene.shared.find("g", TP) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert scene.shared.find("g", TopicPartition(UUID(int=9), 0)) == ErrorCode.UNKNOWN_TOPIC_ID


def test_locks_end_with_their_time_and_with_the_session() -> None:
    scene = Scene()
    scene.log.write(10)
    scene.acquire()
    scene.pass_ms(scene.config.lock_ms - 1)
    assert scene.acquire("b") == []
    scene.pass_ms(1)
    assert scene.acquire("b") == [Acquired(0, 9, 2)]
    scene.shared.release("g", "b", TP)
    assert scene.acquire("c") == [Acquired(0, 9, 2)]


def test_members_that_wait_for_the_limit_of_records_in_flight_are_served_when_records_end() -> None:
    scene = Scene(config=ShareGroupConfig(locks_max=10))
    scene.log.write(10)
    scene.log.write(10)
    assert scene.acquire() == [Acquired(0, 9, 1)]
    assert scene.acquire("b") == []
    scene.checked.clear()
    scene.acknowledge("a", 3, 9, AcknowledgeType.ACCEPT)
    assert not scene.checked, "the first records are still in flight"
    scene.acknowledge("a", 0, 2, AcknowledgeType.ACCEPT)
    assert scene.checked == [scene.find().key]
    assert scene.acquire("b") == [Acquired(10, 19, 1)]
    scene.acknowledge("b", 10, 10, AcknowledgeType.ACCEPT)
    assert len(scene.checked) == 1, "nobody waits for the limit"


def test_a_member_that_waits_for_the_limit_is_not_forgotten_when_another_one_finds_room() -> None:
    scene = Scene(config=ShareGroupConfig(locks_max=10))
    scene.log.write(10)
    scene.log.write(1)
    scene.log.write(10)
    assert scene.acquire() == [Acquired(0, 9, 1)]
    assert scene.acquire("b") == []
    core = scene.find().core
    assert core is not None
    core.acknowledge("a", [Acknowledgement(0, 0, (AcknowledgeType.ACCEPT,))], 0)  # room, without a check
    assert scene.acquire("c") == [Acquired(10, 10, 1)]
    scene.checked.clear()
    scene.acknowledge("a", 1, 9, AcknowledgeType.ACCEPT)
    assert scene.checked == [scene.find().key]


def test_members_that_wait_for_the_limit_are_served_when_a_dead_letter_is_written() -> None:
    scene = Scene(config=ShareGroupConfig(locks_max=10, dead_letter_topic="dlq.t"))
    written: list[Callable[[], None]] = []

    def advance(shared: Shared, current: Any, changed: Callable[[Shared], None]) -> None:
        assert shared.core is not None
        shared.core.archive(0, 9)
        written.append(lambda: changed(shared))

    scene.shared._dead_letters = SimpleNamespace(advance=advance)  # type: ignore[assignment]
    scene.log.write(10)
    scene.log.write(10)
    assert scene.acquire() == [Acquired(0, 9, 1)]
    assert scene.acquire("b") == []
    scene.checked.clear()
    scene.acknowledge("a", 0, 9, AcknowledgeType.REJECT)
    assert not scene.checked, "the dead letters are not written"
    scene.writes.pop()[1](0)
    written.pop()()
    assert scene.checked == [scene.find().key]
    assert scene.acquire("b") == [Acquired(10, 19, 1)]


def test_members_that_wait_for_the_limit_are_served_when_records_are_deleted() -> None:
    scene = Scene(config=ShareGroupConfig(locks_max=10))
    scene.log.write(10)
    scene.log.write(10)
    assert scene.acquire() == [Acquired(0, 9, 1)]
    assert scene.acquire("b") == []
    scene.checked.clear()
    scene.pass_ms(1)
    assert not scene.checked
    scene.replica.start_offset = 4
    scene.pass_ms(1)
    assert scene.checked == [scene.find().key]
    assert scene.writes[-1][0].start == 4
    assert scene.acquire("b") == [Acquired(10, 13, 1)]
    assert scene.acquire("c") == []
    scene.checked.clear()
    scene.replica.start_offset = 6
    assert scene.acquire("b") == [Acquired(14, 15, 1)], "a fetch finds the new start before the tick"
    core = scene.find().core
    assert core is not None
    core.locks_max = 12  # there is room for another member
    scene.pass_ms(1)
    assert scene.checked == [scene.find().key]
    scene.pass_ms(1)
    assert len(scene.checked) == 1


def test_a_failed_load_is_repeated_after_a_pause() -> None:
    scene = Scene()
    scene.read_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert scene.find().error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    scene.read_error = 0
    assert scene.find().core is None
    scene.now = Now(scene.now.mono_ms + LOAD_RETRY_MS, 0)
    assert scene.find().core is not None


def test_an_unused_share_partition_is_forgotten() -> None:
    scene = Scene()
    scene.log.write(1)
    scene.find()
    scene.pass_ms(IDLE_MS + 1)
    assert list(scene.shared) == []


def test_a_broker_that_may_be_deposed_delivers_nothing() -> None:
    scene = Scene()
    scene.log.write(3)
    found = scene.find()
    scene.confirmed = False
    assert scene.shared.acquire(found, "a", LIMITS) is None
    assert scene.shared.find("g", TP) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    scene.confirmed = True
    assert scene.acquire() == [Acquired(0, 2, 1)]
