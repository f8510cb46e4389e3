"""The state machine of the consumer protocol against members that act in any order, with failed writes and
coordinator failovers. No partition has two users, each request is answered once, and well-behaved members end
with a complete assignment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from brokerd.cluster.model import Now, TopicPartition
from brokerd.config.groups import GroupConfig
from brokerd.coordinator.classic import events as g
from brokerd.coordinator.consumer import events as c
from brokerd.coordinator.consumer.events import (
    ConsumerGroupChange,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    GroupRecordKey,
    GroupState,
    PersistChanges,
)
from brokerd.coordinator.consumer.group import ConsumerGroupMachine
from brokerd.coordinator.consumer.reconciliation import MemberState
from brokerd.wire.errors import ErrorCode
from tests.unit.coordinator.topics import GROUP_CONFIG, A, B, FakeTopics, share

SESSION_MS, REBALANCE_MS = GROUP_CONFIG.session_ms, 8_000


# -- any order ---------------------------------------------------------------------------------------------------------------
@dataclass
class Client:
    """`using` is the set of partitions that it reads; `given` is the last received assignment, which it adopts at any
    time. It reports both as owned: a client that omits partitions which it is about to adopt may find them reassigned
    (in Kafka too)."""

    name: str
    instance: str | None = None
    life: int = 0
    epoch: int = 0
    using: frozenset[TopicPartition] = frozenset()
    given: frozenset[TopicPartition] = frozenset()
    waiting: Any = None
    topics: frozenset[str] = frozenset({"a"})

    @property
    def member_id(self) -> str:
        return f"{self.name}-{self.life}" if self.instance else self.name


class Members(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.topics = FakeTopics()
        self.group = ConsumerGroupMachine("g", topics=self.topics, group_config=GROUP_CONFIG)
        self.now = Now(1_000, 1_000)
        self.clients = [Client(f"m{i}", "static" if i == 3 else None) for i in range(4)]
        self.log: list[ConsumerGroupChange] = []
        self.pending_writes: list[PersistChanges] = []
        self.rejecting = False
        self.requested: dict[Any, Client] = {}
        self.serial = 0

    # -- plumbing ------------------------------------------------------------------------------------------------------
    def deliver(self, event: Any) -> None:
        self.run_effects(self.group.handle(event, self.now))

    def run_effects(self, effects: Iterable[Any]) -> None:
        for effect in effects:
            if isinstance(effect, g.Reply):
                self.on_response(effect.token, effect.response)
            elif self.rejecting:
                self.deliver(g.PersistFailed(effect.number, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            else:
                self.pending_writes.append(effect)

    def on_response(self, token: Any, response: ConsumerHeartbeatReply) -> None:
        assert token in self.requested, f"{token} was answered twice, or never asked"
        client = self.requested.pop(token)
        if client.waiting != token:
            return  # the client has stopped waiting
        client.waiting = None
        if response.error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.epoch, client.using, client.given = 0, frozenset(), frozenset()
        elif not response.error:
            client.epoch = response.epoch
            if response.assigned is not None:
                client.given = response.assigned
                assert client.epoch > 0

    def beat(self, client: Client, epoch: int | None = None, whole: bool = False) -> None:
        self.serial += 1
        token = client.waiting = (client.name, self.serial)
        self.requested[token] = client
        epoch = client.epoch if epoch is None else epoch
        whole = whole or epoch == 0
        if epoch == 0:
            client.using = client.given = frozenset()
        self.deliver(
            ConsumerHeartbeat(
                token,
                client.member_id,
                epoch,
                "client",
                "/host",
                client.instance,
                rebalance_ms=REBALANCE_MS if whole else -1,
                topics=client.topics if whole else None,
                owned=client.using | client.given,
            )
        )

    # -- what members do -------------------------------------------------------------------------------------------------
    @rule(i=st.integers(0, 3), whole=st.booleans())
    def beats(self, i: int, whole: bool) -> None:
        """Also while a response is pending; the client ignores that response."""
        client = self.clients[i]
        self.beat(client, whole=whole or client.waiting is not None)

    @rule(i=st.integers(0, 3))
    def applies_its_assignment(self, i: int) -> None:
        client = self.clients[i]
        client.using = client.given

    @rule(i=st.integers(0, 3), topics=st.sampled_from([{"a"}, {"b"}, {"a", "b"}, {"nowhere"}]))
    def reads_other_topics(self, i: int, topics: set[str]) -> None:
        client = self.clients[i]
        client.topics = frozenset(topics)
        self.beat(client, whole=True)

    @rule(i=st.integers(0, 3))
    def leaves(self, i: int) -> None:
        client = self.clients[i]
        if client.epoch > 0:
            client.using = client.given = frozenset()
            self.beat(client, c.LEAVE_GROUP_MEMBER_EPOCH)
            client.epoch, client.waiting = 0, None

    @rule(again=st.booleans())
    def static_member_leaves_and_returns(self, again: bool) -> None:
        client = self.clients[3]
        if client.epoch > 0:
            client.using = client.given = frozenset()
            self.beat(client, c.LEAVE_GROUP_STATIC_MEMBER_EPOCH)
            client.epoch, client.waiting = 0, None
            client.life += 1
        if again:
            self.beat(client)

    @rule(i=st.integers(0, 2))
    def stops_without_leaving(self, i: int) -> None:
        self.clients[i] = Client(f"{self.clients[i].name}'")

    # -- coordinator failures ----------------------------------------------------------------------------------------------
    @rule()
    def a_write_is_replicated(self) -> None:
        if self.pending_writes:
            self.replicate(self.pending_writes.pop(0))

    def replicate(self, write: PersistChanges) -> None:
        self.log += write.changes
        self.deliver(g.Persisted(write.number))

    @rule(rejecting=st.booleans())
    def the_log_rejects(self, rejecting: bool) -> None:
        self.rejecting = rejecting

    @rule(kept=st.integers(0, 3))
    def coordinator_changes(self, kept: int) -> None:
        """The new coordinator loads the replicated records, and perhaps some of the pending records."""
        for write in self.pending_writes[:kept]:
            self.log += write.changes
        self.pending_writes = []
        self.run_effects(self.group.unload())
        assert not self.requested, "a request waits for a former coordinator"
        self.group = ConsumerGroupMachine("g", topics=self.topics, group_config=GROUP_CONFIG)
        for change in self.log:
            self.group.apply(change)
        self.group.reset_session_timeouts(self.now)

    @rule(ms=st.sampled_from([500, 2_000, 6_000]))
    def time_passes(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)
        due = self.group.deadline_ms()
        if due is not None and due <= self.now.mono_ms:
            self.deliver(g.Tick())

    @rule(count=st.integers(3, 6))
    def a_topic_grows(self, count: int) -> None:
        if count > self.topics.there["b"][1]:
            self.topics.there["b"] = (B, count)
            self.topics.version += 1

    # -- invariants ----------------------------------------------------------------------------------------------------------
    @invariant()
    def no_partition_has_two_users(self) -> None:
        """Checked for members only: a removed member does not know yet that it was removed."""
        used: dict[TopicPartition, str] = {}
        for client in self.clients:
            if client.member_id not in self.group.members:
                continue
            for tp in client.using:
                other = used.setdefault(tp, client.name)
                assert other == client.name, f"{tp} is used by {other} and {client.name}"
                assert self.group.owners.get(tp) == client.member_id, f"{tp}, which {client.name} uses, is not its own"

    @invariant()
    def group_is_valid(self) -> None:
        self.group.validate()

    @invariant()
    def replay_of_the_log_gives_the_same_group(self) -> None:
        if self.pending_writes:
            return
        successor = ConsumerGroupMachine("g", topics=self.topics, group_config=GROUP_CONFIG)
        for change in self.log:
            successor.apply(change)
        for what in (
            "epoch",
            "target_epoch",
            "members",
            "current_assignments",
            "targets",
            "static",
            "owners",
            "patterns",
        ):
            assert getattr(successor, what) == getattr(self.group, what), what

    @initialize()
    def first_member_joins(self) -> None:
        self.beat(self.clients[0])

    def teardown(self) -> None:
        """No client fails from now on: the group becomes stable."""
        self.rejecting = False
        for round_ in range(14):
            while self.pending_writes:
                self.replicate(self.pending_writes.pop(0))
            for client in self.clients:
                client.topics = frozenset({"a", "b"})
                client.using = client.given
                self.beat(client, whole=round_ < 2)
            self.time_passes(1_000)
        while self.pending_writes:
            self.replicate(self.pending_writes.pop(0))
        assert not self.requested
        assert self.group.state is GroupState.STABLE, self.group.describe()
        everything = {TopicPartition(t, i) for t, count in self.topics.there.values() for i in range(count)}
        for client in self.clients:
            client.using = client.given
        self.no_partition_has_two_users()
        assert {tp for client in self.clients for tp in client.using} == everything
        sizes = [len(client.using) for client in self.clients]
        assert max(sizes) - min(sizes) <= 1, sizes


TestMembers = Members.TestCase
TestMembers.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


# -- step by step --------------------------------------------------------------------------------------------------------------
class GroupHarness:
    """One request, one response. Records are persisted at once."""

    def __init__(self, group_config: GroupConfig = GROUP_CONFIG, topics: FakeTopics | None = None) -> None:
        self.topics = topics or FakeTopics()
        self.group = ConsumerGroupMachine("g", topics=self.topics, group_config=group_config)
        self.now = Now(1_000, 1_000)
        self.changes: list[ConsumerGroupChange] = []

    def deliver(self, event: Any) -> Any:
        responses = []
        effects: list[Any] = self.group.handle(event, self.now)
        while effects:
            effect = effects.pop(0)
            if isinstance(effect, g.Reply):
                responses.append(effect.response)
            else:
                self.changes += getattr(effect, "changes", ())
                effects += self.group.handle(g.Persisted(effect.number), self.now)
        self.group.validate()
        return responses[0] if responses else None

    def join(self, member: str, *topics: str, **more: Any) -> ConsumerHeartbeatReply:
        more = {"rebalance_ms": REBALANCE_MS, "topics": frozenset(topics), "owned": frozenset(), **more}
        response: ConsumerHeartbeatReply = self.deliver(ConsumerHeartbeat("t", member, 0, "client", "/host", **more))
        return response

    def beat(self, member: str, epoch: int, **more: Any) -> ConsumerHeartbeatReply:
        response: ConsumerHeartbeatReply = self.deliver(
            ConsumerHeartbeat("t", member, epoch, "client", "/host", **more)
        )
        return response

    def advance(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)
        due = self.group.deadline_ms()
        if due is not None and due <= self.now.mono_ms:
            self.deliver(g.Tick())


def test_the_first_member_gets_all_partitions_in_one_response() -> None:
    harness = GroupHarness()
    response = harness.join("m1", "a")
    assert (response.error, response.member_id, response.epoch, response.heartbeat_ms) == (0, "m1", 1, 1_000)
    assert response.assigned == share(A, 0, 1, 2, 3)
    assert harness.beat("m1", 1, owned=share(A, 0, 1, 2, 3)).assigned is None
    assert harness.group.state is GroupState.STABLE


def test_a_reassigned_partition_is_revoked_first() -> None:
    harness = GroupHarness()
    harness.join("m1", "a")
    second = harness.join("m2", "a")
    assert (second.epoch, second.assigned) == (2, frozenset()), "the first has all of it still"
    assert harness.group.current_assignments["m2"].state is MemberState.UNRELEASED
    reported = harness.beat("m1", 1)
    assert reported.epoch == 1 and reported.assigned is not None and len(reported.assigned) == 2, (
        "it stays in its epoch until then"
    )
    assert harness.group.current_assignments["m1"].state is MemberState.UNREVOKED
    everything = share(A, 0, 1, 2, 3)
    assert harness.beat("m1", 1, owned=everything).assigned is None, "it has not given up yet"
    assert harness.beat("m2", 2).assigned is None
    assert harness.beat("m1", 1, owned=reported.assigned).epoch == 2
    assert harness.beat("m2", 2).assigned == everything - reported.assigned
    assert harness.group.state is GroupState.STABLE


def test_another_member_epoch_is_fenced() -> None:
    harness = GroupHarness()
    harness.join("m1", "a")
    assert harness.beat("m1", 2).error == ErrorCode.FENCED_MEMBER_EPOCH
    assert harness.beat("m2", 1).error == ErrorCode.UNKNOWN_MEMBER_ID
    harness.join("m2", "a")
    kept = harness.beat("m1", 1).assigned
    assert kept is not None
    assert harness.beat("m1", 1, owned=kept).epoch == 2
    # That response was lost.
    assert harness.beat("m1", 1).error == ErrorCode.FENCED_MEMBER_EPOCH, "it must say what it owns"
    assert harness.beat("m1", 1, owned=share(A, 0, 1, 2, 3)).error == ErrorCode.FENCED_MEMBER_EPOCH, "more than its own"
    again = harness.beat("m1", 1, owned=kept)
    assert (again.error, again.epoch, again.assigned) == (0, 2, kept)


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    harness = GroupHarness()
    harness.join("m1", "a")
    harness.join("m2", "a")
    harness.beat("m1", 1)
    for _ in range(7):
        harness.advance(1_000)
        harness.beat("m2", 2)
        harness.beat("m1", 1)
    assert "m1" in harness.group.members
    harness.advance(1_000)
    assert "m1" not in harness.group.members, "it beats, but holds what it was to give up"
    response = harness.beat("m2", 2)
    assert response.assigned == share(A, 0, 1, 2, 3)


def test_a_member_without_heartbeats_is_removed() -> None:
    harness = GroupHarness()
    harness.join("m1", "a")
    harness.advance(SESSION_MS - 1)
    harness.beat("m1", 1)
    harness.advance(SESSION_MS - 1)
    assert "m1" in harness.group.members
    harness.advance(1)
    assert harness.group.state is GroupState.EMPTY
    assert harness.group.empty_since_wall_ms == harness.now.wall_ms
    assert harness.beat("m1", 1).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_returning_static_member_keeps_its_assignment() -> None:
    harness = GroupHarness()
    first = harness.join("s1", "a", instance_id="i")
    harness.join("m2", "a")
    kept = harness.beat("s1", first.epoch, instance_id="i").assigned
    assert kept is not None
    harness.beat("s1", 1, instance_id="i", owned=kept)
    other = harness.beat("m2", 2).assigned
    assert harness.join("s2", "a", instance_id="i").error == ErrorCode.UNRELEASED_INSTANCE_ID
    away = harness.beat("s1", c.LEAVE_GROUP_STATIC_MEMBER_EPOCH, instance_id="i")
    assert (away.error, away.epoch) == (0, -2)
    assert harness.beat("m2", 2).assigned is None and harness.group.epoch == 2, "nothing moves meanwhile"
    back = harness.join("s2", "a", instance_id="i")
    assert (back.error, back.epoch, back.assigned) == (0, 2, kept)
    assert harness.beat("m2", 2, owned=other).assigned is None
    assert harness.beat("s1", 2, instance_id="i").error == ErrorCode.FENCED_INSTANCE_ID
    assert harness.beat("s1", 2).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.group.epoch == 2
    # It leaves permanently.
    harness.beat("s2", c.LEAVE_GROUP_STATIC_MEMBER_EPOCH, instance_id="i")
    harness.advance(SESSION_MS - 1)
    harness.beat("m2", 2)
    harness.advance(1)
    assert harness.beat("m2", 2).assigned == share(A, 0, 1, 2, 3)


def test_a_leaving_member_releases_its_partitions_immediately() -> None:
    harness = GroupHarness()
    harness.join("m1", "a")
    harness.join("m2", "a")
    assert harness.beat("m1", c.LEAVE_GROUP_MEMBER_EPOCH).epoch == -1
    assert harness.beat("m2", 2).assigned == share(A, 0, 1, 2, 3)


def test_created_grown_and_deleted_topics_change_the_assignment() -> None:
    harness = GroupHarness()
    assert harness.join("m1", "a", "later").assigned == share(A, 0, 1, 2, 3)
    later = UUID(int=9)
    harness.topics.there["later"] = (later, 1)
    harness.topics.version += 1
    assert harness.beat("m1", 1).assigned == share(A, 0, 1, 2, 3) | share(later, 0)
    harness.topics.version += 1
    assert harness.beat("m1", 2).assigned is None and harness.group.epoch == 2, "another topic has changed"
    harness.topics.there["a"] = (A, 5)
    harness.topics.version += 1
    assert harness.beat("m1", 2).assigned == share(A, 0, 1, 2, 3, 4) | share(later, 0)
    again = UUID(int=10)
    harness.topics.there["later"] = (again, 1)
    harness.topics.version += 1
    everything = share(A, 0, 1, 2, 3, 4)
    assert harness.beat("m1", 3, owned=everything | share(later, 0)).assigned == everything
    assert harness.beat("m1", 3, owned=everything).assigned == everything | share(again, 0)


def test_a_pattern_is_resolved_by_the_broker_and_again_for_new_topics() -> None:
    harness = GroupHarness()
    assert harness.join("m1", pattern="a|l.*").assigned == share(A, 0, 1, 2, 3)
    later = UUID(int=9)
    harness.topics.there["later"] = (later, 1)
    harness.topics.version += 1
    assert harness.beat("m1", 1).assigned == share(A, 0, 1, 2, 3) | share(later, 0)
    assert harness.group.patterns["a|l.*"].topics == {"a", "later"}
    harness.beat("m1", 2, pattern="l.*", rebalance_ms=REBALANCE_MS, owned=frozenset())
    assert list(harness.group.patterns) == ["l.*"]
    rejected = harness.beat("m1", 3, pattern="(a")
    assert rejected.error == ErrorCode.INVALID_REGULAR_EXPRESSION and "missing )" in (rejected.message or "")
    harness.beat("m1", 3, pattern="", topics=frozenset({"b"}))
    assert harness.group.patterns == {} and harness.group.members["m1"].topics == {"b"}


def test_limits_and_assignors() -> None:
    harness = GroupHarness(GroupConfig(SESSION_MS, 1_000, 2))
    rejected = harness.join("m1", "a", assignor="mine")
    assert rejected.error == ErrorCode.UNSUPPORTED_ASSIGNOR and harness.changes == []
    harness.join("m1", "a", assignor="range")
    assert harness.group.assignor() == "range"
    harness.join("m2", "a", assignor="range")
    assert harness.group.targets == {"m1": share(A, 0, 1), "m2": share(A, 2, 3)}
    assert harness.join("m3", "a").error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert harness.join("m2", "a").error == 0


def test_only_a_member_of_the_current_epoch_can_commit() -> None:
    harness = GroupHarness()
    offset = g.Offset(5, -1, "", 0)
    places = {("a", 0): offset}

    def commit(member: str, epoch: int) -> int:
        return int(harness.deliver(g.Commit("t", member, None, epoch, places)).error)

    assert commit("", -1) == 0, "while nobody is a member anybody may"
    harness.join("m1", "a")
    assert commit("", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("m2", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("m1", 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit("m1", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit("m1", 1) == 0
    assert harness.group.commits.offsets == places


def test_a_member_of_an_older_epoch_commits_partitions_that_it_has_owned_since() -> None:
    """KIP-1251: a heartbeat and a commit of the same member are in flight at the same time."""
    harness = GroupHarness()
    harness.join("m1", "a")
    harness.join("m2", "a")
    kept = harness.beat("m1", 1).assigned
    gone = share(A, 0, 1, 2, 3) - (kept or frozenset())
    assert harness.beat("m1", 1, owned=kept).epoch == 2
    harness.beat("m2", 2)

    def commit(member: str, epoch: int, transactional: bool = False) -> tuple[int, set[int]]:
        offsets = {("a", p): g.Offset(5, -1, "", 0) for p in range(4)}
        event = (
            g.TransactionalCommit("t", member, None, epoch, offsets, 7, 0)
            if transactional
            else g.Commit("t", member, None, epoch, offsets)
        )
        response = harness.deliver(event)
        assert set(response.partition_errors.values()) <= {
            ErrorCode.ILLEGAL_GENERATION if transactional else ErrorCode.STALE_MEMBER_EPOCH
        }
        return response.error, {p for _, p in response.partition_errors}

    assert commit("m1", 1) == (0, {tp.partition for tp in gone}), "of what it has given up another says it now"
    assert set(harness.group.commits.offsets) == {("a", tp.partition) for tp in kept or ()}
    assert commit("m1", 1, transactional=True) == (0, {tp.partition for tp in gone})
    assert commit("m2", 1) == (ErrorCode.STALE_MEMBER_EPOCH, set()), "it was given all of it later"
    assert commit("m2", 1, transactional=True) == (ErrorCode.ILLEGAL_GENERATION, set()), (
        "as clients know it in transactions"
    )
    assert commit("m1", 3) == (ErrorCode.STALE_MEMBER_EPOCH, set())
    assert commit("m1", 2) == (0, set())


def test_a_commit_without_an_epoch_needs_a_group_without_members() -> None:
    offsets = {("a", 0): g.Offset(5, -1, "", 0)}

    def errors(harness: GroupHarness) -> list[int]:
        events = (
            g.Commit("plain", "m-1", None, -1, offsets),
            g.TransactionalCommit("transactional", "m-1", None, -1, offsets, 7, 0),
        )
        return [harness.deliver(event).error for event in events]

    harness = GroupHarness()
    harness.join("m1", "a")
    assert errors(harness) == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID]
    harness.beat("m1", -1)
    assert errors(harness) == [0, 0]


def test_joins_are_batched_into_one_assignment() -> None:
    """KIP-1263. The first member receives all partitions at once. Later members wait for the end of the pause; the
    heartbeat interval of their response ends then."""
    harness = GroupHarness(replace(GROUP_CONFIG, assignment_ms=600))
    assert harness.join("m1", "a").assigned == share(A, 0, 1, 2, 3)
    harness.advance(200)
    second = harness.join("m2", "a")
    assert (second.error, second.epoch, second.assigned, second.heartbeat_ms) == (0, 1, frozenset(), 400)
    harness.advance(100)
    third = harness.join("m3", "a")
    assert (third.epoch, third.heartbeat_ms) == (1, 300)
    assert (harness.group.epoch, harness.group.target_epoch) == (3, 1) and harness.group.state is GroupState.ASSIGNING
    assert harness.beat("m2", 1).epoch == 1 and harness.group.epoch == 3, "to wait is no news"
    harness.advance(300)
    assert harness.beat("m3", 1).epoch == 3
    assert harness.group.target_epoch == 3, "one assignment for both"
    assert sorted(map(len, harness.group.targets.values())) == [1, 1, 2]
    kept = harness.beat("m1", 1).assigned
    assert harness.beat("m1", 1, owned=kept).epoch == 3
    harness.advance(600)
    assert harness.join("m4", "a").epoch == 4, "none was made for as long: at once"


def test_a_heartbeat_without_changes_waits_for_pending_writes() -> None:
    harness = GroupHarness()
    (write,) = harness.group.handle(
        ConsumerHeartbeat("first", "m1", 0, "c", "/h", rebalance_ms=1, topics=frozenset({"a"})), harness.now
    )
    assert isinstance(write, PersistChanges)
    assert (
        harness.group.handle(
            ConsumerHeartbeat("again", "m1", 0, "c", "/h", rebalance_ms=1, topics=frozenset({"a"})), harness.now
        )
        == []
    )
    reported: Any = harness.group.handle(g.Persisted(write.number), harness.now)
    assert [effect.token for effect in reported] == ["first", "again"]


def test_a_change_that_the_log_rejects_has_no_effect() -> None:
    harness = GroupHarness()
    harness.join("m1", "a")
    before = harness.group.describe()
    (write,) = harness.group.handle(
        ConsumerHeartbeat("t", "m2", 0, "c", "/h", rebalance_ms=1, topics=frozenset({"a"})), harness.now
    )
    assert isinstance(write, PersistChanges)
    (reply,) = harness.group.handle(g.PersistFailed(write.number, ErrorCode.COORDINATOR_NOT_AVAILABLE), harness.now)
    assert isinstance(reply, g.Reply) and reply.response.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.group.describe() == before and harness.group.current_assignments.keys() == {"m1"}
    assert harness.join("m2", "a").epoch == 2


def test_a_rejected_removal_of_a_member_is_repeated() -> None:
    harness = GroupHarness()
    harness.join("m1", "a")
    harness.now = Now(harness.now.mono_ms + SESSION_MS, harness.now.wall_ms)
    (write,) = harness.group.handle(g.Tick(), harness.now)
    assert isinstance(write, PersistChanges)
    assert harness.group.handle(g.PersistFailed(write.number, ErrorCode.COORDINATOR_NOT_AVAILABLE), harness.now) == []
    assert "m1" in harness.group.members
    due = harness.group.deadline_ms()
    assert due is not None and due > harness.now.mono_ms, "not at once again"
    harness.advance(due - harness.now.mono_ms)
    assert harness.group.members == {}


@pytest.mark.parametrize("fact", list(GroupRecordKey))
def test_tombstones_remove_all_state(fact: GroupRecordKey) -> None:
    harness = GroupHarness()
    harness.join("m1", "a", instance_id="i")
    harness.join("m2", pattern="b")
    assert fact in {change.fact for change in harness.changes}
    for change in harness.group.tombstones():
        harness.group.apply(change)
    empty = ConsumerGroupMachine("g", topics=harness.topics, group_config=GROUP_CONFIG)
    for what in ("epoch", "target_epoch", "members", "current_assignments", "targets", "static", "owners", "patterns"):
        assert getattr(harness.group, what) == getattr(empty, what), what
