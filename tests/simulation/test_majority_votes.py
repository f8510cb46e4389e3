"""Directed cases of majority acknowledgements (decision 102): a slow replica delays nobody, and each rule of a vote keeps acknowledged records.

The last test removes these rules from the product one by one, and shows which case detects it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest

from brokerd.cluster import majority as rules
from brokerd.cluster.majority import LogEnd
from brokerd.cluster.model import NO_LEADER, PartitionState
from brokerd.replication import quorum
from brokerd.replication.partition import Partition
from brokerd.wire.errors import ErrorCode
from tests.simulation.checkers import Violation
from tests.simulation.majority import MAJORITY, MajorityChecker
from tests.simulation.probes import ProbeAccuracy
from tests.simulation.scene import PATIENT, Scene

FOUND = ProbeAccuracy(reported=1, wrong=0, together=1)
"""A dead broker is noticed at once."""
WRITTEN = [f"r{i}" for i in range(5)]
SEEDS = range(1, 5)


def majority_scene(seed: int, replicas: int = 3) -> Scene:
    return Scene(seed, None, PATIENT, brokers=replicas, probes=FOUND, checker=MajorityChecker, **MAJORITY)


def followers(scene: Scene) -> list[int]:
    return [b for b in scene.state.replicas if b != scene.state.leader]


def until_offline(scene: Scene) -> None:
    scene.cluster.run_until(lambda: scene.state.leader == NO_LEADER, 5, "no leader")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_replica_that_does_not_respond_delays_no_producer(seed: int) -> None:
    scene = majority_scene(seed)
    scene.write(*WRITTEN)
    leader, (silent, _) = scene.state.leader, followers(scene)
    scene.cut(leader, silent)
    began_us = scene.world.now_us
    scene.write("x", "y")
    assert scene.world.now_us - began_us < 1_000_000
    assert silent in scene.state.isr_ids, "it has not been behind for long enough to leave the ISR"
    scene.heal()
    assert scene.end() == [*WRITTEN, "x", "y"]


@pytest.mark.parametrize("seed", SEEDS)
def test_without_majority_acknowledgements_it_delays_them(seed: int) -> None:
    """The control of the test above."""
    scene = Scene(seed, 2, PATIENT, brokers=3, probes=FOUND)
    scene.write(*WRITTEN)
    leader, (silent, _) = scene.state.leader, followers(scene)
    scene.cut(leader, silent)
    assert scene.send(leader, "x", timeout_ms=2_000) == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("seed", SEEDS)
def test_a_minority_commits_nothing(seed: int) -> None:
    scene = majority_scene(seed)
    scene.write(*WRITTEN)
    leader = scene.state.leader
    for b in followers(scene):
        scene.cut(leader, b)
    assert scene.send(leader, "x", timeout_ms=1_500) == ErrorCode.REQUEST_TIMED_OUT


def the_longest_log_is_of_an_old_epoch(seed: int) -> Scene:
    """A deposed leader has many records that nobody else has; the next leader has one committed record in a later epoch."""
    scene = majority_scene(seed)
    scene.write(*WRITTEN)
    first, (one, other) = scene.state.leader, followers(scene)
    scene.cut(first, one)
    scene.cut(first, other)
    for i in range(9):
        assert scene.send(first, f"lost{i}", acks=1) == ErrorCode.NONE
    scene.cluster.brokers[first].kill()
    scene.cluster.run_until(lambda: scene.state.leader in (one, other), 10, "another leader")
    scene.pass_ms(300)
    scene.write("x")
    scene.cluster.brokers[scene.state.leader].kill()
    until_offline(scene)
    scene.heal()
    scene.cluster.brokers[first].start()
    scene.cluster.run_until(lambda: scene.state.leader != NO_LEADER, 20, "a leader")
    for node in scene.cluster.brokers.values():
        node.start()
    assert scene.end() == [*WRITTEN, "x"]
    return scene


def the_only_other_replica_of_a_record_loses_it(seed: int) -> Scene:
    """The leader and one follower have the last record. The follower loses power and the record, then the leader fails: the third replica, which was in
    the ISR, must not lead with the one that lost the record."""
    scene = majority_scene(seed)
    scene.write(*WRITTEN)
    leader, (behind, other) = scene.state.leader, followers(scene)
    scene.cut(leader, behind)
    scene.write("x")
    scene.cut(leader, other)
    scene.cut(behind, other)
    scene.cluster.brokers[other].power_cut()
    scene.pass_ms(500)
    scene.cluster.brokers[other].start()
    node = scene.cluster.brokers[other]
    scene.cluster.run_until(lambda: node.broker.replica_manager.registered_epoch is not None, 20, "its registration")
    scene.cluster.brokers[leader].kill()
    until_offline(scene)
    scene.heal()
    scene.pass_ms(5_000)
    scene.cluster.brokers[leader].start()
    scene.cluster.run_until(lambda: scene.state.leader != NO_LEADER, 20, "a leader")
    assert scene.end() == [*WRITTEN, "x"]
    return scene


def a_record_of_an_earlier_epoch_reaches_a_majority(seed: int) -> Scene:
    """The Raft paper shows this case in its figure 8. `first` has a record of epoch 0 that nobody else has. Its successor fails before anyone has its leader change record.
    `first` leads again, cannot append its own leader change record (its disk is full), and copies its old record to a majority."""
    scene = majority_scene(seed)
    scene.write(*WRITTEN)
    first, (one, other) = scene.state.leader, followers(scene)
    cluster = scene.cluster
    scene.cut(first, one)
    scene.cut(first, other)
    scene.cut(one, other)
    assert scene.send(first, "old", acks=1) == ErrorCode.NONE
    cluster.brokers[first].kill()
    cluster.run_until(lambda: scene.state.leader in (one, other), 10, "another leader")
    second = scene.state.leader
    third = one + other - second
    scene.pass_ms(200)
    cluster.brokers[second].kill()
    until_offline(scene)
    cluster.brokers[first].start()
    cluster.brokers[first].disk_room(0)
    scene.heal()
    cluster.run_until(lambda: scene.state.leader == first, 20, "the first leader")
    hosted = cluster.brokers[third].broker.replica_manager.hosted
    cluster.run_until(lambda: hosted[scene.tp].log.end_offset > len(WRITTEN) + 1, 20, "the copy of its old record")
    scene.pass_ms(1_000)
    cluster.brokers[first].kill()
    cluster.brokers[first].disk_whole()
    until_offline(scene)
    cluster.brokers[second].start()
    cluster.run_until(lambda: scene.state.leader == second, 20, "the second leader")
    cluster.brokers[first].start()
    assert scene.end() == WRITTEN
    return scene


CASES = [
    the_longest_log_is_of_an_old_epoch,
    the_only_other_replica_of_a_record_loses_it,
    a_record_of_an_earlier_epoch_reaches_a_majority,
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_acknowledged_records_are_kept(case: Callable[[int], Scene], seed: int) -> None:
    case(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_after_the_loss_of_all_machines_the_reports_of_all_voters_elect(seed: int) -> None:
    scene = majority_scene(seed)
    scene.write(*WRITTEN)
    nodes = scene.cluster.brokers
    for node in nodes.values():
        node.power_cut()
    until_offline(scene)
    for broker_id in (1, 2):
        nodes[broker_id].start()
    scene.pass_ms(6_000)
    assert scene.state.leader == NO_LEADER, "the third machine may have records that these two have lost"
    assert (scene.state.isr, scene.state.elr) in (((), (3,)), ((), ()))
    nodes[3].start()
    scene.cluster.run_until(lambda: scene.tp in nodes[3].broker.replica_manager.hosted, 20, "its replica")
    ends = {b: node.broker.replica_manager.hosted[scene.tp].log.end_offset for b, node in nodes.items()}
    scene.cluster.run_until(lambda: scene.state.leader != NO_LEADER, 20, "a leader")
    assert scene.state.leader == max((1, 2, 3), key=lambda b: (ends[b], -scene.state.replicas.index(b)))
    kept = scene.end()
    assert kept == WRITTEN[: len(kept)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_leader_that_stops_hands_over_without_a_loss(seed: int) -> None:
    scene = majority_scene(seed)
    scene.write(*WRITTEN)
    leader = scene.cluster.brokers[scene.state.leader]
    leader.stop()
    scene.cluster.run_until(lambda: scene.state.leader not in (NO_LEADER, leader.broker_id), 3, "another leader")
    scene.pass_ms(300)
    scene.write("x")
    scene.cluster.run_until(lambda: not leader.alive, 20, "the end of the process")
    leader.start()
    assert scene.end() == [*WRITTEN, "x"]


# -- removed rules ---------------------------------------------------------------------------------------------------
def only_the_offset_counts(patch: pytest.MonkeyPatch) -> None:
    candidates = rules.candidates
    patch.setattr(
        rules, "candidates", lambda state, ends: candidates(state, {b: LogEnd(0, e.offset) for b, e in ends.items()})
    )


def a_replica_that_lost_its_tail_votes(patch: pytest.MonkeyPatch) -> None:
    remove = rules.remove_offline_replicas

    def mutated_remove_offline_replicas(
        state: PartitionState, away: Collection[int], lost: Collection[int], replaced: Collection[int] = ()
    ) -> Any:
        return remove(state, {*away, *lost}, (), replaced)

    patch.setattr(rules, "remove_offline_replicas", mutated_remove_offline_replicas)


def a_leader_commits_records_of_earlier_epochs(patch: pytest.MonkeyPatch) -> None:
    def mutated_raise_high_watermark(self: Partition) -> list[Any]:
        assert self.state is not None
        counted, isr = self.acknowledgeable_end, self.maximal_isr()
        return self._set_high_watermark(quorum.committed_end(self.state, self.broker_id, counted, self.followers, isr))

    patch.setattr(Partition, "_raise_high_watermark", mutated_raise_high_watermark)


@pytest.mark.parametrize(
    ("mutation", "case"),
    list(
        zip(
            [only_the_offset_counts, a_replica_that_lost_its_tail_votes, a_leader_commits_records_of_earlier_epochs],
            CASES,
            strict=True,
        )
    ),
    ids=lambda m: m.__name__,
)
def test_a_removed_rule_is_detected(
    mutation: Any, case: Callable[[int], Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)

    def in_any_seed() -> None:
        for seed in SEEDS:  # a machine that loses power does not lose the record in each of them
            case(seed)

    with pytest.raises(Violation, match="was elected with the log end"):
        in_any_seed()
