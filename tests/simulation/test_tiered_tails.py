"""Tail moves of topics with tiered storage: the new replica gets no old record, and every record stays in one of the tiers. Mutations must be detected.

Hundreds of worlds: `make simulate WORLD=tiered-tails N=200`.
"""

from __future__ import annotations

from collections import Counter

import pytest

from brokerd.remote import leader as remote_leader
from brokerd.runtime.remote_logs import RemoteLogs
from controlplane.controller import desired
from controlplane.controller.events import DesiredAssignment
from controlplane.controller.reconcile_pass import ReconcilePass
from tests.simulation import tails
from tests.simulation.checkers import Violation
from tests.simulation.run import run
from tests.simulation.tailmoves import TailMove
from tests.simulation.tiered_scene import TieredScene
from tests.simulation.tiered_tails import BothTiersWatch

SEEDS = [(tails.tiered, 2), (tails.tiered_with_transactions, 1)]

FAULTS_S = 12
"""Shorter than in `make simulate`."""


class TieredTailMove:
    """A tiered partition on two of three brokers, whose store is away, and a tail move of one replica to the third broker."""

    def __init__(self, seed: int) -> None:
        self.scene = TieredScene(seed, brokers=3, replicas=2)
        self.cluster = self.scene.cluster
        BothTiersWatch(self.cluster, ("t",))
        self.scene.produce(30)
        self.cluster.remote_store.away = True
        self.scene.produce(13)
        old = self.scene.state.replicas
        self.new = next(b for b in (1, 2, 3) if b not in old)
        self.move = TailMove(self.cluster, self.scene.tp, "t-0", (old[0], self.new), 1, tiered=True)
        self.move.gives_up, self.move._forbidden_left = False, 0
        self.cluster.run_until(lambda: self.scene.state.tail_start >= 0, 30, "the start offset of the observer")
        self.start = self.scene.state.tail_start
        self.cluster.run_until(lambda: self.scene.local_start(self.new) == self.start, 30, "the start of its log")

    def follow(self) -> None:
        self.scene.produce(5)
        self.scene.pass_ms(8_000)

    def finish(self) -> None:
        self.cluster.remote_store.away = False
        self.cluster.run_until(lambda: self.move.over and self.cluster.is_settled(), 120, "the end of the move")
        assert self.move.step == "done"
        assert self.scene.local_start(self.new) >= self.start
        assert self.scene.read_all() == self.scene.written


@pytest.mark.parametrize("seed", range(2))
def test_a_tail_move_of_a_tiered_topic_waits_for_copies_and_copies_no_old_record(seed: int) -> None:
    moving = TieredTailMove(seed)
    moving.follow()
    assert moving.move.step == "follow", "the records below the start of the new replica are only local"
    assert moving.scene.local_start(moving.scene.state.leader) < moving.start
    moving.finish()


def under_another_leader() -> None:
    """The segments of the next leader do not end where the new replica starts."""
    moving = TieredTailMove(3)
    before = moving.cluster.brokers[moving.scene.state.leader]
    before.kill()
    moving.cluster.run_until(lambda: moving.scene.leads_another(before.broker_id), 30, "another leader")
    moving.cluster.remote_store.away = False
    leader = moving.scene.state.leader
    moving.cluster.run_until(lambda: moving.scene.local_start(leader) == moving.start, 30, "the local log start")
    before.start()
    moving.finish()


def test_a_later_leader_closes_the_segment_in_which_the_new_replica_starts() -> None:
    under_another_leader()


def reassign_during_copy() -> None:
    """Another operator orders an ordinary move to the same broker before the old records are copied. (Seed 5045 of `tiered-tail-transactions`.)"""
    moving = TieredTailMove(4)
    state = moving.scene.state
    moving.cluster.deliver_desired(
        DesiredAssignment(*moving.scene.tp, (moving.new, state.replicas[1]), state.assignment_generation, "other")
    )
    moving.cluster.run_until(lambda: not moving.scene.state.observers, 30, "a replica in place of the observer")
    moving.scene.pass_ms(8_000)
    assert moving.new not in moving.scene.state.isr_ids, "the records below its start are in no other tier"
    moving.cluster.remote_store.away = False
    moving.cluster.run_until(
        lambda: moving.scene.state.replicas == (moving.new, state.replicas[1]) and moving.cluster.is_settled(),
        120,
        "the end of the ordinary move",
    )
    assert moving.scene.read_all() == moving.scene.written


def test_an_observer_that_becomes_a_replica_joins_only_after_the_copies() -> None:
    reassign_during_copy()


def eager_local_starts(patch: pytest.MonkeyPatch) -> None:
    """The leader deletes local records below the start of the new replica before they are copied."""
    patch.setattr(remote_leader, "local_start_for", lambda starts, copied_end: max(starts, default=-1))


def test_a_leader_that_does_not_wait_for_the_copies_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    eager_local_starts(monkeypatch)
    with pytest.raises(Violation, match="copies of the store end at"):
        TieredTailMove(0).follow()


def test_a_controller_that_accepts_a_deletion_of_a_tiered_topic_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutated_desired_state(plan: ReconcilePass, topic: object, state: object, wanted: DesiredAssignment) -> object:
        return ordered(plan, UntieredTopic(topic), state, wanted)

    ordered = desired._desired_state
    monkeypatch.setattr(desired, "_desired_state", mutated_desired_state)
    moving = TieredTailMove(1)
    state = moving.scene.state
    order = DesiredAssignment(
        *moving.scene.tp, state.target, state.assignment_generation, "cut", delete_below=moving.start
    )
    moving.cluster.deliver_desired(order)
    with pytest.raises(Violation, match="copies of the store end at"):
        moving.scene.pass_ms(5_000)


class UntieredTopic:
    """The topic of an order, without its configs."""

    def __init__(self, topic: object) -> None:
        self._topic, self.configs = topic, dict[str, str]()

    def __getattr__(self, name: str) -> object:
        return getattr(self._topic, name)


def test_a_leader_that_does_not_close_the_segment_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RemoteLogs, "_close_tail_start", lambda *_: None)
    with pytest.raises(Violation, match="the local log start"):
        under_another_leader()


def test_the_worlds_keep_the_invariants_and_reach_their_states() -> None:
    reached: Counter[str] = Counter()
    for life, seed in SEEDS:
        outcome = run(seed, life=life, faults_s=FAULTS_S)
        assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
        reached += outcome.reached
    for state in (
        "tail copied",
        "tail move: done",
        "tail move: retention has passed",
        "tail move: forbidden order",
        "local log start checked against the store",
        "transactions aborted",
    ):
        assert reached[state], f"{state} was reached in none of the seeds; reached: {dict(reached)}"
