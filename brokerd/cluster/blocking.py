"""A blocking ZooKeeper client for management commands.

A time-out or a lost connection raises an error. Nothing is retried. Not for use in event loops.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from brokerd.cluster.store import Code, Create, Delete, Done, Operation, Result, Set, Store

WAIT_SECONDS = 20.0
MULTI_BYTES_MAX = 512 * 1024
"""Maximum size of one multi. ZooKeeper rejects 1 MiB."""
MULTI_OPERATIONS_MAX = 200


class Unreachable(Exception):
    """ZooKeeper did not respond. The outcome of the operation is unknown."""


class BlockingStore:
    def __init__(self, store: Store, seconds: float = WAIT_SECONDS) -> None:
        self._store, self._seconds = store, seconds

    def _turn(self, deadline: float, what: str) -> None:
        if not select.select([self._store.fileno()], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise Unreachable(f"ZooKeeper did not respond within {self._seconds:.0f} s ({what})")
        self._store.pump()

    def connect(self) -> None:
        deadline = time.monotonic() + self._seconds
        while self._store.zk_session == 0:
            self._turn(deadline, "connecting")

    def _call(self, what: str, call: Callable[[Done], None]) -> Result:
        results: list[Result] = []
        deadline = time.monotonic() + self._seconds
        call(results.append)
        while not results:
            self._turn(deadline, what)
        if results[0].code in (Code.CONNECTION_LOSS, Code.OTHER):
            raise Unreachable(f"the connection to ZooKeeper was lost ({what})")
        return results[0]

    def sync(self) -> None:
        self._call("sync", lambda done: self._store.sync("/", done))

    def get(self, path: str) -> Result:
        return self._call(path, lambda done: self._store.get(path, done))

    def children(self, path: str) -> tuple[str, ...]:
        """Names of the children. Empty also if the node does not exist."""
        return self._call(path, lambda done: self._store.children(path, done)).children

    def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> Result:
        return self._call(path, lambda done: self._store.create(path, data, done, ephemeral=ephemeral))

    def delete(self, path: str) -> Result:
        return self._call(path, lambda done: self._store.delete(path, -1, done))

    def multi(self, operations: Sequence[Operation]) -> Result:
        return self._call("multi", lambda done: self._store.multi(operations, done))

    def in_pieces(self, operations: Sequence[Operation]) -> None:
        """Run the operations in order, in as many multis as necessary. Raises Unreachable also if ZooKeeper rejects a multi."""
        piece: list[Operation] = []
        size = 0
        for op in [*operations, None]:
            bytes_ = len(op.data) if isinstance(op, Create | Set) else 0
            if piece and (op is None or len(piece) >= MULTI_OPERATIONS_MAX or size + bytes_ > MULTI_BYTES_MAX):
                result = self.multi(piece)
                if not result.ok:
                    raise Unreachable(
                        f"ZooKeeper rejected a write ({result.code.value}): another process writes the same znodes"
                    )
                piece, size = [], 0
            if op is not None:
                piece.append(op)
                size += bytes_

    def remove_tree(self, path: str) -> None:
        """Delete `path` with all descendants. Does nothing if it does not exist."""
        for name in self.children(path):
            self.remove_tree(f"{path}/{name}")
        self.delete(path)

    def remove_leaves(self, path: str) -> None:
        """Delete the children of `path` in batches. They must not have children."""
        self.in_pieces([Delete(f"{path}/{name}") for name in self.children(path)])

    def close(self) -> None:
        self._store.close()


@contextmanager
def connected(store: Store, seconds: float = WAIT_SECONDS) -> Iterator[BlockingStore]:
    """Raises Unreachable."""
    blocking = BlockingStore(store, seconds)
    try:
        blocking.connect()
        yield blocking
    finally:
        blocking.close()
