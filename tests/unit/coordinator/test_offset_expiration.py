"""Offsets expire when no member needs them, and are deleted where no member is subscribed. A new group waits for its first members."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.apis.group_offsets import GroupOffsetsApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.cluster.image import Image
from brokerd.cluster.model import Now
from brokerd.coordinator.classic import events as g
from brokerd.coordinator.consumer import consumer_protocol
from brokerd.coordinator.groups import GroupCoordinator
from brokerd.wire import messages as m
from brokerd.wire.errors import ErrorCode
from brokerd.wire.schema import packer
from tests.unit.coordinator.consumer.test_records import Log
from tests.unit.coordinator.topics import GROUP_CONFIG, FakeTopics

RETENTION_MS = 7 * 24 * 3_600_000
MINUTE = 60_001


def encoded_subscription(*topics: str) -> bytes:
    """A consumer's subscription."""
    out = bytearray(struct.pack(">h", 0))
    packer(consumer_protocol.ConsumerProtocolSubscription, 0, False)(
        consumer_protocol.ConsumerProtocolSubscription(list(topics), None), out, []
    )
    return bytes(out)


class Harness:
    """One coordinator whose log answers at once."""

    def __init__(self, initial_delay_ms: int = 0) -> None:
        self.now = Now(1_000, 1_000_000)
        coordinator_log: Any = Log()
        self.permanent: set[str] = set()
        self.groups = GroupCoordinator(
            coordinator_log,
            lambda: self.now,
            initial_delay_ms=initial_delay_ms,
            size_max=10,
            retention_ms=RETENTION_MS,
            metadata_bytes_max=100,
            topics=FakeTopics(),
            group_config=lambda group_id: GROUP_CONFIG,
            draw=lambda: "id",
            permanent=lambda group_id: group_id in self.permanent,
        )
        self.groups.on_election(0, 7, self.now)
        self.advance(0)

    def advance(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)
        for _ in range(3):
            self.groups.tick(self.now)

    def join(self, data: bytes, protocol_type: str = "consumer", kind: str = "range") -> list[g.Joined]:
        """Join as a member. Returns the responses. The session outlasts every test."""
        responses: list[g.Joined] = []
        session = 2**31 - 1
        self.groups.handle(
            "g",
            g.Join(
                responses.append,
                "",
                f"m{id(responses)}",
                None,
                "c",
                "/h",
                session,
                5_000,
                protocol_type,
                ((kind, data),),
                False,
            ),
        )
        return responses

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
        responses: list[g.Completed] = []
        self.groups.handle("g", g.Commit(responses.append, *who, {(topic, 0): g.Offset(5, -1, "", self.now.wall_ms)}))
        assert [a.error for a in responses] == [0]

    @property
    def group(self) -> Any:
        return self.groups.shards[0].groups.get("g")

    @property
    def topics(self) -> list[str]:
        return sorted(t for t, _ in self.group.commits.offsets) if self.group else []

    def delete(self, *topics: str) -> dict[str, int] | int:
        """{topic: error}, or the error of the whole request."""
        r = m.OffsetDeleteRequest
        part = r.OffsetDeleteRequestPartition(partition_index=0)
        body = r(group_id="g", topics=[r.OffsetDeleteRequestTopic(name=t, partitions=[part]) for t in topics])
        responses: list[Any] = []
        request: Any = SimpleNamespace(body=body, reply=responses.append)
        GroupOffsetsApi(self.groups, lambda: self.now, ALLOW_ALL, Image).delete_offsets(request)
        (response,) = responses
        return int(response.error_code) or {t.name: t.partitions[0].error_code for t in response.topics}


def test_an_empty_group_expires_after_the_offsets_retention() -> None:
    harness = Harness()
    member = harness.member(encoded_subscription("a"))
    harness.commit("a", member)
    harness.advance(2 * RETENTION_MS)
    assert harness.topics == ["a"], "a member is subscribed, so the age of the commit does not matter"
    harness.leave(member)
    harness.advance(RETENTION_MS - MINUTE)
    assert harness.topics == ["a"]
    harness.advance(2 * MINUTE)
    assert harness.group is None


def test_a_commit_without_a_member_expires_by_its_age() -> None:
    """As with consumers with manual assignment: a group without members; each commit has its own age."""
    harness = Harness()
    harness.commit("a")
    harness.advance(RETENTION_MS - MINUTE)
    harness.commit("b")
    harness.advance(2 * MINUTE)
    assert harness.topics == ["b"]
    harness.advance(RETENTION_MS)
    assert harness.group is None


def test_offsets_of_unsubscribed_topics_expire_in_an_active_group() -> None:
    harness = Harness()
    member = harness.member(encoded_subscription("a", "b"))
    for topic in ("a", "b", "c"):
        harness.commit(topic, member)
    harness.advance(RETENTION_MS - MINUTE)
    assert harness.topics == ["a", "b", "c"]
    harness.advance(2 * MINUTE)
    assert harness.topics == ["a", "b"]


@pytest.mark.parametrize(("data", "protocol_type"), [(b"\xff", "consumer"), (b"", "connect")])
def test_offsets_of_a_group_with_unknown_subscriptions_do_not_expire(data: bytes, protocol_type: str) -> None:
    harness = Harness()
    member = harness.member(data, protocol_type)
    harness.commit("a", member)
    harness.advance(2 * RETENTION_MS)
    assert harness.topics == ["a"]
    expected = (
        {"a": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC} if protocol_type == "consumer" else int(ErrorCode.NON_EMPTY_GROUP)
    )
    assert harness.delete("a") == expected
    assert harness.topics == ["a"]


def test_offsets_of_unsubscribed_topics_can_be_deleted() -> None:
    harness = Harness()
    assert harness.delete("a") == ErrorCode.GROUP_ID_NOT_FOUND
    member = harness.member(encoded_subscription("a"))
    harness.commit("a", member)
    harness.commit("b", member)
    assert harness.delete("a", "b", "c") == {"a": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, "b": 0, "c": 0}
    assert harness.topics == ["a"]
    harness.leave(member)
    assert harness.delete("a") == {"a": 0}
    assert harness.topics == []


def test_a_new_groups_first_assignment_waits_for_more_members() -> None:
    alone = Harness(initial_delay_ms=3_000)
    one = alone.join(encoded_subscription("a"))
    alone.advance(2_999)
    assert not one
    alone.advance(1)
    assert [a.generation for a in one] == [1]


def test_each_join_extends_the_initial_delay_up_to_the_rebalance_timeout() -> None:
    harness = Harness(initial_delay_ms=3_000)
    first = harness.join(encoded_subscription("a"))
    harness.advance(2_000)
    second = harness.join(encoded_subscription("a"))
    harness.advance(2_999)
    assert not first and not second, "the first three seconds are over, the rebalance timeout of five is not"
    harness.advance(1)
    assert [a.generation for a in (*first, *second)] == [1, 1], "one generation for both"


def test_offsets_of_a_permanent_group_never_expire() -> None:
    harness = Harness()
    harness.permanent.add("g")
    harness.commit("t")
    harness.advance(RETENTION_MS + 10 * MINUTE)
    assert harness.topics == ["t"]
    harness.permanent.clear()
    harness.advance(MINUTE)
    assert harness.topics == []
