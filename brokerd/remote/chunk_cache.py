"""A bounded cache of chunks of remote objects, as files on a local disk. The broker sends from these files.

Invariants: one range request per chunk, also when several readers want it at the same time. The cache has at most `bytes_max` bytes, and the least
recently used chunk is removed first. A chunk file is complete when it has its name, and is never changed. The cache starts empty, so that no file of
an earlier run is trusted.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import NamedTuple

from brokerd.remote.stores import ObjectStore, Spend
from brokerd.storage.disk import Disk, File

CHUNK_BYTES = 4 * 1024 * 1024
"""Bytes of one range request. Large enough that the latency of an object store (about 30 ms) is a small part of its time."""


class ChunkKey(NamedTuple):
    name: str
    number: int


class ChunkRegion(NamedTuple):
    """A region of a chunk file, for the broker."""

    path: Path
    position: int
    length: int


class ChunkCache:
    """Thread-safe. `submit(key, load)` runs read-ahead in the background, one load of a key at a time."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        store: ObjectStore,
        bytes_max: int,
        spend: Spend,
        submit: Callable[[Hashable, Callable[[], object]], object] | None = None,
    ) -> None:
        self._disk, self.folder, self._store, self.bytes_max = disk, folder, store, bytes_max
        self._spend, self._submit = spend, submit
        self._lock = threading.Condition()
        self._sizes: OrderedDict[ChunkKey, int] = OrderedDict()
        """Complete chunks, the least recently used first."""
        self._loading: set[ChunkKey] = set()
        self.used_bytes = self.fetched_bytes = self.hits = self.misses = 0
        if disk.exists(folder):
            disk.rmtree(folder)
        disk.mkdir(folder)

    def _path(self, key: ChunkKey) -> Path:
        return self.folder / f"{hashlib.sha256(key.name.encode()).hexdigest()[:32]}-{key.number}"

    def chunk(self, name: str, index: int, size: int) -> Path:
        """The file of a chunk of the object, which has `size` bytes. Raises StoreUnavailable, ObjectMissing, DiskFull, DiskFailed."""
        key = ChunkKey(name, index)
        with self._lock:
            while key in self._loading:
                self._lock.wait()
            if key in self._sizes:
                self._sizes.move_to_end(key)
                self.hits += 1
                return self._path(key)
            self._loading.add(key)
            self.misses += 1
        try:
            self._load(key, size)
        finally:
            with self._lock:
                self._loading.discard(key)
                self._lock.notify_all()
        return self._path(key)

    def _load(self, key: ChunkKey, size: int) -> None:
        position = key.number * CHUNK_BYTES
        needed = min(CHUNK_BYTES, size - position)
        self._spend(needed)
        data = self._store.get(key.name, position, needed)
        if len(data) != needed:
            raise ValueError(f"{key.name}: {len(data)} bytes at {position}, expected {needed}")
        path = self._path(key)
        self._disk.replace(path, data)
        with self._lock:
            self._sizes[key] = needed
            self.used_bytes += needed
            self.fetched_bytes += needed
            while self.used_bytes > self.bytes_max and len(self._sizes) > 1:
                old, old_size = self._sizes.popitem(last=False)
                self.used_bytes -= old_size
                self._disk.unlink(self._path(old))

    def read_ahead(self, name: str, index: int, size: int) -> None:
        """Load a chunk in the background, unless it is in the cache."""
        key = ChunkKey(name, index)
        if index * CHUNK_BYTES >= size:
            return
        with self._lock:
            if key in self._sizes or key in self._loading:
                return

        def load() -> None:
            self.chunk(name, index, size)

        self.submit(key, load)

    def submit(self, key: Hashable, load: Callable[[], object]) -> None:
        """Run `load` in the background, where there is one: it may be omitted."""
        if self._submit is not None:
            self._submit(key, load)

    def regions(self, name: str, position: int, length: int, size: int) -> list[ChunkRegion]:
        """The files with these bytes of the object. They stay until the cache needs the space: an open file stays readable."""
        out = []
        end = min(position + length, size)
        while position < end:
            index, inside = divmod(position, CHUNK_BYTES)
            part = min(end - position, CHUNK_BYTES - inside)
            out.append(ChunkRegion(self.chunk(name, index, size), inside, part))
            position += part
        return out


class ObjectFile(File):
    """An object of the store as a read-only file. Subclasses implement `pread`."""

    __slots__ = ("_name", "_size")

    def __init__(self, name: str, size: int) -> None:
        self.path = Path(name)
        self._name, self._size = name, size

    def fileno(self) -> int:
        raise OSError("a remote object has no file descriptor")

    def size(self) -> int:
        return self._size

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        raise OSError("a remote object is read-only")

    def truncate(self, size: int) -> None:
        raise OSError("a remote object is read-only")

    def fsync(self) -> None:
        pass


class RemoteFile(ObjectFile):
    """An object of the store that is read through the cache."""

    __slots__ = ("_cache", "_disk")

    def __init__(self, cache: ChunkCache, disk: Disk, name: str, size: int) -> None:
        super().__init__(name, size)
        self._cache, self._disk = cache, disk

    def pread(self, length: int, position: int) -> bytes:
        parts = self._cache.regions(self._name, position, max(0, min(length, self._size - position)), self._size)
        return b"".join(self._disk.open(r.path).pread(r.length, r.position) for r in parts)
