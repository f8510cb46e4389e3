"""Group epochs, and the topology that a group accepts."""

from __future__ import annotations

from dataclasses import replace

from brokerd.coordinator.streams_group.events import NOT_VALIDATED, UserEndpoint
from tests.unit.coordinator.streams_group.scene import CONFIG, COUNT, PLAIN, Scene


def test_the_epoch_increases_only_if_something_changes() -> None:
    scene = Scene()
    scene.join("m1")
    group = scene.streams_group
    assert (group.epoch, group.metadata.validated_epoch) == (2, 1)
    scene.streams_beat("m1", 2, process_id="p-m1", rack_id=None)
    assert group.epoch == 2
    scene.topics.version += 1
    scene.streams_beat("m1", 2)
    assert group.epoch == 2, "other topics changed"
    scene.streams_beat("m1", 2, rack_id="r2")
    assert group.epoch == 3


def test_the_record_names_the_validated_topology() -> None:
    scene = Scene()
    scene.join("m1", COUNT)
    assert scene.streams_group.metadata.validated_epoch == NOT_VALIDATED and not scene.streams_group.validated
    scene.create_internal_topics()
    scene.streams_beat("m1", 2)
    assert scene.streams_group.metadata.validated_epoch == COUNT.epoch and scene.streams_group.validated


def test_a_group_reads_topics_only_with_members() -> None:
    scene = Scene()
    scene.join("m1", COUNT)
    assert scene.streams_group.subscribed_names() == {"a", "g-r"}
    scene.streams_beat("m1", -1)
    assert scene.streams_group.subscribed_names() == frozenset()
    assert scene.streams_group.required_topics() == {"a", "g-r", "g-c"}


def test_endpoints_have_only_partitions_that_exist() -> None:
    """A subtopology has as many tasks as its largest topic has partitions."""
    both = replace(PLAIN, subtopologies=(replace(PLAIN.subtopologies[0], source_topics=("a", "b")),))
    scene = Scene(config=CONFIG)
    joined = scene.join("m1", both, endpoint=UserEndpoint("h", 1))
    assert joined.endpoints[0].active == {"a": [0, 1, 2, 3], "b": [0, 1, 2]}
