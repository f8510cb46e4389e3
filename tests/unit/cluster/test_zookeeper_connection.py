"""The store against a server of this file, which stops responding, closes connections and refuses them. Requests themselves: `test_store_conformance`."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import kazoo.exceptions as ke
import pytest

from brokerd.cluster import zookeeper, zookeeper_connection
from brokerd.cluster.protection import OPEN, Protection
from brokerd.cluster.store import Code, Result, SessionState
from brokerd.cluster.zookeeper import ZooKeeperStore
from tests.cluster.local import free_port, wait_for
from tests.pki import Authority

CLOSE, PING = -11, 11
NO_NODE = -101
SESSION, SESSION_MS = 77, 18_000
EVERYTHING = 1_000_000
NO_RESPONSE_TO_CONNECT = -1


class Server:
    """`responses`: for each connection, in order, the number of requests that are answered; the last one repeats. After them the server is silent."""

    def __init__(self, port: int, responses: Sequence[int], context: ssl.SSLContext | None = None) -> None:
        self._responses, self._context = list(responses), context
        self.connections = 0
        self.requests: list[int] = []
        """The types of all requests except pings."""
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            responses = self._responses[min(self.connections, len(self._responses) - 1)]
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection, responses), daemon=True).start()

    def _serve(self, connection: socket.socket, responses: int) -> None:
        if self._context is not None:
            connection = self._context.wrap_socket(connection, server_side=True)
            self._open.append(connection)
        file = connection.makefile("rb")

        def read() -> bytes:
            return file.read(struct.unpack(">i", file.read(4))[0])

        def send(data: bytes) -> None:
            connection.sendall(struct.pack(">i", len(data)) + data)

        try:
            read()
            if responses == NO_RESPONSE_TO_CONNECT:
                return
            send(struct.pack(">iiqi16sb", 0, SESSION_MS, SESSION, 16, bytes(16), 0))
            while True:
                xid, kind = struct.unpack(">ii", read()[:8])
                if kind != PING:
                    self.requests.append(kind)
                    responses -= 1
                if responses >= 0:
                    send(struct.pack(">iqi", xid, 1, 0 if kind in (PING, CLOSE) else NO_NODE))
        except (OSError, struct.error):
            return

    def stop(self) -> None:
        for sock in (self._listener, *self._open):
            with contextlib.suppress(OSError):  # closed by the client
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Server]]:
    """Starts a server. Time limits are short."""
    monkeypatch.setattr(zookeeper_connection, "response_seconds", lambda session_timeout_ms: 0.2)
    monkeypatch.setattr(zookeeper_connection, "connect_seconds", lambda session_timeout_ms: 0.2)
    started: list[Server] = []

    def start(*responses: int, port: int = 0, context: ssl.SSLContext | None = None) -> Server:
        started.append(Server(port, responses, context))
        return started[-1]

    yield start
    for server in started:
        server.stop()


def wait_for_store(store: ZooKeeperStore, condition: Callable[[], bool]) -> None:
    def is_met() -> bool:
        select.select([store.fileno()], [], [], 0.02)
        store.pump()
        return condition()

    wait_for(is_met, "the store")


def connected_store(port: int, protection: Protection = OPEN) -> ZooKeeperStore:
    store = ZooKeeperStore(f"127.0.0.1:{port}", SESSION_MS, protection)
    wait_for_store(store, lambda: store.zk_session == SESSION)
    return store


def test_a_server_that_stops_responding_is_left_although_requests_are_sent_all_the_time(
    serve: Callable[..., Server],
) -> None:
    """kazoo counts each sent request as activity of the server. A controller sends several per second, so kazoo alone would notice the loss only by the
    kernel's time-out."""
    server = serve(3, EVERYTHING)
    store = connected_store(server.port)
    states: list[SessionState] = []
    store.on_session = states.append
    results: list[Result] = []

    def send_get() -> bool:
        store.get("/a", results.append)
        return SessionState.CONNECTED in states

    wait_for_store(store, send_get)
    assert states[:2] == [SessionState.SUSPENDED, SessionState.CONNECTED] and server.connections > 1
    assert Code.CONNECTION_LOSS in {r.code for r in results}
    store.close()


def test_a_server_with_tls_that_stops_responding_is_left(serve: Callable[..., Server], tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("zookeeper"))
    server = serve(3, EVERYTHING, context=context)
    trust = partial(ssl.create_default_context, cafile=str(authority.ca))
    store = connected_store(server.port, Protection(trust, None, None, False))
    results: list[Result] = []

    def send_get() -> bool:
        store.get("/a", results.append)
        return server.connections > 1 and results[-1:] != [] and results[-1].code is Code.NO_NODE

    wait_for_store(store, send_get)
    assert [r.code for r in results[:3]] == [Code.NO_NODE] * 3
    store.close()


