"""`make moves-stuck`: each cause that a move knows for standing still is injected into a living house of four brokers, and it is measured after how long the
move's page names it; then it is healed, and the move has to end.

Wanted: named within 90 s, `will_not_finish` within 60 s. `no_space` mounts a small file system (root). For `cut_due`, a deadline of an hour at least, the
move's start is put an hour back in its row; that an hour passes is not shown.
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
from tests.cluster.house import House
from tests.cluster.local import wait_for
from tests.cluster.test_moves import ALONE, Stream, part_of, pour
from tests.faults.tail_move import fill
from tests.faults.test_full_disk import full

NAMED_SECONDS_MAX = {"will_not_finish": 60.0}
NAMED_SECONDS_MAX_ELSE = 90.0
WAITED_SECONDS = 150.0
SLOW = 50_000
"""Bytes per second and broker: what is copied takes a minute, long enough to be disturbed."""
SIZE = 3_000_000
FULL_BROKER, FULL_MIB = 3, 200
"""A plan refuses what does not fit, and little room is less than 64 MiB."""

Injected = tuple[int, float]
"""The move's number, and when it was disturbed."""
Scene = contextlib.AbstractContextManager[Injected]


def begun(house: House, name: str, source: int, target: int, throttle: int | None = SLOW, **more: Any) -> int:
    """A partition of SIZE bytes under way from one broker to another; the move's number."""
    house.topic(name, partitions=1, replication_factor=1, configs=ALONE, assignment={"0": [source]})
    pour(house, name, SIZE)
    wait_for(lambda: (house.partitions(name)[0]["size_bytes"] or 0) > SIZE, "the size to be known")
    return started(house, name, target, throttle, **more)


def started(house: House, name: str, target: int, throttle: int | None, **more: Any) -> int:
    scope = {"kind": "partitions", "partitions": [{"topic": name, "partition": 0, "replicas": [target]}]}
    body = {"scope": scope, "start": True, "throttle_bytes_per_s": throttle, "why": "stuck", **more}
    return int(house.post("moves", body)["id"])


def some_is_copied(house: House, move: int) -> None:
    wait_for(lambda: (house.get(f"moves/{move}")["bytes_done"] or 0) > 0, "something to be copied", 60)


@contextlib.contextmanager
def target_down(house: House) -> Iterator[Injected]:
    move = begun(house, "to-the-dead", 1, 4)
    some_is_copied(house, move)
    at = time.monotonic()
    house.manage("process", "kill", "broker-4")
    yield move, at
    house.manage("process", "start", "broker-4")


@contextlib.contextmanager
def source_down(house: House) -> Iterator[Injected]:
    move = begun(house, "from-the-dead", 4, 1)
    some_is_copied(house, move)
    at = time.monotonic()
    house.manage("process", "kill", "broker-4")
    yield move, at
    house.manage("process", "start", "broker-4")


@contextlib.contextmanager
def controller(house: House) -> Iterator[Injected]:
    names = [n for n in house.pids() if n.startswith("controller-")]
    house.topic("unordered", partitions=1, replication_factor=1, configs=ALONE, assignment={"0": [1]})
    for name in names:
        house.manage("process", "stop", name)
    yield started(house, "unordered", 2, None), time.monotonic()
    for name in names:
        house.manage("process", "start", name)


@contextlib.contextmanager
def throttle(house: House) -> Iterator[Injected]:
    """Batches of a megabyte through a kilobyte per second."""
    house.topic("strangled", partitions=1, replication_factor=1, configs=ALONE, assignment={"0": [1]})
    fill(house, "strangled", SIZE)
    wait_for(lambda: (house.partitions("strangled")[0]["size_bytes"] or 0) > SIZE, "the size to be known")
    yield started(house, "strangled", 2, 1_000), time.monotonic()


@contextlib.contextmanager
def no_space(house: House) -> Iterator[Injected]:
    move = begun(house, "too-large", 1, FULL_BROKER)
    some_is_copied(house, move)
    at = time.monotonic()
    with full(data_of(house, FULL_BROKER)):
        yield move, at


