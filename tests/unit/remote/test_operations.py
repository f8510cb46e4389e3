"""Copies and reads of the helper, with a real folder as store and real segments."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import pytest

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.model import Now
from brokerd.remote import chunk_cache, operations
from brokerd.remote.auxiliary import DamagedSegment
from brokerd.remote.chunk_cache import ChunkCache
from brokerd.remote.operations import Operations
from brokerd.remote.stored_segment import StoredSegment
from brokerd.remote.stores import FolderStore, ObjectMissing
from brokerd.storage.log import Log
from brokerd.storage.os_disk import OsDisk
from brokerd.wire import end_transaction_marker, records
from brokerd.wire.end_transaction_marker import Marker
from brokerd.wire.records import Record

NOW = Now(1_000, 1_000)


class Scene:
    """A log with small segments, its closed segments copied to a folder."""

    def __init__(self, tmp_path: Path, segment_bytes: int = 2_000) -> None:
        self.disk, self.store = OsDisk(), FolderStore(tmp_path / "store")
        for folder in ("store", "t-0"):
            (tmp_path / folder).mkdir()
        config = TopicConfig.from_overrides({"segment.bytes": str(segment_bytes), "index.interval.bytes": "300"})
        self.log = Log.open(tmp_path / "t-0", config, self.disk, NOW)
        self.fetched: list[int] = []
        self.cache = ChunkCache(self.disk, tmp_path / "cache", self.store, 1 << 20, self.fetched.append)
        self.operations = self.restarted_operations()
        self.copied: list[StoredSegment] = []
        self.key_index_header: str | None = None

    def restarted_operations(self) -> Operations:
        """Operations that remember no auxiliary object."""
        return Operations(
            self.disk, self.store, self.cache, lambda count: None, self.fetched.append, lambda: 5_000, lambda: 0
        )

    def append(self, first: int, producer: int = -1, sequence: int = -1) -> None:
        batch = [Record(i, first + i, b"k", b"%06d" % (first + i) + bytes(80)) for i in range(3)]
        data = bytearray(
            records.build(
                batch,
                producer_id=producer,
                producer_epoch=0 if producer >= 0 else -1,
                base_sequence=sequence,
                transactional=producer >= 0,
            )
        )
        self.log.append(data, list(records.batches(data)), 4, NOW)

    def end(self, producer: int, commit: bool) -> None:
        data = end_transaction_marker.marker(producer, 0, Marker(commit, 0), NOW.wall_ms)
        self.log.append(data, list(records.batches(data)), 4, NOW)

    def copy_all(self) -> None:
        for segment in self.log.segments[len(self.copied) : -1]:
            name = f"cluster/topic/0/{segment.base_offset}-id"
            fields: dict[str, Any] = {
                "path": str(segment.path),
                "name": name,
                "base": segment.base_offset,
                "end": segment.end_offset,
                "size": segment.size,
                "interval": 300,
                "previous": self.segment_fields(self.copied[-1]) if self.copied else None,
            }
            if self.key_index_header is not None:
                fields["key_index_header"] = self.key_index_header
            size, newest, epochs, aborted, *key_index = self.operations.run("copy", fields)
            assert epochs[0] == (4, segment.base_offset) and size == segment.size
            self.copied.append(
                StoredSegment(name, segment.base_offset, segment.end_offset, size, newest, aborted, *key_index)
            )

    @staticmethod
    def segment_fields(s: StoredSegment) -> list[Any]:
        return [s.name, s.start_offset, s.end_offset, s.size_bytes, s.max_timestamp, s.aborted_count]

    def read(self, offset: int, upto: int, bytes_max: int = 10_000) -> dict[str, Any]:
        segments = [self.segment_fields(s) for s in self.copied if s.end_offset > offset]
        fields = {"segments": segments, "offset": offset, "upto": upto, "bytes_max": bytes_max}
        result: dict[str, Any] = self.operations.run("read", fields)
        result["data"] = b"".join(Path(p).read_bytes()[at : at + n] for p, at, n in result["regions"])
        return result

    def local(self, offset: int, upto: int, bytes_max: int = 10_000) -> bytes:
        return self.log.read(offset, bytes_max, upto).bytes()


@pytest.fixture
def store_scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_every_read_returns_the_bytes_of_the_local_log(store_scene: Scene) -> None:
    for first in range(0, 90, 3):
        store_scene.append(first)
    store_scene.copy_all()
    end = store_scene.copied[-1].end_offset
    assert len(store_scene.copied) > 3
    for offset in range(end):
        assert store_scene.read(offset, end)["data"] == store_scene.local(offset, end)
        assert store_scene.read(offset, end, 400)["data"] == store_scene.local(offset, end, 400)
    assert store_scene.read(end - 1, end - 1)["data"] == b""


def test_the_fetch_quota_counts_every_byte_from_the_store_once(store_scene: Scene, tmp_path: Path) -> None:
    for first in range(0, 90, 3):
        store_scene.append(first)
    store_scene.copy_all()
    assert not store_scene.fetched, "a copy reads nothing from the store"
    store_scene.operations = store_scene.restarted_operations()
    end = store_scene.copied[-1].end_offset
    for offset in (*range(end), *range(end)):
        store_scene.read(offset, end)
    stored = sum(f.stat().st_size for f in (tmp_path / "store").rglob("*") if f.is_file())
    assert sum(store_scene.fetched) == stored, "the log and the auxiliary objects, and nothing again from the cache"


def test_a_read_requests_its_chunks_and_those_ahead_before_it_waits_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the store answers them at the same time. Those ahead go on in the following segments, with their auxiliary objects."""
    for module in (chunk_cache, operations):
        monkeypatch.setattr(module, "CHUNK_BYTES", 10_000)
    scene = Scene(tmp_path, 40_000)
    for first in range(0, 1_200, 3):
        scene.append(first)
    scene.copy_all()
    loads: dict[Hashable, Callable[[], object]] = {}
    scene.cache = ChunkCache(
        scene.disk, tmp_path / "ahead", scene.store, 1 << 20, scene.fetched.append, loads.setdefault
    )
    scene.operations = scene.restarted_operations()
    end, size = scene.copied[-1].end_offset, scene.copied[0].size_bytes
    assert 30_000 < size <= 40_000
    scene.operations.ahead_chunks = 4
    scene.read(0, end, 12_000)
    assert len(loads) == 3 + 1 + 2, "chunks 1 to 3, the auxiliary object of the next segment, its chunks 0 and 1"
    for load in loads.values():
        load()
    assert len(scene.fetched) == 4 + 2 + 2, (
        "all chunks of the segment, two of the next one, both auxiliary objects: each once"
    )
    scene.read(scene.copied[1].start_offset, end, 100)
    assert len(scene.fetched) == 8, "everything that the next segment needs is there"


