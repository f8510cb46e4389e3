"""The migration of a group to the other protocol, step by step: the responses, the records in the log, and the reasons for a rejection."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.cluster.model import Now
from brokerd.config.groups import BIDIRECTIONAL, DISABLED, DOWNGRADE, UPGRADE
from brokerd.coordinator.classic import events as g
from brokerd.coordinator.classic.events import State
from brokerd.coordinator.classic.group import Group
from brokerd.coordinator.consumer import consumer_protocol
from brokerd.coordinator.consumer.assignors import Assignment
from brokerd.coordinator.consumer.events import LEAVE_GROUP_MEMBER_EPOCH
from brokerd.coordinator.consumer.mixed_group import MixedGroup
from brokerd.coordinator.consumer.reconciliation import MemberState
from brokerd.wire.errors import ErrorCode
from tests.unit.coordinator.consumer.test_mixed_group import COOPERATIVE, EAGER, subscription
from tests.unit.coordinator.consumer.test_records import Harness as Coordinator
from tests.unit.coordinator.consumer.test_records import Log
from tests.unit.coordinator.topics import A, B, share

EVERYTHING = share(A, 0, 1, 2, 3) | share(B, 0, 1, 2)


class Harness(Coordinator):
    def __init__(self, log: Log | None = None, migration: str = BIDIRECTIONAL) -> None:
        self.now = Now(1_000, 1_000)
        self.migration = migration
        super().__init__(log, migration=migration, clock=lambda: self.now)

    def send_request(self, make: Any) -> Any:
        """The response; the number of an error that the coordinator itself returns; None without a response yet."""
        responses: list[Any] = []
        error = self.groups.handle("g", make(responses.append))
        return error or (responses[0] if responses else None)

    def join(self, member: str, owned: Assignment = frozenset(), kind: str = EAGER, **more: Any) -> Any:
        said = subscription(owned, 0 if kind == EAGER else 1)
        more = {"protocol_type": "consumer", "protocols": ((kind, said),), "new_member_id": f"{member}'", **more}
        named = {
            "instance_id": None,
            "session_ms": 6_000,
            "rebalance_ms": 8_000,
            "require_known_member_id": False,
            **more,
        }
        return self.send_request(lambda reply: g.Join(reply, member, client_id="c", client_host="/h", **named))

    def sync(self, member: str, epoch: int, shares: dict[str, Assignment] | None = None, kind: str = EAGER) -> Any:
        given = {m: consumer_protocol.assignment(s, ["a", "b"], self.topics, 1) for m, s in (shares or {}).items()}
        return self.send_request(lambda reply: g.Sync(reply, member, None, epoch, "consumer", kind, given))

    def sync_assignment(self, member: str, epoch: int, kind: str = EAGER) -> Assignment:
        response = self.sync(member, epoch, kind=kind)
        assert response.error == 0
        return consumer_protocol.read_assignment(response.assignment, self.topics)

    def heartbeat(self, member: str, epoch: int, instance: str | None = None) -> int:
        error: int = self.send_request(lambda reply: g.Heartbeat(reply, member, instance, epoch)).error
        return error

    def commits(self, member: str, epoch: int, instance: str | None = None) -> int:
        offsets = {("a", 0): g.Offset(5, -1, "", 1)}
        error: int = self.send_request(lambda reply: g.Commit(reply, member, instance, epoch, offsets)).error
        return error

    def two_classics(self, kind: str = EAGER, **more: Any) -> int:
        """m1 and m2 share the topics. Returns their generation."""
        self.join("", new_member_id="m1", kind=kind, **more)
        self.join("", new_member_id="m2", kind=kind)
        generation: int = self.join("m1", kind=kind, **more).generation
        self.sync("m2", generation, kind=kind)
        self.sync("m1", generation, {"m1": share(A, 0, 1, 2, 3), "m2": share(B, 0, 1, 2)}, kind=kind)
        assert isinstance(self.group, Group) and self.group.state is State.STABLE
        return generation

    def advance(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)
        self.groups.tick(self.now)

    def successor(self) -> Harness:
        return Harness(Log(self.log.data, self.log.end), self.migration)


def rolled_up(kind: str = EAGER) -> tuple[Harness, int]:
    """A harness whose group has just been converted by the join of n1. The classic members' epoch still equals the generation that they know."""
    harness = Harness()
    generation = harness.two_classics(kind)
    reported = harness.beat("n1", 0, "a", "b")
    assert (reported.error, reported.epoch, reported.assigned) == (0, generation + 2, frozenset()), (
        "all of it is still others'"
    )
    assert isinstance(harness.group, MixedGroup)
    return harness, generation


