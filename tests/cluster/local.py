"""A real cluster for tests: ZooKeeper and brokers as processes, a controller in a thread with rows held in memory.

What it does not show: the database; tests/cluster/test_house.py does that with the whole house.
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import Record
from brokerd.cluster.model import INTERNAL_TOPICS
from brokerd.cluster.znodes import ForwardedRequest
from brokerd.cluster.zookeeper import ZooKeeperStore
from controlplane.controller import requests
from controlplane.controller.events import (
    DesiredAccess,
    DesiredAssignment,
    DesiredRead,
    DesiredReset,
    DesiredTopic,
    Report,
)
from controlplane.controller.runner import Controller
from controlplane.house import zookeeper

ROOT = Path(__file__).resolve().parents[2]


_handed_out: set[int] = set()


def share_of(ports: range) -> range:
    """Half of them, another for each of the two workers that tests run in, so that neither takes what the other's dead server will want again."""
    half = len(ports) // 2
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 2
    return ports[worker * half : (worker + 1) * half]


def free_port() -> int:
    """A port that stays free while its server is down: below those that the kernel hands out to clients (32768 and up). One of those may be
    a client's by the time a killed broker comes back, or, as clients try again and again, that of a client connected to itself.
    """
    for _ in range(1_000):
        port = random.SystemRandom().choice(share_of(range(12_000, 20_000)))
        if port in _handed_out:
            continue
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", port))
            _handed_out.add(port)
            return port
    raise AssertionError("no free port")


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Poll until `condition()` is true; the deadline is generous, the wait is not."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.05)


class Rows:
    """The desired rows, in memory: the controller's Database port."""

    def __init__(self, topics: list[DesiredTopic]) -> None:
        self.topics = {t.name: t for t in topics}
        self.reports: list[Report] = []
        self.generations: dict[tuple[str, str], int] = {}
        self.settings: dict[str, dict[str, str]] = {}
        """Of brokers, by id; -1 of all."""
        self._post: Callable[[Any], None] = lambda event: None
        self.image: Image | None = None

    def start(self, post: Callable[[Any], None]) -> None:
        self._post = post

    def acting(self, controller_epoch: int) -> None:
        self._post(DesiredRead(tuple(self.topics.values()), complete=True))

    def standing_by(self) -> None:
        pass

    def write(self, request: ForwardedRequest) -> None:
        if request.kind == "alter_access":
            self._post(
                DesiredRead(access=tuple(self._access(i, request.request_id) for i in request.payload["topics"]))
            )
            return
        if request.kind == "alter_broker_configs":
            wanted = [self._settings(i, request.request_id) for i in request.payload["topics"]]
            self._post(DesiredRead(access=tuple(wanted)))
            return
        if request.kind == "alter_reassignments":
            wanted_places = [self._placed(i, request.request_id) for i in request.payload["topics"]]
            self._post(DesiredRead(assignments=tuple(wanted_places)))
            return
        out = []
        for topic in request.payload["topics"]:
            name = topic["name"]
            old = self.topics.get(name)
            if request.kind == "create_topics":
                assignment = topic.get("assignment")
                row = DesiredTopic(
                    uuid4(), name, 1, False, topic["partitions"], topic["replication_factor"], topic.get("configs") or {},
                    {int(i): tuple(r) for i, r in assignment.items()} if assignment else None, request.request_id,
                )  # fmt: skip
            else:
                assert old is not None
                values = {
                    "topic_id": old.topic_id, "name": name, "generation": old.generation + 1,
                    "deleted": request.kind == "delete_topics", "partitions": old.partitions,
                    "replication_factor": old.replication_factor, "configs": old.configs, "request_id": request.request_id,
                }  # fmt: skip
                if request.kind == "create_partitions":
                    values["partitions"] = topic["partitions"]
                if request.kind == "alter_topic_configs":
                    values["configs"], _ = requests.altered(old.configs, topic["configs"])
                row = DesiredTopic(**values)  # type: ignore[arg-type]
            self.topics[name] = row
            out.append(row)
        self._post(DesiredRead(tuple(out)))

    def _access(self, item: dict[str, Any], request_id: str) -> DesiredAccess:
        generation = self.generations[item["kind"], item["name"]] = (
            self.generations.get((item["kind"], item["name"]), 0) + 1
        )
        return DesiredAccess(item["kind"], item["name"], generation, item["value"], request_id)

    def _settings(self, item: dict[str, Any], request_id: str) -> DesiredAccess:
        key = item["name"] or "-1"
        settings = self.settings.setdefault(key, {})
        for op in item["configs"]:
            if op["op"] == "set":
                settings[op["name"]] = op["value"]
            else:
                settings.pop(op["name"], None)
        return self._access({"kind": "broker", "name": key, "value": dict(settings)}, request_id)

    def _placed(self, item: dict[str, Any], request_id: str) -> DesiredAssignment:
        """As asked; no replicas: back to those that were there before."""
        topic = self.image.topic_named(item["topic"]) if self.image is not None else None
        assert topic is not None
        state = topic.partitions[item["partition"]]
        replicas = item["replicas"] or [r for r in state.replicas if r not in state.adding]
        return DesiredAssignment(
            topic.topic_id, item["partition"], tuple(replicas), state.assignment_generation, "client's", request_id
        )

    def move(self, *assignments: DesiredAssignment) -> None:
        self._post(DesiredRead(assignments=assignments))

    def reset(self, *resets: DesiredReset) -> None:
        self._post(DesiredRead(resets=resets))

    def applied(self, image: Image, records: Sequence[Record]) -> None:
        self.image = image

    def report(self, report: Report) -> None:
        self.reports.append(report)

    def close(self) -> None:
        pass


