"""The chunk cache: one request per chunk, a bound in bytes, files that stay readable."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from brokerd.remote import chunk_cache
from brokerd.remote.chunk_cache import ChunkCache, RemoteFile
from brokerd.remote.stores import FolderStore, StoreUnavailable
from brokerd.storage.os_disk import OsDisk

CHUNK = 1_000
DATA = bytes(range(250)) * 41


class CountingStore(FolderStore):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.requests: list[tuple[int, int]] = []
        self.failing = False

    def get(self, name: str, position: int, length: int) -> bytes:
        if self.failing:
            raise StoreUnavailable("away")
        self.requests.append((position, length))
        return super().get(name, position, length)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CountingStore:
    monkeypatch.setattr(chunk_cache, "CHUNK_BYTES", CHUNK)
    (tmp_path / "store").mkdir()
    store = CountingStore(tmp_path / "store")
    store.put_bytes("a", DATA)
    return store


def cache(tmp_path: Path, store: CountingStore, bytes_max: int = 1 << 20) -> ChunkCache:
    return ChunkCache(OsDisk(), tmp_path / "cache", store, bytes_max, lambda count: None)


def test_a_range_is_read_in_chunks_once(tmp_path: Path, store: CountingStore) -> None:
    file = RemoteFile(cache(tmp_path, store), OsDisk(), "a", len(DATA))
    assert file.pread(2_500, 900) == DATA[900:3_400]
    assert file.pread(2_000, 1_000) == DATA[1_000:3_000]
    assert file.pread(1_000, len(DATA) - 10) == DATA[-10:]
    assert store.requests == [(0, 1_000), (1_000, 1_000), (2_000, 1_000), (3_000, 1_000), (10_000, 250)]


def test_the_least_recently_used_chunk_goes_first_and_open_files_stay_readable(
    tmp_path: Path, store: CountingStore
) -> None:
    chunks = cache(tmp_path, store, 2_000)
    (first,) = chunks.regions("a", 0, 100, len(DATA))
    opened = OsDisk().open(first.path)
    chunks.regions("a", 1_000, 1, len(DATA))
    chunks.regions("a", 0, 1, len(DATA))
    chunks.regions("a", 2_000, 1, len(DATA))  # evicts the chunk at 1,000
    assert chunks.used_bytes == 2_000 and len(list((tmp_path / "cache").iterdir())) == 2
    chunks.regions("a", 3_000, 1, len(DATA))  # evicts the first one
    assert not first.path.exists() and opened.pread(100, 0) == DATA[:100]


def test_readers_of_one_chunk_share_its_request(tmp_path: Path, store: CountingStore) -> None:
    chunks = cache(tmp_path, store)
    threads = [threading.Thread(target=chunks.chunk, args=("a", 4, len(DATA))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.requests == [(4_000, 1_000)]


def test_a_failed_request_is_repeated_by_the_next_reader(tmp_path: Path, store: CountingStore) -> None:
    chunks = cache(tmp_path, store)
    store.failing = True
    with pytest.raises(StoreUnavailable):
        chunks.chunk("a", 0, len(DATA))
    store.failing = False
    assert chunks.chunk("a", 0, len(DATA)).read_bytes() == DATA[:1_000]


def test_read_ahead_loads_in_the_background(tmp_path: Path, store: CountingStore) -> None:
    loads: list[Callable[[], object]] = []
    chunks = ChunkCache(
        OsDisk(), tmp_path / "cache", store, 1 << 20, lambda count: None, lambda key, load: loads.append(load)
    )
    chunks.read_ahead("a", 1, len(DATA))
    chunks.read_ahead("a", 99, len(DATA))
    assert len(loads) == 1
    loads[0]()
    chunks.read_ahead("a", 1, len(DATA))
    assert len(loads) == 1 and store.requests == [(1_000, 1_000)]


def test_an_object_of_another_size_is_an_error(tmp_path: Path, store: CountingStore) -> None:
    with pytest.raises(ValueError, match="expected 1000"):
        cache(tmp_path, store).chunk("a", 10, len(DATA) + 5_000)
