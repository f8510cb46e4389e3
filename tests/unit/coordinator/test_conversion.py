"""A group goes over to the other protocol, step by step: who is told what, what stands in the log, and what refuses it."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.cluster.model import Now
from brokerd.coordinator import embedded
from brokerd.coordinator import events as g
from brokerd.coordinator.assignors import Share
from brokerd.coordinator.consumer_events import (
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    LEAVES,
    UNSUPPORTED_ASSIGNOR,
)
from brokerd.coordinator.events import State
from brokerd.coordinator.group import Group
from brokerd.coordinator.mixed_group import MixedGroup
from brokerd.coordinator.reconciliation import MemberState
from brokerd.coordinator.settings import BIDIRECTIONAL, DISABLED, DOWNGRADE, UPGRADE
from tests.unit.coordinator.test_consumer_records import House as Coordinator
from tests.unit.coordinator.test_consumer_records import Log
from tests.unit.coordinator.test_mixed_group import COOPERATIVE, EAGER, subscription
from tests.unit.coordinator.topics import A, B, share

EVERYTHING = share(A, 0, 1, 2, 3) | share(B, 0, 1, 2)


class House(Coordinator):
    def __init__(self, log: Log | None = None, migration: str = BIDIRECTIONAL) -> None:
        self.now = Now(1_000, 1_000)
        self.migration = migration
        super().__init__(log, migration=migration, clock=lambda: self.now)

    def ask(self, make: Any) -> Any:
        """What was answered; an error's number where the coordinator itself says so, None for not yet."""
        answers: list[Any] = []
        error = self.groups.handle("g", make(answers.append))
        return error or (answers[0] if answers else None)

    def join(self, member: str, owned: Share = frozenset(), kind: str = EAGER, **more: Any) -> Any:
        said = subscription(owned, 0 if kind == EAGER else 1)
        more = {"protocol_type": "consumer", "protocols": ((kind, said),), "drawn_id": f"{member}'", **more}
        named = {"instance_id": None, "session_ms": 6_000, "rebalance_ms": 8_000, "id_first": False, **more}
        return self.ask(lambda reply: g.Join(reply, member, client_id="c", client_host="/h", **named))

    def sync(self, member: str, epoch: int, shares: dict[str, Share] | None = None, kind: str = EAGER) -> Any:
        given = {m: embedded.assignment(s, ["a", "b"], self.topics, 1) for m, s in (shares or {}).items()}
        return self.ask(lambda reply: g.Sync(reply, member, None, epoch, "consumer", kind, given))

    def synced(self, member: str, epoch: int, kind: str = EAGER) -> Share:
        answer = self.sync(member, epoch, kind=kind)
        assert answer.error == 0
        return embedded.read_assignment(answer.assignment, self.topics)

    def heartbeat(self, member: str, epoch: int, instance: str | None = None) -> int:
        error: int = self.ask(lambda reply: g.Heartbeat(reply, member, instance, epoch)).error
        return error

    def commits(self, member: str, epoch: int, instance: str | None = None) -> int:
        offsets = {("a", 0): g.Offset(5, -1, "", 1)}
        error: int = self.ask(lambda reply: g.Commit(reply, member, instance, epoch, offsets)).error
        return error

    def two_classics(self, kind: str = EAGER, **more: Any) -> int:
        """m1 and m2 share the topics; their generation."""
        self.join("", drawn_id="m1", kind=kind, **more)
        self.join("", drawn_id="m2", kind=kind)
        generation: int = self.join("m1", kind=kind, **more).generation
        self.sync("m2", generation, kind=kind)
        self.sync("m1", generation, {"m1": share(A, 0, 1, 2, 3), "m2": share(B, 0, 1, 2)}, kind=kind)
        assert isinstance(self.group, Group) and self.group.state is State.STABLE
        return generation

    def passes(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)
        self.groups.tick(self.now)

    def successor(self) -> House:
        return House(Log(self.log.data, self.log.end), self.migration)


def rolled_up(kind: str = EAGER) -> tuple[House, int]:
    """A house whose group n1 has just turned; the classic members' epoch is still their generation, which is told."""
    house = House()
    generation = house.two_classics(kind)
    told = house.beat("n1", 0, "a", "b")
    assert (told.error, told.epoch, told.assigned) == (0, generation + 2, frozenset()), "all of it is still others'"
    assert isinstance(house.group, MixedGroup)
    return house, generation


