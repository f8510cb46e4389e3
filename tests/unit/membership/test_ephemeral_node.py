"""A value in an ephemeral znode: one request at a time, the newest value last, and again in a new session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from brokerd.cluster.store import Code, Result
from brokerd.membership.ephemeral_node import EphemeralNodePublisher


class Store:
    """A store whose create requests the test completes."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, bytes]] = []
        self.pending: list[Callable[[Result], None]] = []

    def delete(self, path: str, version: int, done: Callable[[Result], None]) -> None:
        self.calls.append(("delete", b""))
        done(Result(Code.NO_NODE))

    def create(self, path: str, data: bytes, done: Callable[[Result], None], *, ephemeral: bool) -> None:
        assert ephemeral
        self.calls.append(("create", data))
        self.pending.append(done)


def publisher() -> tuple[EphemeralNodePublisher[str], Store]:
    store: Any = Store()
    return EphemeralNodePublisher(store, "/p", lambda epoch, value: f"{epoch} {value}".encode(), ""), store


def test_nothing_is_sent_for_the_empty_value() -> None:
    node, store = publisher()
    node.send(5)
    assert store.calls == []


def test_the_znode_is_deleted_and_created_again_for_each_value() -> None:
    node, store = publisher()
    node.desired = "a"
    node.send(5)
    node.desired = "b"
    node.send(5)
    assert store.calls == [("delete", b""), ("create", b"5 a")], "one request at a time"
    store.pending.pop()(Result(Code.OK))
    node.send(5)
    assert store.calls[2:] == [("delete", b""), ("create", b"5 b")]
    store.pending.pop()(Result(Code.OK))
    node.send(5)
    assert len(store.calls) == 4, "the value is written"


def test_a_failed_write_is_repeated_and_a_new_session_writes_again() -> None:
    node, store = publisher()
    node.desired = "a"
    node.send(5)
    store.pending.pop()(Result(Code.CONNECTION_LOSS))
    node.send(5)
    store.pending.pop()(Result(Code.OK))
    node.forget()
    node.send(6)
    assert store.calls[-1] == ("create", b"6 a") and len(store.calls) == 6
