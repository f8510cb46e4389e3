"""A real cluster for tests: ZooKeeper and brokers as processes, the controller in a thread with its desired rows in memory.

Does not contain the database: tests/cluster/devcluster.py starts a whole local cluster with it.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import MetadataRecord
from brokerd.cluster.model import STARTUP_TOPIC_CONFIGS, STARTUP_TOPICS
from brokerd.cluster.requests import (
    AccessUpdate,
    AlterAccess,
    AlterBrokerConfigs,
    AlterReassignments,
    BrokerConfigOps,
    ForwardedRequest,
    NewPartitions,
    NewReassignment,
    NewTopic,
    OpType,
    TopicConfigOps,
    TopicsPayload,
    TopicToDelete,
)
from brokerd.cluster.zookeeper import ZooKeeperStore
from controlplane.controller import request_validation
from controlplane.controller.events import (
    DesiredAccess,
    DesiredAssignment,
    DesiredRead,
    DesiredReset,
    DesiredTopic,
    LoggedChange,
    Report,
)
from controlplane.controller.runner import Controller
from controlplane.devcluster import zookeeper

ROOT = Path(__file__).resolve().parents[2]


_allocated_ports: set[int] = set()


def own_ports(ports: range) -> range:
    """The ports of this test worker, so that no worker takes a port whose stopped server another worker starts again. Two workers and a run without
    workers use halves."""
    count = max(2, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % count
    share = len(ports) // count
    return ports[worker * share : (worker + 1) * share]


def free_port() -> int:
    """A port that stays free while its server is down. It is below the range from which the kernel assigns client ports (32768 and up): a client may
    have such a port when a killed broker starts again. A client that retries the connection may even connect to itself.
    """
    for _ in range(1_000):
        port = random.SystemRandom().choice(own_ports(range(12_000, 20_000)))
        if port in _allocated_ports:
            continue
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", port))
            _allocated_ports.add(port)
            return port
    raise AssertionError("no free port")


PATIENCE_SECONDS = 120.0
"""The shortest deadline of a wait. An action of one second on an idle machine took 40 s beside eight busy loops on two cores, and a test that fails
for that reason says nothing about the product. A test of a duration measures that duration and compares it."""


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Polls until `condition()` is true and returns its value. The deadline is generous; the poll interval is short."""
    seconds = max(seconds, PATIENCE_SECONDS)
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.05)


