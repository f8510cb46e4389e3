"""One list of guarantees for the real ZooKeeper (over kazoo) and the simulated one: a simulation is only as good as their agreement."""

from __future__ import annotations

import select
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from brokerd.cluster.protection import OPEN, Protection
from brokerd.cluster.store import Check, Code, Create, Delete, Result, SessionState, Set, Store
from brokerd.cluster.zookeeper import FormerSession, SessionKey, ZooKeeperStore, end_session, hand_over
from brokerd.config import zookeeper_client
from controlplane.devcluster import zookeeper
from tests.cluster.local import free_port, wait_for
from tests.pki import Authority
from tests.simulation.ensemble import Ensemble
from tests.simulation.store import SimStore
from tests.simulation.world import Node, S, World

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]
SESSION_MS = 2_000
LONG_SESSION_MS = 60_000
PASSWORD = "among us"


class StoreEnvironment(ABC):
    """The environment of the stores: connects them and lets time pass."""

    @abstractmethod
    def connect(self, session_ms: int = SESSION_MS) -> Store: ...

    @abstractmethod
    def now_s(self) -> float: ...

    @abstractmethod
    def run_until(self, condition: Callable[[], bool], seconds: float = 20) -> None: ...

    @abstractmethod
    def crash(self, store: Store) -> None:
        """The client stops without closing its session."""

    @abstractmethod
    def lose_connection(self, store: Store) -> None:
        """The connection is lost. The client connects again."""

    def send_request(self, call: Callable[[Callable[[Result], None]], None]) -> Result:
        out: list[Result] = []
        call(out.append)
        self.run_until(lambda: bool(out))
        assert len(out) == 1
        return out[0]

    def connected_store(self, session_ms: int = SESSION_MS) -> Any:
        store = self.connect(session_ms)
        self.run_until(lambda: store.zk_session != 0)
        return store


class RealStores(StoreEnvironment):
    def __init__(self, port: int, protection: Protection = OPEN, chroot: str = "") -> None:
        self.port, self.protection, self.chroot = port, protection, chroot
        self.stores: list[ZooKeeperStore] = []
        self.keys: list[SessionKey] = []
        """Session key of each connection."""

    @property
    def zookeeper_connect(self) -> str:
        return f"127.0.0.1:{self.port}{self.chroot}"

    def connect(self, session_ms: int = SESSION_MS) -> Store:
        store = ZooKeeperStore(self.zookeeper_connect, session_ms, self.protection, self.keys.append)
        self.stores.append(store)
        return store

    def now_s(self) -> float:
        return time.monotonic()

    def run_until(self, condition: Callable[[], bool], seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it did not happen"
            select.select([s.fileno() for s in self.stores], [], [], 0.05)
            for store in self.stores:
                store.pump()

    def crash(self, store: Any) -> None:
        # kazoo's connection is cut and cannot be opened again: no session is closed.
        # The server may have cut it a moment ago, and then kazoo is connecting again and has no socket.
        store._client._stopped.set()
        connection, deadline = store._client._connection, time.monotonic() + 20
        while not connection.connection_stopped.is_set():
            assert time.monotonic() < deadline, "kazoo's thread did not end"
            if (opened := connection._socket) is not None:
                with suppress(OSError):
                    opened.shutdown(socket.SHUT_RDWR)
            connection.connection_stopped.wait(0.02)
        self.stores.remove(store)

    def lose_connection(self, store: Any) -> None:
        store._client._connection._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for store in self.stores:
            store.close()


class SimulatedStores(StoreEnvironment):
    def __init__(self) -> None:
        self.world = World(7)
        self.ensemble = Ensemble(self.world)
        self.count = 0

    def connect(self, session_ms: int = SESSION_MS) -> Store:
        self.count += 1
        return SimStore(self.ensemble, Node(self.world, f"client-{self.count}"), session_ms)

    def now_s(self) -> float:
        return self.world.now_us / S

    def run_until(self, condition: Callable[[], bool], seconds: float = 20) -> None:
        assert condition() or self.world.run(self.world.now_us + int(seconds * S), condition), "it did not happen"

    def crash(self, store: Any) -> None:
        store.node.crash()

    def lose_connection(self, store: Any) -> None:
        store.lose()
        store.reconnect()


@contextmanager
def running(folder: Path, zookeeper_security: zookeeper.ZooKeeperSecurity | None = None) -> Iterator[int]:
    port = free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(zookeeper.prepare(folder, port, zookeeper_security), stdout=log, stderr=log)
        try:
            wait_for(lambda: zookeeper.ready(port, zookeeper_security), "ZooKeeper")
            yield port
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with running(tmp_path_factory.mktemp("zookeeper")) as port:
        yield port


@pytest.fixture(scope="module")
def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """A server that accepts only TLS with an authenticated client."""
    folder = tmp_path_factory.mktemp("guarded")
    authority = Authority(folder / "pki")
    zookeeper_security = zookeeper.ZooKeeperSecurity(authority.issue("zookeeper"), authority.ca, "weir", PASSWORD)
    with running(folder, zookeeper_security) as port:
        yield port, authority.ca


def client_protection(ca: Path, *, password: str = PASSWORD, owned: bool = True) -> Protection:
    lines = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": str(ca),
        "zookeeper.set.acl": str(owned).lower(),
        "zookeeper.sasl.jaas.config": f'x required username="weir" password="{password}";',
    }
    file = ca.with_name("zookeeper.properties")
    file.write_text("".join(f"{k}={v}\n" for k, v in lines.items()))
    return zookeeper_client.load(file)


