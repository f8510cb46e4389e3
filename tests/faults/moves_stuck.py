"""`make moves-stuck`: each cause of a stuck move is injected into a running cluster of four brokers. Measures how long the move's page takes to name
it. Then the fault is repaired, and the move has to end.

Required: named within 90 s, `will_not_finish` within 60 s. `no_space` mounts a small file system (root). A deadline is at least an hour, so for
`deadline_passed` the move's start is set back an hour in its row; a real hour is not tested.
"""

from __future__ import annotations

import argparse
import contextlib
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from brokerd.wire.records import batches
from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for
from tests.cluster.test_moves import ALONE, Stream, part_of, produce_bytes
from tests.faults.tail_move import fill
from tests.faults.test_full_disk import full_disk

NAMED_SECONDS_MAX = {"will_not_finish": 60.0}
NAMED_SECONDS_MAX_ELSE = 90.0
WAITED_SECONDS = 150.0
SLOW = 50_000
"""Bytes per second and broker: the copy takes a minute, long enough to inject a fault."""
SIZE = 3_000_000
FULL_BROKER, FULL_MIB = 3, 200
"""Planning rejects a move that does not fit; less than 64 MiB counts as little free space."""

Injected = tuple[int, float]
"""The move's id, and the time of the fault."""
Scene = contextlib.AbstractContextManager[Injected]


def started_with_data(
    devcluster: DevCluster, name: str, source: int, target: int, throttle: int | None = SLOW, **more: Any
) -> int:
    """Starts a move of a partition of SIZE bytes from one broker to another. Returns the move's id."""
    devcluster.topic(name, partitions=1, replication_factor=1, configs=ALONE, assignment={"0": [source]})
    produce_bytes(devcluster, name, SIZE)
    wait_for(lambda: (devcluster.partitions(name)[0]["size_bytes"] or 0) > SIZE, "the size to be known")
    return start_move(devcluster, name, target, throttle, **more)


def start_move(devcluster: DevCluster, name: str, target: int, throttle: int | None, **more: Any) -> int:
    scope = {"kind": "partitions", "partitions": [{"topic": name, "partition": 0, "replicas": [target]}]}
    body = {"scope": scope, "start": True, "throttle_bytes_per_s": throttle, "comment": "stuck", **more}
    return int(devcluster.post("moves", body)["id"])


def some_is_copied(devcluster: DevCluster, move: int) -> None:
    wait_for(lambda: (devcluster.get(f"moves/{move}")["bytes_done"] or 0) > 0, "something to be copied", 60)


@contextlib.contextmanager
def target_down(devcluster: DevCluster) -> Iterator[Injected]:
    move = started_with_data(devcluster, "to-the-dead", 1, 4)
    some_is_copied(devcluster, move)
    at = time.monotonic()
    devcluster.manage("process", "kill", "broker-4")
    yield move, at
    devcluster.manage("process", "start", "broker-4")


@contextlib.contextmanager
def source_down(devcluster: DevCluster) -> Iterator[Injected]:
    move = started_with_data(devcluster, "from-the-dead", 4, 1)
    some_is_copied(devcluster, move)
    at = time.monotonic()
    devcluster.manage("process", "kill", "broker-4")
    yield move, at
    devcluster.manage("process", "start", "broker-4")


@contextlib.contextmanager
def controller(devcluster: DevCluster) -> Iterator[Injected]:
    names = [n for n in devcluster.pids() if n.startswith("controller-")]
    devcluster.topic("unordered", partitions=1, replication_factor=1, configs=ALONE, assignment={"0": [1]})
    for name in names:
        devcluster.manage("process", "stop", name)
    yield start_move(devcluster, "unordered", 2, None), time.monotonic()
    for name in names:
        devcluster.manage("process", "start", name)


@contextlib.contextmanager
def throttle(devcluster: DevCluster) -> Iterator[Injected]:
    """Batches of a megabyte at a throttle of a kilobyte per second."""
    devcluster.topic("strangled", partitions=1, replication_factor=1, configs=ALONE, assignment={"0": [1]})
    fill(devcluster, "strangled", SIZE)
    wait_for(lambda: (devcluster.partitions("strangled")[0]["size_bytes"] or 0) > SIZE, "the size to be known")
    yield start_move(devcluster, "strangled", 2, 1_000), time.monotonic()


@contextlib.contextmanager
def no_space(devcluster: DevCluster) -> Iterator[Injected]:
    move = started_with_data(devcluster, "too-large", 1, FULL_BROKER)
    some_is_copied(devcluster, move)
    at = time.monotonic()
    with full_disk(data_of(devcluster, FULL_BROKER)):
        yield move, at


