"""An older copy of a data directory is restored, and the broker starts on it with the same kernel running.

Afterwards all acknowledged records are in the log, or the partition is offline; no replica is truncated to the older copy. test_mutations removes each
comparison.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from brokerd.cluster.broker_lives import DirectoryDoubt
from brokerd.cluster.model import REPLACED
from brokerd.storage.meta_properties import META
from tests.simulation.cluster import BrokerNode
from tests.simulation.disk import SimDisk
from tests.simulation.scene import Scene

pytestmark = pytest.mark.parametrize("seed", range(1, 5))
FIRST, SECOND = ["a0", "a1", "a2"], ["b0", "b1", "b2"]


def in_step(scene: Scene) -> None:
    scene.cluster.run_until(scene.cluster.is_settled, 20, "all replicas in the ISR")
    scene.pass_ms(500)


def both_die(scene: Scene) -> None:
    for node in scene.cluster.brokers.values():
        node.kill()
    scene.cluster.run_until(lambda: not scene.cluster.image.live_brokers(), 20, "both deaths in the metadata log")


def restart_cleanly(scene: Scene, node: BrokerNode) -> SimDisk:
    """Returns the volume as it was after the clean shutdown. The broker is back in the ISR."""
    node.stop()
    scene.cluster.run_until(lambda: not node.alive, 20, "a clean shutdown")
    volume = node.disk.snapshot()
    node.start()
    in_step(scene)
    return volume


def start_on(scene: Scene, node: BrokerNode, disk: SimDisk) -> None:
    node.disk = disk
    node.start()
    registered = lambda: scene.cluster.image.alive(node.broker_id)  # noqa: E731
    scene.cluster.run_until(registered, 20, "its registration")
    scene.pass_ms(2_000)


def doubt_of(scene: Scene, node: BrokerNode) -> str:
    return scene.cluster.image.brokers[node.broker_id].tail_doubt


def test_a_volume_from_a_clean_shutdown_is_rejected_after_the_broker_has_started_again(seed: int) -> None:
    scene = Scene(seed, min_insync=2)
    scene.write(*FIRST)
    keeper, restored = scene.pair()
    older = restart_cleanly(scene, restored)
    scene.write(*SECOND)
    both_die(scene)
    start_on(scene, restored, older)
    led, doubt = scene.state.leader, doubt_of(scene, restored)
    keeper.start()
    assert scene.end() == FIRST + SECOND, "acknowledged records are lost"
    assert (led, doubt) == (-1, DirectoryDoubt.OLDER)


def test_a_copy_of_a_running_broker_s_directory_is_rejected(seed: int) -> None:
    scene = Scene(seed, min_insync=2)
    scene.write(*FIRST)
    keeper, restored = scene.pair()
    scene.pass_ms(7_000)
    older = restored.disk.copied()
    scene.write(*SECOND)
    both_die(scene)
    start_on(scene, restored, older)
    led, doubt = scene.state.leader, doubt_of(scene, restored)
    keeper.start()
    assert scene.end() == FIRST + SECOND, "acknowledged records are lost"
    assert (led, doubt) == (-1, DirectoryDoubt.COPIED)


def test_a_restore_that_leaves_unchanged_files_alone_is_rejected(seed: int) -> None:
    """rsync skips files with the same size and time: `meta.properties` of an idle cluster is not replaced, nor is the lock file."""
    scene = Scene(seed, min_insync=2)
    scene.write(*FIRST)
    keeper, restored = scene.pair()
    older = restored.disk.copied()
    scene.write(*SECOND)
    scene.pass_ms(7_000)
    both_die(scene)
    found = restored.disk
    for name, inode in found.names.items():
        if name in older.names and inode.live == older.names[name].live:
            older.names[name].number = inode.number
    start_on(scene, restored, older)
    keeper.start()
    assert scene.end() == FIRST + SECOND, "acknowledged records are lost"


def test_a_clean_shutdown_makes_a_copy_as_good_as_the_original(seed: int) -> None:
    scene = Scene(seed, min_insync=2)
    scene.write(*FIRST)
    _, moved = scene.pair()
    moved.stop()
    scene.cluster.run_until(lambda: not moved.alive, 20, "a clean shutdown")
    moved.disk = moved.disk.copied()
    moved.start()
    assert moved.broker.identity.tail_intact
    in_step(scene)
    scene.write(*SECOND)
    assert scene.end() == FIRST + SECOND


def test_an_older_copy_of_the_only_in_sync_replica_stays_offline(seed: int) -> None:
    scene = Scene(seed, min_insync=1, brokers=1)
    scene.write(*FIRST)
    (node,) = scene.cluster.brokers.values()
    node.stop()
    scene.cluster.run_until(lambda: not node.alive, 20, "a clean shutdown")
    older = node.disk.snapshot()
    node.start()
    in_step(scene)
    scene.write(*SECOND)
    both_die(scene)
    start_on(scene, node, older)
    for _ in range(2):  # a restart does not make the older copy newer
        assert (scene.state.leader, scene.state.last_isr) == (-1, (1, REPLACED))
        both_die(scene)
        start_on(scene, node, node.disk)


def test_starts_without_a_registration_cost_no_isr_membership(seed: int) -> None:
    scene = Scene(seed, min_insync=2)
    scene.write(*FIRST)
    first, second = scene.pair()
    both_die(scene)
    for _ in range(3):
        second.start()
        second.store.cut()
        scene.pass_ms(1_000)
        second.kill()
    second.start()
    assert second.broker.identity.tail_intact
    scene.until_leads(second.broker_id)
    first.start()
    assert scene.end() == FIRST


def test_a_start_that_ends_before_reading_its_registration_costs_no_isr_membership(seed: int) -> None:
    scene = Scene(seed, min_insync=2)
    scene.write(*FIRST)
    first, second = scene.pair()
    both_die(scene)
    life = second.broker.identity.life
    second.start()
    registered: Any = lambda: second.broker.membership.broker_epoch is not None  # noqa: E731
    scene.cluster.run_until(registered, 20, "its registration")
    second.kill()
    recorded = lambda: scene.cluster.image.brokers[second.broker_id].life != life  # noqa: E731
    scene.cluster.run_until(recorded, 20, "its registration in the metadata log")
    scene.cluster.run_until(lambda: not scene.cluster.image.live_brokers(), 20, "its death in the metadata log")
    second.start()
    scene.until_leads(second.broker_id)
    assert doubt_of(scene, second) == ""
    first.start()
    assert scene.end() == FIRST


def test_a_directory_of_an_older_version_is_rejected_after_incarnations_are_recorded(seed: int) -> None:
    """It may be a copy from before the upgrade."""
    scene = Scene(seed, min_insync=2)
    scene.write(*FIRST)
    keeper, restored = scene.pair()
    both_die(scene)
    path = Path("/data") / META
    lines = bytes(restored.disk.names[path].live).decode().splitlines(keepends=True)
    restored.disk.replace(path, "".join(line for line in lines if not line.startswith("life.")).encode())
    start_on(scene, restored, restored.disk)
    assert doubt_of(scene, restored) == DirectoryDoubt.OLDER
    keeper.start()
    assert scene.end() == FIRST


def test_a_broker_whose_copy_was_started_elsewhere_stops_serving(seed: int) -> None:
    """Two processes with one broker id: the older one would rejoin the ISR with a directory without records that the other has acknowledged."""
    scene = Scene(seed)
    _, original = scene.pair()
    image = original.broker.membership.image
    image.brokers[original.broker_id] = replace(image.brokers[original.broker_id], life="of the other process")
    original.enter(lambda: original.broker.membership.caught_up(image, original.clock()))
    assert original.broker.metadata_publisher.failed is not None and original.broker.replica_manager.produce_suspended