@pytest.fixture(params=["real", "protected", "simulated"])
def ground(request: pytest.FixtureRequest) -> Iterator[StoreEnvironment]:
    if request.param == "simulated":
        yield SimulatedStores()
        return
    if request.param == "real":
        real = RealStores(request.getfixturevalue("server"))
    else:
        port, ca = request.getfixturevalue("guarded_server")
        real = RealStores(port, client_protection(ca))
    yield real
    real.close()


@pytest.fixture
def root(ground: StoreEnvironment, request: pytest.FixtureRequest) -> str:
    """A node of this test: the real server is shared by the tests."""
    path = "/" + request.node.name.replace("[", "-").replace("]", "")
    store = ground.connected_store()
    assert ground.send_request(lambda d: store.create(path, b"", d)).ok
    return path


def real_ground(who: str, request: pytest.FixtureRequest) -> RealStores:
    if who == "real":
        return RealStores(request.getfixturevalue("server"))
    port, ca = request.getfixturevalue("guarded_server")
    return RealStores(port, client_protection(ca))


@pytest.mark.parametrize("who", ["real", "protected"])
def test_another_client_ends_the_session_of_a_dead_one_by_its_key(who: str, request: pytest.FixtureRequest) -> None:
    real = real_ground(who, request)
    path, other_path = f"/ended-{who}", f"/others-{who}"
    dead, witness = real.connected_store(LONG_SESSION_MS), real.connected_store(LONG_SESSION_MS)
    key = next(k for k in real.keys if k.zk_session == dead.zk_session)
    assert real.send_request(lambda d: dead.create(path, b"", d, ephemeral=True)).ok
    assert real.send_request(lambda d: witness.create(other_path, b"", d, ephemeral=True)).ok
    wrong = SessionKey(key.zk_session, bytes(16))
    assert end_session(real.zookeeper_connect, wrong, LONG_SESSION_MS, real.protection) is FormerSession.EXPIRED
    assert real.send_request(lambda d: witness.get(path, d)).ok, "another password ends nothing"
    gone: list[str] = []
    assert real.send_request(lambda d: witness.get(path, d, watch=gone.append)).ok
    real.crash(dead)
    assert end_session(real.zookeeper_connect, key, LONG_SESSION_MS, real.protection) is FormerSession.ENDED
    real.run_until(lambda: gone == [path])
    assert real.send_request(lambda d: witness.get(path, d)).code is Code.NO_NODE
    assert real.send_request(lambda d: witness.get(other_path, d)).ok
    assert end_session(real.zookeeper_connect, key, LONG_SESSION_MS, real.protection) is FormerSession.EXPIRED
    real.close()


@pytest.mark.parametrize("who", ["real", "protected"])
def test_a_process_that_lives_on_reads_the_end_of_its_session_as_its_expiry(
    who: str, request: pytest.FixtureRequest
) -> None:
    real = real_ground(who, request)
    alive = real.connected_store(LONG_SESSION_MS)
    states: list[SessionState] = []
    alive.on_session = states.append
    key = next(k for k in real.keys if k.zk_session == alive.zk_session)
    assert real.send_request(lambda d: alive.create(f"/living-{who}", b"", d, ephemeral=True)).ok
    assert end_session(real.zookeeper_connect, key, LONG_SESSION_MS, real.protection) is FormerSession.ENDED
    real.run_until(lambda: states[-1:] == [SessionState.CONNECTED] and SessionState.EXPIRED in states)
    assert alive.zk_session != key.zk_session
    assert real.send_request(lambda d: alive.get(f"/living-{who}", d)).code is Code.NO_NODE
    real.close()


