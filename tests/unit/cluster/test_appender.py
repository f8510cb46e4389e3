"""The appender of the metadata log, with a store whose calls the test completes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from brokerd.cluster.appender import Appender
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import ClusterCreated, MetadataRecord, TopicDeleted
from brokerd.cluster.store import Code, Result, Stat

Done = Callable[[Result], None]


class Store:
    """A connected store. Calls wait in `asked` until the test completes them."""

    zk_session = 1

    def __init__(self) -> None:
        self.requested: list[tuple[str, Any, Done]] = []

    def exists(self, path: str, done: Done) -> None:
        self.requested.append(("exists", path, done))

    def get(self, path: str, done: Done) -> None:
        self.requested.append(("get", path, done))

    def sync(self, path: str, done: Done) -> None:
        self.requested.append(("sync", path, done))

    def multi(self, operations: Any, done: Done) -> None:
        self.requested.append(("multi", operations, done))

    def respond(self, what: str, result: Result) -> Done:
        """Complete the oldest call, which must be `what`."""
        kind, _, done = self.requested.pop(0)
        assert kind == what
        done(result)
        return done


LOST = Result(Code.CONNECTION_LOSS)
NEW = Result(Code.NO_NODE)
OK = Result(Code.OK, codes=(Code.OK,) * 3)
RECORD = ClusterCreated("c")


def appender(store: Any) -> tuple[Appender, list[tuple[MetadataRecord, ...]]]:
    applied: list[tuple[MetadataRecord, ...]] = []
    return Appender(store, Image(), 1, 0, applied=applied.append, deposed=lambda reason: None), applied


def test_a_connection_loss_reported_after_the_reconnect_is_resolved() -> None:
    """Before the fix, a controller without this tick remained active and wrote no further entries."""
    store = Store()
    writer, applied = appender(store)
    writer.submit([RECORD])
    writer.on_reconnected()  # the connection was lost and restored; the loss of the call is reported after that
    store.respond("exists", LOST)
    assert not store.requested
    writer.tick()
    store.respond("sync", Result(Code.OK))
    store.respond("get", NEW)
    store.respond("exists", NEW)
    store.respond("multi", OK)
    assert applied == [(RECORD,)] and writer.idle


def test_results_of_an_earlier_attempt_are_ignored() -> None:
    store = Store()
    writer, applied = appender(store)
    writer.submit([RECORD])
    store.respond("exists", LOST)
    writer.tick()
    late = store.respond("sync", LOST)
    writer.tick()
    store.respond("sync", Result(Code.OK))
    late(Result(Code.OK))
    assert [what for what, _, _ in store.requested] == ["get"], "the outcome is checked twice"
    store.respond("get", NEW)
    store.respond("exists", NEW)
    written = store.respond("multi", OK)
    second = TopicDeleted(UUID(int=1), "t", 1)
    writer.submit([second])
    written(OK)
    assert applied == [(RECORD,)], "a stale result was taken for the result of the next write"
    store.respond("exists", Result(Code.OK, stat=Stat(version=0, czxid=1, owner=0)))
    store.respond("multi", OK)
    assert applied == [(RECORD,), (second,)]
