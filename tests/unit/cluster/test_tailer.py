"""`Tailer.confirm`: every confirmation has a sync that starts after its request, and ends with the connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import MetadataRecord
from brokerd.cluster.model import Now
from brokerd.cluster.store import Code, Result
from brokerd.cluster.tailer import Tailer


class Store:
    """A session of an empty cluster. The test completes the requests."""

    zk_session = 1

    def __init__(self) -> None:
        self.requested: list[tuple[str, Callable[[Result], None]]] = []

    def sync(self, path: str, done: Callable[[Result], None]) -> None:
        self.requested.append(("sync", done))

    def get(self, path: str, done: Callable[[Result], None], watch: Any = None) -> None:
        self.requested.append(("get", done))

    def exists(self, path: str, done: Callable[[Result], None], watch: Any = None) -> None:
        pass

    def respond(self, what: str, code: Code) -> None:
        name, done = self.requested.pop(0)
        assert name == what, f"{name} instead of {what}"
        done(Result(code))


class SilentListener:
    def image_loaded(self, image: Image, now: Now) -> None: ...

    def entry_applied(self, image: Image, records: Sequence[MetadataRecord], now: Now) -> None: ...

    def caught_up(self, image: Image, now: Now) -> None: ...

    def on_halted(self, reason: str) -> None: ...


def connected_tailer() -> tuple[Store, Tailer, list[bool]]:
    store = Store()
    port: Any = store
    tailer = Tailer(port, SilentListener(), lambda: Now(0, 0))
    tailer.on_connected()
    store.respond("sync", Code.OK)
    store.respond("get", Code.NO_NODE)
    assert tailer.current and not store.requested
    return store, tailer, []


def test_a_confirmation_reads_the_head_after_a_sync() -> None:
    store, tailer, received = connected_tailer()
    tailer.confirm(received.append)
    store.respond("sync", Code.OK)
    assert received == []
    store.respond("get", Code.NO_NODE)
    assert received == [True]


def test_a_sync_that_began_before_the_request_does_not_count() -> None:
    store, tailer, received = connected_tailer()
    tailer.confirm(received.append)
    tailer.confirm(lambda ok: received.append(ok))
    store.respond("sync", Code.OK)
    store.respond("get", Code.NO_NODE)
    assert received == [True]
    store.respond("sync", Code.OK)
    store.respond("get", Code.NO_NODE)
    assert received == [True, True]


def test_a_failed_read_and_a_lost_connection_confirm_nothing() -> None:
    store, tailer, received = connected_tailer()
    tailer.confirm(received.append)
    store.respond("sync", Code.CONNECTION_LOSS)
    assert received == [False]
    tailer.confirm(received.append)
    tailer.confirm(received.append)
    tailer.on_disconnected()
    assert received == [False, False, False]
    store.zk_session = 0
    tailer.confirm(received.append)
    assert received == [False] * 4
    store.respond("sync", Code.OK)
    assert received == [False] * 4, "the response of the lost connection counts for nobody"
