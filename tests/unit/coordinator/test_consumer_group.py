"""The new protocol's machine against members that do anything in any order, over lost writes and dead coordinators: nobody uses what another
uses, everybody is answered once, and when all behave it comes to rest with everything given out."""

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
from brokerd.coordinator import consumer_events as c
from brokerd.coordinator import events as g
from brokerd.coordinator.consumer_events import Beat, Beaten, Change, Fact, GroupState, PersistChanges, Terms
from brokerd.coordinator.consumer_group import ConsumerGroup
from brokerd.coordinator.reconciliation import MemberState
from tests.unit.coordinator.topics import TERMS, A, B, FakeTopics, share

SESSION_MS, REBALANCE_MS = TERMS.session_ms, 8_000


# -- any order ---------------------------------------------------------------------------------------------------------------
@dataclass
class Client:
    """`using` is what it reads; `given` what it was told last, which it takes up when it pleases. It says that it owns both: a client
    that leaves out what it is about to take up may find it given away (with Kafka, too)."""

    name: str
    instance: str | None = None
    life: int = 0
    epoch: int = 0
    using: frozenset[TopicPartition] = frozenset()
    given: frozenset[TopicPartition] = frozenset()
    waits: Any = None
    topics: frozenset[str] = frozenset({"a"})

    @property
    def member_id(self) -> str:
        return f"{self.name}-{self.life}" if self.instance else self.name


