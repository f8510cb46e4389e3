"""Interface of the ZooKeeper operations that Weir uses. Implemented by `zookeeper` and by the simulation.

Contract: every call completes exactly once, inside `pump`, on the thread of the store's owner. Calls of one connection complete in order. A call with an
unknown outcome, or of an earlier session, completes with CONNECTION_LOSS.
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
    ROLLED_BACK = "rolled back"  # an operation of a multi in which another operation failed
    CONNECTION_LOSS = "connection loss"  # the outcome is unknown
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
    created_ms: int = 0
    """Time at which ZooKeeper created the node, in Unix ms by the clock of its leader. 0: unknown."""


@dataclass(frozen=True, slots=True)
class Result:
    code: Code
    data: bytes = b""
    stat: Stat | None = None
    children: tuple[str, ...] = ()
    codes: tuple[Code, ...] = ()
    """Result codes of a multi, one per operation."""

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
    """`zk_session` is the session id, 0 while not connected.

    A `watch` callback gets the path and fires once. A second watch of the same kind (data or children) on the same path has no effect while
    the first is pending.
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
