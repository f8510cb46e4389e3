"""TLS on the loop: every byte arrives one time and in order, however requests and responses are split.
Unauthenticated clients cost bounded time and memory."""

from __future__ import annotations

import os
import random
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.cluster.model import Now
from brokerd.config.broker import BrokerConfig
from brokerd.net import listener as listeners
from brokerd.net.admission import Admission
from brokerd.net.client_traffic import ClientTraffic
from brokerd.net.connection import Connection
from brokerd.net.listener import Listener
from brokerd.net.loop import Loop
from brokerd.net.peers import Peer
from brokerd.security.certificates import CertificateError, Certificates
from brokerd.security.principals import distinguished_name, parse_mapping_rules, user_of
from brokerd.server.dispatch import Dispatch
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
    return Certificates(lambda name: config.of(config.listeners[0], name))


class Served:
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
        self, served: Served, authority: Authority, pem: Path | None = None, version: ssl.TLSVersion | None = None
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
            self._served.loop.turn()
            return WAIT

    def exchange(self, stream: bytes, count: int, piece: Callable[[], int] = lambda: 100_000) -> list[bytes]:
        """Send all of `stream` in pieces while `count` answers are read."""
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
        return self.exchange(framed(body), 1)[0]


WAIT = object()


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@pytest.fixture
def echo(server_pem: Path) -> Iterator[Served]:
    """Echoes each frame: half from memory, half from a file."""
    with tempfile.TemporaryFile() as file:

        def handle(connection: Connection, frame: bytes) -> None:
            half = len(frame) // 2
            position = os.fstat(file.fileno()).st_size
            os.pwrite(file.fileno(), frame[half:], position)
            region = FileRegion(file, position, len(frame) - half)
            connection.answer(connection.open_slot(), [len(frame).to_bytes(4, "big"), frame[:half], region])

        served = Served({"ssl.keystore.location": str(server_pem)}, handle)
        yield served
        served.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_sent_bytes_return_complete_and_in_order(echo: Served, authority: Authority, version: ssl.TLSVersion) -> None:
    rng = random.Random(5)
    bodies = [rng.randbytes(rng.choice((1, 3, 40, 16_384, 70_000, 400_000, 3_000_000))) for _ in range(30)]
    stream = b"".join(map(framed, bodies))
    sizes = (1, 7, 1_000, 100_000, 1_000_000)
    assert Client(echo, authority, version=version).exchange(stream, len(bodies), lambda: rng.choice(sizes)) == bodies


def test_a_slow_reader_gets_everything(echo: Served, authority: Authority) -> None:
    """Longer than all buffers together: encrypted bytes wait for the socket, and the bytes behind them are not lost."""
    bodies = [bytes([i]) * 2_000_000 for i in range(12)]
    client = Client(echo, authority)
    for body in bodies:
        view = memoryview(framed(body))
        for _ in range(200):  # the client does not read; at some point the broker does not either
            if view and (n := client._try(client.sock.send, view)) is not WAIT:
                view = view[n:]
        if view:
            break
    else:
        raise AssertionError("24 MB were taken without an answer read")
    rest = bytes(view) + b"".join(map(framed, bodies[bodies.index(body) + 1 :]))
    assert client.exchange(rest, len(bodies), lambda: len(rest)) == bodies


def test_a_broker_connects_to_another_broker_over_tls(echo: Served, authority: Authority) -> None:
    loop = echo.loop
    mine = certificates(
        {"ssl.keystore.location": str(authority.folder / "broker.pem"), "ssl.truststore.location": str(authority.ca)}
    )
    peer = Peer(loop, "127.0.0.1", echo.port, timeout_ms=30_000, frame_bytes_max=LIMIT, tls=lambda: mine.client)
    received: list[bytes | None] = []
    bodies = [b"a" * n for n in (1, 100_000, 4_000_000, 5)]
    for body in bodies:
        peer.send_request(framed(body), lambda frame: received.append(None if frame is None else bytes(frame)))
    while len(received) < len(bodies):
        loop.turn()
    assert received == bodies
    peer.close()


def test_a_broker_rejects_an_untrusted_broker(echo: Served, tmp_path: Path) -> None:
    other = Authority(tmp_path, "somebody else")
    mine = certificates({"ssl.keystore.location": str(other.issue("me")), "ssl.truststore.location": str(other.ca)})
    loop = echo.loop
    peer = Peer(loop, "127.0.0.1", echo.port, timeout_ms=30_000, frame_bytes_max=LIMIT, tls=lambda: mine.client)
    received: list[bytes | None] = []
    peer.send_request(framed(b"secret"), lambda frame: received.append(None if frame is None else bytes(frame)))
    while not received:
        loop.turn()
    assert received == [None]


