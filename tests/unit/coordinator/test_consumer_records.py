"""Facts of the new protocol in Kafka's formats, byte for byte, and a coordinator that reads them back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from brokerd.cluster.model import Now, TopicPartition
from brokerd.coordinator import consumer_records as formats
from brokerd.coordinator import events as g
from brokerd.coordinator.consumer_events import (
    FENCED_MEMBER_EPOCH,
    Beat,
    Beaten,
    Change,
    ClassicSide,
    Fact,
    Header,
    Profile,
    Resolved,
)
from brokerd.coordinator.consumer_group import ConsumerGroup
from brokerd.coordinator.group import Group
from brokerd.coordinator.groups import GROUP_ID_NOT_FOUND, Groups
from brokerd.coordinator.reconciliation import MemberState, Standing
from tests.unit.coordinator import test_offsets_in_transactions as memory
from tests.unit.coordinator.topics import TERMS, A, FakeTopics, share

T = UUID("00112233-4455-6677-8899-aabbccddeeff")
NOW = memory.NOW
PROFILE = Profile("i1", None, "c", "/h", frozenset({"b", "a"}), None, 5_000, "uniform")
CLASSIC = Profile(None, None, "c", "/h", frozenset({"a"}), None, 5_000, None, ClassicSide(6_000, (("range", b"\0\1"),)))
STANDING = Standing(
    7, 6, MemberState.UNREVOKED, share(T, 2, 0), share(T, 1),
    {TopicPartition(T, 0): 5, TopicPartition(T, 2): 7, TopicPartition(T, 1): 3},
)  # fmt: skip

# Laid out by hand after Kafka's message definitions: keys are a short and strings of two bytes of length; values a short, compact fields,
# and a closing byte for tagged fields in every struct.
BYTES = [
    (Change(Fact.GROUP, "", Header(5)), "0003 0001 67", "0000 00000005 00"),
    (Change(Fact.GROUP, "", Header(5, -2)), "0003 0001 67", "0000 00000005 01 00 08 fffffffffffffffe"),
    (
        Change(Fact.MEMBER, "m", PROFILE), "0005 0001 67 0001 6d",
        "0000 036931 00 0263 032f68 03 0261 0262 00 00001388 08756e69666f726d 00",
    ),
    (
        Change(Fact.MEMBER, "m", CLASSIC), "0005 0001 67 0001 6d",
        "0000 00 00 0263 032f68 02 0261 00 00001388 00 01 00 11 01 00001770 02 0672616e6765 03 0001 00 00",
    ),
    (Change(Fact.TARGET_EPOCH, "", 9), "0006 0001 67", "0000 00000009 00"),
    (
        Change(Fact.TARGET, "m", share(T, 2, 0)), "0007 0001 67 0001 6d",
        "0000 02 00112233445566778899aabbccddeeff 03 00000000 00000002 00 00",
    ),
    (
        Change(Fact.STANDING, "m", STANDING), "0008 0001 67 0001 6d",
        "0000 00000007 00000006 01 02 00112233445566778899aabbccddeeff 03 00000000 00000002 01 00 09 03 00000005 00000007"
        "02 00112233445566778899aabbccddeeff 02 00000001 01 00 05 02 00000003 00",
    ),
    (
        Change(Fact.PATTERN, "a.*", Resolved(frozenset({"ab"}), 3, 17)), "0010 0001 67 0003 612e2a",
        "0000 02 036162 0000000000000003 0000000000000011 00",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "key", "value"), BYTES, ids=lambda x: getattr(getattr(x, "fact", None), "name", ""))
def test_facts_stand_in_kafkas_own_formats(change: Change, key: str, value: str) -> None:
    assert formats.key("g", change) == bytes.fromhex(key)
    assert formats.value(change) == bytes.fromhex(value)
    assert formats.read_key(bytes.fromhex(key)) == ("g", change.fact, change.name)
    assert formats.read_value(change.fact, bytes.fromhex(value)) == change.value
    assert formats.value(Change(change.fact, change.name, None)) is None


def test_what_kafka_adds_is_read_over() -> None:
    """Times of creation and assignment; and what it has added is not missed where it is not there: the epochs of single partitions."""
    before = bytes.fromhex("0000 00000007 00000006 00 02 00112233445566778899aabbccddeeff 02 00000001 00 01 00")
    since = {TopicPartition(T, 1): 7}
    assert formats.read_value(Fact.STANDING, before) == Standing(7, 6, MemberState.STABLE, share(T, 1), since=since)
    assert formats.read_value(Fact.TARGET_EPOCH, bytes.fromhex("0000 00000009 01 00 08 0000000000000001")) == 9
    assert formats.read_value(Fact.GROUP, bytes.fromhex("0000 00000005 01 01 08 0000000000000001")) == Header(5)
    assert formats.read_key(bytes.fromhex("0004 0001 67")) == ("g", None, "")


@pytest.mark.parametrize("data", ["0003", "0003 0005 67", "0008 0001 67", "0063 0001 67", "00"])
def test_keys_that_cannot_be_read(data: str) -> None:
    with pytest.raises(ValueError):
        formats.read_key(bytes.fromhex(data))


@pytest.mark.parametrize("data", ["", "0001 00000005 00", "0000 0000", "0000 00000007 00000006 09 01 01 00"])
def test_values_that_cannot_be_read(data: str) -> None:
    with pytest.raises(ValueError):
        formats.read_value(Fact.STANDING, bytes.fromhex(data))


# -- a coordinator -------------------------------------------------------------------------------------------------------------
class Log(memory.MemoryLog):
    """Refuses with `error`: before it has appended, or a while after, when `end_it` is called."""

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


class House:
    def __init__(self, log: Log | None = None, clock: Callable[[], Now] = lambda: NOW, **more: Any) -> None:
        self.log = log or Log()
        self.topics = FakeTopics()
        self.terms = TERMS
        coordinator_log: Any = self.log
        self.groups = Groups(
            coordinator_log, clock, initial_delay_ms=0, size_max=10, retention_ms=1 << 40, metadata_bytes_max=100,
            topics=self.topics, terms=lambda group_id: self.terms, draw=lambda: "id", **more,
        )  # fmt: skip
        self.groups.became_leader(0, 7, NOW)
        self.load()

    def load(self) -> None:
        for _ in range(3):
            self.groups.tick(NOW)

    def successor(self) -> House:
        return House(Log(self.log.data, self.log.end))

    def beat(self, member: str, epoch: int, *topics: str, **more: Any) -> Any:
        """What was answered: Beaten, an error's number, or None for not yet."""
        answers: list[Beaten] = []
        joins = {"rebalance_ms": 5_000, "topics": frozenset(topics), "owned": frozenset()} if epoch == 0 else {}
        error = self.groups.handle("g", Beat(answers.append, member, epoch, "c", "/h", **{**joins, **more}))
        return error or (answers[0] if answers else None)

    def classic_join(self, member: str = "") -> Any:
        answers: list[g.Joined] = []
        join = g.Join(
            answers.append, member, "m-id", None, "c", "/h", 5_000, 5_000, "consumer", (("range", b""),), False
        )
        error = self.groups.handle("g", join)
        return error or (answers[0] if answers else None)

    def commit(self, offset: int) -> int:
        answers: list[g.Answered] = []
        self.groups.handle("g", g.Commit(answers.append, "", None, -1, {("a", 0): g.Offset(offset, -1, "", 1)}))
        return answers[0].error

    @property
    def group(self) -> Any:
        return self.groups.led[0].groups.get("g")