def test_a_member_of_the_consumer_protocol_converts_the_group_and_the_others_continue() -> None:
    harness, generation = rolled_up()
    assert harness.group.current_assignments["m1"].assigned == share(A, 0, 1, 2, 3), (
        "they hold what their leader gave them"
    )
    assert harness.commits("m1", generation) == 0, "and commit it, until they have joined again"
    assert harness.sync("m1", generation).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.heartbeat("m1", generation) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = harness.join("m1")
    epoch = harness.group.epoch
    assert (joined.error, joined.generation, joined.protocol, joined.leader, joined.members) == (
        0,
        epoch,
        EAGER,
        "",
        (),
    )
    assert harness.heartbeat("m1", generation) == ErrorCode.ILLEGAL_GENERATION
    assert harness.commits("m1", generation) == ErrorCode.ILLEGAL_GENERATION
    mine = harness.sync_assignment("m1", epoch)
    freed = harness.beat("n1", epoch).assigned
    assert mine and freed and mine | freed | share(B, 0, 1, 2) >= EVERYTHING and not mine & freed
    assert harness.heartbeat("m1", epoch) == 0
    harness.join("m2")
    assert harness.beat("n1", epoch, owned=freed).error == 0
    shares = [
        harness.sync_assignment("m1", epoch),
        harness.sync_assignment("m2", epoch),
        harness.group.current_assignments["n1"].assigned,
    ]
    assert sorted(tp for s in shares for tp in s) == sorted(EVERYTHING)
    harness.group.validate()