def test_a_member_of_the_new_protocol_takes_the_group_over_and_the_others_go_on() -> None:
    house, generation = rolled_up()
    assert house.group.standings["m1"].assigned == share(A, 0, 1, 2, 3), "they hold what their leader gave them"
    assert house.commits("m1", generation) == 0, "and commit it, until they have joined again"
    assert house.sync("m1", generation).error == g.REBALANCE_IN_PROGRESS
    assert house.heartbeat("m1", generation) == g.REBALANCE_IN_PROGRESS
    joined = house.join("m1")
    epoch = house.group.epoch
    assert (joined.error, joined.generation, joined.protocol, joined.leader, joined.members) == (
        0,
        epoch,
        EAGER,
        "",
        (),
    )
    assert house.heartbeat("m1", generation) == g.ILLEGAL_GENERATION
    assert house.commits("m1", generation) == g.ILLEGAL_GENERATION
    mine = house.synced("m1", epoch)
    freed = house.beat("n1", epoch).assigned
    assert mine and freed and mine | freed | share(B, 0, 1, 2) >= EVERYTHING and not mine & freed
    assert house.heartbeat("m1", epoch) == 0
    house.join("m2")
    assert house.beat("n1", epoch, owned=freed).error == 0
    shares = [house.synced("m1", epoch), house.synced("m2", epoch), house.group.standings["n1"].assigned]
    assert sorted(tp for s in shares for tp in s) == sorted(EVERYTHING)
    house.group.validate()


def test_a_successor_knows_both_kinds() -> None:
    house, generation = rolled_up()
    after = house.successor()
    for what in ("epoch", "target_epoch", "members", "standings", "targets", "holders", "classics"):
        assert getattr(after.group, what) == getattr(house.group, what), what
    assert after.heartbeat("m1", generation) == g.REBALANCE_IN_PROGRESS
    assert after.join("m1").error == 0
    after.passes(9_000)
    assert sorted(after.group.members) == ["n1"], "m2 was silent for its session, m1 did not ask what it was given"


def test_who_cooperates_gives_up_first_and_joins_again() -> None:
    house, generation = rolled_up(COOPERATIVE)
    had = share(A, 0, 1, 2, 3)
    assert house.join("m1", had, COOPERATIVE).generation == generation, "it stays in its epoch until then"
    kept = house.synced("m1", generation, COOPERATIVE)
    assert house.group.standings["m1"].state is MemberState.UNREVOKED and kept < had
    assert house.beat("n1", house.group.epoch).assigned is None
    assert house.heartbeat("m1", generation) == g.REBALANCE_IN_PROGRESS
    assert house.join("m1", kept, COOPERATIVE).generation == house.group.epoch
    assert house.beat("n1", house.group.epoch).assigned == had - kept


def test_the_last_of_the_new_protocol_leaves_and_the_others_lead_themselves_again() -> None:
    house, _ = rolled_up()
    for member in ("m1", "m2"):
        house.synced(member, house.join(member).generation)
    epoch = house.group.epoch
    assert house.commits("m1", epoch) == 0
    assert house.beat("n1", LEAVES).error == 0
    assert isinstance(house.group, Group) and house.group.state is State.PREPARING
    assert house.commits("m2", epoch) == 0, "what it has read it may say"
    assert house.heartbeat("m1", epoch) == g.REBALANCE_IN_PROGRESS
    after = house.successor()
    assert isinstance(after.group, Group) and after.group.commits.offsets[("a", 0)].offset == 5
    assert after.heartbeat("m1", epoch) == g.ILLEGAL_GENERATION, (
        "it knows of no rebalance, and has them join all the same"
    )
    assert house.join("m1") is None, "the other is waited for"
    joined = house.join("m2")
    assert (joined.error, joined.leader) == (0, "m1")
    assert house.commits("m1", epoch) == g.ILLEGAL_GENERATION
    house.sync("m1", joined.generation, {"m1": EVERYTHING})
    assert house.synced("m2", joined.generation) == frozenset()
    again = house.successor()
    assert again.heartbeat("m1", joined.generation) == 0
    assert again.beat("n1", 0, "a", "b").error == 0 and isinstance(again.group, MixedGroup)