def test_a_small_cache_is_shared_by_readers(store_scene: Scene, tmp_path: Path) -> None:
    for chunks, ahead in ((16, 2), (24, 3), (1 << 20, 8)):
        store_scene.cache = ChunkCache(
            store_scene.disk,
            tmp_path / "small",
            store_scene.store,
            chunks * 4 * 1024 * 1024,
            store_scene.fetched.append,
        )
        assert store_scene.restarted_operations().ahead_chunks == ahead


def test_an_auxiliary_object_is_requested_once_by_readers_at_the_same_time(
    store_scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    for first in range(0, 30, 3):
        store_scene.append(first)
    store_scene.copy_all()
    store_scene.operations = store_scene.restarted_operations()
    requested, proceed, get = threading.Semaphore(0), threading.Event(), store_scene.store.get

    def get_after_release(name: str, position: int, length: int) -> bytes:
        if name.endswith(".aux"):
            requested.release()
            proceed.wait(60)
        return get(name, position, length)

    monkeypatch.setattr(store_scene.store, "get", get_after_release)
    threads = [threading.Thread(target=store_scene.read, args=(0, 3)) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert requested.acquire(timeout=60)
    proceed.set()
    for thread in threads:
        thread.join(60)
    assert not requested.acquire(blocking=False)


def test_aborted_transactions_are_found_also_when_the_marker_is_in_a_later_segment(store_scene: Scene) -> None:
    store_scene.append(0, producer=7, sequence=0)
    for first in range(3, 60, 3):
        store_scene.append(first)
    store_scene.end(7, commit=False)
    for first in range(61, 90, 3):
        store_scene.append(first)
    store_scene.copy_all()
    end = store_scene.copied[-1].end_offset
    for offset in range(end):
        entries = store_scene.log.aborted.overlapping(offset, offset + 1)
        if entries:
            assert [7, 0] in store_scene.read(offset, end)["aborted"]
    assert store_scene.read(65, end)["aborted"] == []


def test_the_producer_state_of_the_tier_is_that_of_the_log(store_scene: Scene) -> None:
    for n in range(12):
        store_scene.append(n * 10, producer=7, sequence=n * 3)
        if n % 3 == 2:
            store_scene.end(7, commit=n % 2 == 0)
    store_scene.copy_all()
    for offset in [s.start_offset for s in store_scene.copied] + [store_scene.copied[0].start_offset + 3]:
        producers, closing = store_scene.operations.run(
            "snapshot",
            {
                "segments": [store_scene.segment_fields(s) for s in store_scene.copied if s.start_offset <= offset],
                "offset": offset,
            },
        )
        expected = {}
        for segment in store_scene.log.segments:
            for _, header in segment.headers(0):
                if header.base_offset < offset and header.producer_id >= 0 and not header.is_control:
                    expected[header.producer_id] = header.last_sequence
        assert {p[0]: p[5][-1][1] for p in producers if p[5]} == expected and closing == []


def test_a_search_by_time_finds_the_first_record(store_scene: Scene) -> None:
    for first in range(0, 90, 3):
        store_scene.append(first)
    store_scene.copy_all()
    end = store_scene.copied[-1].end_offset
    for timestamp in (0, 1, 17, 40, end - 1):
        fields = {
            "segments": [store_scene.segment_fields(s) for s in store_scene.copied],
            "timestamp": timestamp,
            "start": 0,
            "upto": end,
        }
        assert store_scene.operations.run("time", fields) == [timestamp, timestamp, 4]
    fields["timestamp"] = 1_000_000
    assert store_scene.operations.run("time", fields) is None


def test_a_damaged_segment_is_not_copied(store_scene: Scene) -> None:
    for first in range(0, 60, 3):
        store_scene.append(first)
    segment = store_scene.log.segments[0]
    with open(segment.path, "r+b") as file:
        file.seek(segment.size // 2)
        file.write(b"damage")
    with pytest.raises(DamagedSegment):
        store_scene.copy_all()
    assert list(store_scene.store.names("")) == []


def test_deleted_objects_have_no_names(store_scene: Scene) -> None:
    for first in range(0, 60, 3):
        store_scene.append(first)
    store_scene.copy_all()
    names = store_scene.operations.run("names", {"prefix": "cluster/topic/0/"})
    assert len(names) == 2 * len(store_scene.copied)
    store_scene.operations.run("delete", {"name": store_scene.copied[0].name})
    store_scene.operations.run("delete", {"name": store_scene.copied[0].name})
    assert len(store_scene.operations.run("names", {"prefix": "cluster/topic/0/"})) == len(names) - 2
    with pytest.raises(ObjectMissing):
        store_scene.store.get(store_scene.copied[0].name + ".log", 0, 10)
    with pytest.raises(ValueError, match="unknown operation"):
        store_scene.operations.run("paint", {})