class Rows:
    """The desired rows in memory. Implements the controller's Database port."""

    def __init__(self, topics: list[DesiredTopic]) -> None:
        self.topics = {t.name: t for t in topics}
        self.reports: list[Report] = []
        self.generations: dict[tuple[str, str], int] = {}
        self.settings: dict[str, dict[str, str]] = {}
        """Settings of brokers by id; "-1" is the cluster-wide default."""
        self._post: Callable[[Any], None] = lambda event: None
        self.image: Image | None = None

    def start(self, post: Callable[[Any], None]) -> None:
        self._post = post

    def begin_term(self, controller_epoch: int) -> None:
        self._post(DesiredRead(tuple(self.topics.values()), complete=True))

    def stand_by(self) -> None:
        pass

    def write(self, request: ForwardedRequest) -> None:
        payload, rid = request.payload, request.request_id
        if isinstance(payload, AlterAccess):
            self._post(DesiredRead(access=tuple(self._access(i, rid) for i in payload.items)))
        elif isinstance(payload, AlterBrokerConfigs):
            self._post(DesiredRead(access=tuple(self._settings(i, rid) for i in payload.items)))
        elif isinstance(payload, AlterReassignments):
            self._post(DesiredRead(assignments=tuple(self._desired_assignment(i, rid) for i in payload.items)))
        else:
            assert isinstance(payload, TopicsPayload)
            rows = [self._topic(i, rid) for i in payload.items]
            self.topics.update((row.name, row) for row in rows)
            self._post(DesiredRead(tuple(rows)))

    def _topic(self, item: NewTopic | TopicToDelete | NewPartitions | TopicConfigOps, rid: str) -> DesiredTopic:
        if isinstance(item, NewTopic):
            configs = {k: v for k, v in item.configs.items() if v is not None}
            sizes = (item.partitions, item.replication_factor)
            return DesiredTopic(uuid4(), item.name, 1, False, *sizes, configs, item.assignment or None, rid)
        assert item.name is not None
        old = self.topics[item.name]
        row = replace(old, generation=old.generation + 1, assignment=None, request_id=rid)
        match item:
            case TopicToDelete():
                return replace(row, deleted=True)
            case NewPartitions():
                return replace(row, partitions=item.partitions)
            case TopicConfigOps():
                return replace(row, configs=request_validation.apply_config_operations(old.configs, item.configs)[0])

    def _access(self, item: AccessUpdate, rid: str) -> DesiredAccess:
        return self._next_access(item.kind, item.name, item.value, rid)

    def _settings(self, item: BrokerConfigOps, rid: str) -> DesiredAccess:
        key = item.name or "-1"
        settings = self.settings.setdefault(key, {})
        for op in item.configs:
            if op.op is OpType.SET:
                settings[op.name] = op.value or ""
            else:
                settings.pop(op.name, None)
        return self._next_access("broker", key, dict(settings), rid)

    def _next_access(self, kind: str, key: str, value: Mapping[str, Any] | None, rid: str | None) -> DesiredAccess:
        generation = self.generations[kind, key] = self.generations.get((kind, key), 0) + 1
        return DesiredAccess(kind, key, generation, value, rid)

    def declare(self, kind: str, key: str, value: Mapping[str, Any]) -> None:
        """Write a row of an access entry, for example of a route."""
        self._post(DesiredRead(access=(self._next_access(kind, key, value, None),)))

    def _desired_assignment(self, item: NewReassignment, rid: str) -> DesiredAssignment:
        """The requested replicas. Without replicas the reassignment is cancelled: the replicas before it."""
        topic = self.image.topic_named(item.topic) if self.image is not None else None
        assert topic is not None
        state = topic.partitions[item.partition]
        replicas = item.replicas or tuple(r for r in state.replicas if r not in state.adding)
        return DesiredAssignment(topic.topic_id, item.partition, replicas, state.assignment_generation, "client's", rid)

    def move(self, *assignments: DesiredAssignment) -> None:
        self._post(DesiredRead(assignments=assignments))

    def delete_topics(self, names: Collection[str]) -> None:
        rows = [replace(self.topics[n], generation=self.topics[n].generation + 1, deleted=True) for n in names]
        self.topics.update((row.name, row) for row in rows)
        self._post(DesiredRead(tuple(rows)))

    def reset(self, *resets: DesiredReset) -> None:
        self._post(DesiredRead(resets=resets))

    def on_applied(self, image: Image, records: Sequence[MetadataRecord]) -> None:
        self.image = image

    def report(self, report: Report | LoggedChange) -> None:
        if isinstance(report, Report):
            self.reports.append(report)

    def close(self) -> None:
        pass


def startup_topics(brokers: int, identify: Callable[[str], UUID] = lambda name: uuid4()) -> list[DesiredTopic]:
    """The rows of the internal topics, as the database of a new cluster has them."""
    least = "2" if brokers >= 3 else "1"
    return [
        DesiredTopic(
            identify(name),
            name,
            1,
            False,
            4,
            min(3, brokers),
            {**STARTUP_TOPIC_CONFIGS[name], "min.insync.replicas": least},
        )
        for name in STARTUP_TOPICS
    ]


class NoProbes:
    """The controller detects a dead broker only by its expired session, as when a machine fails without closing its connections. Scenarios in which
    several brokers die at the same moment then do not depend on the order of probes."""

    dead: frozenset[tuple[int, int]] = frozenset()
    while_standing_by = False

    def __init__(self) -> None:
        self._never = os.eventfd(0, os.EFD_CLOEXEC)

    def fileno(self) -> int:
        return self._never

    def watch(self, registrations: Any) -> None:
        pass

    def begin_term(self, now: Any) -> None:
        pass

    def stand_by(self, now: Any) -> None:
        pass

    def run_iteration(self, now: Any) -> bool:
        return False

    def close(self) -> None:
        os.close(self._never)