def test_an_idle_connection_is_kept(serve: Callable[..., Server]) -> None:
    server = serve(EVERYTHING)
    store = connected_store(server.port)
    threading.Event().wait(0.5)  # longer than the time for a response
    assert server.connections == 1
    store.close()


def test_a_server_that_does_not_answer_the_first_request_is_left(serve: Callable[..., Server]) -> None:
    """A frozen server: the kernel accepts the connection. kazoo alone would wait for the session time-out, divided by the number of servers."""
    server = serve(NO_RESPONSE_TO_CONNECT, EVERYTHING)
    began = time.monotonic()
    connected_store(server.port).close()
    assert server.connections > 1 and time.monotonic() - began < SESSION_MS / 1000


def owner(port: int) -> ZooKeeperStore:
    """A store that may own an ephemeral node."""
    store = connected_store(port)
    results: list[Result] = []
    store.create("/a", b"", results.append, ephemeral=True)
    wait_for_store(store, lambda: bool(results))
    return store


def test_a_socket_that_another_thread_has_closed_is_a_lost_connection() -> None:
    """kazoo raises TypeError for it, and its thread terminated."""
    closed = socket.socket()
    closed.close()
    with pytest.raises(ke.ConnectionDropped):
        zookeeper_connection.OrderedHandler(6_000).select([], [closed], [], 1.0)


def test_the_end_of_the_session_is_sent_again_after_a_lost_connection(
    serve: Callable[..., Server], caplog: pytest.LogCaptureFixture
) -> None:
    """Without the end of the session, the node /controller of a stopped controller would exist until the session time-out."""
    server = serve(1, EVERYTHING)
    owner(server.port).close()
    assert server.requests[-2:] == [CLOSE, CLOSE] and server.connections > 1
    assert "session not ended" not in caplog.text


def test_without_a_connection_the_end_of_the_session_waits_for_one(serve: Callable[..., Server]) -> None:
    port = free_port()
    server = serve(EVERYTHING, port=port)
    store = owner(port)
    server.stop()
    wait_for_store(store, lambda: store.zk_session == 0)
    closing = threading.Thread(target=store.close)
    closing.start()
    again = serve(EVERYTHING, port=port)
    closing.join(60)
    assert again.requests == [CLOSE]


def test_the_wait_for_a_connection_ends(
    serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(zookeeper, "CLOSE_SECONDS_MAX", 0.1)
    server = serve(EVERYTHING)
    store = owner(server.port)
    server.stop()
    store.close()
    assert "session not ended" in caplog.text


def test_a_session_that_owns_no_znode_is_not_waited_for(
    serve: Callable[..., Server], caplog: pytest.LogCaptureFixture
) -> None:
    server = serve(EVERYTHING)
    store = connected_store(server.port)
    server.stop()
    store.close()
    assert "session not ended" not in caplog.text


def servers_in_order(store: ZooKeeperStore) -> list[int]:
    """The ports of the servers in the order of the next attempts."""
    return [port for _, _, port in store._client._connection._expand_client_hosts()]


def always_last(store: ZooKeeperStore, port: int) -> bool:
    return all(servers_in_order(store)[-1] == port for _ in range(30))


@pytest.mark.parametrize("responses", [NO_RESPONSE_TO_CONNECT, 0])
def test_a_server_that_does_not_respond_is_tried_last(serve: Callable[..., Server], responses: int) -> None:
    """kazoo shuffles the servers after all have failed: a frozen one was tried two times in a row, and kept the client waiting each time."""
    silent, down, later = serve(responses), free_port(), free_port()
    store = ZooKeeperStore(f"127.0.0.1:{silent.port},127.0.0.1:{down},127.0.0.1:{later}", SESSION_MS)

    results: list[Result] = []

    def send_get() -> bool:
        if store.zk_session:  # a server that only accepts connections is found out by a request
            store.get("/a", results.append)
        return always_last(store, silent.port)

    wait_for_store(store, send_get)
    serve(EVERYTHING, port=later)
    wait_for_store(store, lambda: send_get() and any(r.code is Code.NO_NODE for r in results))
    store.close()


def test_a_server_that_answers_again_is_tried_like_the_others(serve: Callable[..., Server]) -> None:
    server, down = serve(NO_RESPONSE_TO_CONNECT, EVERYTHING), free_port()
    store = ZooKeeperStore(f"127.0.0.1:{server.port},127.0.0.1:{down}", SESSION_MS)
    wait_for_store(store, lambda: store.zk_session == SESSION)
    # The session is reported shortly before the connection attempt has returned, which ends the mark of the server.
    orders = {(server.port, down), (down, server.port)}
    wait_for_store(store, lambda: {tuple(servers_in_order(store)) for _ in range(60)} == orders)
    store.close()