class NoProbes:
    """A controller that hears of deaths by the ends of sessions alone, as where machines die without a word: scenarios in which several die at
    one moment hang on nothing but what they do."""

    dead: frozenset[tuple[int, int]] = frozenset()

    def __init__(self) -> None:
        self._never = os.eventfd(0, os.EFD_CLOEXEC)

    def fileno(self) -> int:
        return self._never

    def watch(self, registrations: Any) -> None:
        pass

    def turn(self, now: Any) -> bool:
        return False

    def close(self) -> None:
        os.close(self._never)


class LocalCluster:
    """`with LocalCluster(folder, brokers=3) as cluster: cluster.bootstrap`. Started once its `internal_topics` are there."""

    internal_topics: Sequence[str] = tuple(sorted(INTERNAL_TOPICS))

    probes = False
    """Whether its controller finds the dead by their connections."""

    def __init__(self, folder: Path, brokers: int = 3, settings: dict[str, str] | None = None) -> None:
        self.folder, self.count, self.settings = folder, brokers, settings or {}
        self.own_settings: dict[int, dict[str, str]] = {}
        """Of single brokers; they count from the next start on."""
        self.zookeeper_port = free_port()
        self.ports = {i: free_port() for i in range(1, brokers + 1)}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        internal = [
            DesiredTopic(
                uuid4(), name, 1, False, 4, min(3, brokers),
                {"cleanup.policy": "compact", "min.insync.replicas": "2" if brokers >= 3 else "1"},
            )
            for name in sorted(INTERNAL_TOPICS)
        ]  # fmt: skip
        self.rows = Rows(internal)
        self.controller: Controller | None = None
        self._thread: threading.Thread | None = None
        self._controller_died: BaseException | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{self.address(i)}:{p}" for i, p in self.ports.items())

    def address(self, broker_id: int) -> str:
        """Where it listens; its port is in `ports`."""
        return "127.0.0.1"

    @property
    def hosts(self) -> str:
        """Of ZooKeeper."""
        return f"127.0.0.1:{self.zookeeper_port}"

    @property
    def image(self) -> Image:
        assert self.controller is not None
        if self._controller_died is not None:
            raise AssertionError("the controller's thread died, and nobody will answer") from self._controller_died
        return self.controller.tailer.image

    def __enter__(self) -> LocalCluster:
        try:
            self._start()
        except BaseException:
            self.__exit__()  # nobody else ends what has begun
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
        for name in list(self.processes):
            self.kill(name, signal.SIGKILL)
        self.stop_controller()

    def until_at_rest(self) -> None:
        """Until every broker is up, every copy in sync and the first of the replicas leads: nothing of an earlier test's kills moves in the next one.
        An admin client is told NOT_COORDINATOR by a coordinator that goes home in mid-case."""

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
        store = ZooKeeperStore(self.hosts, 3000)
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
            "zookeeper.connect": self.hosts,
            "zookeeper.session.timeout.ms": "3000",
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
            )  # a frozen one would never hear it; SIGKILL needs no waking, and waking it would let it act
        return process.wait(timeout=60)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")