class LocalCluster:
    """`with LocalCluster(folder, brokers=3) as cluster: cluster.bootstrap`. The start waits until its `internal_topics` exist."""

    internal_topics: Sequence[str] = STARTUP_TOPICS

    probes = False
    """If True, the controller also detects dead brokers by probing their connections."""

    def __init__(self, folder: Path, brokers: int = 3, settings: dict[str, str] | None = None) -> None:
        self.folder, self.count, self.settings = folder, brokers, settings or {}
        self.own_settings: dict[int, dict[str, str]] = {}
        """Settings of single brokers. They take effect at the next start."""
        self.zookeeper_port = free_port()
        self.ports = {i: free_port() for i in range(1, brokers + 1)}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.rows = Rows(startup_topics(brokers))
        self.controller: Controller | None = None
        self._thread: threading.Thread | None = None
        self._controller_died: BaseException | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{self.address(i)}:{p}" for i, p in self.ports.items())

    def address(self, broker_id: int) -> str:
        """The broker's listen address. Its port is in `ports`."""
        return "127.0.0.1"

    @property
    def zookeeper_connect(self) -> str:
        """Connection string of ZooKeeper."""
        return f"127.0.0.1:{self.zookeeper_port}"

    @property
    def image(self) -> Image:
        assert self.controller is not None
        if self._controller_died is not None:
            raise AssertionError("the controller's thread died") from self._controller_died
        return self.controller.tailer.image

    def __enter__(self) -> LocalCluster:
        try:
            self._start()
        except BaseException:
            self.__exit__()  # __exit__ is not called after a failed __enter__: stop the processes that were started
            raise
        return self

    def _start(self) -> None:
        self.start_zookeeper()
        self.start_controller()
        for i in self.ports:
            self.start_broker(i)
        wait_for(lambda: len(self.image.live_brokers()) == self.count, "all brokers in the metadata log", 120)
        for name in self.internal_topics:
            wait_for(lambda name=name: self.image.topic_named(name), f"the topic {name}")  # type: ignore[misc]
        for i in self.ports:
            wait_for(lambda i=i: self.listening(i), f"broker {i} to listen")  # type: ignore[misc]

    def __exit__(self, *_: object) -> None:
        self.stop_controller()  # first: without ZooKeeper it would wait for a server that ends its session
        for name in list(self.processes):
            self.kill(name, signal.SIGKILL)

    def until_at_rest(self) -> None:
        """Waits until every broker is live, every replica in sync and every preferred replica the leader, so that kills of an earlier test do not affect
        the next one. An admin client gets NOT_COORDINATOR from a coordinator whose partition moves to its preferred leader in the middle of a case."""

        def at_rest() -> bool:
            return len(self.image.live_brokers()) == self.count and all(
                p.leader == p.replicas[0] and len(p.isr) == len(p.replicas) for _, _, p in self.image.each_partition()
            )

        wait_for(at_rest, "the cluster to be at rest", 90)

    def listening(self, broker_id: int) -> bool:
        with socket.socket() as s:
            return s.connect_ex((self.address(broker_id), self.ports[broker_id])) == 0

    def _spawn(self, name: str, command: list[str]) -> None:
        log = open(self.folder / f"{name}.log", "ab")  # noqa: SIM115
        self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)
        log.close()

    def start_zookeeper(self) -> None:
        folder = self.folder / "zookeeper"
        folder.mkdir(parents=True, exist_ok=True)
        self._spawn("zookeeper", zookeeper.prepare(folder, self.zookeeper_port))
        wait_for(lambda: zookeeper.ready(self.zookeeper_port), "ZooKeeper")

    def start_controller(self) -> None:
        store = ZooKeeperStore(self.zookeeper_connect, 3000)
        self.controller = Controller(
            store, f"controller-{uuid4().hex[:6]}", self.rows, probes=None if self.probes else NoProbes()
        )
        self._thread = threading.Thread(target=self._control, args=(self.controller,), daemon=True)
        self._thread.start()

    def _control(self, controller: Controller) -> None:
        try:
            controller.run()
        except BaseException as e:
            self._controller_died = e
            raise

    def stop_controller(self) -> None:
        if self.controller is not None and self._thread is not None:
            self.controller.stop()
            self._thread.join(timeout=20)

    def start_broker(self, broker_id: int) -> None:
        path = self.folder / f"broker-{broker_id}.properties"
        settings = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{self.address(broker_id)}:{self.ports[broker_id]}",
            "log.dirs": str(self.folder / f"data-{broker_id}"),
            "zookeeper.connect": self.zookeeper_connect,
            "zookeeper.session.timeout.ms": "6000",  # longer than the pauses of a busy machine
            "replica.lag.time.max.ms": "3000",
            "default.replication.factor": str(min(3, self.count)),
            "num.partitions": "3",
            **self.settings,
            **self.own_settings.get(broker_id, {}),
        }
        path.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
        self._spawn(f"broker-{broker_id}", [sys.executable, "-m", "brokerd", "--config", str(path)])

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> int | None:
        process = self.processes.pop(name, None)
        if process is None:
            return None
        process.send_signal(how)
        if how is not signal.SIGKILL:
            os.kill(
                process.pid, signal.SIGCONT
            )  # a stopped process handles the signal only after SIGCONT. SIGKILL needs no SIGCONT, and SIGCONT would let the process run.
        return process.wait(timeout=60)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")
