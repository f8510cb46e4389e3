"""The helper of a simulated broker: the real operations on the simulated disk, with a store in memory that all brokers share.

The seed decides how late each response is, which request the store rejects, and which copies stop half-way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from brokerd.remote.auxiliary import DamagedSegment
from brokerd.remote.chunk_cache import ChunkCache
from brokerd.remote.frames import HelperError
from brokerd.remote.operations import Operations
from brokerd.remote.stores import ObjectMissing, Spend, StoreUnavailable
from brokerd.storage.disk import Disk, DiskFailed, DiskFull
from tests.simulation.world import MS

if TYPE_CHECKING:
    from tests.simulation.cluster import BrokerNode

CACHE = Path("/remote-cache")
CACHE_BYTES = 1 << 20


class MemoryStore:
    """The objects of a simulated cluster. `failing`: the share of requests that fail; of failed copies half leave the log object without the rest."""

    def __init__(self, rng: Random) -> None:
        self.objects: dict[str, bytes] = {}
        self.failing = 0.0
        self.away = False
        self._rng = rng
        self.disk: Disk | None = None

    def _check(self) -> None:
        if self.away or self._rng.random() < self.failing:
            raise StoreUnavailable("away")

    def put_file(self, name: str, path: Path, size: int, spend: Spend) -> None:
        self._check()
        assert self.disk is not None
        self.objects[name] = self.disk.open(path).pread(size, 0)
        self._check()

    def put_bytes(self, name: str, data: bytes) -> None:
        self._check()
        self.objects[name] = data

    def get(self, name: str, position: int, length: int) -> bytes:
        self._check()
        if name not in self.objects:
            raise ObjectMissing(name)
        return self.objects[name][position : position + length]

    def delete(self, name: str) -> None:
        self._check()
        self.objects.pop(name, None)

    def names(self, prefix: str) -> Iterator[str]:
        self._check()
        return iter([n for n in self.objects if n.startswith(prefix)])


class SimRemoteHelper:
    """`rng` is separate from the world's, so that worlds without tiered storage are unchanged."""

    def __init__(self, node: BrokerNode, disk: Disk, store: MemoryStore, rng: Random) -> None:
        self._node, self._disk, self._store, self._rng = node, disk, store, rng
        cache = ChunkCache(disk, CACHE, store, CACHE_BYTES, lambda count: None)
        self._operations = Operations(
            disk,
            store,
            cache,
            lambda count: None,
            lambda count: None,
            lambda: node.clock().wall_ms,
            lambda: node.clock().mono_ms,
        )
        self.fails = 0.0
        """The share of requests whose response is lost: the helper was killed."""

    def request(
        self, operation: str, fields: Mapping[str, Any], timeout_ms: int, done: Callable[[HelperError, Any], None]
    ) -> None:
        world = self._node.world
        late_ms = self._rng.choice((1, 5, 40, 300, 3_000))

        def run() -> None:
            error, value, spent_us = HelperError.NONE, None, world.spent_us
            self._store.disk = self._disk
            try:
                value = self._operations.run(operation, fields)
            except StoreUnavailable:
                error = HelperError.STORE_UNAVAILABLE
            except ObjectMissing:
                error = HelperError.OBJECT_MISSING
            except DamagedSegment:
                error = HelperError.DAMAGED
            except (DiskFailed, DiskFull):
                error = HelperError.LOCAL_FILE
            world.spent_us = spent_us  # another process
            if self._rng.random() < self.fails:
                error, value = HelperError.NO_RESPONSE, "killed"
            world.reached[f"remote {operation}: {error.name}"] += 1
            self._node.post(self._rng.choice((0, 1, 300)) * MS, lambda: done(error, value))

        self._node.post(late_ms * MS, run)

    def close(self) -> None:
        pass
