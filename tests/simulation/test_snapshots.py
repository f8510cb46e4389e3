"""The metadata log starts at a snapshot: a broker's replicas must survive that, in virtual time on complete brokers and controllers."""

from __future__ import annotations

import pytest

from brokerd.cluster.model import TopicPartition
from brokerd.cluster.znodes import LOG, SNAPSHOTS
from tests.simulation.checkers import History, InvariantChecker, logs_agree
from tests.simulation.clients import Producer
from tests.simulation.cluster import Cluster
from tests.simulation.world import MS, S, World

NEVER = 1 << 40


def cluster(seed: int) -> Cluster:
    """A cluster whose log has been cut below its newest snapshots."""
    made = Cluster(World(seed), snapshot_log_bytes=1_000)
    InvariantChecker(made)
    made.want_topic("old", 1, 3)
    made.run_until(made.is_settled, 30, "the beginning")
    restart_broker(made, 6)
    assert f"{LOG}/{1:020d}" not in made.ensemble.znodes, (
        "the metadata log was not truncated: the scenario did not happen"
    )
    return made


def restart_broker(made: Cluster, times: int) -> None:
    """Down for longer than a session: this adds entries to the log."""
    for _ in range(times):
        made.brokers[2].kill()
        made.world.run(made.world.now_us + 5 * S)
        made.brokers[2].start()
        made.run_until(made.is_settled, 30, "everything in step")


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_topic_newer_than_the_snapshot_keeps_its_replica_over_a_restart(seed: int) -> None:
    made = cluster(seed)
    for controller in made.controllers:
        if controller.controller._snapshots is not None:
            controller.controller._snapshots._log_bytes = NEVER
    topic_id = made.want_topic("young", 1, 3, min_insync_replicas="2")
    made.run_until(made.is_settled, 30, "the young topic")
    tp = TopicPartition(topic_id, 0)
    history = History()
    producer = Producer(made, history, "p", "young", 0)
    made.world.run(made.world.now_us + 2 * S)
    producer.stopped = True
    made.run_until(lambda: producer.idle, 10, "the last acknowledgement")
    state = made.image.partition(tp)
    assert state is not None
    node = made.brokers[state.leader]
    held = node.broker.replica_manager.hosted[tp].log.end_offset
    assert held == history.acks > 0
    node.kill()
    node.start()
    made.run_until(lambda: tp in node.broker.replica_manager.hosted, 20, "the copy, opened again")
    assert node.broker.replica_manager.hosted[tp].log.end_offset == held, "the replica was set aside"
    made.world.run(made.world.now_us + 500 * MS)
    made.run_until(made.is_settled, 30, "everything in step")
    machine = node.broker.replica_manager.hosted[tp].core
    made.run_until(
        lambda: machine.high_watermark == held, 20, "the watermark, once the followers have found the leader again"
    )
    logs_agree(made)
    history.verify(made)


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_topic_deleted_below_the_snapshot_ends_no_broker_that_has_it_open(seed: int) -> None:
    """A broker is isolated from ZooKeeper and reconnects when the log no longer contains the deletion."""
    made = cluster(seed)
    made.want_topic("again", 1, 3, min_insync_replicas="2")
    made.run_until(made.is_settled, 30, "the topic")
    producer = Producer(made, History(), "p", "again", 0)
    made.world.run(made.world.now_us + 2 * S)
    producer.stopped = True
    # A batch in flight would be written to the next topic of this name.
    made.run_until(lambda: producer.idle, 20, "its last acknowledgement")
    node = made.brokers[1]
    life, seq = node.life, node.broker.replica_manager.image.seq
    node.store.cut()
    made.delete_topic("again")
    made.run_until(lambda: made.image.topic_named("again") is None, 20, "its end")
    second = made.want_topic("again", 1, 3, min_insync_replicas="2")
    made.run_until(lambda: made.image.topic_named("again") is not None, 20, "another one of its name")
    for _ in range(6):
        made.brokers[2].kill()
        made.world.run(made.world.now_us + 5 * S)
        made.brokers[2].start()
        made.world.run(made.world.now_us + 5 * S)
    assert f"{LOG}/{seq + 1:020d}" not in made.ensemble.znodes, (
        "the log still contains the deletion: the scenario did not happen"
    )
    node.store.heal()
    made.run_until(made.is_settled, 30, "everything in step")
    assert (node.life, node.broker.identity.losses) == (life, 0), "it ended itself, as after an I/O error"
    assert node.broker.replica_manager.hosted[TopicPartition(second, 0)].log.end_offset == 0
    logs_agree(made)


def test_two_snapshots_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brokerd.cluster.snapshots.CUT_AT_ONCE", 2)
    made = cluster(3)
    restart_broker(made, 8)
    made.world.run(made.world.now_us + 5 * S)
    znodes = made.ensemble.znodes
    folders = [p for p in znodes if p.startswith(f"{SNAPSHOTS}/") and p.count("/") == 3]
    assert len(folders) == 2
    assert all(any(p.startswith(f"{f}/") for p in znodes) for f in folders)
