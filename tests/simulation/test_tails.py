"""A fixed sample of worlds of moves without old data. `make simulate WORLD=tails` and `WORLD=tail-transactions` run as many as you like."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from brokerd.cluster.model import NO_LEADER, TopicPartition
from tests.simulation.archive import Archive
from tests.simulation.checkers import History
from tests.simulation.clients import Producer
from tests.simulation.cluster import Cluster
from tests.simulation.run import Live, Outcome, run
from tests.simulation.tailmoves import TailMove, TailWatch
from tests.simulation.tails import MOVED, live, live_with_transactions
from tests.simulation.world import S, World

SEEDS: list[tuple[Live, int]] = [(live, 2), (live, 19), (live_with_transactions, 1)]
"""Seed 19 failed before: a follower that did not know of the deletion became leader after the move, and deleted records reappeared."""


@cache
def run_seed(life: Live, seed: int) -> Outcome:
    return run(seed, life=life)


@pytest.mark.parametrize(("life", "seed"), SEEDS, ids=lambda v: getattr(v, "__name__", str(v)))
def test_a_simulation_with_tail_moves_keeps_the_invariants(life: Live, seed: int) -> None:
    outcome = run_seed(life, seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 50, "too few acknowledgements: the run shows nothing"


def test_the_sample_reaches_all_tail_move_states() -> None:
    reached: Counter[str] = Counter()
    for life, seed in SEEDS:
        reached += run_seed(life, seed).reached
    for state in (
        "tail copied",
        "observer joined the ISR",
        "tail move: cut",
        "tail move: done",
        "transactions aborted",
    ):
        assert reached[state], f"{state} was reached in none of the seeds; reached: {dict(reached)}"


@pytest.mark.parametrize("seed", range(1, 4))
def test_with_every_old_replica_down_no_broker_leads_and_no_acknowledged_record_is_lost(
    seed: int,
) -> None:
    world = World(seed)
    cluster, history = Cluster(world, brokers=4), History()
    TailWatch(cluster)
    cluster.archive = Archive(cluster, (MOVED,))
    topic_id = cluster.want_topic(MOVED, 1, 2, min_insync_replicas="2")
    cluster.run_until(cluster.is_settled, 30, "the cluster's beginning")
    producer = Producer(cluster, history, "p", MOVED, 0)
    world.run(world.now_us + 2 * S)
    tp = TopicPartition(topic_id, 0)
    state = cluster.image.partition(tp)
    assert state is not None
    spare = tuple(b for b in cluster.brokers if b not in state.replicas)
    move = TailMove(cluster, tp, "moved-0", spare, 1)
    move.gives_up = False
    copies = lambda: [cluster.brokers[b].broker.replica_manager.hosted.get(tp) for b in spare]  # noqa: E731
    cluster.run_until(lambda: all(c is not None and c.log.size_bytes for c in copies()), 30, "both to follow")
    producer.stopped = True
    cluster.run_until(lambda: producer.idle, 20, "the last acknowledgement")
    cluster.run_until(lambda: move.step == "follow", 20, "the operator to have read of it")
    for broker_id in state.replicas:
        cluster.brokers[broker_id].kill()
    world.run(world.now_us + 8 * S)
    now = cluster.image.partition(tp)
    assert now is not None and now.leader == NO_LEADER and set(now.observers) == set(spare)
    for broker_id in state.replicas:
        cluster.brokers[broker_id].start()
    cluster.run_until(lambda: move.over and cluster.is_settled(), 60, "the move's end")
    history.verify(cluster)
    assert history.acks
