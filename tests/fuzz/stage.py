"""A complete broker in this process: real connections of its listeners, TLS, dispatch, logs on a disk. ZooKeeper and the controller are those of the
simulation. The stage controls the time: a second passes only on request.

Not real: accepting connections (they are socket pairs) and the other threads (their jobs run in the event loop).
"""

from __future__ import annotations

import gc
import json
import logging
import os
import shutil
import socket
import ssl
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

import brokerd.net.loop
from brokerd.cluster.configs import BROKER_SYNONYMS
from brokerd.cluster.model import STARTUP_TOPIC_CONFIGS, STARTUP_TOPICS, Now
from brokerd.cluster.requests import AlterAccess, AlterBrokerConfigs, CreateTopics, ForwardedRequest
from brokerd.config.broker import BrokerConfig
from brokerd.environment import Environment
from brokerd.net.connection import Connection
from brokerd.net.listener import Listener
from brokerd.net.loop import Loop
from brokerd.runtime.broker import BrokerServer
from brokerd.security import scram
from brokerd.storage.os_disk import OsDisk
from brokerd.storage.read_ahead import ReadAhead
from controlplane.controller.events import DesiredAccess, DesiredFailed, DesiredRead, DesiredTopic
from controlplane.controller.runner import TICK_MS, Controller
from tests.cluster.local import NoProbes, Rows
from tests.pki import Authority
from tests.simulation.ensemble import Ensemble
from tests.simulation.store import SimStore
from tests.simulation.world import MS, WALL_MS, Event, Node, World

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
USER, PASSWORD = "alice", "the truth"
TOPICS = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "packed": {"compression.type": "zstd"},
}
PARTITIONS = 2
TOPICS_MAX = 12
"""Limit of topics: above it a talk's request for another topic is rejected, so that one talk does not slow the next ten thousand."""


class Clock:
    ms = 0

    def now(self) -> Now:
        return Now(1_000_000 + self.ms, WALL_MS + self.ms)


class Turns:
    """Runs the jobs of the other threads in the next iteration of the event loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop, self._fd = loop, os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def submit(
        self, run: Callable[[], object], done: Callable[[BaseException | None], None], *, urgent: bool = False
    ) -> None:
        def finish(now: Now) -> None:
            error: BaseException | None = None
            try:
                run()
            except Exception as e:
                error = e
            done(error)

        self._loop.call_later(0, finish)

    def background(self, run: Callable[[], None]) -> None:
        self.submit(run, lambda error: None)

    def lane(self, name: str, threads: int, *, replaceable: bool = True) -> Turns:
        return self

    def fileno(self) -> int:
        return self._fd

    def pump(self) -> None:
        pass

    def close(self) -> None:
        os.close(self._fd)


class StageEnvironment(Environment):
    """The broker's environment. Keeps its listeners for `connect`."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.jobs, self.decompression_jobs = Turns(loop), Turns(loop)  # type: ignore[assignment]
        self.disk = OsDisk(self.jobs.background)
        self.read_ahead = ReadAhead(self.jobs)  # type: ignore[arg-type]
        self._locks = []
        self.thread_times = lambda: None
        self.listeners: list[Listener] = []

    def listen(self, *arguments: Any, **named: Any) -> Listener:
        self.listeners.append(super().listen(*arguments, **named))
        return self.listeners[-1]


class StageStore(SimStore):
    """Has a descriptor that is never readable: the world delivers its events itself."""

    def fileno(self) -> int:
        return self.quiet

    quiet = -1


class BrokerNode(Node):
    """The node of the real event loop in the simulated ensemble."""

    def __init__(self, world: World, loop: Loop) -> None:
        super().__init__(world, "broker-1")
        self.loop = loop  # type: ignore[assignment]

    def enter(self, event: Event) -> None:
        event()


class ControllerNode(Node):
    def __init__(self, world: World, ensemble: Ensemble, rows: Rows) -> None:
        super().__init__(world, "controller-1")
        rng = world.rng
        self.controller = Controller(
            SimStore(ensemble, self, 3_000, wake=self.run_iteration),
            self.name,
            rows,
            clock=self.clock,
            draw=lambda: f"{rng.getrandbits(128):032x}",
            probes=NoProbes(),
        )
        self._tick()

    def run_iteration(self) -> None:
        self.controller.run_iteration()

    def _tick(self) -> None:
        self.run_iteration()
        self.post(TICK_MS * MS, self._tick, timer=True)


class StageRows(Rows):
    """The database: topics, up to a number, and ACLs. Other requests fail as with an unreachable database."""

    def write(self, request: ForwardedRequest) -> None:
        payload = request.payload
        made = isinstance(payload, CreateTopics) and len(self.topics) + len(payload.items) <= TOPICS_MAX
        if made or isinstance(payload, AlterAccess | AlterBrokerConfigs):
            super().write(request)
            return
        self._post(DesiredFailed(request.request_id, 41, "no database on this stage"))


