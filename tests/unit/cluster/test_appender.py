"""The writer of the metadata log, with a store that answers by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from brokerd.cluster.appender import Appender
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import ClusterCreated, Record, TopicDeleted
from brokerd.cluster.store import Code, Result, Stat

Done = Callable[[Result], None]


class Store:
    """Connected; what is asked waits in `asked` until the test answers."""

    zk_session = 1

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any, Done]] = []

    def exists(self, path: str, done: Done) -> None:
        self.asked.append(("exists", path, done))

    def get(self, path: str, done: Done) -> None:
        self.asked.append(("get", path, done))

    def sync(self, path: str, done: Done) -> None:
        self.asked.append(("sync", path, done))

    def multi(self, operations: Any, done: Done) -> None:
        self.asked.append(("multi", operations, done))

    def answer(self, what: str, result: Result) -> Done:
        """Answer the oldest question, which must be `what`."""
        kind, _, done = self.asked.pop(0)
        assert kind == what
        done(result)
        return done


LOST = Result(Code.CONNECTION_LOSS)
NEW = Result(Code.NO_NODE)
OK = Result(Code.OK, codes=(Code.OK,) * 3)
RECORD = ClusterCreated("c")


def appender(store: Any) -> tuple[Appender, list[tuple[Record, ...]]]:
    applied: list[tuple[Record, ...]] = []
    return Appender(store, Image(), 1, 0, applied=applied.append, deposed=lambda why: None), applied


def test_a_loss_that_is_told_after_the_connection_is_back_is_still_settled() -> None:
    """Nobody else comes back to it: the controller kept its seat and never wrote again."""
    store = Store()
    writer, applied = appender(store)
    writer.submit([RECORD])
    writer.reconnected()  # the connection went and came; the question's loss is told only now
    store.answer("exists", LOST)
    assert not store.asked
    writer.tick()
    store.answer("sync", Result(Code.OK))
    store.answer("get", NEW)
    store.answer("exists", NEW)
    store.answer("multi", OK)
    assert applied == [(RECORD,)] and writer.idle


def test_an_answer_to_an_earlier_attempt_is_void() -> None:
    store = Store()
    writer, applied = appender(store)
    writer.submit([RECORD])
    store.answer("exists", LOST)
    writer.tick()
    late = store.answer("sync", LOST)
    writer.tick()
    store.answer("sync", Result(Code.OK))
    late(Result(Code.OK))
    assert [what for what, _, _ in store.asked] == ["get"], "settled twice at once"
    store.answer("get", NEW)
    store.answer("exists", NEW)
    written = store.answer("multi", OK)
    second = TopicDeleted(UUID(int=1), "t", 1)
    writer.submit([second])
    written(OK)
    assert applied == [(RECORD,)], "an old answer was taken for that to the next write"
    store.answer("exists", Result(Code.OK, stat=Stat(version=0, czxid=1, owner=0)))
    store.answer("multi", OK)
    assert applied == [(RECORD,), (second,)]