def refused(served: Served, authority: Authority, pem: Path | None) -> bool:
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
        connection.answer(connection.open_slot(), [framed(b"ok")])

    given = {
        "ssl.keystore.location": str(server_pem),
        "ssl.truststore.location": str(authority.ca),
        "ssl.client.auth": "required",
    }
    served = Served(given, handle)
    try:
        alice = Client(served, authority, authority.issue("alice", "/C=DE/O=Weir, Ltd/OU=Ops/CN=alice"))
        assert alice.send_request(b"hello") == b"ok"
        assert names == ["CN=alice,OU=Ops,O=Weir\\, Ltd,C=DE"]
        for pem in (None, Authority(tmp_path / "other").issue("mallory")):
            assert refused(served, authority, pem)
    finally:
        served.close()
    assert len(names) == 1


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        ("", "CN=a,O=x", "User:CN=a,O=x"),
        ("DEFAULT", "CN=a,O=x", "User:CN=a,O=x"),
        (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", "CN=svc,OU=ServiceUsers,O=x", "User:svc"),
        (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", "CN=svc,OU=Others", "User:CN=svc,OU=Others"),
        (
            r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
            "CN=Ad,OU=Ad,O=o,L=l,ST=s,C=c",
            "User:ad@ad",
        ),
        (r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U", "CN=alice,O=x", "User:ALICE"),
        (r"RULE:^CN=(.*),O=a\/b$/$1/L", "CN=Bob,O=a/b", "User:bob"),
        (r"RULE:^CN=(.*),O=a$/$1/", "CN=Bob,O=b", None),
        (r"RULE:^CN=(.*)$/$1/", "CN=" + "a" * 1_000, None),
        ("", "CN=" + "a" * 1_000, "User:CN=" + "a" * 1_000),
        (r"RULE:^CN=(.*),O=a$/$1/", None, "User:ANONYMOUS"),
    ],
)
def test_mapping_rules_give_the_same_principals_as_kafka(rules: str, name: str | None, user: str | None) -> None:
    assert user_of(name, parse_mapping_rules(rules)) == user


@pytest.mark.parametrize(("name", "received"), [("CN=alice,O=a", True), ("CN=alice,O=b", False), (None, True)])
def test_a_certificate_without_a_matching_rule_closes_the_connection(name: str | None, received: bool) -> None:
    config = BrokerConfig.parse(
        {
            "broker.id": "1",
            "log.dirs": "/x",
            "listeners": "SSL://127.0.0.1:0",
            "ssl.principal.mapping.rules": "RULE:^CN=(.*),O=a$/$1/",
        }
    )
    dispatch = Dispatch(config, lambda: Now(0, 0))
    principals: list[str] = []
    dispatch.handlers = {18: lambda request: principals.append(request.principal)}
    ended: list[bool] = []
    caller: Any = SimpleNamespace(
        session=None,
        owner="h",
        distinguished_name=name,
        peer="h:1",
        traffic=ClientTraffic(0),
        open_slot=lambda: 1,
        close=lambda: ended.append(True),
    )
    dispatch.frame_handler(config.listeners[0])(caller, memoryview(bytes.fromhex("00120000000000050000")))
    assert (principals, ended) == (
        [f"User:{'alice' if name else 'ANONYMOUS'}"] if received else [],
        [] if received else [True],
    )


@pytest.mark.parametrize("rules", ["RULE:a", "RULE:(/x/", "default", "RULE:a/b/X"])
def test_malformed_mapping_rules_are_rejected(rules: str) -> None:
    with pytest.raises(ValueError):
        parse_mapping_rules(rules)


def test_a_distinguished_name_has_javas_format() -> None:
    subject = ((("countryName", "DE"),), (("emailAddress", "a@b"),), (("commonName", ' #a+b" '),))
    assert distinguished_name(subject) == 'CN=\\ #a\\+b\\"\\ ,1.2.840.113549.1.9.1=#1603614062,C=DE'


# -- keys ----------------------------------------------------------------------------------------------------------------
def test_a_private_key_may_be_inline_and_encrypted(authority: Authority) -> None:
    authority.issue("inline", encrypted="a pass phrase")
    key, chain = ((authority.folder / f"inline.{x}").read_text().replace("\n", "\\n") for x in ("key", "crt"))
    given = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain}
    assert certificates({**given, "ssl.key.password": "a pass phrase"}).server
    with pytest.raises(CertificateError, match="invalid key store") as e:
        certificates({**given, "ssl.key.password": "wrong"})
    assert "wrong" not in str(e.value)
    with pytest.raises(CertificateError, match=r"set ssl\.key\.password"):
        certificates(given)