def test_a_new_coordinator_has_members_of_both_protocols() -> None:
    harness, generation = rolled_up()
    after = harness.successor()
    for what in (
        "epoch",
        "target_epoch",
        "members",
        "current_assignments",
        "targets",
        "owners",
        "classic_member_count",
    ):
        assert getattr(after.group, what) == getattr(harness.group, what), what
    assert after.heartbeat("m1", generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert after.join("m1").error == 0
    after.advance(9_000)
    assert sorted(after.group.members) == ["n1"], "m2 was silent for its session, m1 did not ask what it was given"


def test_a_cooperative_classic_member_revokes_first_and_rejoins() -> None:
    harness, generation = rolled_up(COOPERATIVE)
    had = share(A, 0, 1, 2, 3)
    assert harness.join("m1", had, COOPERATIVE).generation == generation, "it stays in its epoch until then"
    kept = harness.sync_assignment("m1", generation, COOPERATIVE)
    assert harness.group.current_assignments["m1"].state is MemberState.UNREVOKED and kept < had
    assert harness.beat("n1", harness.group.epoch).assigned is None
    assert harness.heartbeat("m1", generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.join("m1", kept, COOPERATIVE).generation == harness.group.epoch
    assert harness.beat("n1", harness.group.epoch).assigned == had - kept


def test_the_leave_of_the_last_consumer_protocol_member_converts_the_group_back() -> None:
    harness, _ = rolled_up()
    for member in ("m1", "m2"):
        harness.sync_assignment(member, harness.join(member).generation)
    epoch = harness.group.epoch
    assert harness.commits("m1", epoch) == 0
    assert harness.beat("n1", LEAVE_GROUP_MEMBER_EPOCH).error == 0
    assert isinstance(harness.group, Group) and harness.group.state is State.PREPARING
    assert harness.commits("m2", epoch) == 0, "what it has read it may say"
    assert harness.heartbeat("m1", epoch) == ErrorCode.REBALANCE_IN_PROGRESS
    after = harness.successor()
    assert isinstance(after.group, Group) and after.group.commits.offsets[("a", 0)].offset == 5
    assert after.heartbeat("m1", epoch) == ErrorCode.ILLEGAL_GENERATION, (
        "it knows of no rebalance, and has them join all the same"
    )
    assert harness.join("m1") is None, "the other is waited for"
    joined = harness.join("m2")
    assert (joined.error, joined.leader) == (0, "m1")
    assert harness.commits("m1", epoch) == ErrorCode.ILLEGAL_GENERATION
    harness.sync("m1", joined.generation, {"m1": EVERYTHING})
    assert harness.sync_assignment("m2", joined.generation) == frozenset()
    again = harness.successor()
    assert again.heartbeat("m1", joined.generation) == 0
    assert again.beat("n1", 0, "a", "b").error == 0 and isinstance(again.group, MixedGroup)


def test_the_expiration_of_the_last_consumer_protocol_member_converts_the_group_back() -> None:
    harness, _ = rolled_up()
    for _ in range(4):
        harness.advance(3_000)
        for member in [m for m in ("m1", "m2") if m in harness.group.members and isinstance(harness.group, MixedGroup)]:
            if (
                harness.heartbeat(member, harness.group.current_assignments[member].epoch)
                == ErrorCode.REBALANCE_IN_PROGRESS
            ):
                harness.sync_assignment(member, harness.join(member).generation)
    assert isinstance(harness.group, Group) and sorted(harness.group.members) == ["m1", "m2"]


@pytest.mark.parametrize(
    ("policy", "up", "down"),
    [(BIDIRECTIONAL, True, True), (UPGRADE, True, False), (DOWNGRADE, False, True), (DISABLED, False, False)],
)
def test_the_migration_policy_decides_which_groups_are_converted(policy: str, up: bool, down: bool) -> None:
    harness = Harness(migration=policy)
    harness.two_classics()
    response = harness.beat("n1", 0, "a")
    assert isinstance(harness.group, MixedGroup) == up and (response == ErrorCode.GROUP_ID_NOT_FOUND) != up
    harness = Harness(migration=policy)
    harness.beat("n1", 0, "a")
    assert harness.join("").error == 0, "classic members are served in any case"
    harness.beat("n1", LEAVE_GROUP_MEMBER_EPOCH)
    assert isinstance(harness.group, Group) == down
    if not down:
        assert harness.heartbeat("'", 2) == ErrorCode.REBALANCE_IN_PROGRESS
        assert harness.sync_assignment("'", harness.join("'").generation) == EVERYTHING, (
            "they are assigned to, all the same"
        )


def test_groups_of_other_types_and_with_unreadable_metadata_are_not_converted() -> None:
    for more in ({"protocol_type": "connect"}, {"protocols": (("range", b"\0"),)}):
        harness = Harness()
        harness.join("", new_member_id="m1", **more)
        assert harness.beat("n1", 0, "a") == ErrorCode.GROUP_ID_NOT_FOUND
        assert isinstance(harness.group, Group) and list(harness.group.members) == ["m1"]
        assert harness.group.state is not State.DEAD


def test_a_rejected_heartbeat_converts_nothing() -> None:
    harness = Harness()
    generation = harness.two_classics()
    assert harness.beat("n1", 0, "a", assignor="none").error == ErrorCode.UNSUPPORTED_ASSIGNOR
    harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert harness.beat("n1", 0, "a").error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    harness.log.error = 0
    assert isinstance(harness.group, Group) and harness.heartbeat("m1", generation) == 0
    assert isinstance(harness.successor().group, Group)


def test_a_rejected_downgrade_is_completed_by_a_later_write() -> None:
    harness, generation = rolled_up()
    harness.advance(3_000)
    harness.log.later = []
    assert harness.beat("n1", LEAVE_GROUP_MEMBER_EPOCH) is None
    (done,) = harness.log.later
    harness.log.later, harness.log.error = None, 19
    done(0)  # its LeaveGroup is replicated, and the next write is rejected
    assert isinstance(harness.group, MixedGroup)
    assert harness.heartbeat("m1", generation) == ErrorCode.REBALANCE_IN_PROGRESS
    harness.log.error = 0
    harness.heartbeat("m1", generation)
    assert isinstance(harness.group, Group)


def test_a_waiting_join_joins_the_converted_group_and_a_sync_is_repeated() -> None:
    harness = Harness()
    harness.join("", new_member_id="m1")
    harness.join("", new_member_id="m3", require_known_member_id=True)
    responses: list[Any] = []
    said = (("eager", subscription(frozenset(), 0)),)
    join = g.Join(responses.append, "", "m2", None, "c", "/h", 6_000, 8_000, "consumer", said, False)
    harness.groups.handle("g", join)
    assert responses == [] and harness.group.state is State.PREPARING
    harness.beat("n1", 0, "a", "b")
    assert [(x.error, x.member_id, x.generation) for x in responses] == [(0, "m2", harness.group.epoch)]
    assert harness.join("m3").error == 0, "it was given this id before"
    harness = Harness()
    harness.join("", new_member_id="m1")
    harness.join("", new_member_id="m2")
    generation = harness.join("m1").generation
    synced: list[Any] = []
    harness.groups.handle("g", g.Sync(synced.append, "m2", None, generation, "consumer", "eager", {}))
    harness.beat("n1", 0, "a", "b")
    assert [x.error for x in synced] == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_a_static_member_changes_the_protocol_and_back() -> None:
    harness = Harness()
    generation = harness.two_classics(instance_id="i")
    assert harness.beat("n1", 0, "a", "b", instance_id="i").epoch > generation, (
        "the classic protocol leaves no member with epoch -2"
    )
    assert sorted(harness.group.members) == ["m2", "n1"]
    assert harness.group.current_assignments["n1"].assigned, "what lay there is its own"
    assert harness.heartbeat("m1", generation, "i") == ErrorCode.FENCED_INSTANCE_ID
    assert harness.commits("m1", generation, "i") == ErrorCode.FENCED_INSTANCE_ID
    joined = harness.join("", new_member_id="m3", instance_id="i")
    assert joined.error == 0 and isinstance(harness.group, Group), "the last of the new protocol was replaced"
    assert harness.beat("n1", 5, instance_id="i") == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.join("m1", instance_id="i").error == ErrorCode.FENCED_INSTANCE_ID
    harness.group.validate()


def test_members_of_one_protocol_cannot_use_the_ids_of_the_other() -> None:
    harness, generation = rolled_up()
    assert harness.heartbeat("n1", harness.group.epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.sync("n1", harness.group.epoch).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.join("n1").error == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.beat("m1", generation).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.send_request(lambda r: g.Leave(r, (("n1", None), ("nobody", None), ("m2", None)))).errors == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        0,
    )
    assert harness.beat("n1", 1).error == ErrorCode.FENCED_MEMBER_EPOCH
    assert harness.beat("m1", 0, "a").error == 0, "an id that joins by the new protocol has gone over to it"
    assert harness.group.classic_member_count == 0


def test_a_new_classic_member_needs_a_member_id_and_a_common_protocol() -> None:
    harness, _ = rolled_up()
    first = harness.join("", new_member_id="m3", require_known_member_id=True)
    assert (first.error, first.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "m3")
    assert harness.join("m3").error == 0
    assert harness.join("m4").error == ErrorCode.UNKNOWN_MEMBER_ID
    harness.join("", new_member_id="m5", require_known_member_id=True)
    assert harness.join("", kind=COOPERATIVE).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.join("", protocol_type="connect").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.join("", protocols=((EAGER, b"?"),)).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    for i in range(len(harness.group.members), harness.group_config.size_max):
        assert harness.join("", new_member_id=f"more{i}").error == 0
    assert harness.join("", new_member_id="x", require_known_member_id=True).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    harness.advance(6_000)
    assert harness.join("m5").error == ErrorCode.UNKNOWN_MEMBER_ID, "it came too late"


def test_a_member_that_does_not_rejoin_is_removed_despite_heartbeats() -> None:
    harness, generation = rolled_up()
    for _ in range(4):
        harness.heartbeat("m1", generation)
        harness.beat("n1", harness.group.epoch, owned=harness.group.current_assignments["n1"].assigned)
        harness.advance(2_500)
    assert "m1" not in harness.group.members


def test_grown_topics_rebalance_classic_members_too() -> None:
    harness = Harness(migration=UPGRADE)
    harness.beat("n1", 0, "a")
    harness.sync_assignment("'", harness.join("").generation)
    harness.beat("n1", LEAVE_GROUP_MEMBER_EPOCH)
    harness.sync_assignment("'", harness.join("'").generation)
    assert harness.heartbeat("'", harness.group.epoch) == 0
    harness.topics.there["b"] = (B, 5)
    harness.topics.version += 1
    assert harness.heartbeat("'", harness.group.epoch) == ErrorCode.REBALANCE_IN_PROGRESS
    assert len(harness.sync_assignment("'", harness.join("'").generation)) == 9