def test_the_last_of_the_new_protocol_falls_silent() -> None:
    house, _ = rolled_up()
    for _ in range(4):
        house.passes(3_000)
        for member in [m for m in ("m1", "m2") if m in house.group.members and isinstance(house.group, MixedGroup)]:
            if house.heartbeat(member, house.group.standings[member].epoch) == g.REBALANCE_IN_PROGRESS:
                house.synced(member, house.join(member).generation)
    assert isinstance(house.group, Group) and sorted(house.group.members) == ["m1", "m2"]


@pytest.mark.parametrize(
    ("policy", "up", "down"),
    [(BIDIRECTIONAL, True, True), (UPGRADE, True, False), (DOWNGRADE, False, True), (DISABLED, False, False)],
)
def test_the_policy_says_which_groups_go_over(policy: str, up: bool, down: bool) -> None:
    house = House(migration=policy)
    house.two_classics()
    answer = house.beat("n1", 0, "a")
    assert isinstance(house.group, MixedGroup) == up and (answer == GROUP_ID_NOT_FOUND) != up
    house = House(migration=policy)
    house.beat("n1", 0, "a")
    assert house.join("").error == 0, "classic members are served in any case"
    house.beat("n1", LEAVES)
    assert isinstance(house.group, Group) == down
    if not down:
        assert house.heartbeat("'", 2) == g.REBALANCE_IN_PROGRESS
        assert house.synced("'", house.join("'").generation) == EVERYTHING, "they are assigned to, all the same"


def test_no_group_of_consumers_and_one_that_says_what_cannot_be_read_stay_what_they_are() -> None:
    for more in ({"protocol_type": "connect"}, {"protocols": (("range", b"\0"),)}):
        house = House()
        house.join("", drawn_id="m1", **more)
        assert house.beat("n1", 0, "a") == GROUP_ID_NOT_FOUND
        assert isinstance(house.group, Group) and list(house.group.members) == ["m1"]
        assert house.group.state is not State.DEAD


def test_what_is_refused_turns_nothing() -> None:
    house = House()
    generation = house.two_classics()
    assert house.beat("n1", 0, "a", assignor="none").error == UNSUPPORTED_ASSIGNOR
    house.log.error = 19  # NOT_ENOUGH_REPLICAS
    assert house.beat("n1", 0, "a").error == g.COORDINATOR_NOT_AVAILABLE
    house.log.error = 0
    assert isinstance(house.group, Group) and house.heartbeat("m1", generation) == 0
    assert isinstance(house.successor().group, Group)


def test_the_log_refuses_the_way_back_and_it_is_gone_when_it_takes_again() -> None:
    house, generation = rolled_up()
    house.passes(3_000)
    house.log.later = []
    assert house.beat("n1", LEAVES) is None
    (done,) = house.log.later
    house.log.later, house.log.error = None, 19
    done(0)  # its leave is replicated, and the next write is refused
    assert isinstance(house.group, MixedGroup)
    assert house.heartbeat("m1", generation) == g.REBALANCE_IN_PROGRESS
    house.log.error = 0
    house.heartbeat("m1", generation)
    assert isinstance(house.group, Group)


def test_a_join_that_waited_is_a_join_of_the_new_group_and_a_sync_is_to_be_done_again() -> None:
    house = House()
    house.join("", drawn_id="m1")
    house.join("", drawn_id="m3", id_first=True)
    answers: list[Any] = []
    said = (("eager", subscription(frozenset(), 0)),)
    join = g.Join(answers.append, "", "m2", None, "c", "/h", 6_000, 8_000, "consumer", said, False)
    house.groups.handle("g", join)
    assert answers == [] and house.group.state is State.PREPARING
    house.beat("n1", 0, "a", "b")
    assert [(x.error, x.member_id, x.generation) for x in answers] == [(0, "m2", house.group.epoch)]
    assert house.join("m3").error == 0, "it was given this id before"
    house = House()
    house.join("", drawn_id="m1")
    house.join("", drawn_id="m2")
    generation = house.join("m1").generation
    synced: list[Any] = []
    house.groups.handle("g", g.Sync(synced.append, "m2", None, generation, "consumer", "eager", {}))
    house.beat("n1", 0, "a", "b")
    assert [x.error for x in synced] == [g.REBALANCE_IN_PROGRESS]


