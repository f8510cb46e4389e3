"""The folder of one house: what lies where, which port is whose, and what must be true before anything starts.

Law: everything of a house is under its folder and on loopback; a house that cannot start says so in one sentence before it has
started anything. Called by the commands and the supervisor.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from controlplane.house import security, zookeeper
from controlplane.house.files import write_private

PORT_BASE_DEFAULT = 19090
BROKERS_DEFAULT, BROKERS_MAX = 3, 9
CONTROLLERS_DEFAULT, CONTROLLERS_MAX = 2, 5


class CannotStart(Exception):
    """Why the house cannot start, and what would help."""


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
        return self.folder / "house.json"

    @property
    def state(self) -> Path:
        return self.folder / "processes.json"

    @property
    def token(self) -> Path:
        return self.folder / "operator.token"

    def held(self, name: str) -> Path:
        """While this file exists the supervisor keeps process `name` down."""
        return self.folder / "held" / name

    def restart(self, name: str) -> Path:
        """Names the pid and start time of a process that the supervisor is to end and start again, once."""
        return self.folder / "restart" / name


def read_facts(folder: Path) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = json.loads((folder / "house.json").read_text())
        return facts
    except FileNotFoundError:
        return {}


def wanted(
    folder: Path, port_base: int | None, brokers: int | None, controllers: int | None, secure: bool = False
) -> Layout:
    """The layout asked for; what was not asked for is as it was in this folder, so that `up` alone goes on with the same house.
    A secured one stays so: ZooKeeper's nodes are its user's."""
    facts = read_facts(folder)
    return Layout(
        folder,
        port_base if port_base is not None else int(facts.get("port_base", PORT_BASE_DEFAULT)),
        brokers if brokers is not None else int(facts.get("brokers", BROKERS_DEFAULT)),
        controllers if controllers is not None else int(facts.get("controllers", CONTROLLERS_DEFAULT)),
        secure or bool(facts.get("secure")),
    )


def lock(folder: Path) -> IO[str]:
    """Held for the life of a supervisor; a second one is refused. Raises CannotStart."""
    file = open(folder / "supervisor.lock", "w")  # noqa: SIM115 - the caller closes it
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise CannotStart(
            f"Another `manage.py up` is at work in {folder}; wait for it, or choose another --data-dir."
        ) from None
    return file


def check(layout: Layout) -> None:
    """Raises CannotStart with one sentence. Nothing has been started or left behind then."""
    if not 1 <= layout.brokers <= BROKERS_MAX:
        raise CannotStart(f"--brokers must be 1 to {BROKERS_MAX}, not {layout.brokers}.")
    if not 1 <= layout.controllers <= CONTROLLERS_MAX:
        raise CannotStart(f"--controllers must be 1 to {CONTROLLERS_MAX}, not {layout.controllers}.")
    before = int(read_facts(layout.folder).get("brokers", 0))
    if layout.brokers < before:
        raise CannotStart(
            f"This folder holds the data of {before} brokers, --brokers {layout.brokers} would leave some out; move their partitions "
            "away first, or start with all of them."
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
            f"The folder {layout.folder} cannot be written ({e.strerror}); choose another with --data-dir."
        ) from e
    try:
        zookeeper.find_java()
    except zookeeper.JavaMissing as e:
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
                    f"Port {port}, meant for {name}, is taken; stop what uses it or choose other ports with --port-base."
                ) from e


def settle(layout: Layout) -> dict[str, Any]:
    """Write house.json (keeping secrets of an earlier start) and every process's settings."""
    old = read_facts(layout.folder)
    for name in ("logs", "held", "restart", "celery", "lake", "zookeeper"):
        (layout.folder / name).mkdir(exist_ok=True)
    facts = {
        **old,
        "port_base": layout.port_base,
        "console_port": layout.console_port,
        "zookeeper": f"127.0.0.1:{layout.zookeeper_port}",
        "bootstrap": layout.bootstrap,
        "brokers": layout.brokers,
        "controllers": layout.controllers,
        "cluster_name": old.get("cluster_name", "weir"),
        "secret_key": old.get("secret_key") or secrets.token_urlsafe(48),
        "user": "weir",
        "password": old.get("password") or secrets.token_urlsafe(15),
        **(security.facts(layout, old) if layout.secure else {}),
    }
    write_private(layout.facts, json.dumps(facts, indent=2))
    secured = security.settle(layout, facts) if layout.secure else {}
    replicas = min(3, layout.brokers)
    for n in range(1, layout.brokers + 1):
        home = layout.folder / f"broker-{n}"
        home.mkdir(exist_ok=True)
        settings = {
            "broker.id": n,
            "listeners": f"PLAINTEXT://127.0.0.1:{layout.broker_port(n)}",
            "log.dirs": home / "data",
            "zookeeper.connect": f"127.0.0.1:{layout.zookeeper_port}",
            "zookeeper.session.timeout.ms": 3000,
            "replica.lag.time.max.ms": 3000,
            "num.partitions": 3,
            "default.replication.factor": replicas,
            "min.insync.replicas": 2 if replicas == 3 else 1,
            "log.retention.check.interval.ms": 30_000,
            **secured.get(n, {}),
        }
        write_private(home / "broker.properties", "".join(f"{k}={v}\n" for k, v in settings.items()))
    return facts