def test_a_new_certificate_is_used_without_a_restart_and_an_invalid_one_is_ignored(
    authority: Authority, tmp_path: Path, echo: Served
) -> None:
    pem = tmp_path / "keystore.pem"
    pem.write_text(authority.issue("first").read_text())
    echo.certificates = certificates({"ssl.keystore.location": str(pem)})

    def shown() -> str:
        certificate: Any = Client(echo, authority).sock.getpeercert()
        return str(certificate["subject"][-1][0][1])

    old = Client(echo, authority)
    assert (shown(), echo.certificates.check_files()) == ("first", False)
    pem.write_text(authority.issue("second").read_text())
    assert (echo.certificates.check_files(), shown()) == (True, "second")
    pem.write_text("half a fi")
    assert (echo.certificates.check_files(), echo.certificates.check_files(), shown()) == (False, False, "second")
    assert old.send_request(b"still here") == b"still here"


def test_certificate_paths_can_change_at_run_time(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    """kafka-configs --entity-type brokers --alter --add-config ssl.keystore.location=..."""
    first, second = authority.issue("first"), authority.issue("second")
    config = BrokerConfig.parse(
        {
            "broker.id": "1",
            "log.dirs": "/x",
            "listeners": "SSL://127.0.0.1:0,OWN://127.0.0.1:0",
            "inter.broker.listener.name": "SSL",
            "listener.security.protocol.map": "OWN:SSL",
            "ssl.keystore.location": str(first),
            "listener.name.own.ssl.keystore.location": str(first),
        }
    )
    every, own = (Certificates(partial(config.of, listener)) for listener in config.listeners)
    before = every.server
    assert not every.check_files()
    config.follow({1: (1, {"ssl.keystore.location": str(second)})})
    assert every.check_files() and every.server is not before
    assert not own.check_files(), "what the file says of one listener stays"
    after = every.server
    config.follow({1: (2, {"ssl.keystore.location": "/nowhere.pem"})})
    assert not every.check_files() and every.server is after
    assert "the old certificates stay in use" in caplog.text
    config.follow({1: (3, {})})
    assert every.check_files(), "the file's word again"


# -- unauthenticated clients ---------------------------------------------------------------------------------------------
def test_a_silent_unauthenticated_connection_is_closed(
    server_pem: Path, monkeypatch: pytest.MonkeyPatch, authority: Authority
) -> None:
    monkeypatch.setattr(listeners, "UNAUTHENTICATED_MS_MAX", 300)
    monkeypatch.setattr(listeners, "UNAUTHENTICATED_CHECK_MS", 50)
    served = Served({"ssl.keystore.location": str(server_pem)}, lambda c, f: c.answer(c.open_slot(), [framed(f)]))
    try:
        known = Client(served, authority)
        strangers = [socket.create_connection(("127.0.0.1", served.port), 60) for _ in range(3)]
        for sock, beginning in zip(strangers, (b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"), strict=True):
            sock.sendall(beginning)
        served.loop.turn()
        while len(served.listener.connections) > 1:
            served.loop.turn()
        assert known.send_request(b"I have shown who I am") == b"I have shown who I am"
    finally:
        served.close()


def test_many_unauthenticated_connections_do_not_block_others(
    server_pem: Path, monkeypatch: pytest.MonkeyPatch, authority: Authority
) -> None:
    monkeypatch.setattr(listeners, "UNAUTHENTICATED_MAX", 8)
    served = Served({"ssl.keystore.location": str(server_pem)}, lambda c, f: c.answer(c.open_slot(), [framed(f)]))
    try:
        crowd = [socket.create_connection(("127.0.0.1", served.port), 60) for _ in range(40)]
        assert Client(served, authority).send_request(b"let me in") == b"let me in"
        assert len(served.listener.connections) <= 9
        for one in crowd:
            one.close()
    finally:
        served.close()
