"""Early hand-over in the controller: the history replicas, the leaders, the hand-over offset, and the end of the hand-over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from brokerd.cluster import election
from brokerd.cluster.levels import HANDOVER_LEVEL
from brokerd.cluster.metadata import PartitionChanged, record_from_json, record_to_json
from brokerd.cluster.model import ReplicaIncarnation
from brokerd.cluster.znodes import IsrProposal, StartProposal
from controlplane.controller.events import BrokersSeen, IsrProposed
from tests.unit.controlplane.controller.test_desired import NO_BROKER, Harness, harness_with_observers
from tests.unit.controlplane.controller.test_proposals import TOPIC, TP

S = 500


def in_sync(harness: Harness, *brokers: int) -> None:
    """The leader proposes this ISR, and the controller accepts it."""
    state = harness.state
    isr = tuple(ReplicaIncarnation(b, harness.seen[b].broker_epoch) for b in brokers)
    proposal = IsrProposal(TOPIC, 0, state.leader_epoch, state.partition_epoch, isr)
    harness.deliver(IsrProposed(state.leader, state.leader_broker_epoch, (proposal,)))


def ready(*, both: bool = True) -> Harness:
    harness = harness_with_observers()
    if both:
        harness.seen[2] = replace(harness.seen[2], broker_epoch=202)  # (it had failed)
        harness.deliver(BrokersSeen(dict(harness.seen)))
        in_sync(harness, 1, 2)
        assert harness.state.isr_ids == (1, 2)
    harness.propose_bootstrap(S)
    return harness


def handed_over() -> Harness:
    harness = ready()
    assert harness.order((3, 4), hand_over_at=S) == []
    in_sync(harness, 1, 2, 3, 4)
    return harness


def propose_start(harness: Harness, offset: int, epoch: int | None = None) -> None:
    state = harness.state
    start = StartProposal(TOPIC, 0, state.leader_epoch if epoch is None else epoch, offset)
    harness.deliver(IsrProposed(state.leader, state.leader_broker_epoch, (), (), (start,)))


def test_no_new_replica_leads_before_all_new_replicas_are_in_sync() -> None:
    harness = ready()
    assert harness.order((3, 4), hand_over_at=S) == []
    state = harness.state
    assert (state.replicas, state.adding, state.removing) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert (state.leader, state.leader_epoch, state.handover_epoch) == (1, state.handover_epoch, state.leader_epoch)
    assert (state.handover_offset, state.history_replicas, state.observers) == (S, (1, 2), ())
    in_sync(harness, 1, 2, 3)
    assert harness.state.leader == 1
    in_sync(harness, 1, 2, 3, 4)
    state = harness.state
    assert (state.replicas, state.isr_ids, state.leader) == ((3, 4), (3, 4), 3)
    assert (state.handover_offset, state.history_replicas, state.hosts) == (S, (1, 2), (3, 4, 1, 2))


def test_a_replica_out_of_sync_at_the_order_is_no_history_replica() -> None:
    harness = ready(both=False)
    harness.order((3, 4), hand_over_at=S)
    in_sync(harness, 1, 3, 4)
    assert (harness.state.history_replicas, harness.state.hosts) == ((1,), (3, 4, 1))


def test_a_hand_over_order_for_another_log_start_is_rejected() -> None:
    harness = ready()
    before = harness.state
    (comment,) = harness.order((3, 4), hand_over_at=S - 1)
    assert "start at 500" in comment and harness.state == before


def test_a_hand_over_without_a_new_replica_is_rejected() -> None:
    harness = ready()
    (comment,) = harness.order((2, 1), hand_over_at=S)
    assert "no replica is new" in comment and harness.state.handover_offset == NO_BROKER


def test_a_compared_hand_over_keeps_all_replicas_until_the_old_ones_become_history_replicas() -> None:
    harness = ready()
    assert harness.order((3, 4, 1, 2), hand_over_at=S) == []
    in_sync(harness, 1, 2, 3, 4)
    state = harness.state
    assert (state.replicas, state.reassigning, state.history_replicas, state.handover_offset) == (
        (3, 4, 1, 2),
        False,
        (1, 2),
        S,
    )
    assert harness.order((3, 4)) == []
    state = harness.state
    assert (state.replicas, state.leader, state.history_replicas, state.hosts) == ((3, 4), 3, (1, 2), (3, 4, 1, 2))


def test_after_the_deletion_of_old_records_the_move_is_an_ordinary_reassignment() -> None:
    harness = ready()
    harness.order(delete_below=S)
    assert harness.order((3, 4), hand_over_at=S) == []
    assert (harness.state.handover_offset, harness.state.adding) == (NO_BROKER, (3, 4))


def test_an_older_metadata_level_rejects_an_early_hand_over() -> None:
    harness = ready()
    harness.image.metadata_version = HANDOVER_LEVEL - 1
    (comment,) = harness.order((3, 4), hand_over_at=S)
    assert "upgrade_metadata" in comment and harness.state.handover_offset == NO_BROKER


def test_during_the_hand_over_a_complete_replica_is_preferred_as_leader() -> None:
    harness = ready()
    harness.order((3, 4), hand_over_at=S)
    in_sync(harness, 1, 2, 3)
    harness.seen = {i: r for i, r in harness.seen.items() if i != 1}
    harness.deliver(BrokersSeen(dict(harness.seen)))
    assert harness.state.leader == 2
    harness.seen = {i: r for i, r in harness.seen.items() if i != 2}
    harness.deliver(BrokersSeen(dict(harness.seen)))
    assert harness.state.leader == 3, "it asks for the rest"
    assert harness.state.history_replicas == (1, 2), "who is away holds it on its disk"


def test_a_cancelled_hand_over_leaves_no_history_replicas() -> None:
    harness = ready()
    harness.order((3, 4), hand_over_at=S)
    in_sync(harness, 1, 2, 3)
    assert harness.order((1, 2)) == []
    state = harness.state
    assert (state.replicas, state.handover_offset, state.history_replicas, state.leader) == ((1, 2), NO_BROKER, (), 1)


def test_after_a_rollback_history_reads_end_with_the_last_replica_that_needs_them() -> None:
    harness = handed_over()
    assert harness.order((1, 4)) == []
    in_sync(harness, 3, 4, 1)
    assert (harness.state.replicas, harness.state.history_replicas, harness.state.handover_offset) == (
        (1, 4),
        (1, 2),
        S,
    ), "4 has no more"
    harness.order((1, 2))
    in_sync(harness, *harness.state.isr_ids, 2)
    state = harness.state
    assert (state.replicas, state.history_replicas, state.handover_offset, state.hosts) == (
        (1, 2),
        (),
        NO_BROKER,
        (1, 2),
    )


def test_history_reads_end_when_the_leader_raises_the_log_start() -> None:
    harness = handed_over()
    propose_start(harness, 200, epoch=harness.state.leader_epoch - 1)
    assert harness.state.log_start_floor == NO_BROKER, "a word of another epoch"
    propose_start(harness, 200)
    assert (harness.state.log_start_floor, harness.state.handover_offset) == (200, S)
    propose_start(harness, 100)
    assert harness.state.log_start_floor == 200, "never back"
    epoch = harness.state.leader_epoch
    propose_start(harness, S)
    state = harness.state
    assert (state.log_start_floor, state.handover_offset, state.history_replicas, state.hosts) == (
        S,
        NO_BROKER,
        (),
        (3, 4),
    )
    assert state.leader_epoch == epoch, "nobody has to begin again"
    propose_start(harness, 900)
    assert harness.state.log_start_floor == S, "without an archive it is the leader's own affair"


def test_no_tail_move_starts_while_history_replicas_exist() -> None:
    harness = handed_over()
    (comment,) = harness.order((3, 4), observers=(2,))
    assert "still read from brokers [1, 2]" in comment


def test_an_uncleanly_elected_leader_is_no_history_replica() -> None:
    harness = handed_over()
    harness.order((1, 4))
    state = replace(harness.state, isr=(), elr=(), last_isr=(1,), leader=NO_BROKER, leader_broker_epoch=NO_BROKER)
    after = election.elect_leader(state, lambda b: 101 if b == 1 else None, min_insync=1)
    assert after is not None and (after.leader, after.history_replicas, after.handover_offset) == (1, (2,), S)


def test_the_record_has_its_own_version_and_survives_a_snapshot() -> None:
    harness = handed_over()
    said = record_to_json(PartitionChanged(TOPIC, 0, harness.state))
    assert said["version"] == 3
    again = record_from_json(said)
    assert isinstance(again, PartitionChanged) and again.state == harness.state
    rebuilt = type(harness.image).from_records(harness.image.records(), 1, "h", 1)
    rebuilt.validate()
    assert rebuilt.partition(TP) == harness.state


@pytest.mark.parametrize(
    "broken",
    [
        {"history_replicas": ()},
        {"handover_offset": -1},
        {"history_replicas": (1, 1)},
        {"log_start_floor": S + 1},
        {"observers": (1,)},
    ],
    ids=str,
)
def test_an_impossible_state_is_not_applied(broken: dict[str, object]) -> None:
    harness = handed_over()
    harness.image.topics[TOPIC].partitions[0] = replace(harness.state, **broken)  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        harness.image.validate()
