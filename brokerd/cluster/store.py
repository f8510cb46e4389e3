"""The small part of ZooKeeper that this house needs, as an interface.

Laws: every call is answered exactly once, inside `pump`, on the owner's thread; an outcome that is not known is CONNECTION_LOSS and
nothing else; answers of an earlier session are CONNECTION_LOSS too. Implemented by `zookeeper` and by the simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class Code(Enum):
    OK = "ok"
    NO_NODE = "no node"
    NODE_EXISTS = "node exists"
    BAD_VERSION = "bad version"
    NOT_EMPTY = "not empty"
    ROLLED_BACK = "rolled back"  # an operation of a multi whose neighbour failed
    CONNECTION_LOSS = "connection loss"  # unknown whether it happened
    OTHER = "other"


class SessionState(Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Stat:
    version: int
    czxid: int
    owner: int
    """ZooKeeper session that owns an ephemeral node, 0 for a persistent one."""


@dataclass(frozen=True, slots=True)
class Result:
    code: Code
    data: bytes = b""
    stat: Stat | None = None
    children: tuple[str, ...] = ()
    codes: tuple[Code, ...] = ()
    """Of a multi: one per operation."""

    @property
    def ok(self) -> bool:
        return self.code is Code.OK


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    path: str
    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = -1


@dataclass(frozen=True, slots=True)
class Check:
    path: str
    version: int


Operation = Create | Set | Delete | Check
Done = Callable[[Result], None]


class Store(Protocol):
    """`zk_session` is 0 while not connected.

    `watch` callbacks carry the path and fire once. While one waits for a path (for its data, or for its children), another for the same adds
    nothing: who looks again and again is called once.
    """

    on_session: Callable[[SessionState], None]

    @property
    def zk_session(self) -> int: ...

    def get(self, path: str, done: Done, watch: Callable[[str], None] | None = None) -> None: ...

    def children(self, path: str, done: Done, watch: Callable[[str], None] | None = None) -> None: ...

    def exists(self, path: str, done: Done, watch: Callable[[str], None] | None = None) -> None: ...

    def create(self, path: str, data: bytes, done: Done, *, ephemeral: bool = False) -> None: ...

    def set(self, path: str, data: bytes, version: int, done: Done) -> None: ...

    def delete(self, path: str, version: int, done: Done) -> None: ...

    def multi(self, operations: Sequence[Operation], done: Done) -> None: ...

    def sync(self, path: str, done: Done) -> None: ...

    def fileno(self) -> int: ...

    def pump(self) -> None: ...

    def close(self) -> None: ...
