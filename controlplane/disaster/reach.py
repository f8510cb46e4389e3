"""What a disaster command needs around it: ZooKeeper, running; nobody else at work; what the brokers' disks hold.

Laws: starts at most the house's own ZooKeeper and ends what it started; a live broker or controller is a refusal, never ended. Called by the
commands.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.core.management.base import CommandParser

from brokerd.cluster import znodes
from brokerd.cluster.blocking import BlockingStore, connected
from controlplane.client import zookeeper_store
from controlplane.disaster.rebuilt import CannotRebuild, Survey
from controlplane.house import layout, processes, security, zookeeper

READY_SECONDS = 60.0


def add_arguments(parser: CommandParser) -> None:
    """The options of every command here that writes the log anew."""
    parser.add_argument("--data-dir", type=Path, default=Path("data"), help="the house's folder")
    parser.add_argument("--zookeeper", help="host:port[,host:port..]; default: the house's, started if it does not run")
    parser.add_argument(
        "--survey", action="append", default=[], type=Path, metavar="FILE",
        help="what `python -m brokerd.survey` wrote on a broker's machine, once per broker; default: the house's brokers are surveyed",
    )  # fmt: skip
    parser.add_argument(
        "--without", action="append", default=[], type=int, metavar="BROKER",
        help="this broker and its disks are gone for good: what only it held is lost",
    )  # fmt: skip


@contextmanager
def reached(data_dir: Path, hosts: str | None) -> Iterator[BlockingStore]:
    """A connection to ZooKeeper. The house's own is started when it does not run, and ended again. Raises Unreachable, JavaMissing."""
    address = hosts or settings.HOUSE.zookeeper
    _, _, port = address.rpartition(":")
    child = None
    guard = security.guard(data_dir, layout.read_facts(data_dir))
    if hosts is None and not zookeeper.ready(int(port), guard):
        folder = data_dir / "zookeeper"
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "disaster.log", "ab") as log:
            child = subprocess.Popen(zookeeper.prepare(folder, int(port), guard), stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + READY_SECONDS
        while child is not None and not zookeeper.ready(int(port), guard) and time.monotonic() < deadline:
            time.sleep(0.1)
        with connected(zookeeper_store(address, 10_000)) as zk:
            yield zk
    finally:
        if child is not None:
            child.terminate()
            child.wait(timeout=60)


@contextmanager
def house_at_rest(data_dir: Path) -> Iterator[None]:
    """Nobody starts the house of this folder meanwhile. Raises CannotRebuild while it runs; elsewhere there is nothing to hold."""
    if not (data_dir / "house.json").exists():
        yield
        return
    try:
        held = layout.lock(data_dir)
    except layout.CannotStart:
        raise CannotRebuild(f"the house in {data_dir} runs; `manage.py down --data-dir {data_dir}` first") from None
    with held:
        yield


def alone(zk: BlockingStore) -> None:
    """Raises CannotRebuild while a broker is registered or a controller acts: their log must not be taken away under them."""
    zk.sync()
    live = [
        *(f"broker {n}" for n in zk.children(znodes.BROKERS)),
        *(["a controller"] if zk.get(znodes.CONTROLLER).ok else []),
    ]
    if live:
        raise CannotRebuild(
            f"{', '.join(live)} still at work; stop all brokers and controllers first (a session lasts some seconds after a kill)"
        )


def surveys(data_dir: Path, files: Sequence[Path]) -> list[Survey]:
    """Of `files`, or of the house's brokers. Raises CannotRebuild."""
    if files:
        texts = [(str(f), f.read_text()) for f in files]
    else:
        configs = sorted(data_dir.glob("broker-*/broker.properties"))
        texts = [(str(c), _survey(c)) for c in configs]
    found = []
    for name, text in texts:
        try:
            found.append(Survey.decode(text))
        except ValueError as e:
            raise CannotRebuild(f"{name}: {e}") from e
    twice = {s.broker_id for s in found if sum(t.broker_id == s.broker_id for t in found) > 1}
    if twice:
        raise CannotRebuild(f"broker {min(twice)} was surveyed twice")
    if not found:
        raise CannotRebuild(f"no broker's disks are known: {data_dir} holds none, and no --survey was given")
    return found


def _survey(config: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "brokerd.survey", "--config", str(config)],
        cwd=processes.ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise CannotRebuild(done.stderr.strip() or f"the disks of {config} could not be surveyed")
    return done.stdout
