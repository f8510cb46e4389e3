"""TLS on the loop: every byte arrives once and in order, however requests and responses are split.
Unauthenticated clients cost bounded time and memory."""

from __future__ import annotations

import os
import random
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from brokerd.config.broker import BrokerConfig
from brokerd.net import listener as listeners
from brokerd.net.admission import Admission
from brokerd.net.connection import Connection
from brokerd.net.listener import Listener
from brokerd.net.loop import Loop
from brokerd.net.peers import Peer
from brokerd.security.certificates import Certificates
from brokerd.wire.framing import FileRegion
from tests.pki import Authority

LIMIT = 8 << 20


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def server_pem(authority: Authority) -> Path:
    return authority.issue("broker", "/O=Weir/OU=test/CN=broker")


def certificates(given: dict[str, str]) -> Certificates:
    config = BrokerConfig.parse({"broker.id": "1", "log.dirs": "/x", "listeners": "SSL://127.0.0.1:0", **given})
    return Certificates(lambda name: config.for_listener(config.listeners[0], name))


class TlsListener:
    """A listener on a loop that runs while a test waits: one thread for both ends."""

    def __init__(self, given: dict[str, str], handle: Callable[[Connection, bytes], None], **more: Any) -> None:
        self.loop = Loop()
        self.certificates = certificates(given)
        self.listener = Listener(
            self.loop,
            "127.0.0.1",
            0,
            lambda c, frame: handle(c, bytes(frame)),
            frame_bytes_max=LIMIT,
            admission=Admission(1_000, 1 << 30, {}, 0),
            tls=lambda: self.certificates.server,
            **more,
        )
        self.listener.open()
        self.loop.every(1, lambda now: None)  # no iteration waits for long

    @property
    def port(self) -> int:
        return self.listener.port

    def close(self) -> None:
        self.listener.stop_accepting()
        self.listener.close()
        self.loop.close()


