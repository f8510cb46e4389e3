"""Moves without old data in the controller: their requests, and the start offsets of new replicas that leaders report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from brokerd.cluster import election
from brokerd.cluster.levels import LEVEL_MAX, SUPPORTED_LEVELS
from brokerd.cluster.metadata import MetadataError, PartitionChanged, record_from_json, record_to_json
from brokerd.cluster.model import PartitionState, ReplicaIncarnation
from brokerd.cluster.znodes import (
    BootstrapProposal,
    Proposals,
    ResetProposal,
    StartProposal,
    decode_proposals,
    encode_proposals,
)
from controlplane.controller import desired as wanted_module
from controlplane.controller.events import BrokersSeen, DesiredAssignment, DesiredRead, IsrProposed, Report
from tests.unit.controlplane.controller.test_proposals import NOW, TOPIC, TP, CoreHarness, registration

NO_BROKER = -1


class Harness(CoreHarness):
    """Topic t-0 on brokers 1 and 2, led by 1. Brokers 3 and 4 are alive too."""

    def __init__(self) -> None:
        super().__init__()
        self.seen |= {i: replace(registration(i, 100 + i), metadata_levels=SUPPORTED_LEVELS) for i in (1, 2, 3, 4)}
        self.image.metadata_version = LEVEL_MAX
        self.deliver(BrokersSeen(dict(self.seen)))

    def order(self, replicas: tuple[int, ...] = (1, 2), generation: int | None = None, **more: object) -> list[str]:
        """Submit a desired assignment. Returns the rejections."""
        read = self.state.assignment_generation if generation is None else generation
        wanted = DesiredAssignment(TOPIC, 0, replicas, read, "m", **more)  # type: ignore[arg-type]
        effects = self.core.handle(DesiredRead(assignments=(wanted,)), NOW)
        rejected = [e.text for e in effects if isinstance(e, Report) and e.kind == "refused"]
        self.core.in_flight = False
        self.deliver(DesiredRead(assignments=(wanted,)))
        return rejected

    def propose_bootstrap(self, offset: int, epoch: int | None = None) -> None:
        e = self.state.leader_epoch if epoch is None else epoch
        self.deliver(IsrProposed(1, 101, (), (BootstrapProposal(TOPIC, 0, e, offset),)))


def harness_with_observers() -> Harness:
    harness = Harness()
    assert harness.order(observers=(3, 4)) == []
    assert (harness.state.replicas, harness.state.observers, harness.state.tail_start) == ((1, 2), (3, 4), NO_BROKER)
    return harness


def test_observers_are_added_and_the_leader_chooses_their_log_start() -> None:
    harness = harness_with_observers()
    assert not harness.state.reassigning
    harness.propose_bootstrap(500, epoch=harness.state.leader_epoch - 1)
    assert harness.state.tail_start == NO_BROKER, "a word of another epoch"
    harness.propose_bootstrap(500)
    assert harness.state.tail_start == 500
    harness.propose_bootstrap(700)
    assert harness.state.tail_start == 700, "begun again"


def test_an_order_is_applied_once_in_the_generation_that_was_read() -> None:
    harness = harness_with_observers()
    generation = harness.state.assignment_generation
    assert harness.order(observers=(3, 4), generation=generation - 1) == [], "carried out before"
    assert harness.state.assignment_generation == generation
    (comment,) = harness.order(observers=(4,), generation=generation - 1)
    assert "assignment has changed" in comment and harness.state.observers == (3, 4)


@pytest.mark.parametrize(
    ("observers", "comment"), [((2,), "replicas already"), ((9,), "not alive")], ids=["a replica", "nobody"]
)
def test_an_invalid_observer_is_rejected(observers: tuple[int, ...], comment: str) -> None:
    (text,) = Harness().order(observers=observers)
    assert comment in text


def test_a_deletion_of_old_records_is_bound_to_the_log_start_of_the_observers() -> None:
    harness = harness_with_observers()
    harness.propose_bootstrap(500)
    (comment,) = harness.order(delete_below=400)
    assert "start at 500" in comment and harness.state.log_start_floor == NO_BROKER
    assert harness.order(delete_below=500) == []
    assert harness.state.log_start_floor == 500 and harness.state.observers == (3, 4)


def test_an_observer_becomes_a_replica_and_the_log_start_floor_stays() -> None:
    harness = harness_with_observers()
    harness.propose_bootstrap(500)
    harness.order(delete_below=500)
    before = harness.state
    assert harness.order((3, 4)) == []
    epoch = before.leader_epoch
    state = harness.state
    assert (state.replicas, state.adding, state.removing) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert (state.leader, state.leader_epoch) == (1, epoch + 1), "what they had fetched until then counts for nothing"
    assert (state.observers, state.tail_start, state.log_start_floor) == ((), NO_BROKER, 500)


def test_a_cancelled_tail_move_has_no_observers() -> None:
    harness = harness_with_observers()
    harness.propose_bootstrap(500)
    harness.order(delete_below=500)
    before, epoch = harness.state.assignment_generation, harness.state.leader_epoch
    assert harness.order((1, 2)) == []
    state = harness.state
    assert state.leader_epoch == epoch + 1, "nor does it when one of them is added later"
    assert (state.replicas, state.observers, state.tail_start) == ((1, 2), (), NO_BROKER)
    assert state.log_start_floor == 500, "deleted records stay deleted under the next leader"
    assert state.assignment_generation == before + 1, "no earlier order can take effect any more"


def test_an_unclean_election_discards_the_log_start_of_the_observers() -> None:
    harness = harness_with_observers()
    harness.propose_bootstrap(500)
    harness.order(delete_below=500)
    state = replace(harness.state, isr=(), elr=(), last_isr=(1,), leader=NO_BROKER, leader_broker_epoch=NO_BROKER)
    after = election.elect_leader(state, lambda b: 102 if b == 2 else None, min_insync=1, unclean=True)
    assert after is not None and after.leader == 2
    assert (after.observers, after.tail_start, after.log_start_floor) == ((3, 4), NO_BROKER, NO_BROKER)


def test_an_observer_is_never_elected() -> None:
    harness = harness_with_observers()
    state = replace(harness.state, leader=NO_BROKER, leader_broker_epoch=NO_BROKER)
    for unclean in (False, True):
        assert (
            election.elect_leader(state, lambda b: 100 + b if b in (3, 4) else None, min_insync=1, unclean=unclean)
            is None
        )


def test_an_older_metadata_level_rejects_observers() -> None:
    harness = Harness()
    harness.image.metadata_version = wanted_module.TAIL_LEVEL - 1
    harness.seen = {i: replace(r, metadata_levels=(1, wanted_module.TAIL_LEVEL - 1)) for i, r in harness.seen.items()}
    (comment,) = harness.order(observers=(3,))
    assert "upgrade_metadata" in comment and harness.state.observers == ()


def test_records_of_older_programs_are_unchanged() -> None:
    state = PartitionState((1, 2), (ReplicaIncarnation(1, 11),), 1, 11)
    plain = record_to_json(PartitionChanged(TOPIC, 0, state))
    assert plain["version"] == 1 and "observers" not in plain["state"]
    tail = record_to_json(PartitionChanged(TOPIC, 0, replace(state, observers=(3,), tail_start=7)))
    assert tail["version"] == 2
    for said in (plain, tail):
        again = record_from_json(said)
        assert isinstance(again, PartitionChanged) and record_to_json(again) == said
    with pytest.raises(MetadataError):
        record_from_json({**tail, "version": 5})


def test_log_start_proposals_are_absent_if_there_are_none() -> None:
    bootstrap = BootstrapProposal(TOPIC, 0, 4, 900)
    start = StartProposal(TOPIC, 1, 4, 700)
    wanted = Proposals((), (bootstrap,), (start,), (ResetProposal(TOPIC, 0, 4, ReplicaIncarnation(2, 102)),))
    assert decode_proposals(encode_proposals(11, wanted)) == (11, wanted)
    assert b"s" not in encode_proposals(11, Proposals()).replace(b"proposals", b"")


def test_observers_survive_a_snapshot() -> None:
    harness = harness_with_observers()
    harness.propose_bootstrap(500)
    again = type(harness.image).from_records(harness.image.records(), 1, "h", 1)
    assert again.partition(TP) == harness.state


def test_a_topic_with_tiered_storage_rejects_a_deletion_and_an_early_hand_over() -> None:
    """Otherwise remote records below the log start floor would stay readable, or would not be readable while history replicas exist."""
    harness = harness_with_observers()
    harness.propose_bootstrap(500)
    harness.image.topics[TOPIC].configs = {"remote.storage.enable": "true"}
    for order in ({"delete_below": 500}, {"replicas": (1, 2, 3, 4), "hand_over_at": 500}):
        (comment,) = harness.order(**order)
        assert "has tiered storage" in comment
        assert (harness.state.log_start_floor, harness.state.handover_offset) == (NO_BROKER, NO_BROKER)
    assert harness.order((1, 2, 3, 4)) == [], "the join is an ordinary order"
