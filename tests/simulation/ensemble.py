"""A simulated ZooKeeper ensemble with the behaviour that clients see: versions, multi, ephemeral nodes, one-shot watches, late session ends, lost responses.

Model: one ordered history (the ensemble never forks). A follower serves each session and may lag: it reads an older state until the session syncs or
writes, or the follower catches up. Watches fire when the follower applies the change; a session never goes back in time. Messages of a session keep
their order in both directions. A lost connection leaves the result of requests in flight unknown; requests made while disconnected are sent after
the reconnect and their response is lost (as in kazoo); watches end with their connection. test_store_conformance compares it with the real one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from brokerd.cluster.store import Check, Code, Create, Delete, Operation, Result, Set, Stat
from tests.simulation.world import MS, S, World

if TYPE_CHECKING:
    from tests.simulation.store import SimStore

Watch = Callable[[str], None]


@dataclass(frozen=True)
class ZNode:
    data: bytes
    czxid: int
    owner: int
    version: int = 0

    def stat(self) -> Stat:
        return Stat(self.version, self.czxid, self.owner)


@dataclass(frozen=True)
class Change:
    """The tree from `zxid` on, and the watches that fire for the change."""

    at_us: int
    zxid: int
    znodes: dict[str, ZNode]
    fired: tuple[tuple[str, str], ...]


HISTORY_US = 5 * S
"""Longer than any follower lags."""


@dataclass
class Session:
    number: int
    store: SimStore
    received_us: int


@dataclass
class Ensemble:
    world: World
    lag_ms: int = 0
    """The most that a session's follower lags; 0: every session reads the newest state."""
    znodes: dict[str, ZNode] = field(default_factory=dict)
    sessions: dict[int, Session] = field(default_factory=dict)
    zxid: int = 0
    up: bool = True
    stores: list[SimStore] = field(default_factory=list)
    history: deque[Change] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.znodes["/"] = ZNode(b"", 0, 0)
        self.world.after(50 * MS, self._beat)

    # -- sessions ----------------------------------------------------------------------------------------------------------
    def _beat(self) -> None:
        """Clients send pings from their own threads: only a dead, frozen or isolated process stops them."""
        if self.up:
            for session in list(self.sessions.values()):
                store = session.store
                if (
                    store.node.alive
                    and not store.node.frozen
                    and store.linked
                    and store.number_at_server == session.number
                ):
                    session.received_us = self.world.now_us
                elif self.world.now_us - session.received_us > store.timeout_ms * MS:
                    self.expire(session.number)
        self.world.after(50 * MS, self._beat)

    def expire(self, number: int) -> None:
        session = self.sessions.get(number)
        if session is not None:
            self.world.deliver(f"session {number} of {session.store.node.name} expires")
            session.store.expired_at_server()  # first: requests in flight may succeed, but none after the session's end
            del self.sessions[number]
            for path in [p for p, z in self.znodes.items() if z.owner == number]:
                self._remove(path)

    def go_down(self) -> None:
        self.up = False
        self.world.deliver("the ensemble goes down")
        for store in self.stores:
            store.lose()

    def come_up(self) -> None:
        self.up = True
        self.world.deliver("the ensemble comes up")
        for session in self.sessions.values():
            session.received_us = self.world.now_us  # session time-outs start again
        for store in self.stores:
            store.reconnect()

    def remove(self, path: str) -> None:
        """An operator deletes a node with ZooKeeper's own shell."""
        if path in self.znodes:
            self.world.deliver(f"an operator deletes {path}")
            self._remove(path)

    # -- the tree ----------------------------------------------------------------------------------------------------------
    def _problem(self, op: Operation, znodes: dict[str, ZNode]) -> Code:
        match op:
            case Create():
                parent = op.path.rpartition("/")[0] or "/"
                if parent not in znodes:
                    return Code.NO_NODE
                return Code.NODE_EXISTS if op.path in znodes else Code.OK
            case _:
                znode = znodes.get(op.path)
                if znode is None:
                    return Code.NO_NODE
                if op.version not in (-1, znode.version):
                    return Code.BAD_VERSION
                if isinstance(op, Delete) and any(p.startswith(op.path + "/") for p in znodes):
                    return Code.NOT_EMPTY
                return Code.OK

    def commit(self, operations: Sequence[Operation], session: int) -> Result:
        """Applies all operations or none, as one transaction."""
        assert session in self.sessions, "a change after its session's end"
        trial = dict(self.znodes)
        self.zxid += 1
        fired: list[tuple[str, str]] = []
        for i, op in enumerate(operations):
            code = self._problem(op, trial)
            if code is not Code.OK:
                # As in ZooKeeper: operations before the failed one are reported as rolled back (code 0), those after it as inconsistent.
                codes = tuple(code if j == i else Code.ROLLED_BACK for j in range(len(operations)))
                return Result(code, codes=codes)
            match op:
                case Create():
                    trial[op.path] = ZNode(op.data, self.zxid, session if op.ephemeral else 0)
                    fired += [("data", op.path), ("children", op.path.rpartition("/")[0] or "/")]
                case Set():
                    trial[op.path] = replace(trial[op.path], data=op.data, version=trial[op.path].version + 1)
                    fired.append(("data", op.path))
                case Delete():
                    del trial[op.path]
                    fired += [("data", op.path), ("children", op.path), ("children", op.path.rpartition("/")[0] or "/")]
                case Check():
                    pass
        self._on_partition_changed(trial, fired)
        return Result(Code.OK, codes=tuple(Code.OK for _ in operations))

    def _remove(self, path: str) -> None:
        self.zxid += 1
        rest = {p: z for p, z in self.znodes.items() if p != path}
        self._on_partition_changed(
            rest, [("data", path), ("children", path), ("children", path.rpartition("/")[0] or "/")]
        )

    def _on_partition_changed(self, znodes: dict[str, ZNode], fired: list[tuple[str, str]]) -> None:
        self.znodes = znodes
        self.history.append(Change(self.world.now_us, self.zxid, znodes, tuple(fired)))
        while self.history[0].at_us < self.world.now_us - HISTORY_US:
            self.history.popleft()
        for store in self.stores:
            store.follower_will_hear(self.zxid)