def test_the_end_of_a_session_is_unknown_while_no_server_answers() -> None:
    hosts = f"127.0.0.1:{free_port()}"
    assert end_session(hosts, SessionKey(1, bytes(16)), 300) is FormerSession.UNKNOWN


@pytest.mark.parametrize("who", ["real", "protected"])
def test_a_chroot_is_created_and_paths_are_relative_to_it(who: str, request: pytest.FixtureRequest) -> None:
    """As in Kafka. A broker with a chroot that did not exist accepted connections, and answered every request with a time-out."""
    if who == "real":
        port, protection = request.getfixturevalue("server"), OPEN
    else:
        port, ca = request.getfixturevalue("guarded_server")
        protection = client_protection(ca)
    below, whole = RealStores(port, protection, "/clusters/weir/"), RealStores(port, protection)

    def created_paths(path: str) -> list[str]:
        """The paths that a watch was called with."""
        store, seen = below.connected_store(), list[str]()
        below.send_request(lambda d: store.exists(path, d, watch=seen.append))
        assert below.send_request(lambda d: store.create(path, b"x", d)).ok
        below.run_until(lambda: bool(seen))
        return seen

    assert created_paths("/a") == ["/a"]
    assert created_paths("/b") == ["/b"], "the second client finds the chroot"
    other = whole.connected_store()
    assert whole.send_request(lambda d: other.get("/clusters/weir/a", d)).data == b"x"
    assert whole.send_request(lambda d: other.get("/a", d)).code is Code.NO_NODE
    below.close()
    whole.close()


def test_versions_guard_every_change(ground: StoreEnvironment, root: str) -> None:
    store, path = ground.connected_store(), f"{root}/a"
    send_request = ground.send_request
    assert send_request(lambda d: store.get(path, d)).code is Code.NO_NODE
    assert send_request(lambda d: store.set(path, b"x", 0, d)).code is Code.NO_NODE
    assert send_request(lambda d: store.create(path, b"one", d)).ok
    assert send_request(lambda d: store.create(path, b"one", d)).code is Code.NODE_EXISTS
    assert send_request(lambda d: store.create(f"{path}/b/c", b"", d)).code is Code.NO_NODE
    assert send_request(lambda d: store.set(path, b"two", 0, d)).ok
    assert send_request(lambda d: store.set(path, b"three", 0, d)).code is Code.BAD_VERSION
    read = send_request(lambda d: store.get(path, d))
    assert (read.data, read.stat.version, read.stat.owner) == (b"two", 1, 0)
    assert send_request(lambda d: store.exists(path, d)).stat == read.stat
    assert send_request(lambda d: store.delete(path, 0, d)).code is Code.BAD_VERSION
    assert send_request(lambda d: store.create(f"{path}/child", b"", d)).ok
    assert send_request(lambda d: store.delete(path, -1, d)).code is Code.NOT_EMPTY
    assert send_request(lambda d: store.delete(f"{path}/child", -1, d)).ok
    assert send_request(lambda d: store.delete(path, 1, d)).ok
    assert send_request(lambda d: store.exists(path, d)).code is Code.NO_NODE


def test_a_recreated_znode_has_another_czxid(ground: StoreEnvironment, root: str) -> None:
    store, path = ground.connected_store(), f"{root}/member"
    numbers = []
    for _ in range(2):
        assert ground.send_request(lambda d: store.create(path, b"", d, ephemeral=True)).ok
        stat = ground.send_request(lambda d: store.get(path, d)).stat
        assert stat.owner == store.zk_session
        numbers.append(stat.czxid)
        assert ground.send_request(lambda d: store.delete(path, -1, d)).ok
    assert numbers[0] < numbers[1]


def test_children_are_listed_by_name_in_order(ground: StoreEnvironment, root: str) -> None:
    store = ground.connected_store()
    for name in ("b", "a", "c"):
        assert ground.send_request(lambda d, name=name: store.create(f"{root}/{name}", b"", d)).ok  # type: ignore[misc]
    assert ground.send_request(lambda d: store.create(f"{root}/a/deep", b"", d)).ok
    assert ground.send_request(lambda d: store.children(root, d)).children == ("a", "b", "c")
    assert ground.send_request(lambda d: store.children(f"{root}/none", d)).code is Code.NO_NODE