@contextlib.contextmanager
def fetch_error(devcluster: DevCluster) -> Iterator[Injected]:
    """A batch in the middle of the only replica has a wrong checksum: every follower rejects it."""
    name = "unreadable"
    devcluster.topic(name, partitions=1, replication_factor=1, configs=ALONE, assignment={"0": [1]})
    produce_bytes(devcluster, name, SIZE)
    wait_for(lambda: (devcluster.partitions(name)[0]["size_bytes"] or 0) > SIZE, "the size to be known")
    (segment,) = (data_of(devcluster, 1) / f"{name}-0").glob("*.log")
    data = segment.read_bytes()
    places = [p + h.size - 1 for p, h in batches(data)]
    place = places[len(places) // 2]
    with segment.open("r+b", buffering=0) as file:
        file.seek(place)
        file.write(bytes([data[place] ^ 0xFF]))
        yield start_move(devcluster, name, 2, None), time.monotonic()
        file.seek(place)
        file.write(data[place : place + 1])


@contextlib.contextmanager
def will_not_finish(devcluster: DevCluster) -> Iterator[Injected]:
    devcluster.topic("outgrown", partitions=1, replication_factor=1, configs=ALONE, assignment={"0": [1]})
    produce_bytes(devcluster, "outgrown", 2_000_000)
    with Stream(devcluster, "outgrown", 200_000):
        yield start_move(devcluster, "outgrown", 2, 20_000), time.monotonic()


@contextlib.contextmanager
def unfit(devcluster: DevCluster) -> Iterator[Injected]:
    move = started_with_data(devcluster, "kept", 1, 2, None, mode="tail")
    wait_for(lambda: part_of(devcluster, move)["state"] == "ready", "the new replica to be in sync", 60)
    at = time.monotonic()
    devcluster.call("PATCH", "topics/kept", {"configs": {"cleanup.policy": "compact"}, "comment": "stuck"})
    yield move, at
    devcluster.call("PATCH", "topics/kept", {"configs": {"cleanup.policy": "delete"}, "comment": "stuck"})
    wait_for(lambda: part_of(devcluster, move)["cause"] == "", "the cause to be gone", 60)
    devcluster.propose_and_approve("move.delete_records", str(move), {"confirm": "kept"})


@contextlib.contextmanager
def refused(devcluster: DevCluster) -> Iterator[Injected]:
    """The target dies after planning: the controller rejects an assignment to a broker that is not live. (After ten seconds the worker names the broker.)"""
    devcluster.topic("unwanted", partitions=1, replication_factor=1, configs=ALONE, assignment={"0": [1]})
    produce_bytes(devcluster, "unwanted", SIZE)
    scope = {"kind": "partitions", "partitions": [{"topic": "unwanted", "partition": 0, "replicas": [4]}]}
    move = int(devcluster.post("moves", {"scope": scope, "comment": "stuck"})["id"])
    devcluster.manage("process", "kill", "broker-4")
    wait_for(
        lambda: not next(b for b in devcluster.get("brokers")["rows"] if b["broker_id"] == 4)["alive"],
        "the death to be seen",
    )
    at = time.monotonic()
    devcluster.post(f"moves/{move}/start", {"comment": "stuck"})
    yield move, at
    devcluster.manage("process", "start", "broker-4")


@contextlib.contextmanager
def deadline_passed(devcluster: DevCluster) -> Iterator[Injected]:
    move = started_with_data(devcluster, "overdue", 1, 2, None, mode="tail", deadline_hours=1)
    wait_for(lambda: part_of(devcluster, move)["state"] == "ready", "the new replica to be in sync", 60)
    at = time.monotonic()
    with contextlib.closing(sqlite3.connect(devcluster.folder / "db.sqlite3", timeout=20)) as rows, rows:
        rows.execute("UPDATE controlplane_move SET started_at = datetime(started_at, '-1 hour') WHERE id = ?", (move,))
    yield move, at
    devcluster.propose_and_approve("move.delete_records", str(move), {"confirm": "overdue"})
    wait_for(lambda: part_of(devcluster, move)["cause"] == "", "the cause to be gone", 60)


SCENES: dict[str, Callable[[DevCluster], Scene]] = {
    s.__name__: s
    for s in (
        target_down,
        source_down,
        controller,
        refused,
        throttle,
        no_space,
        fetch_error,
        will_not_finish,
        unfit,
        deadline_passed,
    )
}


def data_of(devcluster: DevCluster, broker_id: int) -> Path:
    return devcluster.folder / f"broker-{broker_id}" / "data"


def measure_cause(devcluster: DevCluster, cause: str) -> tuple[float, float, str]:
    """(seconds until the cause was named, seconds from the repair to the move's end, the text of the cause)."""
    with SCENES[cause](devcluster) as (move, at):
        part = wait_for(
            lambda: (p := part_of(devcluster, move))["cause"] == cause and p, f"{cause} to be named", WAITED_SECONDS
        )
        seconds = time.monotonic() - at
    healed = time.monotonic()
    devcluster.call("POST", f"moves/{move}/throttle", {"throttle_bytes_per_s": None})  # the move may have ended by now
    done = wait_for(lambda: (m := devcluster.get(f"moves/{move}"))["finished_at"] and m, "the move's end", 120)
    assert done["state"] == "done", done["note"]
    return seconds, time.monotonic() - healed, part["note"]


@contextlib.contextmanager
def small_disk(folder: Path, wanted: bool) -> Iterator[None]:
    data = folder / f"broker-{FULL_BROKER}" / "data"
    if wanted:
        data.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={FULL_MIB}m", "weir-stuck", str(data)], check=True)
    try:
        yield
    finally:
        if wanted:
            subprocess.run(["umount", "-l", str(data)], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.moves_stuck", description=__doc__)
    parser.add_argument("--causes", nargs="*", default=list(SCENES), choices=list(SCENES))
    causes = parser.parse_args().causes
    late = []
    with tempfile.TemporaryDirectory(prefix="weir-stuck-") as name, small_disk(Path(name), "no_space" in causes):
        devcluster = DevCluster(Path(name), "--brokers", "4")
        try:
            for cause in causes:
                seconds, ended, note = measure_cause(devcluster, cause)
                limit = NAMED_SECONDS_MAX.get(cause, NAMED_SECONDS_MAX_ELSE)
                late += [cause] if seconds > limit else []
                print(
                    f"{cause:>16} named after {seconds:5.1f} s (at most {limit:.0f}), ended {ended:5.1f} s after the repair: {note}",
                    flush=True,
                )
        finally:
            devcluster.down()
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