def test_a_successor_knows_the_group_and_its_members_go_on() -> None:
    house = House()
    house.beat("m1", 0, "a")
    house.beat("m2", 0, pattern="b")
    house.beat("m3", 0, "a", instance_id="i")
    kept = house.beat("m1", 1).assigned
    house.beat("m1", 1, owned=kept)
    house.beat("m3", 3, instance_id="i")
    after = house.successor()
    assert isinstance(after.group, ConsumerGroup)
    for what in (
        "epoch",
        "target_epoch",
        "members",
        "standings",
        "targets",
        "static",
        "holders",
        "patterns",
        "topics_hash",
    ):
        assert getattr(after.group, what) == getattr(house.group, what), what
    after.group.validate()
    assert after.beat("m1", 3, owned=kept).error == 0
    assert after.beat("m1", 1).error == FENCED_MEMBER_EPOCH
    assert after.group.deadline_ms() is not None, "who does not come again is put out"


def test_a_write_that_is_refused_at_once_changes_nothing() -> None:
    house = House()
    house.beat("m1", 0, "a")
    house.log.error = 19  # NOT_ENOUGH_REPLICAS
    assert house.beat("m2", 0, "a").error == g.COORDINATOR_NOT_AVAILABLE
    assert house.beat("m1", 1, owned=share(A, 0, 1, 2, 3)).error == 0, "nothing had to be written for this"
    assert list(house.group.members) == ["m1"]
    house.log.error = 0
    assert house.beat("m2", 0, "a").epoch == 2


