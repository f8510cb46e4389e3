"""Sizes over both tiers: finished copies, local records without a copy, and the segment that is being copied."""

from __future__ import annotations

from brokerd.remote.leader import CopySegment, LocalSegment
from brokerd.remote.sizes import RemoteSizes, remote_sizes
from tests.unit.remote.test_leader import Scene
from tests.unit.remote.test_remote_log import TP


def sizes(scene: Scene) -> RemoteSizes:
    local = [*scene.local.segments, LocalSegment(20, 25, scene.local.active_bytes)]
    return remote_sizes("orders", scene.leader, scene.local.start_offset, local, 7)


def test_a_segment_is_copied_then_remote_and_the_rest_stays_local_only() -> None:
    scene = Scene()
    effects = scene.decide()
    while not any(isinstance(e, CopySegment) for e in effects):
        effects = scene.decide()
    assert sizes(scene) == RemoteSizes("orders", TP, remote=0, local_only=25, copying=10, read=7, local_start=0)
    scene = Scene()
    scene.until_at_rest()
    assert sizes(scene) == RemoteSizes("orders", TP, remote=20, local_only=5, copying=0, read=7, local_start=0)
