"""A broker starts on a log that has lost acknowledged records, and waits for ZooKeeper longer than the interval of high watermark checkpoints.

Only the checkpoints of the last run show the loss: the log ends at a batch boundary, as if the later batches had never been written. test_mutations
removes the rule that keeps these checkpoints until the metadata is loaded.
"""

from __future__ import annotations

import pytest

from tests.simulation.cluster import SETTINGS, BrokerNode
from tests.simulation.scene import Scene

pytestmark = pytest.mark.parametrize("seed", range(1, 5))
INTERVAL_MS = int(SETTINGS["replica.high.watermark.checkpoint.interval.ms"])
FIRST, LOST = ["a0", "a1", "a2"], ["b0", "b1", "b2"]


def truncate(node: BrokerNode, size: int) -> None:
    """Truncate the only segment of the topic while the broker is down."""
    (path,) = (p for p in node.disk.names if p.parent.name == "t-0" and p.suffix == ".log")
    file = node.disk.open(path)
    assert size < file.size()
    file.truncate(size)
    file.fsync()


def start_without_zookeeper(scene: Scene, node: BrokerNode) -> None:
    node.start()
    node.store.cut()
    scene.pass_ms(3 * INTERVAL_MS)
    assert not node.broker.replica_manager.replica_opening.registration_possible
    node.store.heal()
    scene.cluster.run_until(lambda: scene.cluster.image.alive(node.broker_id), 20, "its registration")


def test_a_truncated_log_does_not_lead_after_a_delayed_start(seed: int) -> None:
    scene = Scene(seed, min_insync=2)
    scene.write(*FIRST)
    keeper, loser = scene.pair()
    size = loser.broker.replica_manager.hosted[scene.tp].log.size_bytes
    scene.write(*LOST)
    scene.pass_ms(3 * INTERVAL_MS)  # the high watermark after the last record is checkpointed
    keeper.kill()
    loser.kill()
    scene.cluster.run_until(lambda: not scene.cluster.image.live_brokers(), 20, "both deaths in the metadata log")
    truncate(loser, size)
    start_without_zookeeper(scene, loser)
    scene.pass_ms(2_000)
    leader = scene.state.leader
    keeper.start()
    assert scene.end() == FIRST + LOST, "acknowledged records are lost"
    assert leader == -1, "it leads, although its log has lost records"
