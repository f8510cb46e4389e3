"""The processes of `make mirror`: a cluster with one broker of Apache Kafka, and MirrorMaker 2 as a dedicated process. Their jars come from Maven and are stored
below build/mirror."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bench.peer import systems as peers
from bench.peer.fetch import CACHE, VERSIONS, copy_dependencies
from tests.cluster.local import free_port
from tests.connect.workers import LOG_CONFIG
from weir_common.java import find_java

VERSION = peers.KafkaKraft.version
JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
TOOLS = {
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
}
TOOL_SECONDS_MAX = 90


def mirror_jars() -> Path:
    """Raises bench.peer.fetch.Absent."""
    names = [f"org.apache.kafka:{name}:{VERSION}" for name in ("connect-mirror", "kafka_2.13", "kafka-tools")]
    return copy_dependencies(CACHE.parent / "mirror" / VERSION, [*names, VERSIONS[VERSION]])


class SmallKafka(peers.Kafka):
    """One broker with an authorizer, in small heaps. Anonymous clients are super users."""

    authorizer: str

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 1)

    def membership(self, number: int) -> dict[str, object]:
        return {
            **super().membership(number),
            "authorizer.class.name": self.authorizer,
            "super.users": "User:ANONYMOUS",
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.num.partitions": 4,
        }

    def java(self, heap: tuple[str, ...], main: str, *arguments: str) -> list[str]:
        return super().java(JVM[:1] if heap else (), main, *arguments)


class KafkaKraft(SmallKafka, peers.KafkaKraft):
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class KafkaZooKeeper(SmallKafka, peers.KafkaZooKeeper):
    authorizer = "kafka.security.authorizer.AclAuthorizer"


KAFKAS: dict[str, type[SmallKafka]] = {kind.version: kind for kind in (KafkaKraft, KafkaZooKeeper)}


class Tools:
    """Kafka's command line tools, by the names of bin/*.sh."""

    def __init__(self, lib: Path, folder: Path) -> None:
        self._lib, self._log_config = lib, folder / "tools-log4j2.xml"
        self._log_config.write_text(LOG_CONFIG.replace("INFO", "ERROR"))

    def run(self, tool: str, *arguments: str, stdin: str = "") -> str:
        command = [str(find_java()), *JVM, f"-Dlog4j2.configurationFile={self._log_config}", "-cp", f"{self._lib}/*"]
        done = subprocess.run(
            [*command, TOOLS[tool], *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TOOL_SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, f"{tool}: {done.stdout}{done.stderr}"
        return done.stdout


class Mirror:
    """MirrorMaker 2 from one cluster to another. `clients`: settings of the clients of each cluster, by its alias."""

    def __init__(
        self, lib: Path, folder: Path, source: str, target: str, clients: Mapping[str, Mapping[str, str]]
    ) -> None:
        self.source, self.target, self._lib = source, target, lib
        name = f"{source}-to-{target}"
        self.log = folder / f"{name}.log"
        self._properties = folder / f"{name}.properties"
        self._properties.write_text(properties(source, target, clients, free_port()))
        self._log_config = folder / "mirror-log4j2.xml"
        self._log_config.write_text(LOG_CONFIG)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [
            str(find_java()),
            *JVM,
            f"-Dlog4j2.configurationFile={self._log_config}",
            "-cp",
            f"{self._lib}/*",
            "org.apache.kafka.connect.mirror.MirrorMaker",
            str(self._properties),
        ]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Returns when the process has ended. One that does not end within two minutes is killed."""
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


def properties(source: str, target: str, clients: Mapping[str, Mapping[str, str]], port: int) -> str:
    """The file of MirrorMaker 2, as docs/migrate-from-kafka.md shows it, with shorter intervals."""
    flow = f"{source}->{target}"
    # A cluster of one broker is Apache Kafka here.
    replicas = {alias: "3" if "," in settings["bootstrap.servers"] else "1" for alias, settings in clients.items()}
    lines = {
        "clusters": f"{source}, {target}",
        **{f"{alias}.{name}": value for alias, settings in clients.items() for name, value in settings.items()},
        f"{flow}.enabled": "true",
        f"{target}->{source}.enabled": "false",
        # Otherwise workers of the other direction are started for its heartbeats.
        f"{target}->{source}.emit.heartbeats.enabled": "false",
        "topics": ".*",
        "groups": ".*",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "replication.factor": replicas[target],
        "offset-syncs.topic.replication.factor": replicas[source],
        "checkpoints.topic.replication.factor": replicas[target],
        "heartbeats.topic.replication.factor": replicas[target],
        **{f"{target}.{kind}.storage.replication.factor": replicas[target] for kind in ("config", "offset", "status")},
        f"{target}.exactly.once.source.support": "enabled",
        f"{source}.consumer.isolation.level": "read_committed",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://127.0.0.1:{port}",
        "sync.topic.configs.enabled": "true",
        "sync.topic.acls.enabled": "true",
        "sync.group.offsets.enabled": "true",
        "offset.lag.max": "0",
        "tasks.max": "2",
        **{
            f"{name}.interval.seconds": "5"
            for name in (
                "refresh.topics",
                "refresh.groups",
                "sync.topic.configs",
                "sync.topic.acls",
                "sync.group.offsets",
                "emit.checkpoints",
            )
        },
        "offset.flush.interval.ms": "5000",
        "scheduled.rebalance.max.delay.ms": "5000",
    }
    return "".join(f"{name} = {value}\n" for name, value in lines.items())
