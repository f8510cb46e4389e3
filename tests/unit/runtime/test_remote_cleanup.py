"""Objects of deleted topics, and objects without metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.cluster.model import Now
from brokerd.remote.frames import HelperError
from brokerd.remote.remote_log import RemoteLog
from brokerd.remote.segments import LeaderClaim, LogStart, MetadataChange, SegmentState
from brokerd.runtime.remote_cleanup import CLEANUP_INTERVAL_MS, SWEEP_INTERVAL_MS, RemoteCleanup
from tests.unit.remote.test_remote_log import TP, segment


class Scene:
    """Leads metadata partition 0, which has the remote log of one partition. Appends are read back at once."""

    def __init__(self) -> None:
        self.log = RemoteLog(TP)
        self.image = SimpleNamespace(cluster_id="c", deleted={})
        self.led, self.current = [0], True
        self.deleted: list[str] = []
        self.names: list[str] = []
        self.error = HelperError.NONE
        metadata: Any = SimpleNamespace(
            led_partitions=lambda: self.led,
            is_current=lambda index: self.current,
            refresh=lambda index: self.current and index in self.led,
            append=self.append,
        )
        self.on_confirmation: Callable[[], bool] = lambda: True
        """Called when the leadership is confirmed by a read of the metadata log; returns whether the read succeeded."""
        hooks = SimpleNamespace(confirm_leadership=lambda done: done(self.on_confirmation()))
        replica_manager: Any = SimpleNamespace(image=self.image, hooks=hooks)
        helper: Any = SimpleNamespace(request=self.request)
        self.ms = 0
        self.cleanup = RemoteCleanup(
            replica_manager,
            metadata,
            {0: {TP: self.log}},
            helper,
            lambda s: f"c/{s.name}",
            lambda: Now(self.ms, self.ms),
        )

    def append(self, changes: list[MetadataChange]) -> None:
        for change in changes:
            self.log.apply(change)

    def request(
        self, operation: str, fields: Mapping[str, Any], timeout_ms: int, done: Callable[[HelperError, Any], None]
    ) -> None:
        if operation == "delete" and not self.error:
            self.deleted.append(fields["name"])
        done(self.error, self.names)

    def pass_ms(self, ms: int) -> None:
        self.ms += ms
        self.cleanup.tick(Now(self.ms, self.ms))


@pytest.fixture
def cleanup_scene() -> Scene:
    scene = Scene()
    for change in (LeaderClaim(TP, 1, 1), LogStart(TP, 1, 0), segment(SegmentState.COPY_FINISHED)):
        scene.log.apply(change)
    return scene


def test_a_deleted_topic_leaves_neither_objects_nor_metadata(cleanup_scene: Scene) -> None:
    cleanup_scene.image.deleted[TP.topic_id] = 1
    for _ in range(6):
        cleanup_scene.pass_ms(CLEANUP_INTERVAL_MS)
    assert cleanup_scene.deleted == [f"c/{segment(SegmentState.COPY_FINISHED).name}"]
    assert cleanup_scene.log.empty and not cleanup_scene.log.claims


def test_a_topic_that_is_only_absent_keeps_its_objects(cleanup_scene: Scene) -> None:
    for _ in range(6):
        cleanup_scene.pass_ms(CLEANUP_INTERVAL_MS)
    assert cleanup_scene.deleted == [] and not cleanup_scene.log.empty


def test_a_failed_deletion_is_repeated(cleanup_scene: Scene) -> None:
    cleanup_scene.image.deleted[TP.topic_id] = 1
    cleanup_scene.error = HelperError.STORE_UNAVAILABLE
    for _ in range(4):
        cleanup_scene.pass_ms(CLEANUP_INTERVAL_MS)
    assert not cleanup_scene.log.empty
    cleanup_scene.error = HelperError.NONE
    for _ in range(4):
        cleanup_scene.pass_ms(CLEANUP_INTERVAL_MS)
    assert cleanup_scene.log.empty


def test_objects_without_metadata_are_deleted_when_the_metadata_is_read_to_its_end(cleanup_scene: Scene) -> None:
    known = f"c/{segment(SegmentState.COPY_FINISHED).name}"
    cleanup_scene.names = [f"{known}.log", f"{known}.aux", f"c/{TP.topic_id}/{TP.partition}/{0:020d}-late.log"]
    cleanup_scene.current = False
    cleanup_scene.pass_ms(CLEANUP_INTERVAL_MS)
    assert cleanup_scene.deleted == []
    cleanup_scene.current = True
    cleanup_scene.pass_ms(CLEANUP_INTERVAL_MS)
    assert cleanup_scene.deleted == [f"c/{TP.topic_id}/{TP.partition}/{0:020d}-late"]
    cleanup_scene.pass_ms(CLEANUP_INTERVAL_MS)
    assert len(cleanup_scene.deleted) == 1, "once in an interval"
    cleanup_scene.pass_ms(SWEEP_INTERVAL_MS)
    assert len(cleanup_scene.deleted) == 2
    cleanup_scene.led = []
    cleanup_scene.pass_ms(SWEEP_INTERVAL_MS)
    assert len(cleanup_scene.deleted) == 2, "only the leader of the metadata partition deletes"


def test_a_deposed_leader_of_the_metadata_partition_deletes_no_object(cleanup_scene: Scene) -> None:
    """It lacks the metadata of newer copies. It reads of its replacement when the metadata log is read after the objects were listed."""
    newer = f"c/{TP.topic_id}/{TP.partition}/{10:020d}-newer"
    cleanup_scene.names = [f"{newer}.log", f"{newer}.aux"]

    def depose_leader() -> bool:
        cleanup_scene.led = []
        return True

    cleanup_scene.on_confirmation = depose_leader
    cleanup_scene.pass_ms(CLEANUP_INTERVAL_MS)
    assert cleanup_scene.deleted == []
    cleanup_scene.led, cleanup_scene.on_confirmation = [0], lambda: False
    cleanup_scene.pass_ms(CLEANUP_INTERVAL_MS)
    assert cleanup_scene.deleted == [], "the metadata log could not be read"
    cleanup_scene.on_confirmation = lambda: True
    cleanup_scene.pass_ms(CLEANUP_INTERVAL_MS)
    assert cleanup_scene.deleted == [newer], "repeated soon, not after an hour"
