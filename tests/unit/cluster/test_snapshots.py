"""Snapshots of the metadata log: written completely before the pointer, the older log deleted, and given up by a deposed controller."""

from __future__ import annotations

import json
from uuid import UUID

from brokerd.cluster import znodes
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import ClusterCreated, TopicDeleted, unpack_chunks
from brokerd.cluster.snapshots import POINTER_KEYS, SnapshotWriter
from tests.simulation.ensemble import Ensemble
from tests.simulation.store import SimStore
from tests.simulation.world import MS, Node, World

EPOCH_VERSION = 0


class Scene:
    """A controller's session in a simulated ensemble, with a metadata log of 50 entries."""

    def __init__(self) -> None:
        self.world = World(1)
        self.ensemble = Ensemble(self.world)
        self.store = SimStore(self.ensemble, Node(self.world, "controller"), 3_000)
        self.run()
        for path in znodes.PERSISTENT:
            self.store.create(path, b"", lambda r: None)
        self.store.create(znodes.CONTROLLER_EPOCH, b"1", lambda r: None)
        self.image = Image(controller_epoch=1, chain_hash="h")
        self.image.apply(ClusterCreated("c"))
        for seq in range(1, 51):
            self.store.create(znodes.entry(seq), b"x", lambda r: None)
        self.run()
        self.writer = SnapshotWriter(self.store, self.image, EPOCH_VERSION, log_bytes=1_000)

    def run(self) -> None:
        for _ in range(100):
            self.world.run(self.world.now_us + 100 * MS)
            self.store.pump()

    def snapshot(self, seq: int, bytes_so_far: int) -> None:
        self.image.seq = seq
        self.writer.on_appended(bytes_so_far)
        self.run()

    def names(self, path: str) -> list[str]:
        return sorted(p.rpartition("/")[2] for p in self.ensemble.znodes if p.rpartition("/")[0] == path)

    def pointer(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.ensemble.znodes[znodes.SNAPSHOT].data)
        return found


def test_a_snapshot_is_due_after_a_number_of_bytes_and_only_of_complete_topics() -> None:
    scene = Scene()
    scene.snapshot(10, 999)
    assert znodes.SNAPSHOT not in scene.ensemble.znodes
    scene.snapshot(10, 1_000)
    assert scene.pointer()["seq"] == 10
    scene.snapshot(20, 1_999)
    assert scene.pointer()["seq"] == 10, "not enough bytes since the last one"


def test_the_pointer_names_a_complete_snapshot() -> None:
    scene = Scene()
    scene.image.apply(TopicDeleted(UUID(int=1), "t", 3))
    scene.snapshot(10, 1_000)
    pointer = scene.pointer()
    assert pointer.keys() == POINTER_KEYS and (pointer["hash"], pointer["epoch"]) == ("h", 1)
    chunks = [scene.ensemble.znodes[f"{znodes.SNAPSHOTS}/{pointer['folder']}/{i:06d}"].data for i in range(1)]
    assert pointer["chunks"] == 1
    assert [*unpack_chunks(chunks)] == [*scene.image.records()]


def test_two_snapshots_are_kept_and_the_log_below_the_older_one_is_deleted() -> None:
    scene = Scene()
    for i, seq in enumerate((10, 20, 30)):
        scene.snapshot(seq, 1_000 * (i + 1))
    assert [int(n.partition("-")[0]) for n in scene.names(znodes.SNAPSHOTS)] == [20, 30]
    assert [int(n) for n in scene.names(znodes.LOG)] == list(range(21, 51))


def test_a_deposed_controller_changes_no_pointer_and_deletes_nothing() -> None:
    scene = Scene()
    scene.snapshot(10, 1_000)
    scene.store.set(znodes.CONTROLLER_EPOCH, b"2", -1, lambda r: None)
    scene.run()
    scene.snapshot(20, 2_000)
    assert scene.pointer()["seq"] == 10 and len(scene.names(znodes.LOG)) == 50


def test_an_interrupted_snapshot_is_written_again_later() -> None:
    scene = Scene()
    scene.image.seq = 10
    scene.writer.on_appended(1_000)
    scene.store.cut()
    scene.run()
    scene.store.heal()
    scene.store.reconnect()
    scene.run()
    scene.snapshot(20, 2_000)
    assert scene.pointer()["seq"] == 20
