"""ZooKeeper in memory: persistent and ephemeral znodes without versions and watches. Each call completes in the next `pump`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress

from brokerd.cluster.store import Code, Create, Delete, Done, Operation, Result, SessionState, Stat


class MemoryStore:
    """`lost`: every call completes with a lost connection. `multis`: the operations of each multi."""

    def __init__(self, nodes: dict[str, bytes] | None = None) -> None:
        self.nodes = dict(nodes or {})
        self.multis: list[list[Operation]] = []
        self.lost = False
        self.closed = False
        self.zk_session = 1
        self.on_session: Callable[[SessionState], None] = lambda state: None
        self._due: list[Callable[[], None]] = []
        self._fd = os.eventfd(0)

    def _respond_later(self, done: Done, result: Result) -> None:
        self._due.append(lambda: done(Result(Code.CONNECTION_LOSS) if self.lost else result))
        os.eventfd_write(self._fd, 1)

    def fileno(self) -> int:
        return self._fd

    def pump(self) -> None:
        os.eventfd_read(self._fd)
        due, self._due = self._due, []
        for call in due:
            call()

    def get(self, path: str, done: Done, watch: object = None) -> None:
        found = path in self.nodes
        self._respond_later(done, Result(Code.OK, self.nodes[path], Stat(0, 1, 0)) if found else Result(Code.NO_NODE))

    def children(self, path: str, done: Done, watch: object = None) -> None:
        self._respond_later(done, Result(Code.OK, children=self._children(path)))

    def exists(self, path: str, done: Done, watch: object = None) -> None:
        self.get(path, done)

    def create(self, path: str, data: bytes, done: Done, *, ephemeral: bool = False) -> None:
        self._respond_later(done, Result(self._create(path, data)))

    def set(self, path: str, data: bytes, version: int, done: Done) -> None:
        raise NotImplementedError

    def delete(self, path: str, version: int, done: Done) -> None:
        self._respond_later(done, Result(self._delete(path)))

    def multi(self, operations: Sequence[Operation], done: Done) -> None:
        self.multis.append(list(operations))
        before = dict(self.nodes)
        codes = []
        for o in operations:
            assert isinstance(o, Create | Delete)
            codes.append(self._create(o.path, o.data) if isinstance(o, Create) else self._delete(o.path))
        failed = next((c for c in codes if c is not Code.OK), Code.OK)
        if failed is not Code.OK:
            self.nodes = before
        self._respond_later(done, Result(failed, codes=tuple(codes)))

    def sync(self, path: str, done: Done) -> None:
        self._respond_later(done, Result(Code.OK))

    def close(self) -> None:
        self.closed = True
        with suppress(OSError):
            os.close(self._fd)

    def _children(self, path: str) -> tuple[str, ...]:
        return tuple(sorted(p.rpartition("/")[2] for p in self.nodes if p.rpartition("/")[0] == path))

    def _create(self, path: str, data: bytes) -> Code:
        if path in self.nodes:
            return Code.NODE_EXISTS
        self.nodes[path] = data
        return Code.OK

    def _delete(self, path: str) -> Code:
        if self._children(path):
            return Code.NOT_EMPTY
        return Code.OK if self.nodes.pop(path, None) is not None else Code.NO_NODE
