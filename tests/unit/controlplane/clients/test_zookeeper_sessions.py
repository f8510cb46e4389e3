"""The znodes of controller and brokers, with a store in memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from brokerd.cluster.blocking import Unreachable
from brokerd.cluster.store import Code, Done, Result, Stat
from controlplane.clients.zookeeper_sessions import OwnedZnode, SessionOwner, owned_znodes


class MemoryStore:
    """Answers each request in the next `pump`."""

    def __init__(self, nodes: dict[str, tuple[bytes, int, int]], *, lost: bool = False) -> None:
        """`nodes`: {path: (data, czxid, session)}."""
        self.nodes, self.lost, self.closed = nodes, lost, False
        self.zk_session = 1
        self._responses: list[Callable[[], None]] = []
        self._fd = os.eventfd(1)

    def fileno(self) -> int:
        return self._fd

    def pump(self) -> None:
        responses, self._responses = self._responses, []
        for response in responses:
            response()

    def get(self, path: str, done: Done) -> None:
        node = self.nodes.get(path)
        result = Result(Code.NO_NODE) if node is None else Result(Code.OK, node[0], Stat(0, node[1], node[2]))
        self._responses.append(lambda: done(Result(Code.CONNECTION_LOSS) if self.lost else result))

    def children(self, path: str, done: Done) -> None:
        names = tuple(sorted(p.rpartition("/")[2] for p in self.nodes if p.rpartition("/")[0] == path))
        self._responses.append(lambda: done(Result(Code.OK, children=names)))

    def close(self) -> None:
        self.closed = True
        os.close(self._fd)


def test_controller_and_brokers_have_the_sessions_that_own_their_znodes() -> None:
    store: Any = MemoryStore(
        {
            "/controller": (b'{"controller": "1", "epoch": 7}', 90, 0x10A),
            "/brokers/ids/10": (b"{}", 101, 0x10C),
            "/brokers/ids/2": (b"{}", 55, 0x10B),
        }
    )
    assert owned_znodes(store) == [
        OwnedZnode(SessionOwner.CONTROLLER, "1", "/controller", "0x10a", 7),
        OwnedZnode(SessionOwner.BROKER, "2", "/brokers/ids/2", "0x10b", 55),
        OwnedZnode(SessionOwner.BROKER, "10", "/brokers/ids/10", "0x10c", 101),
    ]
    assert store.closed


def test_without_a_controller_the_brokers_are_listed() -> None:
    store: Any = MemoryStore({"/brokers/ids/1": (b"{}", 5, 6)})
    assert [z.owner_id for z in owned_znodes(store)] == ["1"]


def test_a_lost_connection_is_reported_and_the_store_is_closed() -> None:
    store: Any = MemoryStore({"/controller": (b"{}", 1, 1)}, lost=True)
    with pytest.raises(Unreachable):
        owned_znodes(store)
    assert store.closed
