"""The metadata log begins at a snapshot: what a broker holds must survive that, in virtual time on whole brokers and controllers."""

from __future__ import annotations

import pytest

from brokerd.cluster.model import TopicPartition
from brokerd.cluster.znodes import LOG, SNAPSHOTS
from tests.simulation.checkers import History, Watch, logs_agree
from tests.simulation.clients import Producer
from tests.simulation.cluster import Cluster
from tests.simulation.world import MS, S, World

NEVER = 1 << 40


def cluster(seed: int) -> Cluster:
    """A cluster whose log has been cut below its newest snapshots."""
    made = Cluster(World(seed), snapshot_log_bytes=1_000)
    Watch(made)
    made.want_topic("old", 1, 3)
    made.until(made.settled, 30, "the beginning")
    bounce(made, 6)
    assert f"{LOG}/{1:020d}" not in made.ensemble.znodes, "the log was not cut: nothing is shown"
    return made


def bounce(made: Cluster, times: int) -> None:
    """Away for longer than a session: entries for the log."""
    for _ in range(times):
        made.brokers[2].kill()
        made.world.run(made.world.now_us + 5 * S)
        made.brokers[2].start()
        made.until(made.settled, 30, "everything in step")


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_topic_younger_than_the_snapshot_keeps_its_copy_over_a_restart(seed: int) -> None:
    made = cluster(seed)
    for controller in made.controllers:
        if controller.controller._snapshots is not None:
            controller.controller._snapshots._log_bytes = NEVER
    topic_id = made.want_topic("young", 1, 3, min_insync_replicas="2")
    made.until(made.settled, 30, "the young topic")
    tp = TopicPartition(topic_id, 0)
    history = History()
    producer = Producer(made, history, "p", "young", 0)
    made.world.run(made.world.now_us + 2 * S)
    producer.stopped = True
    made.until(lambda: producer.idle, 10, "the last acknowledgement")
    state = made.image.partition(tp)
    assert state is not None
    node = made.brokers[state.leader]
    held = node.broker.partitions.hosted[tp].log.end_offset
    assert held == history.acks > 0
    node.kill()
    node.start()
    made.until(lambda: tp in node.broker.partitions.hosted, 20, "the copy, opened again")
    assert node.broker.partitions.hosted[tp].log.end_offset == held, "the copy was set aside"
    made.world.run(made.world.now_us + 500 * MS)
    made.until(made.settled, 30, "everything in step")
    machine = node.broker.partitions.hosted[tp].core
    made.until(
        lambda: machine.high_watermark == held, 20, "the watermark, once the followers have found the leader again"
    )
    logs_agree(made)
    history.judge(made)


def test_two_snapshots_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brokerd.cluster.snapshots.CUT_AT_ONCE", 2)
    made = cluster(3)
    bounce(made, 8)
    made.world.run(made.world.now_us + 5 * S)
    znodes = made.ensemble.znodes
    folders = [p for p in znodes if p.startswith(f"{SNAPSHOTS}/") and p.count("/") == 3]
    assert len(folders) == 2
    assert all(any(p.startswith(f"{f}/") for p in znodes) for f in folders)
