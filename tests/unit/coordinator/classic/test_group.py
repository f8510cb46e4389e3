"""The classic group's state machine against members that act in any order. Partitions never have two owners, each
request is answered once, and the group becomes stable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from brokerd.cluster.model import Now
from brokerd.coordinator.classic import events as g
from brokerd.coordinator.classic.events import State
from brokerd.coordinator.classic.group import Group
from brokerd.wire.errors import ErrorCode
from tests.unit.coordinator.classic.harness import REBALANCE_MS, SESSION_MS, GroupHarness

PARTITIONS = 6


@dataclass
class Client:
    """A member's own state. `generation` -1: it has not joined."""

    name: int
    instance: str | None = None
    member_id: str = ""
    generation: int = -1
    leads: bool = False
    members: tuple[str, ...] = ()
    joining: Any = None
    syncing: Any = None
    alive: bool = True


class Members(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.group = Group("g")
        self.now = Now(1_000, 1_000)
        self.clients = [Client(i, instance="static" if i == 4 else None) for i in range(5)]
        self.serial = 0
        self.open: dict[Any, Client] = {}
        self.persisting: list[g.PersistGroup | g.PersistOffsets] = []
        self.owners: dict[tuple[int, int], str] = {}
        self.given: dict[tuple[int, str], bytes] = {}
        self.stale: set[Any] = set()

    # -- plumbing ----------------------------------------------------------------------------------------------------------
    def deliver(self, event: g.Event) -> None:
        for effect in self.group.handle(event, self.now):
            if isinstance(effect, g.Reply):
                self.respond(effect.token, effect.response)
            else:
                self.persisting.append(effect)

    def token(self, client: Client, what: str) -> Any:
        self.serial += 1
        token = (client.name, what, self.serial)
        self.open[token] = client
        return token

    def respond(self, token: Any, response: Any) -> None:
        assert token in self.open, f"{token} was answered twice, or never asked"
        client = self.open.pop(token)
        what = token[1]
        if what == "join":
            if client.joining == token:
                client.joining = None
                self.on_join_response(client, response)
        elif what == "sync":
            if client.syncing == token:
                client.syncing = None
            if response.error == ErrorCode.NONE and response.assignment:
                self.check_assignment(token, client, response.assignment)
        elif what == "commit" and token in self.stale:
            assert response.error != ErrorCode.NONE, "a commit of another generation was accepted"

    def on_join_response(self, client: Client, response: g.Joined) -> None:
        if response.error == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = response.member_id
        elif response.error == ErrorCode.NONE:
            client.member_id, client.generation = response.member_id, response.generation
            client.leads = response.leader == response.member_id
            client.members = tuple(m[0] for m in response.members)
            assert client.leads == bool(client.members) or not client.leads
        else:
            client.member_id, client.generation, client.leads = "", -1, False

    def check_assignment(self, token: Any, client: Client, assignment: bytes) -> None:
        generation, member_id = token_generation[token], token_member[token]
        known = self.given.setdefault((generation, member_id), assignment)
        assert known == assignment, f"{member_id} was given two assignments in generation {generation}"
        for partition in assignment.strip(b"-"):
            owner = self.owners.setdefault((generation, partition), member_id)
            assert owner == member_id, (
                f"partition {partition} has two owners in generation {generation}: {owner}, {member_id}"
            )

    # -- what members do ---------------------------------------------------------------------------------------------------
    @rule(i=st.integers(0, 4), protocol=st.sampled_from([b"a", b"a", b"a", b"b"]))
    def join(self, i: int, protocol: bytes) -> None:
        c = self.clients[i]
        c.alive = True
        c.joining = self.token(c, "join")
        self.deliver(
            g.Join(
                c.joining,
                c.member_id,
                f"m{self.serial}",
                c.instance,
                "c",
                "h",
                SESSION_MS,
                REBALANCE_MS,
                "consumer",
                (("range", protocol),),
                True,
            )
        )

    @rule(i=st.integers(0, 4))
    def sync(self, i: int) -> None:
        c = self.clients[i]
        if c.generation < 0:
            return
        c.syncing = self.token(c, "sync")
        token_generation[c.syncing], token_member[c.syncing] = c.generation, c.member_id
        assignments: dict[str, bytes] = {}
        if c.leads and c.members:
            for p in range(PARTITIONS):
                who = c.members[p % len(c.members)]
                assignments[who] = assignments.get(who, b"-") + bytes([p + 65])
        self.deliver(g.Sync(c.syncing, c.member_id, c.instance, c.generation, "consumer", "range", assignments))

    @rule(i=st.integers(0, 4), old=st.booleans())
    def heartbeat(self, i: int, old: bool) -> None:
        c = self.clients[i]
        token = self.token(c, "heartbeat")
        self.deliver(g.Heartbeat(token, c.member_id, c.instance, c.generation - old))
        assert token not in self.open

    @rule(i=st.integers(0, 4))
    def leave(self, i: int) -> None:
        c = self.clients[i]
        self.deliver(g.Leave(self.token(c, "leave"), ((c.member_id, None),)))
        c.member_id, c.generation, c.leads = "", -1, False

    @rule(i=st.integers(0, 4))
    def start_again_without_memory(self, i: int) -> None:
        c = self.clients[i]
        c.member_id, c.generation, c.leads, c.joining, c.syncing = "", -1, False, None, None

    @rule(i=st.integers(0, 4), older=st.integers(0, 2))
    def commit(self, i: int, older: int) -> None:
        c = self.clients[i]
        token = self.token(c, "commit")
        generation = c.generation - older if c.generation >= 0 else -1
        outsider = generation < 0 and not self.group.members
        if c.member_id and generation != self.group.generation and not outsider:
            self.stale.add(token)
        offsets = {("t", i): g.Offset(self.serial, -1, "", self.now.wall_ms)}
        self.deliver(g.Commit(token, c.member_id, c.instance, generation, offsets))

    # -- failures and time -------------------------------------------------------------------------------------------------
    @rule(fails=st.booleans(), which=st.integers(0, 3))
    def storage_responds(self, fails: bool, which: int) -> None:
        if self.persisting:
            effect = self.persisting.pop(min(which, len(self.persisting) - 1))
            self.deliver(g.PersistFailed(effect.number, 15) if fails else g.Persisted(effect.number))

    @rule(ms=st.sampled_from([10, 500, 4_000, 11_000, 25_000]))
    def time_passes(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)
        self.deliver(g.Tick())

    @invariant()
    def group_is_valid(self) -> None:
        self.group.validate()
        assert len({m.instance_id for m in self.group.members.values() if m.instance_id}) == len(self.group.static)

    def teardown(self) -> None:
        """Writes succeed again and members send nothing more. All pending requests are answered, and the group becomes empty."""
        for _ in range(12):
            while self.persisting:
                self.deliver(g.Persisted(self.persisting.pop(0).number))
            self.now = Now(self.now.mono_ms + 25_000, self.now.wall_ms + 25_000)
            self.deliver(g.Tick())
        assert self.group.state is State.EMPTY, self.group.describe()
        waiting = [t for t in self.open if t[1] in ("join", "sync", "commit")]
        assert not waiting, f"never answered: {waiting}"


token_generation: dict[Any, int] = {}
token_member: dict[Any, str] = {}
Members.TestCase.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
TestMembers = Members.TestCase


# -- by hand -----------------------------------------------------------------------------------------------------------------
def test_a_new_member_gets_its_member_id_first() -> None:
    harness = GroupHarness()
    first = harness.responses[harness.join(require_known_member_id=True)]
    assert (first.error, bool(first.member_id)) == (ErrorCode.MEMBER_ID_REQUIRED, True)
    assert harness.responses[harness.join(first.member_id, require_known_member_id=True)].error == ErrorCode.NONE
    assert (
        harness.responses[harness.join("never-drawn", require_known_member_id=True)].error
        == ErrorCode.UNKNOWN_MEMBER_ID
    )


def test_an_assignment_is_sent_only_after_it_is_stored() -> None:
    harness = GroupHarness()
    joined = harness.responses[harness.join()]
    token = harness.sync(joined.member_id, joined.generation, {joined.member_id: b"all"})
    assert token not in harness.responses
    harness.deliver(g.Persisted(harness.stored[-1].number))
    assert harness.responses[token] == g.Synced(ErrorCode.NONE, "consumer", "range", b"all")


def test_an_assignment_that_cannot_be_stored_triggers_a_rebalance() -> None:
    harness = GroupHarness()
    joined = harness.responses[harness.join()]
    token = harness.sync(joined.member_id, joined.generation, {joined.member_id: b"all"})
    harness.deliver(g.PersistFailed(harness.stored[-1].number, ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert harness.responses[token].error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.group.state is State.PREPARING


def test_a_commit_without_a_generation_needs_a_group_without_members() -> None:
    """With any member id, as in Kafka: librdkafka's consumers of the consumer protocol send a member id also with manual assignment."""
    for member_id, instance_id in (("", None), ("m-1", None), ("m-1", "static")):
        harness = GroupHarness()
        offsets = {("t", 0): g.Offset(5, -1, "", 0)}
        for event in (
            g.Commit("plain", member_id, instance_id, -1, offsets),
            g.TransactionalCommit("transactional", member_id, instance_id, -1, offsets, 7, 0),
        ):
            assert [type(e) for e in harness.group.handle(event, harness.now)] == [g.PersistOffsets]
        harness.group.members["somebody"] = g.Member("somebody", None, "c", "/h", 1, 1, ())
        harness.group.state = g.State.STABLE
        rejected = g.Completed(ErrorCode.UNKNOWN_MEMBER_ID)
        plain = g.Commit("plain", member_id, instance_id, -1, offsets)
        assert harness.group.handle(plain, harness.now) == [g.Reply("plain", rejected)]
        effects = harness.group.handle(
            g.TransactionalCommit("late", member_id, instance_id, -1, offsets, 7, 0), harness.now
        )
        unnamed = not member_id and instance_id is None
        assert ([type(e) for e in effects] == [g.PersistOffsets]) == unnamed, "clients before KIP-447 name nobody"


def test_a_commit_takes_effect_when_it_is_stored() -> None:
    harness = GroupHarness()
    member = harness.stable_with_one()
    token = harness.next()
    offset = g.Offset(7, -1, "meta", 0)
    harness.deliver(g.Commit(token, member, None, harness.group.generation, {("t", 0): offset}))
    assert token not in harness.responses
    assert harness.group.commits.offsets == {}
    harness.deliver(g.Persisted(harness.stored[-1].number))
    assert harness.responses[token].error == ErrorCode.NONE
    assert harness.group.commits.offsets == {("t", 0): offset}


@pytest.mark.parametrize(("older", "error"), [(1, ErrorCode.ILLEGAL_GENERATION), (-1, ErrorCode.ILLEGAL_GENERATION)])
def test_a_member_of_another_generation_gets_an_error(older: int, error: int) -> None:
    harness = GroupHarness()
    member = harness.stable_with_one()
    generation = harness.group.generation - older
    assert harness.deliver(g.Heartbeat(harness.next(), member, None, generation)).error == error
    assert (
        harness.deliver(g.Commit(harness.next(), member, None, generation, {("t", 0): g.Offset(1, -1, "", 0)})).error
        == error
    )
    assert harness.responses[harness.sync(member, generation)].error == error


def test_a_member_whose_session_expires_is_removed_and_the_others_rebalance() -> None:
    harness = GroupHarness()
    member = harness.stable_with_one()
    harness.now = Now(SESSION_MS + 1, 0)
    harness.deliver(g.Tick())
    assert harness.group.state is State.EMPTY
    assert (
        harness.deliver(g.Heartbeat(harness.next(), member, None, harness.group.generation)).error
        == ErrorCode.UNKNOWN_MEMBER_ID
    )


def test_a_restarted_static_member_keeps_its_assignment_and_fences_its_predecessor() -> None:
    harness = GroupHarness()
    first = harness.responses[harness.join(instance="i")]
    harness.sync(first.member_id, first.generation, {first.member_id: b"all"})
    harness.deliver(g.Persisted(harness.stored[-1].number))
    second = harness.responses.get(harness.join(instance="i"))
    assert second is None or second.member_id != first.member_id
    beat = harness.deliver(g.Heartbeat(harness.next(), first.member_id, "i", first.generation))
    assert beat.error in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNKNOWN_MEMBER_ID)


def test_waiting_members_get_an_error_when_the_coordinator_moves() -> None:
    harness = GroupHarness()
    harness.stable_with_one()
    waiting = harness.join(new_id="second")
    effects = harness.group.unload()
    assert {e.token: e.response.error for e in effects if isinstance(e, g.Reply)} == {
        waiting: ErrorCode.NOT_COORDINATOR
    }
    assert harness.responses[harness.join()].error == ErrorCode.COORDINATOR_NOT_AVAILABLE