class Client:
    """A client with another TLS implementation: Python's SSLSocket. It is non-blocking, so that the loop of the server can run."""

    def __init__(
        self, served: TlsListener, authority: Authority, pem: Path | None = None, version: ssl.TLSVersion | None = None
    ) -> None:
        context = ssl.create_default_context(cafile=str(authority.ca))
        if version is not None:
            context.minimum_version = context.maximum_version = version
        if pem is not None:
            context.load_cert_chain(pem)
        self._served, self._received = served, b""
        plain = socket.create_connection(("127.0.0.1", served.port), 30)
        self.sock = context.wrap_socket(plain, server_hostname="localhost", do_handshake_on_connect=False)
        self.sock.setblocking(False)
        while self._try(self.sock.do_handshake) is WAIT:
            pass

    def _try(self, act: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return act(*arguments)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            self._served.loop.run_iteration()
            return WAIT

    def exchange(self, stream: bytes, count: int, piece: Callable[[], int] = lambda: 100_000) -> list[bytes]:
        """Send all of `stream` in pieces while `count` responses are read."""
        out: list[bytes] = []
        view, data, size = memoryview(stream), bytearray(), piece()
        while view or len(out) < count:
            # OpenSSL requires the same bytes again after a write that could not complete.
            if view and (n := self._try(self.sock.send, view[:size])) is not WAIT:
                view, size = view[n:], piece()
            if (more := self._try(self.sock.recv, 1 << 20)) is not WAIT:
                if not more:
                    raise ConnectionResetError
                data += more
            while len(data) >= 4 and len(data) >= 4 + (length := int.from_bytes(data[:4], "big")):
                out.append(bytes(data[4 : 4 + length]))
                del data[: 4 + length]
        return out

    def send_request(self, body: bytes) -> bytes:
        return self.exchange(frame_body(body), 1)[0]


WAIT = object()


def frame_body(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@pytest.fixture
def echo(server_pem: Path) -> Iterator[TlsListener]:
    """Echoes each frame: half from memory, half from a file."""
    with tempfile.TemporaryFile() as file:

        def handle(connection: Connection, frame: bytes) -> None:
            half = len(frame) // 2
            position = os.fstat(file.fileno()).st_size
            os.pwrite(file.fileno(), frame[half:], position)
            region = FileRegion(file, position, len(frame) - half)
            connection.respond(connection.open_slot(), [len(frame).to_bytes(4, "big"), frame[:half], region])

        served = TlsListener({"ssl.keystore.location": str(server_pem)}, handle)
        yield served
        served.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_sent_bytes_return_complete_and_in_order(
    echo: TlsListener, authority: Authority, version: ssl.TLSVersion
) -> None:
    rng = random.Random(5)
    bodies = [rng.randbytes(rng.choice((1, 3, 40, 16_384, 70_000, 400_000, 3_000_000))) for _ in range(30)]
    stream = b"".join(map(frame_body, bodies))
    sizes = (1, 7, 1_000, 100_000, 1_000_000)
    assert Client(echo, authority, version=version).exchange(stream, len(bodies), lambda: rng.choice(sizes)) == bodies


def test_a_slow_reader_gets_everything(echo: TlsListener, authority: Authority) -> None:
    """Longer than all buffers together: encrypted bytes wait for the socket, and the bytes behind them are not lost."""
    bodies = [bytes([i]) * 2_000_000 for i in range(12)]
    client = Client(echo, authority)
    for body in bodies:
        view = memoryview(frame_body(body))
        for _ in range(200):  # the client does not read; at some point the broker does not either
            if view and (n := client._try(client.sock.send, view)) is not WAIT:
                view = view[n:]
        if view:
            break
    else:
        raise AssertionError("24 MB were taken without a response read")
    rest = bytes(view) + b"".join(map(frame_body, bodies[bodies.index(body) + 1 :]))
    assert client.exchange(rest, len(bodies), lambda: len(rest)) == bodies


def test_a_broker_connects_to_another_broker_over_tls(echo: TlsListener, authority: Authority) -> None:
    loop = echo.loop
    mine = certificates(
        {"ssl.keystore.location": str(authority.folder / "broker.pem"), "ssl.truststore.location": str(authority.ca)}
    )
    peer = Peer(loop, "127.0.0.1", echo.port, timeout_ms=30_000, frame_bytes_max=LIMIT, tls=lambda: mine.client)
    received: list[bytes | None] = []
    bodies = [b"a" * n for n in (1, 100_000, 4_000_000, 5)]
    for body in bodies:
        peer.send_request(frame_body(body), lambda frame: received.append(None if frame is None else bytes(frame)))
    while len(received) < len(bodies):
        loop.run_iteration()
    assert received == bodies
    peer.close()


def test_a_broker_rejects_an_untrusted_broker(echo: TlsListener, tmp_path: Path) -> None:
    other = Authority(tmp_path, "somebody else")
    mine = certificates({"ssl.keystore.location": str(other.issue("me")), "ssl.truststore.location": str(other.ca)})
    loop = echo.loop
    peer = Peer(loop, "127.0.0.1", echo.port, timeout_ms=30_000, frame_bytes_max=LIMIT, tls=lambda: mine.client)
    received: list[bytes | None] = []
    peer.send_request(frame_body(b"secret"), lambda frame: received.append(None if frame is None else bytes(frame)))
    while not received:
        loop.run_iteration()
    assert received == [None]


def is_rejected(served: TlsListener, authority: Authority, pem: Path | None) -> bool:
    try:
        Client(served, authority, pem).send_request(b"hello")
        return False
    except (ssl.SSLError, ConnectionError):
        return True


# -- authentication ------------------------------------------------------------------------------------------------------
def test_a_required_client_certificate_gives_the_principal_and_others_are_rejected(
    authority: Authority, server_pem: Path, tmp_path: Path
) -> None:
    names: list[str | None] = []

    def handle(connection: Connection, frame: bytes) -> None:
        names.append(connection.distinguished_name)
        connection.respond(connection.open_slot(), [frame_body(b"ok")])

    given = {
        "ssl.keystore.location": str(server_pem),
        "ssl.truststore.location": str(authority.ca),
        "ssl.client.auth": "required",
    }
    served = TlsListener(given, handle)
    try:
        alice = Client(served, authority, authority.issue("alice", "/C=DE/O=Weir, Ltd/OU=Ops/CN=alice"))
        assert alice.send_request(b"hello") == b"ok"
        assert names == ["CN=alice,OU=Ops,O=Weir\\, Ltd,C=DE"]
        for pem in (None, Authority(tmp_path / "other").issue("mallory")):
            assert is_rejected(served, authority, pem)
    finally:
        served.close()
    assert len(names) == 1


# -- keys ----------------------------------------------------------------------------------------------------------------


def test_a_new_certificate_is_used_without_a_restart_and_an_invalid_one_is_ignored(
    authority: Authority, tmp_path: Path, echo: TlsListener
) -> None:
    pem = tmp_path / "keystore.pem"
    pem.write_text(authority.issue("first").read_text())
    echo.certificates = certificates({"ssl.keystore.location": str(pem)})

    def server_certificate_name() -> str:
        certificate: Any = Client(echo, authority).sock.getpeercert()
        return str(certificate["subject"][-1][0][1])

    old = Client(echo, authority)
    assert (server_certificate_name(), echo.certificates.check_files()) == ("first", False)
    pem.write_text(authority.issue("second").read_text())
    assert (echo.certificates.check_files(), server_certificate_name()) == (True, "second")
    pem.write_text("half a fi")
    assert (echo.certificates.check_files(), echo.certificates.check_files(), server_certificate_name()) == (
        False,
        False,
        "second",
    )
    assert old.send_request(b"still here") == b"still here"


# -- unauthenticated clients ---------------------------------------------------------------------------------------------
def test_a_silent_unauthenticated_connection_is_closed(
    server_pem: Path, monkeypatch: pytest.MonkeyPatch, authority: Authority
) -> None:
    monkeypatch.setattr(listeners, "UNAUTHENTICATED_MS_MAX", 300)
    monkeypatch.setattr(listeners, "UNAUTHENTICATED_CHECK_MS", 50)
    served = TlsListener(
        {"ssl.keystore.location": str(server_pem)}, lambda c, f: c.respond(c.open_slot(), [frame_body(f)])
    )
    try:
        known = Client(served, authority)
        unknown_clients = [socket.create_connection(("127.0.0.1", served.port), 60) for _ in range(3)]
        for sock, beginning in zip(unknown_clients, (b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"), strict=True):
            sock.sendall(beginning)
        served.loop.run_iteration()
        while len(served.listener.connections) > 1:
            served.loop.run_iteration()
        assert known.send_request(b"I have shown who I am") == b"I have shown who I am"
    finally:
        served.close()


def test_many_unauthenticated_connections_do_not_block_others(
    server_pem: Path, monkeypatch: pytest.MonkeyPatch, authority: Authority
) -> None:
    monkeypatch.setattr(listeners, "UNAUTHENTICATED_MAX", 8)
    served = TlsListener(
        {"ssl.keystore.location": str(server_pem)}, lambda c, f: c.respond(c.open_slot(), [frame_body(f)])
    )
    try:
        crowd = [socket.create_connection(("127.0.0.1", served.port), 60) for _ in range(40)]
        assert Client(served, authority).send_request(b"let me in") == b"let me in"
        assert len(served.listener.connections) <= 9
        for one in crowd:
            one.close()
    finally:
        served.close()
