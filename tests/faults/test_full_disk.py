"""A disk that fills up, and has room again: a follower's and then a leader's, each on a small file system of its own.

Where a file system may not be mounted (it takes root) the tests fail and say so. Nothing acknowledged may be lost, the broker lives on, and what it could
not take it takes by itself once there is room.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.local import LocalCluster, wait_for
from tests.faults.scene import (
    Said,
    attempt,
    cluster,
    create,
    healed,
    leader,
    produce,
    recovered,
    state,
    whole,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]
DISK_MIB = 24
FULL_BROKER = 1
TOO_LARGE = "x" * 50_000
"""For what is left in a file's last page, which is all the room that a full file system has."""


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder that will hold broker 1's data, a file system of its own."""
    folder = tmp_path_factory.mktemp("disk")
    data = folder / f"data-{FULL_BROKER}"
    data.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "weir-faults", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"a full disk needs a small file system, and mounting one was refused: {done.stderr}"
    yield folder
    subprocess.run(["umount", "-l", str(data)], check=True)


@pytest.fixture(scope="module")
def shared(small_disk: Path) -> Iterator[LocalCluster]:
    settings = {"replica.high.watermark.checkpoint.interval.ms": "200", "replica.lag.time.max.ms": "2000"}
    with cluster(small_disk, 3, **settings) as running:
        yield running


@pytest.fixture
def c(shared: LocalCluster) -> LocalCluster:
    return healed(shared)


@contextlib.contextmanager
def full(folder: Path) -> Iterator[None]:
    """Somebody else's file takes all the room there is, and what is given back meanwhile."""
    ballast, over = folder / "ballast", threading.Event()

    def take() -> None:
        with open(ballast, "ab", buffering=0) as f:
            while True:
                with contextlib.suppress(OSError):
                    while f.write(b"\0" * 4096):
                        pass
                if taken.is_set() and over.wait(0.02):
                    return
                taken.set()

    taken = threading.Event()
    taker = threading.Thread(target=take)
    taker.start()
    try:
        taken.wait()
        yield
    finally:
        over.set()
        taker.join()
        ballast.unlink()


def noted(c: LocalCluster) -> int:
    lines = (c.folder / f"data-{FULL_BROKER}" / "meta.properties").read_text().splitlines()
    return int(dict(line.split("=", 1) for line in lines)["metadata.seq"])


def records(name: str, first: int, count: int) -> list[str]:
    return [f"{name}-{i:05d}".ljust(1000, ".") for i in range(first, first + count)]


def test_a_follower_whose_disk_is_full_leaves_the_isr_and_catches_up_when_there_is_room(c: LocalCluster) -> None:
    create(c, "follower", min_insync=2, replicas=(2, 1, 3))
    written = records("follower", 0, 200)
    produce(c, "follower", written)
    said = Said(c, f"broker-{FULL_BROKER}")
    with full(c.folder / f"data-{FULL_BROKER}"):
        more = records("follower", 200, 200)
        produce(c, "follower", more)  # acknowledged by the two that have room
        said.wait("follower-0 takes no records for now", "no space left on the device")
        assert FULL_BROKER not in state(c, "follower").isr_ids
        assert c.processes[f"broker-{FULL_BROKER}"].poll() is None, "the broker ended"
    said.wait("follower-0 takes records again")
    recovered(c)
    whole(c, "follower", written + more)
    assert len(said.lines("takes no records for now", "follower-0")) == 1


def test_a_leader_whose_disk_is_full_acknowledges_nothing_and_goes_on_when_there_is_room(c: LocalCluster) -> None:
    create(c, "leader", min_insync=2, replicas=(1, 2, 3))
    written = records("leader", 0, 200)
    produce(c, "leader", written)
    # What could not be noted is told once: a note of the time before, of another full disk, has to be through.
    wait_for(lambda: noted(c) == c.image.seq, "the note of how far the metadata log was followed")
    said = Said(c, f"broker-{FULL_BROKER}")
    with full(c.folder / f"data-{FULL_BROKER}"):
        assert attempt(c, "leader", [TOO_LARGE], message_timeout_ms=2_000), "acknowledged what there was no room for"
        said.wait("leader-0 takes no records for now", "no space left on the device")
        create(c, "born-full", min_insync=2, replicas=(1, 2, 3))
        said.wait("born-full-0 cannot be opened until there is room")
        said.wait("meta.properties could not be written")
        assert c.processes[f"broker-{FULL_BROKER}"].poll() is None, "the broker ended"
    more = records("leader", 300, 100)
    produce(c, "leader", more)
    assert said.lines("leader-0 takes records again")
    produce(c, "born-full", ["first"])
    recovered(c)
    whole(c, "born-full", ["first"])
    whole(c, "leader", written + more)


def test_a_broker_killed_on_a_full_disk_starts_there_and_heals_when_there_is_room(c: LocalCluster) -> None:
    create(c, "killed", min_insync=2, replicas=(1, 2, 3))
    written = records("killed", 0, 200)
    produce(c, "killed", written)
    with full(c.folder / f"data-{FULL_BROKER}"):
        assert attempt(c, "killed", [TOO_LARGE], message_timeout_ms=1_000)
        c.kill(f"broker-{FULL_BROKER}")
        wait_for(lambda: leader(c, "killed") not in (-1, FULL_BROKER), "a leader that has room")
        more = records("killed", 300, 100)
        produce(c, "killed", more)
        said = Said(c, f"broker-{FULL_BROKER}")
        c.start_broker(FULL_BROKER)
        said.wait("killed-0 takes no records for now", "no space left on the device")
    said.wait("killed-0 takes records again")
    recovered(c)
    whole(c, "killed", written + more)
