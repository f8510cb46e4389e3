"""The data directory of a local cluster: paths, ports, and checks before the start.

Invariants: all files of a local cluster are in its data directory, and all ports on loopback. A failed check raises an error with one
sentence before any process is started.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypedDict

from weir_common.java import JavaMissing, find_java

PORT_BASE_DEFAULT = 19090
BROKERS_DEFAULT, BROKERS_MAX = 4, 9
"""Four: with three replicas per partition one broker can be drained, and the loss of one makes no partition unavailable."""
CONTROLLERS_DEFAULT, CONTROLLERS_MAX = 2, 5
SESSION_MS = 6_000
"""ZooKeeper session time-out of brokers and controllers. A dead broker process is detected much earlier, by refused connections. On busy
machines sessions of 3 s expired although every process was alive."""


class CannotStart(Exception):
    """The reason why the local cluster cannot start, and what helps."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Ports: console = base, ZooKeeper = base + 1, broker N = base + 1 + N."""

    folder: Path
    port_base: int
    brokers: int
    controllers: int
    secure: bool = False

    @property
    def console_port(self) -> int:
        return self.port_base

    @property
    def zookeeper_port(self) -> int:
        return self.port_base + 1

    def broker_port(self, number: int) -> int:
        return self.port_base + 1 + number

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.broker_port(n)}" for n in range(1, self.brokers + 1))

    @property
    def console(self) -> str:
        return f"http://127.0.0.1:{self.console_port}/"

    def log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    @property
    def facts(self) -> Path:
        return self.folder / "local-cluster.json"

    @property
    def state(self) -> Path:
        return self.folder / "processes.json"

    @property
    def token(self) -> Path:
        return self.folder / "operator.token"

    def stopped_marker(self, name: str) -> Path:
        """Return the path of the marker file. While this file exists the supervisor keeps process `name` stopped."""
        return self.folder / "stopped" / name

    def restart(self, name: str) -> Path:
        """Contains the pid and start time of a process that the supervisor must restart once."""
        return self.folder / "restart" / name


class ClusterFacts(TypedDict, total=False):
    """The content of local-cluster.json. Empty before the first start. The keys from `secure` on: secured clusters only."""

    port_base: int
    console_port: int
    zookeeper: str
    bootstrap: str
    brokers: int
    controllers: int
    cluster_name: str
    secret_key: str
    user: str
    password: str
    secure: bool
    kafka_config: str
    kafka_password: str
    broker_password: str
    zookeeper_config: str
    zookeeper_password: str


def read_facts(folder: Path) -> ClusterFacts:
    try:
        facts: ClusterFacts = json.loads((folder / "local-cluster.json").read_text())
        return facts
    except (FileNotFoundError, NotADirectoryError):
        return {}


def planned_layout(
    folder: Path, port_base: int | None, brokers: int | None, controllers: int | None, secure: bool = False
) -> Layout:
    """The requested layout. Missing options keep the values of this data directory, so that `up` alone starts the same local cluster.
    A secured one stays secured, because its ZooKeeper nodes belong to its user."""
    facts = read_facts(folder)
    return Layout(
        folder,
        port_base if port_base is not None else int(facts.get("port_base", PORT_BASE_DEFAULT)),
        brokers if brokers is not None else int(facts.get("brokers", BROKERS_DEFAULT)),
        controllers if controllers is not None else int(facts.get("controllers", CONTROLLERS_DEFAULT)),
        secure or bool(facts.get("secure")),
    )


def lock(folder: Path) -> IO[str]:
    """The lock of the data directory for the life of a supervisor. Raises CannotStart if another process has it."""
    file = open(folder / "supervisor.lock", "w")  # noqa: SIM115 - the caller closes it
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise CannotStart(
            f"Another `manage.py up` is running in {folder}; wait for it, or choose another --data-dir."
        ) from None
    return file


def check(layout: Layout) -> None:
    """Raises CannotStart with one sentence. Starts no process and leaves no file."""
    if not 1 <= layout.brokers <= BROKERS_MAX:
        raise CannotStart(f"--brokers must be 1 to {BROKERS_MAX}, not {layout.brokers}.")
    if not 1 <= layout.controllers <= CONTROLLERS_MAX:
        raise CannotStart(f"--controllers must be 1 to {CONTROLLERS_MAX}, not {layout.controllers}.")
    before = int(read_facts(layout.folder).get("brokers", 0))
    if layout.brokers < before:
        raise CannotStart(
            f"The data directory contains {before} brokers, and --brokers {layout.brokers} would omit some; move their partitions "
            "to other brokers first, or start all of them."
        )
    if not 1024 <= layout.port_base <= 65000:
        raise CannotStart(f"--port-base must be 1024 to 65000, not {layout.port_base}.")
    try:
        layout.folder.mkdir(parents=True, exist_ok=True)
        probe = layout.folder / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as e:
        raise CannotStart(
            f"The data directory {layout.folder} is not writable ({e.strerror}); choose another with --data-dir."
        ) from e
    try:
        find_java()
    except JavaMissing as e:
        raise CannotStart(str(e)) from e
    names = {layout.console_port: "the console", layout.zookeeper_port: "ZooKeeper"}
    names |= {layout.broker_port(n): f"broker {n}" for n in range(1, layout.brokers + 1)}
    for port, name in names.items():
        with contextlib.closing(socket.socket()) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
            except OSError as e:
                raise CannotStart(
                    f"Port {port} for {name} is already in use; stop the process that uses it or choose other ports with --port-base."
                ) from e


def min_insync(replicas: int) -> int:
    """Default min.insync.replicas of a local cluster with this replication factor."""
    return 2 if replicas == 3 else 1