def test_a_multi_is_atomic_and_names_the_failed_operation(ground: StoreEnvironment, root: str) -> None:
    store = ground.connected_store()
    send_request = ground.send_request
    assert send_request(
        lambda d: store.multi([Create(f"{root}/x", b"1"), Create(f"{root}/x/y", b"2"), Check(root, 0)], d)
    ).ok
    rejected = send_request(
        lambda d: store.multi([Set(f"{root}/x", b"new", 0), Check(root, 5), Delete(f"{root}/x/y")], d)
    )
    assert rejected.code is Code.BAD_VERSION
    assert rejected.codes[1] is Code.BAD_VERSION
    assert all(c in (Code.OK, Code.ROLLED_BACK) for i, c in enumerate(rejected.codes) if i != 1)
    assert send_request(lambda d: store.get(f"{root}/x", d)).data == b"1"
    # A registration taken over in one step: deleted and created again.
    assert send_request(
        lambda d: store.multi([Delete(f"{root}/x/y", 0), Create(f"{root}/x/y", b"mine", ephemeral=True)], d)
    ).ok
    taken = send_request(lambda d: store.get(f"{root}/x/y", d))
    assert (taken.data, taken.stat.owner, taken.stat.version) == (b"mine", store.zk_session, 0)


def test_responses_arrive_in_the_order_of_the_requests(ground: StoreEnvironment, root: str) -> None:
    """The reader of the metadata log requests many entries at once and applies them in the order of the responses."""
    store = ground.connected_store()
    order: list[int] = []
    for i in range(200):
        path = f"{root}/none" if i % 3 else root
        store.get(path, lambda r, i=i: order.append(i))  # type: ignore[misc]
    ground.run_until(lambda: len(order) == 200)
    assert order == [*range(200)]


def test_a_watch_fires_once_for_what_it_watches(ground: StoreEnvironment, root: str) -> None:
    store, other = ground.connected_store(), ground.connected_store()
    fired: list[str] = []
    send_request = ground.send_request
    assert send_request(lambda d: store.exists(f"{root}/n", d, lambda p: fired.append("made"))).code is Code.NO_NODE
    assert send_request(lambda d: store.get(f"{root}/n", d, lambda p: fired.append("never"))).code is Code.NO_NODE
    assert send_request(lambda d: store.children(root, d, lambda p: fired.append("child"))).ok
    assert send_request(lambda d: other.create(f"{root}/n", b"1", d)).ok
    ground.run_until(lambda: sorted(fired) == ["child", "made"])
    assert send_request(lambda d: store.get(f"{root}/n", d, lambda p: fired.append("set"))).ok
    assert send_request(lambda d: other.set(f"{root}/n", b"2", -1, d)).ok
    assert send_request(lambda d: other.set(f"{root}/n", b"3", -1, d)).ok
    ground.run_until(lambda: "set" in fired)
    assert send_request(lambda d: store.get(f"{root}/n", d, lambda p: fired.append("gone"))).data == b"3"
    assert send_request(lambda d: other.delete(f"{root}/n", -1, d)).ok
    ground.run_until(lambda: "gone" in fired)
    assert sorted(fired) == ["child", "gone", "made", "set"]


def test_repeated_watches_fire_once(ground: StoreEnvironment, root: str) -> None:
    """A controller reads every second even without a change. Each read used to add a watch, so that the first change after an idle hour caused thousands
    of reads, and the election waited for them.
    """
    store, other = ground.connected_store(), ground.connected_store()
    received: list[str] = []
    send_request = ground.send_request
    assert send_request(lambda d: store.create(f"{root}/n", b"1", d)).ok
    for _ in range(20):
        assert send_request(lambda d: store.get(f"{root}/n", d, lambda p: received.append("data"))).ok
        assert send_request(lambda d: store.exists(f"{root}/n", d, lambda p: received.append("data"))).ok
        assert send_request(lambda d: store.children(root, d, lambda p: received.append("children"))).ok
    for data in (b"2", b"3"):
        assert send_request(lambda d, data=data: other.set(f"{root}/n", data, -1, d)).ok  # type: ignore[misc]
    assert send_request(lambda d: other.create(f"{root}/m", b"", d)).ok
    ground.run_until(lambda: len(received) >= 2)
    assert send_request(lambda d: store.sync("/", d)).ok
    assert sorted(received) == ["children", "data"]
    assert send_request(lambda d: store.get(f"{root}/n", d, lambda p: received.append("again"))).ok
    assert send_request(lambda d: other.set(f"{root}/n", b"4", -1, d)).ok
    ground.run_until(lambda: "again" in received)


