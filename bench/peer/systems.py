"""The compared systems: Weir, Kafka with ZooKeeper, Kafka with KRaft, each as processes on loopback with the same verbs.

No process is restarted automatically. Started processes are ended by pid. Each system has one coordinator: a ZooKeeper (with the settings of
Weir's, so that sessions expire with equal precision) or a separate KRaft controller, so that killing a broker never kills a coordinator. The
session time-out of a broker is the same in all systems; all other settings are the defaults of each system.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from bench.peer import fetch
from controlplane.devcluster import layout as layouts
from controlplane.devcluster import processes, provision, zookeeper
from weir_common.java import find_java

ROOT = Path(__file__).resolve().parents[2]
SESSION_MS = 6_000
START_SECONDS_MAX = 120
JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
"""JVM flags of bin/kafka-run-class.sh."""
CERTIFICATE = "certificate.pem"
HEAP = ("-Xmx1G", "-Xms1G")
"""Heap of bin/kafka-server-start.sh."""
HEAP_ZOOKEEPER = ("-Xmx512M", "-Xms512M")
"""Heap of bin/zookeeper-server-start.sh."""
LOG4J = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
LOG4J2 = """\
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
"""


def free_base(count: int) -> int:
    """The first of `count` consecutive free ports, below the ephemeral port range of the kernel."""
    for _ in range(200):
        base = random.SystemRandom().randrange(20_000, 32_000, 10)
        try:
            for port in range(base, base + count):
                with socket.socket() as s:
                    s.bind(("127.0.0.1", port))
            return base
        except OSError:
            continue
    raise SystemExit("no free ports")


def wait_for(condition: Callable[[], Any], what: str, seconds: float = START_SECONDS_MAX, pause: float = 0.02) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise SystemExit(f"waited {seconds:.0f} s for {what}")
        time.sleep(pause)
    return value


class System:
    """`name` is the title of its column. Ports: coordinator = base + 1, broker N = base + 1 + N; the TLS ports of the brokers follow the last one."""

    name: str
    log_dirs: str
    """Log directories of its brokers, as a pattern below `folder`."""

    def __init__(self, folder: Path, brokers: int) -> None:
        self.folder, self.count = folder, brokers
        self.base = free_base(2 * brokers + 2)
        self.ports = {n: self.base + 1 + n for n in range(1, brokers + 1)}
        self.tls_ports = {n: p + brokers for n, p in self.ports.items()}
        self.bootstrap, self.bootstrap_tls = (
            ",".join(f"127.0.0.1:{p}" for p in ports.values()) for ports in (self.ports, self.tls_ports)
        )
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    # -- specific to each system ---------------------------------------------------------------------------------------------
    def prepare(self) -> None:
        """Write the settings. No process runs yet."""
        raise NotImplementedError

    def start_processes(self) -> None:
        """Start the coordinator and the brokers."""
        self.start_coordinator()
        for number in self.ports:
            self.start_broker(number)

    def start_coordinator(self) -> None:
        raise NotImplementedError

    def broker_command(self, number: int) -> list[str]:
        raise NotImplementedError

    # -- common to all systems ---------------------------------------------------------------------------------------------
    def listeners(self, number: int) -> str:
        return f"PLAINTEXT://127.0.0.1:{self.ports[number]},SSL://127.0.0.1:{self.tls_ports[number]}"

    @property
    def tls(self) -> dict[str, str]:
        """Settings of a client of the TLS listeners."""
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.folder / CERTIFICATE)}

    def make_certificate(self) -> Path:
        """A self-signed certificate for all brokers, with its key."""
        path, key = self.folder / "broker.pem", self.folder / "broker.key"
        subprocess.run(
            [
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-keyout",
                key,
                "-out",
                self.folder / CERTIFICATE,
                "-days",
                "2",
                "-subj",
                "/CN=localhost",
                "-addext",
                "subjectAltName=IP:127.0.0.1",
            ],
            check=True,
            capture_output=True,
        )
        path.write_text(key.read_text() + (self.folder / CERTIFICATE).read_text())
        return path

    def start(self) -> None:
        """Start from an empty directory; returns when a client sees every broker."""
        self.prepare()
        self.start_processes()
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 100})

        def all_known() -> bool:
            try:
                return len(admin.list_topics(timeout=2).brokers) == self.count
            except KafkaException:
                return False

        wait_for(all_known, f"{self.name}'s brokers")

    def start_broker(self, number: int) -> None:
        self.spawn(f"broker-{number}", self.broker_command(number))

    def end_broker(self, number: int, how: signal.Signals) -> None:
        """Send the signal; returns when the process has ended."""
        process = self.running.pop(f"broker-{number}")
        process.send_signal(how)
        process.wait(120)

    def broker_pids(self) -> dict[int, int]:
        return {n: self.running[f"broker-{n}"].pid for n in self.ports if f"broker-{n}" in self.running}

    def pids(self) -> dict[str, int]:
        return {name: p.pid for name, p in self.running.items()}

    def spawn(self, name: str, command: list[str], environment: Mapping[str, str] | None = None) -> None:
        with open(self.folder / f"{name}.log", "ab") as log:
            self.running[name] = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
                env={**os.environ, **(environment or {})},
            )

    def close(self) -> None:
        for process in self.running.values():
            process.kill()
        for process in self.running.values():
            process.wait(60)
        self.running.clear()
        shutil.rmtree(self.folder, ignore_errors=True)


class Weir(System):
    name = "weir"
    log_dirs = "broker-*/data"

    def prepare(self) -> None:
        self.layout = layouts.Layout(self.folder, self.base, self.count, 1)
        provision.write_configuration(self.layout)
        keystore = self.make_certificate()
        for n in self.ports:
            path = self.folder / f"broker-{n}" / "broker.properties"
            kept = [
                line
                for line in path.read_text().splitlines()
                if line.partition("=")[0] in ("broker.id", "log.dirs", "zookeeper.connect")
            ]
            ours = (
                f"listeners={self.listeners(n)}",
                f"ssl.keystore.location={keystore}",
                f"zookeeper.session.timeout.ms={SESSION_MS}",
            )
            path.write_text("\n".join([*kept, *ours]) + "\n")
        self.plan = {p.name: p for p in processes.plan(self.layout, demo=None)}

    def start_processes(self) -> None:
        """As `manage.py up` does: the database is migrated, without Django's system checks, while ZooKeeper and the brokers start."""
        self.spawn("zookeeper", self.plan["zookeeper"].command)
        for number in self.ports:
            self.start_broker(number)
        controller = self.plan["controller-1"]
        migrate = [sys.executable, str(ROOT / "manage.py"), "migrate", "--verbosity", "0", "--skip-checks"]
        environment = {**os.environ, **controller.environment}
        subprocess.run(migrate, cwd=ROOT, env=environment, check=True, capture_output=True)
        command = [*controller.command, "--session-timeout-ms", str(SESSION_MS)]
        self.spawn("controller-1", command, controller.environment)

    def broker_command(self, number: int) -> list[str]:
        return self.plan[f"broker-{number}"].command

    def start_broker(self, number: int) -> None:
        self.spawn(f"broker-{number}", self.broker_command(number), {"PYTHONPATH": str(ROOT)})


