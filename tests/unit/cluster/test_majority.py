"""Votes of partitions with majority acknowledgements: who may lead, and that each committed record survives random failures."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd.cluster import election
from brokerd.cluster.majority import (
    LogEnd,
    can_elect,
    candidates,
    elect,
    elect_uncleanly,
    electors,
    electors_needed,
    live_electors,
    quorum,
    remove_offline_replicas,
    start_vote,
    with_isr,
)
from brokerd.cluster.model import NO_LEADER, REPLACED, PartitionState, ReplicaIncarnation


def members(*ids: int) -> tuple[ReplicaIncarnation, ...]:
    return tuple(ReplicaIncarnation(i, 10 + i) for i in ids)


def live_broker_epochs(*ids: int) -> election.BrokerEpochs:
    return {i: 10 + i for i in ids}.get


LED = PartitionState((1, 2, 3), members(1, 2, 3), 1, 11, leader_epoch=5, partition_epoch=9, voters=(1, 2, 3))
VOTE = start_vote(LED)


@pytest.mark.parametrize(("voters", "needed", "electors_"), [(3, 2, 2), (4, 3, 2), (5, 3, 3), (7, 4, 4)])
def test_a_quorum_and_the_electors_have_a_replica_in_common(voters: int, needed: int, electors_: int) -> None:
    state = replace(LED, replicas=tuple(range(voters)), voters=tuple(range(voters)))
    assert (quorum(state.voters), electors_needed(state)) == (needed, electors_)
    assert needed + electors_ > voters


def test_a_vote_has_a_leader_epoch_of_its_own() -> None:
    assert (VOTE.leader, VOTE.leader_epoch, VOTE.partition_epoch, VOTE.isr) == (NO_LEADER, 6, 10, LED.isr)
    assert election.elect_leader(LED, live_broker_epochs(2, 3), min_insync=2) == VOTE


def test_the_latest_log_of_enough_electors_leads() -> None:
    ends = {2: LogEnd(5, 100), 3: LogEnd(5, 101)}
    assert candidates(VOTE, {2: ends[2]}) == set(), "one report is too few"
    assert candidates(VOTE, ends) == {3}
    assert candidates(VOTE, {2: LogEnd(5, 100), 3: LogEnd(4, 900)}) == {2}, "an earlier epoch is an earlier log"
    assert candidates(VOTE, {**ends, 1: LogEnd(5, 200)}) == {1, 3}, "two electors have no later log than broker 3"
    after = elect(VOTE, ends, live_broker_epochs(2, 3))
    assert after is not None
    assert (after.leader, after.leader_broker_epoch, after.leader_epoch, after.partition_epoch) == (3, 13, 7, 11)
    assert (after.isr_ids, after.elr) == ((2, 3), (1,)), "the old leader is intact, so it stays electable"


def test_a_candidate_that_is_offline_or_shuts_down_is_not_elected() -> None:
    ends = {2: LogEnd(5, 100), 3: LogEnd(5, 101)}
    assert elect(VOTE, ends, live_broker_epochs(2)) is None


def test_demoted_brokers_are_elected_last() -> None:
    ends = {b: LogEnd(5, 100) for b in (1, 2, 3)}
    assert [
        elect(VOTE, ends, live_broker_epochs(1, 2, 3), aside).leader for aside in ((), (1,), (1, 2), (1, 2, 3))
    ] == [1, 2, 3, 1]  # type: ignore[union-attr]


def test_members_of_the_isr_are_elected_before_other_electors() -> None:
    vote = replace(VOTE, isr=members(3), elr=(1, 2))
    ends = {b: LogEnd(5, 100) for b in (1, 2, 3)}
    assert [elect(vote, ends, live_broker_epochs(*b)).leader for b in ((1, 2, 3), (1, 2))] == [3, 1]  # type: ignore[union-attr]
    assert elect(vote, {b: ends[b] for b in (2, 3)}, live_broker_epochs(1, 2, 3), wait=True) is not None, (
        "broker 1 is not preferred"
    )


def test_a_vote_waits_for_a_live_broker_that_would_be_preferred() -> None:
    ends = {2: LogEnd(5, 100), 3: LogEnd(5, 100)}
    assert elect(VOTE, ends, live_broker_epochs(1, 2, 3), wait=True) is None
    assert elect(VOTE, ends, live_broker_epochs(2, 3), wait=True) is not None, "a dead broker is not waited for"
    assert elect(VOTE, ends, live_broker_epochs(1, 2, 3)) is not None
    assert elect(VOTE, ends, live_broker_epochs(1, 2, 3), {1}, wait=True) is not None, "a demoted one neither"


def test_a_broker_that_lost_its_tail_is_no_elector() -> None:
    state = remove_offline_replicas(LED, (), (3,))
    assert state is not None and (state.leader, state.isr_ids, state.elr) == (1, (1, 2), ())
    vote = start_vote(state)
    assert electors(vote) == (1, 2)
    assert candidates(vote, {2: LogEnd(5, 100), 3: LogEnd(5, 90)}) == set()
    everybody = {1: LogEnd(5, 120), 2: LogEnd(5, 100), 3: LogEnd(5, 130)}
    assert candidates(vote, everybody) == {1}


def test_the_reports_of_all_voters_elect_when_there_are_too_few_electors() -> None:
    vote = replace(VOTE, isr=(), elr=())
    ends = {1: LogEnd(5, 90), 2: LogEnd(5, 100)}
    assert candidates(vote, ends) == set()
    assert candidates(vote, {**ends, 3: LogEnd(4, 300)}) == {2}
    assert candidates(replace(vote, last_isr=(REPLACED,)), {**ends, 3: LogEnd(4, 300)}) == set()


def test_a_broker_with_an_older_copy_of_its_directory_ends_elections_by_all_reports() -> None:
    state = remove_offline_replicas(LED, (), (1, 2, 3), (2,))
    assert state is not None and (state.leader, state.last_isr) == (NO_LEADER, (REPLACED,))
    assert candidates(state, {b: LogEnd(5, 100) for b in (1, 2, 3)}) == set()


def test_offline_brokers_stay_electors_and_a_dead_leader_starts_a_vote() -> None:
    state = remove_offline_replicas(LED, (3,), ())
    assert state is not None and (state.leader, state.isr_ids, state.elr) == (1, (1, 2), (3,))
    assert remove_offline_replicas(state, (3,), ()) is None
    state = remove_offline_replicas(state, (1,), ())
    assert state is not None
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (NO_LEADER, 6, 11)
    assert (state.isr_ids, state.elr) == ((2,), (3, 1))
    assert remove_offline_replicas(state, (2,), ()) is not None


def test_members_that_leave_the_isr_stay_electors() -> None:
    state = with_isr(LED, members(1, 3))
    assert (state.isr_ids, state.elr) == ((1, 3), (2,))
    assert election.with_isr(state, members(1, 2, 3), min_insync=1).elr == ()
    assert election.without_outdated_elr(state, min_insync=1) is state


def test_the_effective_minimum_is_a_majority() -> None:
    assert [LED.effective_min_insync(n) for n in (1, 2, 3, 4)] == [2, 2, 3, 3]
    five = replace(LED, replicas=(1, 2, 3, 4, 5), voters=(1, 2, 3, 4, 5))
    assert five.effective_min_insync(1) == 3 and replace(five, voters=()).effective_min_insync(1) == 1
    moving = replace(LED, replicas=(4, 1, 2, 3), adding=(4,), removing=(1,))
    assert moving.effective_min_insync(1) == 2, "a majority of the voters"


def test_live_electors() -> None:
    assert live_electors(LED, live_broker_epochs(2, 3)) == (2, 3) and live_electors(
        LED, live_broker_epochs(2, 3), (2,)
    ) == (3,)
    assert can_elect(LED, live_broker_epochs(2, 3)) and not can_elect(LED, live_broker_epochs(1, 2, 3), (1, 2))


def test_an_unclean_election_takes_the_latest_reported_log() -> None:
    after = elect_uncleanly(VOTE, {2: LogEnd(5, 1), 3: LogEnd(5, 2)}, live_broker_epochs(2, 3))
    assert after is not None and (after.leader, after.isr_ids, after.elr) == (3, (3,), ())
    unreported = elect_uncleanly(VOTE, {}, live_broker_epochs(2, 3))
    assert unreported is not None and unreported.leader == 2
    assert elect_uncleanly(VOTE, {}, live_broker_epochs()) is None


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_each_possible_leader_has_all_committed_records(data: st.DataObject) -> None:
    """A history of leaders. Each appends records and replicates them to some voters, after these have truncated what it does not have. A record counts as
    committed when a majority has it together with a record of the leader's epoch. Every replica that any set of reports elects has the committed
    records."""
    size = data.draw(st.sampled_from((3, 5)), "voters")
    voters = tuple(range(size))
    logs: dict[int, list[tuple[int, int]]] = {v: [] for v in voters}
    committed: list[tuple[int, int]] = []
    serial = 0
    for epoch in range(1, data.draw(st.integers(2, 6), "leaders")):
        reporting = data.draw(st.sets(st.sampled_from(voters), min_size=1), "reports")
        ends = {v: LogEnd(logs[v][-1][0] if logs[v] else -1, len(logs[v])) for v in reporting}
        state = replace(VOTE, replicas=voters, isr=members(*voters), voters=voters)
        found = candidates(state, ends)
        for leader in found:
            assert logs[leader][: len(committed)] == committed
        if not found:
            continue
        leader = data.draw(st.sampled_from(sorted(found)), "leader")
        base = len(logs[leader])
        for _ in range(data.draw(st.integers(1, 3), "records")):
            serial += 1
            logs[leader].append((epoch, serial))
        for v in data.draw(st.sets(st.sampled_from(voters)), "followers"):
            if v != leader:
                copied = data.draw(st.integers(0, len(logs[leader])), "copied")
                logs[v] = logs[leader][: max(_common(logs[v], logs[leader]), copied)]
        for end in range(len(logs[leader]), base, -1):
            if sum(logs[v][:end] == logs[leader][:end] for v in voters) >= quorum(voters):
                committed = logs[leader][:end]
                break


def _common(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> int:
    """The number of records that two logs have in common."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
