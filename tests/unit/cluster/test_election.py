"""Who may lead, and who is remembered: every case of safety.md section 3, and what must hold whatever happens."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

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
    now = without(state(), 1, alive(2, 3).get, min_insync=2, tail_lost=False, unclean=False)
    assert now is not None
    assert (now.leader, now.leader_incarnation, now.leader_epoch, now.partition_epoch) == (2, 12, 6, 10)
    assert (now.isr_ids, now.elr, now.last_isr) == ((2, 3), (), ())


def test_a_follower_leaves_without_an_election() -> None:
    now = without(state(), 3, alive(1, 2).get, min_insync=2, tail_lost=False, unclean=False)
    assert now is not None
    assert (now.leader, now.leader_epoch, now.isr_ids) == (1, 5, (1, 2))


def test_who_leaves_below_min_insync_stays_electable() -> None:
    now = without(state((1, 2)), 2, alive(1).get, min_insync=2, tail_lost=False, unclean=False)
    assert now is not None
    assert (now.isr_ids, now.elr, now.leader) == ((1,), (2,), 1)
    later = without(now, 1, alive(2).get, min_insync=2, tail_lost=False, unclean=False)
    assert later is not None
    assert (later.leader, later.isr_ids) == (2, (2,)), "the one remembered leads once the last of the ISR is gone"


def test_a_lost_tail_is_electable_nowhere() -> None:
    now = without(state((1, 2)), 2, alive(1, 2).get, min_insync=2, tail_lost=True, unclean=False)
    assert now is not None
    assert (now.isr_ids, now.elr) == ((1,), ())
    remembered = state((1,), elr=(2,))
    now = without(remembered, 2, alive(1, 2).get, min_insync=2, tail_lost=True, unclean=False)
    assert now is not None
    assert now.elr == ()


def test_the_last_member_keeps_its_seat_while_it_is_away() -> None:
    now = without(state((1,)), 1, alive(2, 3).get, min_insync=1, tail_lost=False, unclean=False)
    assert now is not None
    assert (now.leader, now.isr_ids) == (NO_LEADER, (1,)), "2 and 3 are alive and know less"
    assert elected(now, alive(2, 3).get) is None
    back = elected(now, alive(1, 2, 3).get)
    assert back is not None
    assert (back.leader, back.leader_epoch) == (1, 6)


def test_the_last_member_with_its_tail_lost_is_remembered_and_leads_again_only_itself() -> None:
    now = without(state((1,)), 1, alive(1, 2, 3).get, min_insync=1, tail_lost=True, unclean=False)
    assert now is not None
    assert now.leader == 1
    gone = without(state((1,)), 1, alive(2, 3).get, min_insync=1, tail_lost=True, unclean=False)
    assert gone is not None
    assert (gone.leader, gone.isr, gone.last_isr) == (NO_LEADER, (), (1,))


def test_unclean_elections_happen_only_where_allowed() -> None:
    offline = state((1,), leader=NO_LEADER)
    assert elected(offline, alive(2, 3).get) is None
    now = elected(offline, alive(2, 3).get, unclean=True)
    assert now is not None
    assert (now.leader, now.isr_ids) == (2, (2,))


def test_an_earlier_life_counts_for_nothing() -> None:
    bounced = {1: 99, 2: 12, 3: 13}
    now = elected(state(leader=NO_LEADER), bounced.get)
    assert now is not None
    assert now.leader == 2, "broker 1 sits in the ISR with another incarnation than it has now"
    anew = seated_anew(state(), Seat(1, 99))
    assert anew is not None
    assert (anew.leader, anew.leader_incarnation, anew.leader_epoch) == (1, 99, 6), (
        "the epoch moves though the leader stays"
    )


def test_a_leader_that_is_about_to_stop_is_avoided_and_nobody_else_is_asked_for() -> None:
    now = elected(state(), alive(1, 2, 3).get, avoid=1)
    assert now is not None
    assert now.leader == 2
    assert elected(state((1,)), alive(1, 2, 3).get, avoid=1) is None


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
    after = without(before, victim, alive(*living).get, min_insync=min_insync, tail_lost=lost, unclean=False)
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
        gone = without(
            now, broker_id, alive(*({1, 2, 3} - set(members[: members.index(broker_id) + 1]))).get, min_insync=min_insync,
            tail_lost=False, unclean=False,
        )  # fmt: skip
        now = gone or now
    for broker_id in data.draw(st.permutations([1, 2, 3])):
        living.add(broker_id)
        if broker_id not in whole:
            now = (
                without(now, broker_id, alive(*living).get, min_insync=min_insync, tail_lost=True, unclean=False) or now
            )
        now = elected(now, alive(*living).get) or now if now.leader == NO_LEADER else now
        assert now.isr or now.elr or now.last_isr, "nobody is left who could prove to hold the data"
    assert now.leader != NO_LEADER


def test_who_leaves_the_isr_for_one_of_the_elr_stays_electable() -> None:
    alone = without(state(isr=(1, 2)), 2, alive(1).get, min_insync=2, tail_lost=False, unclean=False)
    assert alone is not None and (alone.isr_ids, alone.elr) == ((1,), (2,))
    second = without(alone, 1, alive(2).get, min_insync=2, tail_lost=False, unclean=False)
    assert second is not None and (second.leader, second.isr_ids, second.elr) == (2, (2,), (1,))
    back = without(second, 2, {1: 21, 2: 22}.get, min_insync=2, tail_lost=True, unclean=False)
    assert back is not None and (back.leader, back.isr_ids, back.elr) == (1, (1,), ())