class Kafka(System):
    """Common parts of both kinds of Kafka. Raises fetch.Absent if its jars are not available."""

    version: str
    log_dirs = "data-*"

    def __init__(self, folder: Path, brokers: int) -> None:
        self.jars = fetch.jars(self.version)
        self.name = f"kafka-{self.version}"
        super().__init__(folder, brokers)

    def java(self, heap: tuple[str, ...], main: str, *arguments: str) -> list[str]:
        logging = [
            f"-Dlog4j.configuration=file:{self.folder / 'log4j.properties'}",
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
        ]
        return [str(find_java()), *heap, *JVM, *logging, "-cp", f"{self.jars}/*", main, *arguments]

    def write(self, name: str, settings: Mapping[str, object]) -> None:
        (self.folder / f"{name}.properties").write_text("".join(f"{k}={v}\n" for k, v in settings.items()))

    def prepare(self) -> None:
        (self.folder / "log4j.properties").write_text(LOG4J)
        (self.folder / "log4j2.properties").write_text(LOG4J2)
        keystore = self.make_certificate()
        for number in self.ports:
            self.write(
                f"broker-{number}",
                {
                    "listeners": self.listeners(number),
                    "ssl.keystore.type": "PEM",
                    "ssl.keystore.location": keystore,
                    "log.dirs": self.folder / f"data-{number}",
                    "offsets.topic.replication.factor": min(3, self.count),
                    # The pages of a deleted topic must be free before the next pass of any system. The setting has no other effect.
                    "log.segment.delete.delay.ms": 1_000,
                    **self.membership(number),
                },
            )

    def membership(self, number: int) -> dict[str, object]:
        raise NotImplementedError

    def broker_command(self, number: int) -> list[str]:
        return self.java(HEAP, "kafka.Kafka", str(self.folder / f"broker-{number}.properties"))


class KafkaZooKeeper(Kafka):
    version = "3.9.2"

    def membership(self, number: int) -> dict[str, object]:
        return {
            "broker.id": number,
            "zookeeper.connect": f"127.0.0.1:{self.base + 1}",
            "zookeeper.session.timeout.ms": SESSION_MS,
        }

    def start_coordinator(self) -> None:
        (self.folder / "zoo.cfg").write_text(zookeeper.open_settings(self.base + 1, self.folder / "zookeeper"))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self.spawn("zookeeper", self.java(HEAP_ZOOKEEPER, main, str(self.folder / "zoo.cfg")))
        wait_for(lambda: zookeeper.ready(self.base + 1), "Kafka's ZooKeeper")


class KafkaKraft(Kafka):
    version = "4.3.1"
    controller_id = 100

    def membership(self, number: int) -> dict[str, object]:
        return {
            "process.roles": "broker",
            "node.id": number,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
            "controller.quorum.voters": f"{self.controller_id}@127.0.0.1:{self.base + 1}",
        }

    def prepare(self) -> None:
        super().prepare()
        self.write(
            "controller",
            {
                **self.membership(self.controller_id),
                "process.roles": "controller",
                "listeners": f"CONTROLLER://127.0.0.1:{self.base + 1}",
                "log.dirs": self.folder / "data-controller",
                "broker.session.timeout.ms": SESSION_MS,
                "offsets.topic.replication.factor": min(3, self.count),
            },
        )
        # With a first byte of 248 or more the id would start with a dash and be parsed as an option. Kafka's own ids do not start with a dash either.
        cluster = urlsafe_b64encode(bytes([uuid.uuid4().bytes[0] % 248]) + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        # In parallel: three formats in sequence would count against the start time of the peer.
        formats = [
            subprocess.Popen(
                self.java((), "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(path)),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            for path in (
                self.folder / f"{name}.properties" for name in ("controller", *(f"broker-{n}" for n in self.ports))
            )
        ]
        for process in formats:
            _, error = process.communicate(timeout=START_SECONDS_MAX)
            if process.returncode:
                raise SystemExit(f"kafka-storage format: {error.decode(errors='replace')[:500]}")

    def start_coordinator(self) -> None:
        self.spawn("controller", self.java(HEAP, "kafka.Kafka", str(self.folder / "controller.properties")))


PEERS: dict[str, type[Kafka]] = {"zookeeper": KafkaZooKeeper, "kraft": KafkaKraft}
