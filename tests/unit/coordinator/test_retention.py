"""Offsets are forgotten when nobody needs them any more, and deleted where nobody reads; a new group waits for its first members."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.apis.group_offsets import GroupOffsetsApi
from brokerd.cluster.model import Now
from brokerd.coordinator import embedded
from brokerd.coordinator import events as g
from brokerd.coordinator.groups import Groups
from brokerd.wire import messages as m
from brokerd.wire.errors import ErrorCode
from brokerd.wire.schema import packer
from tests.unit.coordinator.test_consumer_records import Log
from tests.unit.coordinator.topics import TERMS, FakeTopics

RETENTION_MS = 7 * 24 * 3_600_000
MINUTE = 60_001


def reads(*topics: str) -> bytes:
    """A consumer's subscription."""
    out = bytearray(struct.pack(">h", 0))
    packer(embedded.ConsumerProtocolSubscription, 0, False)(
        embedded.ConsumerProtocolSubscription(list(topics), None), out, []
    )
    return bytes(out)


class House:
    """One coordinator whose log answers at once."""

    def __init__(self, initial_delay_ms: int = 0) -> None:
        self.now = Now(1_000, 1_000_000)
        coordinator_log: Any = Log()
        self.groups = Groups(
            coordinator_log, lambda: self.now, initial_delay_ms=initial_delay_ms, size_max=10, retention_ms=RETENTION_MS,
            metadata_bytes_max=100, topics=FakeTopics(), terms=lambda group_id: TERMS, draw=lambda: "id",
        )  # fmt: skip
        self.groups.became_leader(0, 7, self.now)
        self.passes(0)

    def passes(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)
        for _ in range(3):
            self.groups.tick(self.now)

    def join(self, data: bytes, protocol_type: str = "consumer", kind: str = "range") -> list[g.Joined]:
        """A member's answers; its session outlasts every test."""
        answers: list[g.Joined] = []
        session = 2**31 - 1
        self.groups.handle(
            "g", g.Join(answers.append, "", f"m{id(answers)}", None, "c", "/h", session, 5_000, protocol_type, ((kind, data),), False)
        )  # fmt: skip
        return answers

    def member(self, data: bytes, protocol_type: str = "consumer") -> g.Joined:
        (joined,) = self.join(data, protocol_type)
        done: list[Any] = []
        self.groups.handle(
            "g",
            g.Sync(done.append, joined.member_id, None, joined.generation, None, None, {joined.member_id: b""}),
        )
        assert done
        assert self.group.state is g.State.STABLE
        return joined

    def leave(self, member: g.Joined) -> None:
        self.groups.handle("g", g.Leave(lambda a: None, ((member.member_id, None),)))

    def commit(self, topic: str, member: g.Joined | None = None) -> None:
        who = (member.member_id, None, member.generation) if member else ("", None, -1)
        answers: list[g.Answered] = []
        self.groups.handle("g", g.Commit(answers.append, *who, {(topic, 0): g.Offset(5, -1, "", self.now.wall_ms)}))
        assert [a.error for a in answers] == [0]

    @property
    def group(self) -> Any:
        return self.groups.led[0].groups.get("g")

    @property
    def topics(self) -> list[str]:
        return sorted(t for t, _ in self.group.commits.offsets) if self.group else []

    def delete(self, *topics: str) -> dict[str, int] | int:
        """{topic: error}, or the error of it all."""
        r = m.OffsetDeleteRequest
        part = r.OffsetDeleteRequestPartition(partition_index=0)
        body = r(group_id="g", topics=[r.OffsetDeleteRequestTopic(name=t, partitions=[part]) for t in topics])
        answers: list[Any] = []
        request: Any = SimpleNamespace(body=body, reply=answers.append)
        GroupOffsetsApi(self.groups, lambda: self.now).delete_offsets(request)
        (answer,) = answers
        return int(answer.error_code) or {t.name: t.partitions[0].error_code for t in answer.topics}


def test_an_empty_group_and_its_offsets_go_when_it_has_been_empty_for_the_retention() -> None:
    house = House()
    member = house.member(reads("a"))
    house.commit("a", member)
    house.passes(2 * RETENTION_MS)
    assert house.topics == ["a"], "somebody reads it, however old the commit is"
    house.leave(member)
    house.passes(RETENTION_MS - MINUTE)
    assert house.topics == ["a"]
    house.passes(2 * MINUTE)
    assert house.group is None


def test_a_commit_of_nobodys_goes_when_it_is_that_old() -> None:
    """As with consumers that are assigned to by hand: a group without members, each commit with its own age."""
    house = House()
    house.commit("a")
    house.passes(RETENTION_MS - MINUTE)
    house.commit("b")
    house.passes(2 * MINUTE)
    assert house.topics == ["b"]
    house.passes(RETENTION_MS)
    assert house.group is None


def test_what_a_living_groups_members_no_longer_read_goes() -> None:
    house = House()
    member = house.member(reads("a", "b"))
    for topic in ("a", "b", "c"):
        house.commit(topic, member)
    house.passes(RETENTION_MS - MINUTE)
    assert house.topics == ["a", "b", "c"]
    house.passes(2 * MINUTE)
    assert house.topics == ["a", "b"]


@pytest.mark.parametrize(("data", "protocol_type"), [(b"\xff", "consumer"), (b"", "connect")])
def test_what_only_the_members_know_protects(data: bytes, protocol_type: str) -> None:
    house = House()
    member = house.member(data, protocol_type)
    house.commit("a", member)
    house.passes(2 * RETENTION_MS)
    assert house.topics == ["a"]
    expected = (
        {"a": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC} if protocol_type == "consumer" else int(ErrorCode.NON_EMPTY_GROUP)
    )
    assert house.delete("a") == expected
    assert house.topics == ["a"]


def test_offsets_are_deleted_where_nobody_reads() -> None:
    house = House()
    assert house.delete("a") == ErrorCode.GROUP_ID_NOT_FOUND
    member = house.member(reads("a"))
    house.commit("a", member)
    house.commit("b", member)
    assert house.delete("a", "b", "c") == {"a": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, "b": 0, "c": 0}
    assert house.topics == ["a"]
    house.leave(member)
    assert house.delete("a") == {"a": 0}
    assert house.topics == []


def test_a_new_groups_first_assignment_waits_for_more_members() -> None:
    alone = House(initial_delay_ms=3_000)
    one = alone.join(reads("a"))
    alone.passes(2_999)
    assert not one
    alone.passes(1)
    assert [a.generation for a in one] == [1]


def test_who_joins_meanwhile_makes_it_wait_as_long_again_within_the_rebalance_timeout() -> None:
    house = House(initial_delay_ms=3_000)
    first = house.join(reads("a"))
    house.passes(2_000)
    second = house.join(reads("a"))
    house.passes(2_999)
    assert not first and not second, "the first three seconds are over, the rebalance timeout of five is not"
    house.passes(1)
    assert [a.generation for a in (*first, *second)] == [1, 1], "one generation for both"
