"""Workers of Apache Kafka's Connect in distributed mode, as processes. Their jars come from Maven (bench.peer.fetch) and are stored below build/connect."""

from __future__ import annotations

import subprocess
from pathlib import Path

from bench.peer.fetch import CACHE, VERSIONS, copy_dependencies
from tests.cluster.local import free_port
from weir_common.java import find_java

VERSION = "4.3.1"
GROUP = "connect-check"
"""`group.id` of the workers; the group has the protocol type `connect`."""
INTERNAL_TOPICS = ("connect-check-configs", "connect-check-offsets", "connect-check-status")
LOG_CONFIG = """\
<Configuration status="WARN"><Appenders><Console name="out"><PatternLayout pattern="%d %p %m (%c)%n%throwable"/></Console></Appenders>
<Loggers><Root level="INFO"><AppenderRef ref="out"/></Root></Loggers></Configuration>
"""


def connect_jars() -> Path:
    """Raises bench.peer.fetch.Absent."""
    names = [f"org.apache.kafka:{name}:{VERSION}" for name in ("connect-runtime", "connect-file")]
    return copy_dependencies(CACHE.parent / "connect" / VERSION, [*names, VERSIONS[VERSION]])


class Worker:
    """One worker. `folder` gets its properties and its log."""

    def __init__(self, name: str, lib: Path, bootstrap: str, folder: Path) -> None:
        self.name, self.port, self.folder, self._lib = name, free_port(), folder, lib
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / f"{name}.log"
        topics = {
            f"{kind}.storage.{key}": value
            for kind, topic in zip(("config", "offset", "status"), INTERNAL_TOPICS, strict=True)
            for key, value in (("topic", topic), ("replication.factor", "3"))
        }
        properties = {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            **topics,
            "offset.storage.partitions": "3",
            "status.storage.partitions": "2",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "listeners": f"HTTP://127.0.0.1:{self.port}",
            # The file connectors are on the class path. An empty path would be the working directory.
            "plugin.path": str(folder / "plugins"),
            "plugin.discovery": "service_load",
            "exactly.once.source.support": "enabled",
            "offset.flush.interval.ms": "1000",
            "session.timeout.ms": "10000",
            "heartbeat.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "3000",
        }
        (folder / "plugins").mkdir(exist_ok=True)
        self._properties = folder / f"{name}.properties"
        self._properties.write_text("".join(f"{n}={v}\n" for n, v in properties.items()))
        self._log_config = folder / "log4j2.xml"
        self._log_config.write_text(LOG_CONFIG)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [
            str(find_java()),
            "-Xmx384m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Dlog4j2.configurationFile={self._log_config}",
            "-cp",
            f"{self._lib}/*",
            "org.apache.kafka.connect.cli.ConnectDistributed",
            str(self._properties),
        ]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
