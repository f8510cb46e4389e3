"""Who may lead, and who is remembered: every case of safety.md section 3, and what must hold whatever happens."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from brokerd.cluster.election import elected, seated_anew, with_isr, without
from brokerd.cluster.model import NO_LEADER, PartitionState, Seat


def seats(*ids: int, incarnation: int = 10) -> tuple[Seat, ...]:
    return tuple(Seat(i, incarnation + i) for i in ids)


def state(isr: tuple[int, ...] = (1, 2, 3), leader: int = 1, **more: object) -> PartitionState:
    base = PartitionState(
        (1, 2, 3), seats(*isr), leader, 10 + leader if leader >= 0 else -1, leader_epoch=5, partition_epoch=9
    )
    return PartitionState(**{**{s: getattr(base, s) for s in base.__slots__}, **more})  # type: ignore[arg-type]


def alive(*ids: int) -> dict[int, int]:
    return {i: 10 + i for i in ids}


def test_the_first_of_the_replicas_that_is_in_sync_and_alive_leads() -> None:
    now = without(state(), (1,), (), alive(2, 3).get, min_insync=2, unclean=False)
    assert now is not None
    assert (now.leader, now.leader_incarnation, now.leader_epoch, now.partition_epoch) == (2, 12, 6, 10)
    assert (now.isr_ids, now.elr, now.last_isr) == ((2, 3), (), ())


def test_a_follower_leaves_without_an_election() -> None:
    now = without(state(), (3,), (), alive(1, 2).get, min_insync=2, unclean=False)
    assert now is not None
    assert (now.leader, now.leader_epoch, now.isr_ids) == (1, 5, (1, 2))


def test_who_leaves_below_min_insync_stays_electable() -> None:
    now = without(state((1, 2)), (2,), (), alive(1).get, min_insync=2, unclean=False)
    assert now is not None
    assert (now.isr_ids, now.elr, now.leader) == ((1,), (2,), 1)
    later = without(now, (1,), (), alive(2).get, min_insync=2, unclean=False)
    assert later is not None
    assert (later.leader, later.isr_ids) == (2, (2,)), "the one remembered leads once the last of the ISR is gone"


def test_a_lost_tail_is_electable_nowhere() -> None:
    now = without(state((1, 2)), (), (2,), alive(1, 2).get, min_insync=2, unclean=False)
    assert now is not None
    assert (now.isr_ids, now.elr) == ((1,), ())
    remembered = state((1,), elr=(2,))
    now = without(remembered, (), (2,), alive(1, 2).get, min_insync=2, unclean=False)
    assert now is not None
    assert now.elr == ()


def test_the_last_member_keeps_its_seat_while_it_is_away() -> None:
    now = without(state((1,)), (1,), (), alive(2, 3).get, min_insync=1, unclean=False)
    assert now is not None
    assert (now.leader, now.isr_ids) == (NO_LEADER, (1,)), "2 and 3 are alive and know less"
    assert elected(now, alive(2, 3).get, min_insync=1) is None
    back = elected(now, alive(1, 2, 3).get, min_insync=1)
    assert back is not None
    assert (back.leader, back.leader_epoch) == (1, 6)


def test_the_last_member_with_its_tail_lost_is_remembered_and_leads_again_only_itself() -> None:
    now = without(state((1,)), (), (1,), alive(1, 2, 3).get, min_insync=1, unclean=False)
    assert now is not None
    assert now.leader == 1
    gone = without(state((1,)), (), (1,), alive(2, 3).get, min_insync=1, unclean=False)
    assert gone is not None
    assert (gone.leader, gone.isr, gone.last_isr) == (NO_LEADER, (), (1,))


def test_unclean_elections_happen_only_where_allowed() -> None:
    offline = state((1,), leader=NO_LEADER)
    assert elected(offline, alive(2, 3).get, min_insync=1) is None
    now = elected(offline, alive(2, 3).get, min_insync=1, unclean=True)
    assert now is not None
    assert (now.leader, now.isr_ids) == (2, (2,))


def test_an_earlier_life_counts_for_nothing() -> None:
    bounced = {1: 99, 2: 12, 3: 13}
    now = elected(state(leader=NO_LEADER), bounced.get, min_insync=2)
    assert now is not None
    assert now.leader == 2, "broker 1 sits in the ISR with another incarnation than it has now"
    anew = seated_anew(state(), Seat(1, 99))
    assert anew is not None
    assert (anew.leader, anew.leader_incarnation, anew.leader_epoch) == (1, 99, 6), (
        "the epoch moves though the leader stays"
    )


def test_a_proposed_isr_remembers_who_left_below_min_insync() -> None:
    now = with_isr(state(), seats(1), min_insync=2)
    assert (now.isr_ids, now.elr) == ((1,), (2, 3))
    assert with_isr(now, seats(1, 2), min_insync=2).elr == ()


@given(
    isr=st.sets(st.integers(1, 3), min_size=1),
    elr=st.sets(st.integers(1, 3)),
    living=st.sets(st.integers(1, 3)),
    victim=st.integers(1, 3),
    lost=st.booleans(),
    min_insync=st.integers(1, 3),
)
@settings(max_examples=600, deadline=None)
def test_without_unclean_elections_a_leader_was_trusted_before(
    isr: set[int], elr: set[int], living: set[int], victim: int, lost: bool, min_insync: int
) -> None:
    before = state(tuple(sorted(isr)), leader=min(isr), elr=tuple(sorted(elr - isr)))
    living = living | {victim} if lost else living - {victim}
    after = without(
        before,
        () if lost else (victim,),
        (victim,) if lost else (),
        alive(*living).get,
        min_insync=min_insync,
        unclean=False,
    )
    if after is None:
        return
    assert after.partition_epoch == before.partition_epoch + 1
    assert after.leader_epoch in (before.leader_epoch, before.leader_epoch + 1)
    if after.leader != NO_LEADER and after.leader != before.leader:
        assert after.leader in isr | elr
        assert after.leader in living
        assert after.leader_epoch == before.leader_epoch + 1
        assert not (lost and after.leader == victim and isr != {victim})
    assert after.isr or after.elr or after.last_isr, "nobody is left who could prove to hold the data"
    assert after.leader == NO_LEADER or after.leader in after.isr_ids


@given(
    members=st.permutations([1, 2, 3]), whole=st.sets(st.integers(1, 3)), min_insync=st.integers(1, 3), data=st.data()
)
@settings(max_examples=300, deadline=None)
def test_when_all_have_been_away_whoever_returns_in_whatever_state_somebody_leads(
    members: list[int], whole: set[int], min_insync: int, data: st.DataObject
) -> None:
    """A power cut of the whole cluster: all go, all come back, some with their tails lost."""
    now = state()
    living: set[int] = set()
    for broker_id in members:
        left = {1, 2, 3} - set(members[: members.index(broker_id) + 1])
        now = without(now, (broker_id,), (), alive(*left).get, min_insync=min_insync, unclean=False) or now
    for broker_id in data.draw(st.permutations([1, 2, 3])):
        living.add(broker_id)
        if broker_id not in whole:
            now = without(now, (), (broker_id,), alive(*living).get, min_insync=min_insync, unclean=False) or now
        if now.leader == NO_LEADER:
            now = elected(now, alive(*living).get, min_insync=min_insync) or now
        assert now.isr or now.elr or now.last_isr, "nobody is left who could prove to hold the data"
    assert now.leader != NO_LEADER


def test_who_leaves_the_isr_for_one_of_the_elr_stays_electable() -> None:
    alone = without(state(isr=(1, 2)), (2,), (), alive(1).get, min_insync=2, unclean=False)
    assert alone is not None and (alone.isr_ids, alone.elr) == ((1,), (2,))
    second = without(alone, (1,), (), alive(2).get, min_insync=2, unclean=False)
    assert second is not None and (second.leader, second.isr_ids, second.elr) == (2, (2,), (1,))
    back = without(second, (), (2,), {1: 21, 2: 22}.get, min_insync=2, unclean=False)
    assert back is not None and (back.leader, back.isr_ids, back.elr) == (1, (1,), ())


def test_those_who_die_at_one_moment_are_all_electable() -> None:
    nobody = alive().get
    for least in (1, 2, 3):
        now = without(state(), (1, 2, 3), (), nobody, min_insync=least, unclean=False)
        assert now is not None
        assert (now.leader, now.isr_ids, now.partition_epoch) == (NO_LEADER, (1, 2, 3), 10)
        assert without(now, (1, 2, 3), (), nobody, min_insync=least, unclean=False) is None, (
            "once dead, nothing changes"
        )
        for first in (1, 2, 3):
            anew = seated_anew(now, Seat(first, 99))
            assert anew is not None
            back = elected(anew, {first: 99}.get, min_insync=least)
            assert back is not None
            others = tuple(b for b in (1, 2, 3) if b != first) if least > 1 else ()
            assert (back.leader, back.isr, back.elr) == (first, (Seat(first, 99),), others)


def test_two_of_three_that_die_at_one_moment_stay_electable_below_min_insync_only() -> None:
    now = without(state(), (2, 3), (), alive(1).get, min_insync=2, unclean=False)
    assert now is not None
    assert (now.leader, now.isr_ids, now.elr) == (1, (1,), (2, 3))
    now = without(state(), (2, 3), (), alive(1).get, min_insync=1, unclean=False)
    assert now is not None
    assert (now.leader, now.isr_ids, now.elr) == (1, (1,), ()), "broker 1 acknowledges alone from now on"
    alone = without(now, (1,), (), alive().get, min_insync=1, unclean=False)
    assert alone is not None
    assert alone.isr_ids == (1,)
    assert elected(alone, alive(2, 3).get, min_insync=1) is None


def test_who_lost_its_tail_leads_nothing_while_others_of_the_same_isr_are_away() -> None:
    """A machine is back from a power cut before its peers, which are away and whole. Taken one after the other it was left alone in the ISR and led."""
    for least in (1, 2):
        now = without(state(), (2, 3), (1,), alive(1).get, min_insync=least, unclean=False)
        assert now is not None
        assert (now.leader, now.isr_ids, now.elr, now.last_isr) == (NO_LEADER, (2, 3), (), ())


def test_of_tails_lost_at_one_moment_the_leaders_is_believed() -> None:
    now = without(state(leader=2), (), (1, 2, 3), alive(1, 3).get, min_insync=2, unclean=False)
    assert now is not None
    assert (now.leader, now.isr, now.last_isr) == (NO_LEADER, (), (2,))
    now = without(state(leader=2), (), (1, 2, 3), alive(1, 2, 3).get, min_insync=2, unclean=False)
    assert now is not None
    assert (now.leader, now.isr_ids) == (2, (2,))


def test_a_limit_that_was_lowered_meanwhile_leaves_nobody_electable_beside_the_leader() -> None:
    now = state((1,), leader=NO_LEADER, elr=(2, 3))
    led = elected(now, alive(2).get, min_insync=1)
    assert led is not None
    assert (led.leader, led.isr_ids, led.elr) == (2, (2,), ())


class Replicas(RuleBasedStateMachine):
    """Three copies of one partition, each a number of records, and the log's word on them: whoever is elected from ISR or ELR holds all that was
    acknowledged, whatever dies with whom, in which order it is found, and what comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.log = dict.fromkeys((1, 2, 3), 0)
        self.lives = {1: 11, 2: 12, 3: 13}
        self.running, self.seen = {1, 2, 3}, {1, 2, 3}
        self.acknowledged = 0
        self.state = state()

    @initialize(least=st.integers(1, 3))
    def draw(self, least: int) -> None:
        self.least = least

    def incarnation(self, broker_id: int) -> int | None:
        return self.lives[broker_id] if broker_id in self.seen else None

    def decide(self, after: PartitionState | None) -> None:
        """What one look of the controller makes of it, an election at its end."""
        self.state = after or self.state
        before = self.state
        if before.leader == NO_LEADER:
            self.state = elected(before, self.incarnation, min_insync=self.least) or before

    @rule()
    def write(self) -> None:
        """The leader takes a record; it is acknowledged with acks=all if the whole ISR lives and is large enough."""
        leader, isr = self.state.leader, self.state.isr_ids
        if leader in self.running:
            self.log[leader] += 1
            if set(isr) <= self.running and len(isr) >= self.least:
                for b in isr:
                    self.log[b] = self.log[leader]
                self.acknowledged = self.log[leader]

    @rule(who=st.integers(1, 3))
    def catch_up(self, who: int) -> None:
        leader = self.state.leader
        if {leader, who} <= self.running & self.seen and who not in self.state.isr_ids:
            self.log[who] = self.log[leader]
            self.state = with_isr(self.state, (*self.state.isr, Seat(who, self.lives[who])), min_insync=self.least)

    @rule(who=st.sets(st.integers(1, 3), min_size=1))
    def die(self, who: set[int]) -> None:
        self.running -= who

    @rule(data=st.data())
    def find(self, data: st.DataObject) -> None:
        """Some of the dead, or all, in one look."""
        if dead := self.seen - self.running:
            found = data.draw(st.sets(st.sampled_from(sorted(dead)), min_size=1))
            self.seen -= found
            self.decide(without(self.state, found, (), self.incarnation, min_insync=self.least, unclean=False))

    @rule(data=st.data(), whole=st.sets(st.integers(1, 3)), short=st.integers(0, 3))
    def return_(self, data: st.DataObject, whole: set[int], short: int) -> None:
        """Some are back, `whole` or short of records; others whose death nobody had seen are found by the same look."""
        if away := {1, 2, 3} - self.running:
            back = data.draw(st.sets(st.sampled_from(sorted(away)), min_size=1))
            found = (self.seen - self.running) - back
            lost = back - whole
            for b in lost:
                self.log[b] = max(0, self.log[b] - short)
            for b in back:
                self.lives[b] += 10
            self.running |= back
            self.seen = (self.seen | back) - found
            proven = {*self.state.isr_ids, *self.state.elr} - lost
            self.state = (
                without(self.state, found, lost, self.incarnation, min_insync=self.least, unclean=False) or self.state
            )
            for b in sorted(back - lost):
                self.state = seated_anew(self.state, Seat(b, self.lives[b])) or self.state
            self.decide(None)
            if not proven and self.state.leader != NO_LEADER:
                # The last one of an ISR, back with less: all that replication can say, and a new beginning.
                self.acknowledged = min(self.acknowledged, self.log[self.state.leader])

    @invariant()
    def a_leader_holds_all_that_was_acknowledged(self) -> None:
        if self.state.leader in self.running:
            assert self.log[self.state.leader] >= self.acknowledged
        assert self.state.isr or self.state.elr or self.state.last_isr


TestReplicas = Replicas.TestCase
TestReplicas.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