class FaultHandler(logging.Handler):
    """Collects errors that the broker logs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record)


class Stage:
    """`connect(listener)` returns a client's end; `turn` lets the broker read what was sent."""

    def __init__(self, pki: Path) -> None:
        self.clock = Clock()
        self._clocks, brokerd.net.loop.read_clocks = brokerd.net.loop.read_clocks, self.clock.now
        try:
            self._start(pki)
        except BaseException:
            brokerd.net.loop.read_clocks = (
                self._clocks
            )  # otherwise the clock stands still for all later tests of the process
            raise

    def _start(self, pki: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="weir-fuzz-"))
        self.world = World(1)
        self.loop = Loop()
        self.outside = StageEnvironment(self.loop)
        self.ensemble = Ensemble(self.world)
        self.faults = FaultHandler()
        logging.getLogger().addHandler(self.faults)
        topics = {name: STARTUP_TOPIC_CONFIGS[name] for name in sorted(STARTUP_TOPICS)} | TOPICS
        self.rows = StageRows(
            [
                DesiredTopic(UUID(int=n), name, 1, False, PARTITIONS, 1, configs)
                for n, (name, configs) in enumerate(topics.items(), 1)
            ]
        )
        given = {
            "broker.id": "1",
            "log.dirs": str(self.folder),
            "zookeeper.session.timeout.ms": "6000",
            "listeners": ",".join(f"{d}://127.0.0.1:0" for d in PROTOCOLS),
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.location": str(pki / "broker.pem"),
            "ssl.truststore.location": str(pki / "ca.pem"),
            "ssl.client.auth": "requested",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": (pki / "keys.json").as_uri(),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "log.retention.check.interval.ms": "60000",
            "socket.request.max.bytes": str(8 << 20),
            "super.users": "User:ANONYMOUS",
        }
        self.node = BrokerNode(self.world, self.loop)
        self.broker = BrokerServer(
            BrokerConfig.parse(given, BROKER_SYNONYMS.__contains__),
            self._store,
            self.outside,
        )
        self.controller = ControllerNode(self.world, self.ensemble, self.rows)
        led = (len(TOPICS) + len(STARTUP_TOPICS)) * PARTITIONS
        for _ in range(600):
            self.pass_time(20)
            if (
                sum(r.leads for r in self.broker.replica_manager.hosted.values()) == led
                and self.outside.listeners[0]._open
            ):
                break
        else:
            raise AssertionError("the stage does not settle")
        for mechanism in scram.ALGORITHMS:
            key = scram.credential(mechanism, scram.salt_password(mechanism, PASSWORD, b"salt", 4096), b"salt", 4096)
            self.rows._post(DesiredRead(access=(DesiredAccess("scram", f"{mechanism}:{USER}", 1, key.to_json()),)))
        for _ in range(100):
            self.pass_time(20)
        assert len(self.broker.replica_manager.image.access.get("scram", {})) == 2
        gc.collect()

    def _store(self) -> StageStore:
        store = StageStore(self.ensemble, self.node, 6_000)
        store.quiet = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        return store

    def run_iteration(self, times: int = 1) -> None:
        for _ in range(times):
            self.loop.call_later(0, lambda now: None)  # no iteration waits for events that may never arrive
            self.loop.run_iteration()

    def pass_time(self, ms: int) -> None:
        self.clock.ms += ms
        self.world.run(self.clock.ms * MS)
        self.run_iteration(2)

    def connect(self, protocol: str) -> tuple[socket.socket, Connection]:
        client, server = socket.socketpair()
        client.setblocking(False)
        server.setblocking(False)
        listener = self.outside.listeners[PROTOCOLS.index(protocol)]
        assert listener._admission.problem("10.0.0.9", self.loop.now.mono_ms) is None
        fd = server.fileno()
        listener._begin(server, "10.0.0.9:5")
        return client, listener.connections[fd]

    @property
    def connections(self) -> int:
        return sum(len(x.connections) for x in self.outside.listeners)

    def close(self) -> None:
        logging.getLogger().removeHandler(self.faults)
        for listener in self.outside.listeners:
            listener.stop_accepting()
            listener.close()
        for replica in self.broker.replica_manager.hosted.values():
            with suppress(Exception):
                replica.log.close()
        self.loop.close()
        self.outside.jobs.close()
        for lock in self.outside._locks:
            os.close(lock)
        brokerd.net.loop.read_clocks = self._clocks
        shutil.rmtree(self.folder, ignore_errors=True)


def make_pki(folder: Path) -> Path:
    """Certificates for any number of stages."""
    Authority(folder).issue("broker")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
    jwk = {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key)), "kid": "one", "alg": "RS256"}
    (folder / "keys.json").write_text(json.dumps({"keys": [jwk]}))
    return folder


def client_context(pki: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(pki / "ca.pem"))
    context.check_hostname = False
    return context
