"""Records of the consumer protocol in Kafka's formats, byte for byte, and a coordinator that loads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from brokerd.cluster.model import Now, TopicPartition
from brokerd.coordinator.classic import events as g
from brokerd.coordinator.classic.group import Group
from brokerd.coordinator.consumer import records as formats
from brokerd.coordinator.consumer.events import (
    ClassicMemberMetadata,
    ConsumerGroupChange,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    GroupMetadata,
    GroupRecordKey,
    MemberMetadata,
    ResolvedRegularExpression,
)
from brokerd.coordinator.consumer.group import ConsumerGroupMachine
from brokerd.coordinator.consumer.reconciliation import MemberAssignment, MemberState
from brokerd.coordinator.groups import GroupCoordinator
from brokerd.wire.errors import ErrorCode
from tests.unit.coordinator.classic import test_offsets as memory
from tests.unit.coordinator.topics import GROUP_CONFIG, A, FakeTopics, share

T = UUID("00112233-4455-6677-8899-aabbccddeeff")
NOW = memory.NOW
PROFILE = MemberMetadata("i1", None, "c", "/h", frozenset({"b", "a"}), None, 5_000, "uniform")
CLASSIC = MemberMetadata(
    None, None, "c", "/h", frozenset({"a"}), None, 5_000, None, ClassicMemberMetadata(6_000, (("range", b"\0\1"),))
)
CURRENT_ASSIGNMENT = MemberAssignment(
    7,
    6,
    MemberState.UNREVOKED,
    share(T, 2, 0),
    share(T, 1),
    {TopicPartition(T, 0): 5, TopicPartition(T, 2): 7, TopicPartition(T, 1): 3},
)

# Laid out by hand after Kafka's message definitions: keys are a short and strings of two bytes of length; values a short, compact fields,
# and a closing byte for tagged fields in every struct.
BYTES = [
    (ConsumerGroupChange(GroupRecordKey.GROUP, "", GroupMetadata(5)), "0003 0001 67", "0000 00000005 00"),
    (
        ConsumerGroupChange(GroupRecordKey.GROUP, "", GroupMetadata(5, -2)),
        "0003 0001 67",
        "0000 00000005 01 00 08 fffffffffffffffe",
    ),
    (
        ConsumerGroupChange(GroupRecordKey.MEMBER, "m", PROFILE),
        "0005 0001 67 0001 6d",
        "0000 036931 00 0263 032f68 03 0261 0262 00 00001388 08756e69666f726d 00",
    ),
    (
        ConsumerGroupChange(GroupRecordKey.MEMBER, "m", CLASSIC),
        "0005 0001 67 0001 6d",
        "0000 00 00 0263 032f68 02 0261 00 00001388 00 01 00 11 01 00001770 02 0672616e6765 03 0001 00 00",
    ),
    (ConsumerGroupChange(GroupRecordKey.TARGET_EPOCH, "", 9), "0006 0001 67", "0000 00000009 00"),
    (
        ConsumerGroupChange(GroupRecordKey.TARGET_ASSIGNMENT, "m", share(T, 2, 0)),
        "0007 0001 67 0001 6d",
        "0000 02 00112233445566778899aabbccddeeff 03 00000000 00000002 00 00",
    ),
    (
        ConsumerGroupChange(GroupRecordKey.CURRENT_ASSIGNMENT, "m", CURRENT_ASSIGNMENT),
        "0008 0001 67 0001 6d",
        (
            "0000 00000007 00000006 01 02 00112233445566778899aabbccddeeff 03 00000000 00000002 01 00 09 03 00000005 00000007"
            "02 00112233445566778899aabbccddeeff 02 00000001 01 00 05 02 00000003 00"
        ),
    ),
    (
        ConsumerGroupChange(
            GroupRecordKey.REGULAR_EXPRESSION, "a.*", ResolvedRegularExpression(frozenset({"ab"}), 3, 17)
        ),
        "0010 0001 67 0003 612e2a",
        "0000 02 036162 0000000000000003 0000000000000011 00",
    ),
]


@pytest.mark.parametrize(("change", "key", "value"), BYTES, ids=lambda x: getattr(getattr(x, "fact", None), "name", ""))
def test_records_have_kafkas_formats(change: ConsumerGroupChange, key: str, value: str) -> None:
    assert formats.key("g", change) == bytes.fromhex(key)
    assert formats.value(change) == bytes.fromhex(value)
    assert formats.read_key(bytes.fromhex(key)) == ("g", change.fact, change.name)
    assert formats.read_value(change.fact, bytes.fromhex(value)) == change.value
    assert formats.value(ConsumerGroupChange(change.fact, change.name, None)) is None


def test_unknown_fields_of_newer_kafka_versions_are_skipped() -> None:
    """Kafka's additional fields, creation and assignment times, are skipped. The epochs of single partitions, which
    Kafka added later, may be absent."""
    before = bytes.fromhex("0000 00000007 00000006 00 02 00112233445566778899aabbccddeeff 02 00000001 00 01 00")
    assignment_epochs = {TopicPartition(T, 1): 7}
    assert formats.read_value(GroupRecordKey.CURRENT_ASSIGNMENT, before) == MemberAssignment(
        7, 6, MemberState.STABLE, share(T, 1), assignment_epochs=assignment_epochs
    )
    assert (
        formats.read_value(GroupRecordKey.TARGET_EPOCH, bytes.fromhex("0000 00000009 01 00 08 0000000000000001")) == 9
    )
    assert formats.read_value(
        GroupRecordKey.GROUP, bytes.fromhex("0000 00000005 01 01 08 0000000000000001")
    ) == GroupMetadata(5)
    assert formats.read_key(bytes.fromhex("0004 0001 67")) == ("g", None, "")


@pytest.mark.parametrize("data", ["0003", "0003 0005 67", "0008 0001 67", "0063 0001 67", "00"])
def test_malformed_keys_are_reported(data: str) -> None:
    with pytest.raises(ValueError):
        formats.read_key(bytes.fromhex(data))


@pytest.mark.parametrize("data", ["", "0001 00000005 00", "0000 0000", "0000 00000007 00000006 09 01 01 00"])
def test_malformed_values_are_reported(data: str) -> None:
    with pytest.raises(ValueError):
        formats.read_value(GroupRecordKey.CURRENT_ASSIGNMENT, bytes.fromhex(data))


# -- a coordinator -------------------------------------------------------------------------------------------------------------
class Log(memory.MemoryLog):
    """A log that fails with `error`: before the append, or a while after, when `end_it` is called."""

    def __init__(self, data: bytes = b"", end: int = 0) -> None:
        super().__init__(data, end)
        self.error = 0
        self.later: list[Callable[[int], None]] | None = None
        self.batches = 0

    def append(self, partition: int, batch: bytes, leader_epoch: int, done: Callable[[int], None]) -> None:
        if self.error:
            done(self.error)
            return
        self.batches += 1
        self.write(bytearray(batch))
        if self.later is None:
            done(0)
        else:
            self.later.append(done)


class Harness:
    def __init__(self, log: Log | None = None, clock: Callable[[], Now] = lambda: NOW, **more: Any) -> None:
        self.log = log or Log()
        self.topics = FakeTopics()
        self.group_config = GROUP_CONFIG
        coordinator_log: Any = self.log
        self.groups = GroupCoordinator(
            coordinator_log,
            clock,
            initial_delay_ms=0,
            size_max=10,
            retention_ms=1 << 40,
            metadata_bytes_max=100,
            topics=self.topics,
            group_config=lambda group_id: self.group_config,
            draw=lambda: "id",
            **more,
        )
        self.groups.on_election(0, 7, NOW)
        self.load()

    def load(self) -> None:
        for _ in range(3):
            self.groups.tick(NOW)

    def successor(self) -> Harness:
        return Harness(Log(self.log.data, self.log.end))

    def beat(self, member: str, epoch: int, *topics: str, **more: Any) -> Any:
        """The response: Beaten, the number of an error, or None without a response yet."""
        responses: list[ConsumerHeartbeatReply] = []
        joins = {"rebalance_ms": 5_000, "topics": frozenset(topics), "owned": frozenset()} if epoch == 0 else {}
        error = self.groups.handle(
            "g", ConsumerHeartbeat(responses.append, member, epoch, "c", "/h", **{**joins, **more})
        )
        return error or (responses[0] if responses else None)

    def classic_join(self, member: str = "") -> Any:
        responses: list[g.Joined] = []
        join = g.Join(
            responses.append, member, "m-id", None, "c", "/h", 5_000, 5_000, "consumer", (("range", b""),), False
        )
        error = self.groups.handle("g", join)
        return error or (responses[0] if responses else None)

    def commit(self, offset: int) -> int:
        responses: list[g.Completed] = []
        self.groups.handle("g", g.Commit(responses.append, "", None, -1, {("a", 0): g.Offset(offset, -1, "", 1)}))
        return responses[0].error

    @property
    def group(self) -> Any:
        return self.groups.shards[0].groups.get("g")


def test_a_new_coordinator_loads_the_group_and_its_members_continue() -> None:
    harness = Harness()
    harness.beat("m1", 0, "a")
    harness.beat("m2", 0, pattern="b")
    harness.beat("m3", 0, "a", instance_id="i")
    kept = harness.beat("m1", 1).assigned
    harness.beat("m1", 1, owned=kept)
    harness.beat("m3", 3, instance_id="i")
    after = harness.successor()
    assert isinstance(after.group, ConsumerGroupMachine)
    for what in (
        "epoch",
        "target_epoch",
        "members",
        "current_assignments",
        "targets",
        "static",
        "owners",
        "patterns",
        "topics_hash",
    ):
        assert getattr(after.group, what) == getattr(harness.group, what), what
    after.group.validate()
    assert after.beat("m1", 3, owned=kept).error == 0
    assert after.beat("m1", 1).error == ErrorCode.FENCED_MEMBER_EPOCH
    assert after.group.deadline_ms() is not None, "who does not come again is put out"


def test_an_immediately_rejected_write_changes_nothing() -> None:
    harness = Harness()
    harness.beat("m1", 0, "a")
    harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert harness.beat("m2", 0, "a").error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.beat("m1", 1, owned=share(A, 0, 1, 2, 3)).error == 0, "nothing had to be written for this"
    assert list(harness.group.members) == ["m1"]
    harness.log.error = 0
    assert harness.beat("m2", 0, "a").epoch == 2


def test_after_a_write_of_unknown_outcome_the_log_is_read() -> None:
    harness = Harness()
    harness.beat("m1", 0, "a")
    harness.log.later = []
    assert harness.beat("m2", 0, "a") is None, "not before it is replicated"
    (done,) = harness.log.later
    harness.log.later = None
    done(7)  # REQUEST_TIMED_OUT: the record is in the log all the same
    assert harness.beat("m1", 1) == 14, "loading"
    harness.load()
    assert sorted(harness.group.members) == ["m1", "m2"]


def test_records_above_the_batch_size_are_written_in_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brokerd.coordinator.classic.records.BATCH_BYTES", 100)
    harness = Harness()
    assert harness.beat("m1", 0, "a").epoch == 1
    assert harness.log.batches > 1
    assert harness.successor().group.current_assignments == harness.group.current_assignments


def test_any_prefix_of_the_records_of_a_step_is_a_working_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """If several batches are needed, the coordinator may fail between them."""
    monkeypatch.setattr("brokerd.coordinator.classic.records.BATCH_BYTES", 1)
    whole = Harness()
    whole.beat("m1", 0, "a")
    before = whole.log.end
    whole.beat("m2", 0, "a")
    for cut in range(before, whole.log.end):
        part = Harness(Log(*first_batches(whole.log.data, cut)))
        part.group.validate()
        part.beat("m2", 0, "a")
        kept = part.beat("m1", 1).assigned
        assert part.beat("m1", 1, owned=kept).epoch == part.group.epoch
        rest = part.beat("m2", 0, "a").assigned
        assert kept | rest == share(A, 0, 1, 2, 3) and not kept & rest, f"cut at {cut}"


def first_batches(data: bytes, records: int) -> tuple[bytes, int]:
    """With one record per batch."""
    from brokerd.wire.records import batches

    for at, header in batches(data):
        if header.base_offset == records:
            return data[:at], records
    return data, records


# -- from one protocol to the other -----------------------------------------------------------------------------------------------
def test_an_empty_group_of_either_protocol_is_converted_with_its_offsets() -> None:
    harness = Harness()
    assert harness.commit(5) == 0
    assert harness.classic_join().error == 0 and isinstance(harness.group, Group)
    assert harness.beat("m1", 0, "a") == ErrorCode.GROUP_ID_NOT_FOUND, (
        "the group has a member without consumer metadata"
    )
    harness.groups.handle("g", g.Leave(lambda response: None, (("m-id", None),)))
    assert harness.beat("m1", 0, "a").error == 0 and isinstance(harness.group, ConsumerGroupMachine)
    assert harness.group.commits.offsets[("a", 0)].offset == 5
    assert harness.classic_join().error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    after = harness.successor()
    assert isinstance(after.group, ConsumerGroupMachine) and after.group.commits.offsets[("a", 0)].offset == 5
    assert after.beat("m1", -1).error == 0
    assert after.classic_join().error == 0 and isinstance(after.group, Group)
    assert after.group.commits.offsets[("a", 0)].offset == 5
    last = after.successor()
    assert isinstance(last.group, Group) and last.group.commits.offsets[("a", 0)].offset == 5


def test_a_request_of_a_non_member_creates_no_group() -> None:
    harness = Harness()
    assert harness.beat("m1", 5) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.group is None


def test_a_deleted_group_stays_deleted_at_a_new_coordinator() -> None:
    harness = Harness()
    harness.beat("m1", 0, pattern="a")
    harness.beat("m1", -1)
    harness.commit(5)
    done: list[int] = []
    harness.groups.tombstones("g", harness.group, [("a", 0)], True, done.append)
    assert done == [0] and harness.group is None
    assert harness.successor().group is None


def test_an_assignment_is_read_back_in_any_order() -> None:
    assert formats.by_topic(share(T, 3, 1) | share(A, 0)) == {A: [0], T: [1, 3]}
    assert TopicPartition(T, 3) in formats.read_value(
        GroupRecordKey.TARGET_ASSIGNMENT,
        formats.value(ConsumerGroupChange(GroupRecordKey.TARGET_ASSIGNMENT, "", share(T, 3))) or b"",
    )


def test_group_configs_apply_from_the_next_heartbeat() -> None:
    harness = Harness()
    harness.beat("m1", 0, "a")
    harness.group_config = replace(GROUP_CONFIG, heartbeat_ms=777, session_ms=60_000)
    harness.groups.group_config_changed("g")
    harness.groups.group_config_changed("none")
    assert harness.group.sessions["m1"] == NOW.mono_ms + GROUP_CONFIG.session_ms
    assert harness.beat("m1", 1, owned=share(A, 0, 1, 2, 3)).heartbeat_ms == 777
    assert harness.group.sessions["m1"] == NOW.mono_ms + 60_000


def test_members_expire_by_time_here_too() -> None:
    harness = Harness()
    harness.beat("m1", 0, "a")
    later = Now(NOW.mono_ms + GROUP_CONFIG.session_ms, NOW.wall_ms)
    harness.groups.tick(later)
    assert harness.group.members == {}
    assert harness.successor().group.members == {}
