"""A topic is deleted and created again under the same name while a broker is down: nothing of the old topic counts for the new one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from brokerd.storage import checkpoints
from controlplane.controller.events import DesiredAssignment, DesiredRead
from tests.simulation.scene import Scene

pytestmark = pytest.mark.parametrize("seed", range(1, 7))
OLD = [f"old{i}" for i in range(12)]


def create_again(scene: Scene, *assignments: DesiredAssignment) -> None:
    """`assignments` reach the controller together with the deletion."""
    deleted = replace(scene.cluster.topics["t"], deleted=True, generation=2)
    assert scene.cluster.acting is not None
    scene.cluster.acting.deliver(DesiredRead((deleted,), assignments))
    scene.cluster.run_until(lambda: scene.cluster.image.topic_named("t") is None, 2, "its deletion")
    scene.topic_id = scene.cluster.want_topic("t", 1, 2, min_insync_replicas="1")
    scene.cluster.run_until(lambda: scene.cluster.image.partition(scene.tp) is not None, 2, "the new topic")


METADATA = Path("/data/t-0/partition.metadata")


@pytest.mark.parametrize("left", [None, b""], ids=["missing", "empty"])
def test_a_log_that_lost_its_topic_id_is_not_used_for_the_recreated_topic(seed: int, left: bytes | None) -> None:
    """Seeds 303 and 381 of `make simulate`: the records of a deleted topic were in the log of a topic of the same name."""
    scene = Scene(seed)
    scene.write(*OLD)
    _, away = scene.pair()
    away.power_cut()
    if left is None:
        away.disk.unlink(METADATA)
    else:
        away.disk.replace(METADATA, left)
    create_again(scene)
    away.start()
    scene.cluster.run_until(lambda: scene.tp in away.broker.replica_manager.hosted, 20, "the new copy")
    assert away.broker.replica_manager.hosted[scene.tp].log.end_offset == 0
    scene.cluster.run_until(scene.cluster.is_settled, 20, "all in step")
    scene.pass_ms(300)
    scene.write("new")
    assert scene.end() == ["new"]


def test_the_topic_id_of_a_new_log_survives_a_power_cut_two_seconds_after_its_first_record(seed: int) -> None:
    scene = Scene(seed)
    scene.write(*OLD)
    scene.pass_ms(2_000)
    for node in scene.cluster.brokers.values():
        node.power_cut()
        assert checkpoints.read_partition_metadata(node.disk, METADATA.parent) == scene.topic_id


def test_the_high_watermark_of_a_deleted_topic_is_not_used_for_the_recreated_topic(seed: int) -> None:
    scene = Scene(seed)
    scene.write(*OLD)
    _, away = scene.pair()
    scene.pass_ms(2_500)
    assert checkpoints.read_offsets(away.disk, Path("/data") / checkpoints.HIGH_WATERMARKS)["t", 0] == len(OLD)
    away.kill()
    create_again(scene)  # within the session of the broker that is away, so that the topic is placed on both
    away.start()
    opened = lambda: scene.tp in away.broker.replica_manager.hosted  # noqa: E731
    scene.cluster.run_until(opened, 2, "the new copy")
    away.kill()
    away.start()
    assert away.broker.identity.doubt is None, "the new copy is shorter than the old one, which is no loss"
    scene.cluster.run_until(opened, 2, "the new copy")
    assert away.broker.identity.tail_intact
    assert away.broker.replica_manager.hosted[scene.tp].core.high_watermark == 0
    scene.cluster.run_until(scene.cluster.is_settled, 20, "all in step")
    scene.pass_ms(300)
    scene.write("new")
    assert scene.end() == ["new"]


def test_a_reassignment_of_a_deleted_topic_is_dropped(seed: int) -> None:
    """Seed 1004: the controller deleted a topic and then wrote a partition of it, in one entry that no reader could apply."""
    scene = Scene(seed)
    scene.write(*OLD)
    there = scene.state
    create_again(scene, DesiredAssignment(scene.topic_id, 0, there.replicas[::-1], there.assignment_generation, "1"))
    scene.cluster.run_until(scene.cluster.is_settled, 20, "all in step")
    scene.pass_ms(300)
    scene.write("new")
    assert scene.end() == ["new"]