def test_a_static_seat_goes_from_one_protocol_to_the_other_and_back() -> None:
    house = House()
    generation = house.two_classics(instance_id="i")
    assert house.beat("n1", 0, "a", "b", instance_id="i").epoch > generation, (
        "the classic protocol leaves no seat with -2"
    )
    assert sorted(house.group.members) == ["m2", "n1"]
    assert house.group.standings["n1"].assigned, "what lay there is its own"
    assert house.heartbeat("m1", generation, "i") == g.FENCED_INSTANCE_ID
    assert house.commits("m1", generation, "i") == g.FENCED_INSTANCE_ID
    joined = house.join("", drawn_id="m3", instance_id="i")
    assert joined.error == 0 and isinstance(house.group, Group), "the last of the new protocol was replaced"
    assert house.beat("n1", 5, instance_id="i") == g.UNKNOWN_MEMBER_ID
    assert house.join("m1", instance_id="i").error == g.FENCED_INSTANCE_ID
    house.group.validate()


def test_members_of_the_two_protocols_do_not_speak_for_each_other() -> None:
    house, generation = rolled_up()
    assert house.heartbeat("n1", house.group.epoch) == g.UNKNOWN_MEMBER_ID
    assert house.sync("n1", house.group.epoch).error == g.UNKNOWN_MEMBER_ID
    assert house.join("n1").error == g.UNKNOWN_MEMBER_ID
    assert house.beat("m1", generation).error == g.UNKNOWN_MEMBER_ID
    assert house.ask(lambda r: g.Leave(r, (("n1", None), ("nobody", None), ("m2", None)))).errors == (25, 25, 0)
    assert house.beat("n1", 1).error == FENCED_MEMBER_EPOCH
    assert house.beat("m1", 0, "a").error == 0, "an id that joins by the new protocol has gone over to it"
    assert house.group.classics == 0


def test_a_newcomer_of_the_classic_protocol_is_asked_for_its_id_and_speaks_what_its_kind_speaks() -> None:
    house, _ = rolled_up()
    first = house.join("", drawn_id="m3", id_first=True)
    assert (first.error, first.member_id) == (g.MEMBER_ID_REQUIRED, "m3")
    assert house.join("m3").error == 0
    assert house.join("m4").error == g.UNKNOWN_MEMBER_ID
    house.join("", drawn_id="m5", id_first=True)
    assert house.join("", kind=COOPERATIVE).error == g.INCONSISTENT_GROUP_PROTOCOL
    assert house.join("", protocol_type="connect").error == g.INCONSISTENT_GROUP_PROTOCOL
    assert house.join("", protocols=((EAGER, b"?"),)).error == g.INCONSISTENT_GROUP_PROTOCOL
    for i in range(len(house.group.members), house.terms.size_max):
        assert house.join("", drawn_id=f"more{i}").error == 0
    assert house.join("", drawn_id="x", id_first=True).error == g.GROUP_MAX_SIZE_REACHED
    house.passes(6_000)
    assert house.join("m5").error == g.UNKNOWN_MEMBER_ID, "it came too late"


def test_who_is_called_and_does_not_join_is_put_out_though_it_beats() -> None:
    house, generation = rolled_up()
    for _ in range(4):
        house.heartbeat("m1", generation)
        house.beat("n1", house.group.epoch, owned=house.group.standings["n1"].assigned)
        house.passes(2_500)
    assert "m1" not in house.group.members


def test_topics_that_grow_call_classic_members_too() -> None:
    house = House(migration=UPGRADE)
    house.beat("n1", 0, "a")
    house.synced("'", house.join("").generation)
    house.beat("n1", LEAVES)
    house.synced("'", house.join("'").generation)
    assert house.heartbeat("'", house.group.epoch) == 0
    house.topics.there["b"] = (B, 5)
    house.topics.version += 1
    assert house.heartbeat("'", house.group.epoch) == g.REBALANCE_IN_PROGRESS
    assert len(house.synced("'", house.join("'").generation)) == 9