def test_a_watch_fires_before_a_response_with_the_change(ground: StoreEnvironment, root: str) -> None:
    store, other = ground.connected_store(), ground.connected_store()
    order: list[str] = []
    assert ground.send_request(lambda d: store.create(f"{root}/n", b"1", d)).ok
    assert ground.send_request(lambda d: store.get(f"{root}/n", d, lambda p: order.append("watch"))).ok
    assert ground.send_request(lambda d: other.set(f"{root}/n", b"2", -1, d)).ok
    assert ground.send_request(lambda d: store.sync("/", d)).ok
    store.get(f"{root}/n", lambda r: order.append(r.data.decode()))
    ground.run_until(lambda: len(order) == 2)
    assert order == ["watch", "2"]


def test_ephemeral_nodes_end_with_the_session_time_out_or_at_once_with_a_close(
    ground: StoreEnvironment, root: str
) -> None:
    store, silent, polite = ground.connected_store(), ground.connected_store(), ground.connected_store()
    assert ground.send_request(lambda d: silent.create(f"{root}/silent", b"", d, ephemeral=True)).ok
    assert ground.send_request(lambda d: polite.create(f"{root}/polite", b"", d, ephemeral=True)).ok
    states: list[SessionState] = []
    store.on_session = states.append
    polite.close()
    if isinstance(ground, RealStores):
        ground.stores.remove(polite)
    names = lambda: ground.send_request(lambda d: store.children(root, d)).children  # noqa: E731
    assert "polite" not in names()
    assert "silent" in names()
    ground.crash(silent)
    gone: list[str] = []
    assert ground.send_request(lambda d: store.exists(f"{root}/silent", d, gone.append)).ok
    ground.run_until(lambda: bool(gone))
    assert names() == ()
    assert states == []


def test_a_close_without_a_connection_ends_the_session_at_the_next_one(ground: StoreEnvironment, root: str) -> None:
    """A controller that is stopped while it changes its server: another one would be elected only after the session time-out."""
    store, polite = ground.connected_store(), ground.connected_store(LONG_SESSION_MS)
    assert ground.send_request(lambda d: polite.create(f"{root}/polite", b"", d, ephemeral=True)).ok
    began = ground.now_s()
    ground.lose_connection(polite)
    polite.close()
    if isinstance(ground, RealStores):
        ground.stores.remove(polite)
    gone: list[str] = []
    if ground.send_request(lambda d: store.exists(f"{root}/polite", d, gone.append)).ok:
        ground.run_until(lambda: bool(gone), 50)
    assert ground.now_s() - began < LONG_SESSION_MS / 1000, "the session has expired instead"


# -- a server that is protected ----------------------------------------------------------------------------------------
def test_a_client_is_served_only_after_authentication(
    guarded_server: tuple[int, Path], caplog: pytest.LogCaptureFixture
) -> None:
    port, ca = guarded_server
    unauthenticated = RealStores(port, client_protection(ca, password="guess"))
    store: Any = unauthenticated.connect()
    reported: list[SessionState] = []
    store.on_session = reported.append
    # Retried: a server that ends during authentication looks the same, and no other process would retry.
    unauthenticated.run_until(lambda: reported.count(SessionState.SUSPENDED) >= 3, 60)
    assert unauthenticated.send_request(lambda d: store.exists("/", d)).code is Code.CONNECTION_LOSS
    assert "SASL authentication failed: host=127.0.0.1 user=weir" in caplog.text and "guess" not in caplog.text
    store._client._connection.sasl_options["password"] = PASSWORD
    out: list[Result] = []

    def responded() -> bool:
        if not out or out[-1].code is Code.CONNECTION_LOSS:
            store.exists("/", out.append)
        return bool(out) and out[-1].ok

    unauthenticated.run_until(responded, 60)
    unauthenticated.close()


def test_only_the_owner_accesses_nodes_until_they_are_opened(guarded_server: tuple[int, Path]) -> None:
    port, ca = guarded_server
    real = RealStores(port, client_protection(ca))
    store = real.connected_store()
    for path in ("/owned", "/owned/below"):
        assert real.send_request(lambda d, path=path: store.create(path, b"keys", d)).ok  # type: ignore[misc]
    assert real.send_request(lambda d: store.multi([Create("/owned/multi", b"")], d)).ok

    def acls() -> set[str]:
        # By the server's own ACL: the only other user of this server is anonymous.
        return {
            acl.id.scheme
            for path in ("/owned", "/owned/below", "/owned/multi")
            for acl in store._client.get_acls_async(path).get(timeout=20)[0]
        }

    assert acls() == {"sasl"}
    hosts = f"127.0.0.1:{port}"
    assert hand_over(hosts, client_protection(ca), ["/owned", "/none"], owned=False) == 3
    assert acls() == {"world"}
    assert hand_over(hosts, client_protection(ca), ["/owned"], owned=True) == 3
    assert acls() == {"sasl"}
    real.close()