def test_after_a_write_of_unknown_outcome_the_log_is_asked() -> None:
    house = House()
    house.beat("m1", 0, "a")
    house.log.later = []
    assert house.beat("m2", 0, "a") is None, "not before it is replicated"
    (done,) = house.log.later
    house.log.later = None
    done(7)  # REQUEST_TIMED_OUT: it stands in the log all the same
    assert house.beat("m1", 1) == 14, "loading"
    house.load()
    assert sorted(house.group.members) == ["m1", "m2"]


def test_what_does_not_fit_one_batch_is_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brokerd.coordinator.groups.BATCH_BYTES", 100)
    house = House()
    assert house.beat("m1", 0, "a").epoch == 1
    assert house.log.batches > 1
    assert house.successor().group.standings == house.group.standings


def test_any_beginning_of_a_step_is_a_group_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where several batches are needed, the coordinator may die between them."""
    monkeypatch.setattr("brokerd.coordinator.groups.BATCH_BYTES", 1)
    whole = House()
    whole.beat("m1", 0, "a")
    before = whole.log.end
    whole.beat("m2", 0, "a")
    for cut in range(before, whole.log.end):
        part = House(Log(*_first(whole.log.data, cut)))
        part.group.validate()
        part.beat("m2", 0, "a")
        kept = part.beat("m1", 1).assigned
        assert part.beat("m1", 1, owned=kept).epoch == part.group.epoch
        rest = part.beat("m2", 0, "a").assigned
        assert kept | rest == share(A, 0, 1, 2, 3) and not kept & rest, f"cut at {cut}"


def _first(data: bytes, records: int) -> tuple[bytes, int]:
    """Of batches of one record each."""
    from brokerd.wire.records import batches

    for at, header in batches(data):
        if header.base_offset == records:
            return data[:at], records
    return data, records


# -- from one protocol to the other -----------------------------------------------------------------------------------------------
def test_an_empty_group_of_either_kind_is_taken_over_with_its_offsets() -> None:
    house = House()
    assert house.commit(5) == 0
    assert house.classic_join().error == 0 and isinstance(house.group, Group)
    assert house.beat("m1", 0, "a") == GROUP_ID_NOT_FOUND, "somebody is in it, and says nothing that a consumer would"
    house.groups.handle("g", g.Leave(lambda answer: None, (("m-id", None),)))
    assert house.beat("m1", 0, "a").error == 0 and isinstance(house.group, ConsumerGroup)
    assert house.group.commits.offsets[("a", 0)].offset == 5
    assert house.classic_join().error == g.INCONSISTENT_GROUP_PROTOCOL
    after = house.successor()
    assert isinstance(after.group, ConsumerGroup) and after.group.commits.offsets[("a", 0)].offset == 5
    assert after.beat("m1", -1).error == 0
    assert after.classic_join().error == 0 and isinstance(after.group, Group)
    assert after.group.commits.offsets[("a", 0)].offset == 5
    last = after.successor()
    assert isinstance(last.group, Group) and last.group.commits.offsets[("a", 0)].offset == 5


def test_who_is_no_member_makes_no_group() -> None:
    house = House()
    assert house.beat("m1", 5) == g.UNKNOWN_MEMBER_ID
    assert house.group is None


def test_a_deleted_group_is_gone_for_its_successor_too() -> None:
    house = House()
    house.beat("m1", 0, pattern="a")
    house.beat("m1", -1)
    house.commit(5)
    done: list[int] = []
    house.groups.tombstones("g", house.group, [("a", 0)], True, done.append)
    assert done == [0] and house.group is None
    assert house.successor().group is None


def test_a_share_is_read_back_whatever_order_it_stands_in() -> None:
    assert formats.by_topic(share(T, 3, 1) | share(A, 0)) == {A: [0], T: [1, 3]}
    assert TopicPartition(T, 3) in formats.read_value(
        Fact.TARGET, formats.value(Change(Fact.TARGET, "", share(T, 3))) or b""
    )


def test_a_groups_own_terms_count_from_the_next_heartbeat_on() -> None:
    house = House()
    house.beat("m1", 0, "a")
    house.terms = replace(TERMS, heartbeat_ms=777, session_ms=60_000)
    house.groups.terms_changed("g")
    house.groups.terms_changed("none")
    assert house.group.sessions["m1"] == NOW.mono_ms + TERMS.session_ms
    assert house.beat("m1", 1, owned=share(A, 0, 1, 2, 3)).heartbeat_ms == 777
    assert house.group.sessions["m1"] == NOW.mono_ms + 60_000


def test_time_that_passes_puts_members_out_here_too() -> None:
    house = House()
    house.beat("m1", 0, "a")
    later = Now(NOW.mono_ms + TERMS.session_ms, NOW.wall_ms)
    house.groups.tick(later)
    assert house.group.members == {}
    assert house.successor().group.members == {}
