"""Preconditions of the disaster commands: a running ZooKeeper, no live broker or controller, and the contents of the brokers' disks.

Invariants: starts at most the local cluster's ZooKeeper, and stops only what it started. A live broker or controller is an error and is
never stopped.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from django.conf import settings
from django.core.management.base import CommandParser

from brokerd.cluster import znodes
from brokerd.cluster.blocking import BlockingStore, connected
from brokerd.cluster.zookeeper import servers_of
from controlplane.clients.settings import zookeeper_store
from controlplane.devcluster import layout, processes, security, zookeeper
from controlplane.disaster.rebuilt import CannotRebuild, LogDirsInspection

LOOPBACK = ("127.0.0.1", "localhost", "::1")
READY_SECONDS = 60.0
SESSIONS_SECONDS = 70.0
"""The longest session of the local cluster's ZooKeeper lasts 60 s (devcluster/zookeeper.py). ZooKeeper counts it from its own start."""


class NewLogOptions(TypedDict):
    """The options of `add_arguments`."""

    data_dir: Path
    zookeeper: str | None
    inspection: list[Path]
    without: list[int]
    older: list[int]


def add_arguments(parser: CommandParser) -> None:
    """The options of every command that writes a new metadata log."""
    parser.add_argument(
        "--data-dir", type=Path, default=settings.WEIR.data_dir, help="data directory of the local cluster"
    )
    parser.add_argument(
        "--zookeeper",
        help="host:port[,host:port..]; default: WEIR_ZOOKEEPER, or the local cluster's, started if it does not run",
    )
    parser.add_argument(
        "--inspection",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="output of `python -m brokerd.tools.inspect_log_dirs` on a broker's machine, one per broker; default: the local cluster's brokers",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        type=int,
        metavar="BROKER",
        help="this broker and its disks are permanently lost, with the records that only they had",
    )
    parser.add_argument(
        "--older",
        action="append",
        default=[],
        type=int,
        metavar="BROKER",
        help="use the directories of this broker although they are an older copy: records that only the newest copy has are lost",
    )


def local_port(address: str) -> int | None:
    """The port of the local cluster's ZooKeeper. None for an ensemble of other machines (`WEIR_ZOOKEEPER`), of which nothing is started here."""
    servers, _ = servers_of(address)
    if len(servers) != 1:
        return None
    ((host, port),) = servers
    return port if host in LOOPBACK else None


@contextmanager
def zookeeper_connection(data_dir: Path, hosts: str | None) -> Iterator[BlockingStore]:
    """A connection to ZooKeeper. The local cluster's ZooKeeper is started if needed, and stopped again. Raises Unreachable, JavaMissing.

    A ZooKeeper that this function started still has the sessions of killed processes. They are expired before the connection is returned.
    """
    address = hosts or settings.WEIR.zookeeper
    port = None if hosts is not None else local_port(address)
    child = None
    zookeeper_security = security.zookeeper_security(data_dir, layout.read_facts(data_dir))
    if port is not None and not zookeeper.ready(port, zookeeper_security):
        folder = data_dir / "zookeeper"
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "disaster.log", "ab") as log:
            child = subprocess.Popen(zookeeper.prepare(folder, port, zookeeper_security), stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + READY_SECONDS
        while child is not None and port is not None and not zookeeper.ready(port, zookeeper_security):
            if time.monotonic() >= deadline:
                break
            time.sleep(0.1)
        with connected(zookeeper_store(address, 10_000)) as zk:
            if child is not None:
                wait_for_expired_sessions(zk)
            yield zk
    finally:
        if child is not None:
            child.terminate()
            child.wait(timeout=60)


@contextmanager
def cluster_lock(data_dir: Path) -> Iterator[None]:
    """Prevent a start of the local cluster in this directory. Raises CannotRebuild while it runs. No effect without a local cluster."""
    if not (data_dir / "local-cluster.json").exists():
        yield
        return
    try:
        lock = layout.lock(data_dir)
    except layout.CannotStart:
        raise CannotRebuild(
            f"the local cluster in {data_dir} is running; stop it with `manage.py down --data-dir {data_dir}`"
        ) from None
    with lock:
        yield


def wait_for_expired_sessions(zk: BlockingStore, seconds: float = SESSIONS_SECONDS) -> None:
    """Returns when no broker and no controller is registered, at the latest after `seconds`.

    ZooKeeper starts every session with its full time again. A caller that stops ZooKeeper and tries later never sees a session expire.
    """
    deadline = time.monotonic() + seconds
    while _live_processes(zk) and time.monotonic() < deadline:
        time.sleep(0.2)


def _live_processes(zk: BlockingStore) -> list[str]:
    """The registered brokers and the active controller, in words."""
    zk.sync()
    return [
        *(f"broker {n}" for n in zk.children(znodes.BROKERS)),
        *(["a controller"] if zk.get(znodes.CONTROLLER).ok else []),
    ]


def require_stopped(zk: BlockingStore) -> None:
    """Raises CannotRebuild while a broker is registered or a controller acts: their metadata log must not be replaced."""
    live = _live_processes(zk)
    if live:
        raise CannotRebuild(
            f"still running: {', '.join(live)}; stop all brokers and controllers first (a session expires some seconds after a kill)"
        )


def inspections(data_dir: Path, files: Sequence[Path]) -> list[LogDirsInspection]:
    """Inspections from `files`, or of the local cluster's brokers. Raises CannotRebuild."""
    if files:
        texts = [(str(f), f.read_text()) for f in files]
    else:
        configs = sorted(data_dir.glob("broker-*/broker.properties"))
        texts = [(str(c), _inspect(c)) for c in configs]
    found = []
    for name, text in texts:
        try:
            found.append(LogDirsInspection.decode(text))
        except ValueError as e:
            raise CannotRebuild(f"{name}: {e}") from e
    twice = {s.broker_id for s in found if sum(t.broker_id == s.broker_id for t in found) > 1}
    if twice:
        raise CannotRebuild(f"there are two inspections of broker {min(twice)}")
    if not found:
        raise CannotRebuild(f"there is no inspection: {data_dir} contains no brokers, and no --inspection was given")
    return found


def _inspect(config: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "brokerd.tools.inspect_log_dirs", "--config", str(config)],
        cwd=processes.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise CannotRebuild(done.stderr.strip() or f"the inspection of {config} failed")
    return done.stdout