class Members(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.topics = FakeTopics()
        self.group = ConsumerGroup("g", topics=self.topics, terms=TERMS)
        self.now = Now(1_000, 1_000)
        self.clients = [Client(f"m{i}", "static" if i == 3 else None) for i in range(4)]
        self.log: list[Change] = []
        self.on_the_way: list[PersistChanges] = []
        self.refusing = False
        self.asked: dict[Any, Client] = {}
        self.serial = 0

    # -- plumbing ------------------------------------------------------------------------------------------------------
    def tell(self, event: Any) -> None:
        self.run_effects(self.group.handle(event, self.now))

    def run_effects(self, effects: Iterable[Any]) -> None:
        for effect in effects:
            if isinstance(effect, g.Reply):
                self.answered(effect.token, effect.answer)
            elif self.refusing:
                self.tell(g.PersistFailed(effect.number, g.COORDINATOR_NOT_AVAILABLE))
            else:
                self.on_the_way.append(effect)

    def answered(self, token: Any, answer: Beaten) -> None:
        assert token in self.asked, f"{token} was answered twice, or never asked"
        client = self.asked.pop(token)
        if client.waits != token:
            return  # it has given up waiting
        client.waits = None
        if answer.error in (c.FENCED_MEMBER_EPOCH, g.UNKNOWN_MEMBER_ID, g.FENCED_INSTANCE_ID):
            client.epoch, client.using, client.given = 0, frozenset(), frozenset()
        elif not answer.error:
            client.epoch = answer.epoch
            if answer.assigned is not None:
                client.given = answer.assigned
                assert client.epoch > 0

    def beat(self, client: Client, epoch: int | None = None, whole: bool = False) -> None:
        self.serial += 1
        token = client.waits = (client.name, self.serial)
        self.asked[token] = client
        epoch = client.epoch if epoch is None else epoch
        whole = whole or epoch == 0
        if epoch == 0:
            client.using = client.given = frozenset()
        self.tell(
            Beat(
                token, client.member_id, epoch, "client", "/host", client.instance,
                rebalance_ms=REBALANCE_MS if whole else -1,
                topics=client.topics if whole else None,
                owned=client.using | client.given,
            )
        )  # fmt: skip

    # -- what members do -------------------------------------------------------------------------------------------------
    @rule(i=st.integers(0, 3), whole=st.booleans())
    def beats(self, i: int, whole: bool) -> None:
        """Also while an answer is still on its way: that one is not waited for any more."""
        client = self.clients[i]
        self.beat(client, whole=whole or client.waits is not None)

    @rule(i=st.integers(0, 3))
    def takes_up_what_it_was_told(self, i: int) -> None:
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
            self.beat(client, c.LEAVES)
            client.epoch, client.waits = 0, None

    @rule(again=st.booleans())
    def the_static_one_goes_away_and_comes_back(self, again: bool) -> None:
        client = self.clients[3]
        if client.epoch > 0:
            client.using = client.given = frozenset()
            self.beat(client, c.LEAVES_FOR_A_WHILE)
            client.epoch, client.waits = 0, None
            client.life += 1
        if again:
            self.beat(client)

    @rule(i=st.integers(0, 2))
    def dies_without_a_word(self, i: int) -> None:
        self.clients[i] = Client(f"{self.clients[i].name}'")

    # -- what befalls the coordinator --------------------------------------------------------------------------------------
    @rule()
    def a_write_is_replicated(self) -> None:
        if self.on_the_way:
            self.replicate(self.on_the_way.pop(0))

    def replicate(self, write: PersistChanges) -> None:
        self.log += write.changes
        self.tell(g.Persisted(write.number))

    @rule(refusing=st.booleans())
    def the_log_refuses(self, refusing: bool) -> None:
        self.refusing = refusing

    @rule(kept=st.integers(0, 3))
    def another_coordinator(self, kept: int) -> None:
        """It finds what was replicated, and perhaps some of what was on its way."""
        for write in self.on_the_way[:kept]:
            self.log += write.changes
        self.on_the_way = []
        self.run_effects(self.group.unload())
        assert not self.asked, "somebody waits for a coordinator that is no more"
        self.group = ConsumerGroup("g", topics=self.topics, terms=TERMS)
        for change in self.log:
            self.group.apply(change)
        self.group.listen_anew(self.now)

    @rule(ms=st.sampled_from([500, 2_000, 6_000]))
    def time_passes(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)
        due = self.group.deadline_ms()
        if due is not None and due <= self.now.mono_ms:
            self.tell(g.Tick())

    @rule(count=st.integers(3, 6))
    def a_topic_grows(self, count: int) -> None:
        if count > self.topics.there["b"][1]:
            self.topics.there["b"] = (B, count)
            self.topics.version += 1

    # -- what must hold ------------------------------------------------------------------------------------------------------
    @invariant()
    def nobody_uses_what_another_uses(self) -> None:
        """Of those that are members: who was put out does not know it yet."""
        used: dict[TopicPartition, str] = {}
        for client in self.clients:
            if client.member_id not in self.group.members:
                continue
            for tp in client.using:
                other = used.setdefault(tp, client.name)
                assert other == client.name, f"{tp} is used by {other} and {client.name}"
                assert self.group.holders.get(tp) == client.member_id, f"{tp}, which {client.name} uses, is not its own"

    @invariant()
    def the_group_is_sound(self) -> None:
        self.group.validate()

    @invariant()
    def whoever_reads_the_log_sees_the_same_group(self) -> None:
        if self.on_the_way:
            return
        successor = ConsumerGroup("g", topics=self.topics, terms=TERMS)
        for change in self.log:
            successor.apply(change)
        for what in ("epoch", "target_epoch", "members", "standings", "targets", "static", "holders", "patterns"):
            assert getattr(successor, what) == getattr(self.group, what), what

    @initialize()
    def one_has_joined(self) -> None:
        self.beat(self.clients[0])

    def teardown(self) -> None:
        """All behave from now on: the group comes to rest."""
        self.refusing = False
        for round_ in range(14):
            while self.on_the_way:
                self.replicate(self.on_the_way.pop(0))
            for client in self.clients:
                client.topics = frozenset({"a", "b"})
                client.using = client.given
                self.beat(client, whole=round_ < 2)
            self.time_passes(1_000)
        while self.on_the_way:
            self.replicate(self.on_the_way.pop(0))
        assert not self.asked
        assert self.group.state is GroupState.STABLE, self.group.describe()
        everything = {TopicPartition(t, i) for t, count in self.topics.there.values() for i in range(count)}
        for client in self.clients:
            client.using = client.given
        self.nobody_uses_what_another_uses()
        assert {tp for client in self.clients for tp in client.using} == everything
        sizes = [len(client.using) for client in self.clients]
        assert max(sizes) - min(sizes) <= 1, sizes


TestMembers = Members.TestCase
TestMembers.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


# -- told step by step ---------------------------------------------------------------------------------------------------------
class Talk:
    """One question, one answer; what is persisted is persisted at once."""

    def __init__(self, terms: Terms = TERMS, topics: FakeTopics | None = None) -> None:
        self.topics = topics or FakeTopics()
        self.group = ConsumerGroup("g", topics=self.topics, terms=terms)
        self.now = Now(1_000, 1_000)
        self.changes: list[Change] = []

    def tell(self, event: Any) -> Any:
        answers = []
        effects: list[Any] = self.group.handle(event, self.now)
        while effects:
            effect = effects.pop(0)
            if isinstance(effect, g.Reply):
                answers.append(effect.answer)
            else:
                self.changes += getattr(effect, "changes", ())
                effects += self.group.handle(g.Persisted(effect.number), self.now)
        self.group.validate()
        return answers[0] if answers else None

    def join(self, member: str, *topics: str, **more: Any) -> Beaten:
        more = {"rebalance_ms": REBALANCE_MS, "topics": frozenset(topics), "owned": frozenset(), **more}
        answer: Beaten = self.tell(Beat("t", member, 0, "client", "/host", **more))
        return answer

    def beat(self, member: str, epoch: int, **more: Any) -> Beaten:
        answer: Beaten = self.tell(Beat("t", member, epoch, "client", "/host", **more))
        return answer

    def passes(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)
        due = self.group.deadline_ms()
        if due is not None and due <= self.now.mono_ms:
            self.tell(g.Tick())


def test_the_first_is_given_everything_and_told_once() -> None:
    talk = Talk()
    answer = talk.join("m1", "a")
    assert (answer.error, answer.member_id, answer.epoch, answer.heartbeat_ms) == (0, "m1", 1, 1_000)
    assert answer.assigned == share(A, 0, 1, 2, 3)
    assert talk.beat("m1", 1, owned=share(A, 0, 1, 2, 3)).assigned is None
    assert talk.group.state is GroupState.STABLE


def test_what_goes_to_another_is_given_up_first() -> None:
    talk = Talk()
    talk.join("m1", "a")
    second = talk.join("m2", "a")
    assert (second.epoch, second.assigned) == (2, frozenset()), "the first has all of it still"
    assert talk.group.standings["m2"].state is MemberState.UNRELEASED
    told = talk.beat("m1", 1)
    assert told.epoch == 1 and told.assigned is not None and len(told.assigned) == 2, "it stays in its epoch until then"
    assert talk.group.standings["m1"].state is MemberState.UNREVOKED
    everything = share(A, 0, 1, 2, 3)
    assert talk.beat("m1", 1, owned=everything).assigned is None, "it has not given up yet"
    assert talk.beat("m2", 2).assigned is None
    assert talk.beat("m1", 1, owned=told.assigned).epoch == 2
    assert talk.beat("m2", 2).assigned == everything - told.assigned
    assert talk.group.state is GroupState.STABLE


def test_an_epoch_that_is_not_the_members_is_fenced() -> None:
    talk = Talk()
    talk.join("m1", "a")
    assert talk.beat("m1", 2).error == c.FENCED_MEMBER_EPOCH
    assert talk.beat("m2", 1).error == g.UNKNOWN_MEMBER_ID
    talk.join("m2", "a")
    kept = talk.beat("m1", 1).assigned
    assert kept is not None
    assert talk.beat("m1", 1, owned=kept).epoch == 2
    # That answer was lost.
    assert talk.beat("m1", 1).error == c.FENCED_MEMBER_EPOCH, "it must say what it owns"
    assert talk.beat("m1", 1, owned=share(A, 0, 1, 2, 3)).error == c.FENCED_MEMBER_EPOCH, "more than its own"
    again = talk.beat("m1", 1, owned=kept)
    assert (again.error, again.epoch, again.assigned) == (0, 2, kept)


def test_who_does_not_give_up_in_time_is_out() -> None:
    talk = Talk()
    talk.join("m1", "a")
    talk.join("m2", "a")
    talk.beat("m1", 1)
    for _ in range(7):
        talk.passes(1_000)
        talk.beat("m2", 2)
        talk.beat("m1", 1)
    assert "m1" in talk.group.members
    talk.passes(1_000)
    assert "m1" not in talk.group.members, "it beats, but holds what it was to give up"
    answer = talk.beat("m2", 2)
    assert answer.assigned == share(A, 0, 1, 2, 3)


def test_who_is_silent_is_out_and_who_beats_stays() -> None:
    talk = Talk()
    talk.join("m1", "a")
    talk.passes(SESSION_MS - 1)
    talk.beat("m1", 1)
    talk.passes(SESSION_MS - 1)
    assert "m1" in talk.group.members
    talk.passes(1)
    assert talk.group.state is GroupState.EMPTY
    assert talk.group.empty_since_wall_ms == talk.now.wall_ms
    assert talk.beat("m1", 1).error == g.UNKNOWN_MEMBER_ID


def test_a_static_member_comes_back_to_what_it_had() -> None:
    talk = Talk()
    first = talk.join("s1", "a", instance_id="i")
    talk.join("m2", "a")
    kept = talk.beat("s1", first.epoch, instance_id="i").assigned
    assert kept is not None
    talk.beat("s1", 1, instance_id="i", owned=kept)
    other = talk.beat("m2", 2).assigned
    assert talk.join("s2", "a", instance_id="i").error == c.UNRELEASED_INSTANCE_ID
    away = talk.beat("s1", c.LEAVES_FOR_A_WHILE, instance_id="i")
    assert (away.error, away.epoch) == (0, -2)
    assert talk.beat("m2", 2).assigned is None and talk.group.epoch == 2, "nothing moves meanwhile"
    back = talk.join("s2", "a", instance_id="i")
    assert (back.error, back.epoch, back.assigned) == (0, 2, kept)
    assert talk.beat("m2", 2, owned=other).assigned is None
    assert talk.beat("s1", 2, instance_id="i").error == g.FENCED_INSTANCE_ID
    assert talk.beat("s1", 2).error == g.UNKNOWN_MEMBER_ID
    assert talk.group.epoch == 2
    # It goes away for good.
    talk.beat("s2", c.LEAVES_FOR_A_WHILE, instance_id="i")
    talk.passes(SESSION_MS - 1)
    talk.beat("m2", 2)
    talk.passes(1)
    assert talk.beat("m2", 2).assigned == share(A, 0, 1, 2, 3)


def test_leaving_frees_at_once() -> None:
    talk = Talk()
    talk.join("m1", "a")
    talk.join("m2", "a")
    assert talk.beat("m1", c.LEAVES).epoch == -1
    assert talk.beat("m2", 2).assigned == share(A, 0, 1, 2, 3)


def test_topics_that_come_grow_and_go() -> None:
    talk = Talk()
    assert talk.join("m1", "a", "later").assigned == share(A, 0, 1, 2, 3)
    later = UUID(int=9)
    talk.topics.there["later"] = (later, 1)
    talk.topics.version += 1
    assert talk.beat("m1", 1).assigned == share(A, 0, 1, 2, 3) | share(later, 0)
    talk.topics.version += 1
    assert talk.beat("m1", 2).assigned is None and talk.group.epoch == 2, "another topic has changed"
    talk.topics.there["a"] = (A, 5)
    talk.topics.version += 1
    assert talk.beat("m1", 2).assigned == share(A, 0, 1, 2, 3, 4) | share(later, 0)
    again = UUID(int=10)
    talk.topics.there["later"] = (again, 1)
    talk.topics.version += 1
    everything = share(A, 0, 1, 2, 3, 4)
    assert talk.beat("m1", 3, owned=everything | share(later, 0)).assigned == everything
    assert talk.beat("m1", 3, owned=everything).assigned == everything | share(again, 0)


def test_a_pattern_is_resolved_here_and_again_when_topics_come() -> None:
    talk = Talk()
    assert talk.join("m1", pattern="a|l.*").assigned == share(A, 0, 1, 2, 3)
    later = UUID(int=9)
    talk.topics.there["later"] = (later, 1)
    talk.topics.version += 1
    assert talk.beat("m1", 1).assigned == share(A, 0, 1, 2, 3) | share(later, 0)
    assert talk.group.patterns["a|l.*"].topics == {"a", "later"}
    talk.beat("m1", 2, pattern="l.*", rebalance_ms=REBALANCE_MS, owned=frozenset())
    assert list(talk.group.patterns) == ["l.*"]
    refused = talk.beat("m1", 3, pattern="(a")
    assert refused.error == c.INVALID_REGULAR_EXPRESSION and "without its )" in (refused.message or "")
    talk.beat("m1", 3, pattern="", topics=frozenset({"b"}))
    assert talk.group.patterns == {} and talk.group.members["m1"].topics == {"b"}


def test_limits_and_assignors() -> None:
    talk = Talk(Terms(SESSION_MS, 1_000, 2))
    refused = talk.join("m1", "a", assignor="mine")
    assert refused.error == c.UNSUPPORTED_ASSIGNOR and talk.changes == []
    talk.join("m1", "a", assignor="range")
    assert talk.group.assignor() == "range"
    talk.join("m2", "a", assignor="range")
    assert talk.group.targets == {"m1": share(A, 0, 1), "m2": share(A, 2, 3)}
    assert talk.join("m3", "a").error == g.GROUP_MAX_SIZE_REACHED
    assert talk.join("m2", "a").error == 0


def test_only_a_member_of_the_epoch_commits() -> None:
    talk = Talk()
    offset = g.Offset(5, -1, "", 0)
    places = {("a", 0): offset}

    def commit(member: str, epoch: int) -> int:
        return int(talk.tell(g.Commit("t", member, None, epoch, places)).error)

    assert commit("", -1) == 0, "while nobody is a member anybody may"
    talk.join("m1", "a")
    assert commit("", -1) == g.UNKNOWN_MEMBER_ID
    assert commit("m2", 1) == g.UNKNOWN_MEMBER_ID
    assert commit("m1", 0) == c.STALE_MEMBER_EPOCH
    assert commit("m1", 2) == c.STALE_MEMBER_EPOCH
    assert commit("m1", 1) == 0
    assert talk.group.commits.offsets == places


def test_a_member_of_an_older_epoch_commits_what_it_has_had_since() -> None:
    """KIP-1251: its heartbeat and its commit cross each other on their way."""
    talk = Talk()
    talk.join("m1", "a")
    talk.join("m2", "a")
    kept = talk.beat("m1", 1).assigned
    gone = share(A, 0, 1, 2, 3) - (kept or frozenset())
    assert talk.beat("m1", 1, owned=kept).epoch == 2
    talk.beat("m2", 2)

    def commit(member: str, epoch: int, transactional: bool = False) -> tuple[int, set[int]]:
        offsets = {("a", p): g.Offset(5, -1, "", 0) for p in range(4)}
        event = (
            g.TransactionalCommit("t", member, None, epoch, offsets, 7, 0)
            if transactional
            else g.Commit("t", member, None, epoch, offsets)
        )
        answer = talk.tell(event)
        assert set(answer.but.values()) <= {g.ILLEGAL_GENERATION if transactional else c.STALE_MEMBER_EPOCH}
        return answer.error, {p for _, p in answer.but}

    assert commit("m1", 1) == (0, {tp.partition for tp in gone}), "of what it has given up another says it now"
    assert set(talk.group.commits.offsets) == {("a", tp.partition) for tp in kept or ()}
    assert commit("m1", 1, transactional=True) == (0, {tp.partition for tp in gone})
    assert commit("m2", 1) == (c.STALE_MEMBER_EPOCH, set()), "it was given all of it later"
    assert commit("m2", 1, transactional=True) == (g.ILLEGAL_GENERATION, set()), "as clients know it in transactions"
    assert commit("m1", 3) == (c.STALE_MEMBER_EPOCH, set())
    assert commit("m1", 2) == (0, set())


def test_joins_are_gathered_into_one_assignment() -> None:
    """KIP-1263. The first is given everything at once; who comes within the pause waits for its end, and is told to come back then."""
    talk = Talk(replace(TERMS, assignment_ms=600))
    assert talk.join("m1", "a").assigned == share(A, 0, 1, 2, 3)
    talk.passes(200)
    second = talk.join("m2", "a")
    assert (second.error, second.epoch, second.assigned, second.heartbeat_ms) == (0, 1, frozenset(), 400)
    talk.passes(100)
    third = talk.join("m3", "a")
    assert (third.epoch, third.heartbeat_ms) == (1, 300)
    assert (talk.group.epoch, talk.group.target_epoch) == (3, 1) and talk.group.state is GroupState.ASSIGNING
    assert talk.beat("m2", 1).epoch == 1 and talk.group.epoch == 3, "to wait is no news"
    talk.passes(300)
    assert talk.beat("m3", 1).epoch == 3
    assert talk.group.target_epoch == 3, "one assignment for both"
    assert sorted(map(len, talk.group.targets.values())) == [1, 1, 2]
    kept = talk.beat("m1", 1).assigned
    assert talk.beat("m1", 1, owned=kept).epoch == 3
    talk.passes(600)
    assert talk.join("m4", "a").epoch == 4, "none was made for as long: at once"


def test_an_answer_without_changes_waits_for_those_on_their_way() -> None:
    talk = Talk()
    (write,) = talk.group.handle(Beat("first", "m1", 0, "c", "/h", rebalance_ms=1, topics=frozenset({"a"})), talk.now)
    assert isinstance(write, PersistChanges)
    assert talk.group.handle(Beat("again", "m1", 0, "c", "/h", rebalance_ms=1, topics=frozenset({"a"})), talk.now) == []
    told: Any = talk.group.handle(g.Persisted(write.number), talk.now)
    assert [effect.token for effect in told] == ["first", "again"]


def test_what_the_log_refuses_has_not_been() -> None:
    talk = Talk()
    talk.join("m1", "a")
    before = talk.group.describe()
    (write,) = talk.group.handle(Beat("t", "m2", 0, "c", "/h", rebalance_ms=1, topics=frozenset({"a"})), talk.now)
    assert isinstance(write, PersistChanges)
    (reply,) = talk.group.handle(g.PersistFailed(write.number, g.COORDINATOR_NOT_AVAILABLE), talk.now)
    assert isinstance(reply, g.Reply) and reply.answer.error == g.COORDINATOR_NOT_AVAILABLE
    assert talk.group.describe() == before and talk.group.standings.keys() == {"m1"}
    assert talk.join("m2", "a").epoch == 2


def test_one_that_is_put_out_is_put_out_again_when_the_log_refuses_it() -> None:
    talk = Talk()
    talk.join("m1", "a")
    talk.now = Now(talk.now.mono_ms + SESSION_MS, talk.now.wall_ms)
    (write,) = talk.group.handle(g.Tick(), talk.now)
    assert isinstance(write, PersistChanges)
    assert talk.group.handle(g.PersistFailed(write.number, g.COORDINATOR_NOT_AVAILABLE), talk.now) == []
    assert "m1" in talk.group.members
    due = talk.group.deadline_ms()
    assert due is not None and due > talk.now.mono_ms, "not at once again"
    talk.passes(due - talk.now.mono_ms)
    assert talk.group.members == {}


@pytest.mark.parametrize("fact", list(Fact))
def test_tombstones_leave_nothing(fact: Fact) -> None:
    talk = Talk()
    talk.join("m1", "a", instance_id="i")
    talk.join("m2", pattern="b")
    assert fact in {change.fact for change in talk.changes}
    for change in talk.group.tombstones():
        talk.group.apply(change)
    empty = ConsumerGroup("g", topics=talk.topics, terms=TERMS)
    for what in ("epoch", "target_epoch", "members", "standings", "targets", "static", "holders", "patterns"):
        assert getattr(talk.group, what) == getattr(empty, what), what