@contextlib.contextmanager
def fetch_error(house: House) -> Iterator[Injected]:
    """A batch in the middle of the only copy does not fit its checksum: nobody takes it."""
    name = "unreadable"
    house.topic(name, partitions=1, replication_factor=1, configs=ALONE, assignment={"0": [1]})
    pour(house, name, SIZE)
    wait_for(lambda: (house.partitions(name)[0]["size_bytes"] or 0) > SIZE, "the size to be known")
    (segment,) = (data_of(house, 1) / f"{name}-0").glob("*.log")
    data = segment.read_bytes()
    places = [p + h.size - 1 for p, h in batches(data)]
    place = places[len(places) // 2]
    with segment.open("r+b", buffering=0) as file:
        file.seek(place)
        file.write(bytes([data[place] ^ 0xFF]))
        yield started(house, name, 2, None), time.monotonic()
        file.seek(place)
        file.write(data[place : place + 1])


@contextlib.contextmanager
def will_not_finish(house: House) -> Iterator[Injected]:
    house.topic("outgrown", partitions=1, replication_factor=1, configs=ALONE, assignment={"0": [1]})
    pour(house, "outgrown", 2_000_000)
    with Stream(house, "outgrown", 200_000):
        yield started(house, "outgrown", 2, 20_000), time.monotonic()


@contextlib.contextmanager
def unfit(house: House) -> Iterator[Injected]:
    move = begun(house, "kept", 1, 2, None, mode="tail")
    wait_for(lambda: part_of(house, move)["state"] == "ready", "the new copy to be in step", 60)
    at = time.monotonic()
    house.call("PATCH", "topics/kept", {"configs": {"cleanup.policy": "compact"}, "why": "stuck"})
    yield move, at
    house.call("PATCH", "topics/kept", {"configs": {"cleanup.policy": "delete"}, "why": "stuck"})
    wait_for(lambda: part_of(house, move)["cause"] == "", "the cause to be gone", 60)
    house.by_two("move.cut", str(move), {"confirm": "kept"})


@contextlib.contextmanager
def refused(house: House) -> Iterator[Injected]:
    """Its target dies after it was planned: the controller takes no order onto a broker that is not there. (After ten seconds the worker says which is down.)"""
    house.topic("unwanted", partitions=1, replication_factor=1, configs=ALONE, assignment={"0": [1]})
    pour(house, "unwanted", SIZE)
    scope = {"kind": "partitions", "partitions": [{"topic": "unwanted", "partition": 0, "replicas": [4]}]}
    move = int(house.post("moves", {"scope": scope, "why": "stuck"})["id"])
    house.manage("process", "kill", "broker-4")
    wait_for(
        lambda: not next(b for b in house.get("brokers") if b["broker_id"] == 4)["alive"],
        "the death to be seen",
    )
    at = time.monotonic()
    house.post(f"moves/{move}/start", {"why": "stuck"})
    yield move, at
    house.manage("process", "start", "broker-4")


@contextlib.contextmanager
def cut_due(house: House) -> Iterator[Injected]:
    move = begun(house, "overdue", 1, 2, None, mode="tail", deadline_hours=1)
    wait_for(lambda: part_of(house, move)["state"] == "ready", "the new copy to be in step", 60)
    at = time.monotonic()
    with contextlib.closing(sqlite3.connect(house.folder / "db.sqlite3", timeout=20)) as rows, rows:
        rows.execute("UPDATE controlplane_move SET started_at = datetime(started_at, '-1 hour') WHERE id = ?", (move,))
    yield move, at
    house.by_two("move.cut", str(move), {"confirm": "overdue"})
    wait_for(lambda: part_of(house, move)["cause"] == "", "the cause to be gone", 60)


SCENES: dict[str, Callable[[House], Scene]] = {
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
        cut_due,
    )
}


def data_of(house: House, broker_id: int) -> Path:
    return house.folder / f"broker-{broker_id}" / "data"


def named(house: House, cause: str) -> tuple[float, float, str]:
    """(seconds until it was named, until the move had ended after it was healed, the sentence)."""
    with SCENES[cause](house) as (move, at):
        part = wait_for(
            lambda: (p := part_of(house, move))["cause"] == cause and p, f"{cause} to be named", WAITED_SECONDS
        )
        seconds = time.monotonic() - at
    healed = time.monotonic()
    house.call("POST", f"moves/{move}/throttle", {"throttle_bytes_per_s": None})  # (it may have ended by now)
    done = wait_for(lambda: (m := house.get(f"moves/{move}"))["finished_at"] and m, "the move's end", 120)
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
        house = House(Path(name), "--brokers", "4")
        try:
            for cause in causes:
                seconds, ended, note = named(house, cause)
                limit = NAMED_SECONDS_MAX.get(cause, NAMED_SECONDS_MAX_ELSE)
                late += [cause] if seconds > limit else []
                print(
                    f"{cause:>16} named after {seconds:5.1f} s (at most {limit:.0f}), ended {ended:5.1f} s after it was healed: {note}",
                    flush=True,
                )
        finally:
            house.down()
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
