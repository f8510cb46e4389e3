"""A disk that fills up and gets free space again: a follower's, then a leader's, each on a small file system.

The tests fail with a message if a file system cannot be mounted (root). No acknowledged record may be lost, the broker keeps running, and it catches up
automatically as soon as there is space.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import log_phrases
from tests.cluster.local import LocalCluster, wait_for
from tests.faults.scene import (
    LogLines,
    attempt,
    check_records,
    cluster,
    create,
    heal_cluster,
    leader,
    produce,
    state,
    wait_until_recovered,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]
DISK_MIB = 24
FULL_BROKER = 1
TOO_LARGE = "x" * 50_000
"""Larger than the rest of a file's last page, which is all the space that a full file system has."""


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory for broker 1's data, on its own file system."""
    folder = tmp_path_factory.mktemp("disk")
    data = folder / f"data-{FULL_BROKER}"
    data.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "weir-faults", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"a full disk needs a small file system, and mounting one failed: {done.stderr}"
    yield folder
    subprocess.run(["umount", "-l", str(data)], check=True)


@pytest.fixture(scope="module")
def shared_cluster(small_disk: Path) -> Iterator[LocalCluster]:
    settings = {"replica.high.watermark.checkpoint.interval.ms": "200", "replica.lag.time.max.ms": "2000"}
    with cluster(small_disk, 3, **settings) as running:
        yield running


@pytest.fixture
def c(shared_cluster: LocalCluster) -> LocalCluster:
    return heal_cluster(shared_cluster)


@contextlib.contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """A file outside the broker's data takes all free space, and space that is freed meanwhile."""
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


def checkpointed_offset(c: LocalCluster) -> int:
    lines = (c.folder / f"data-{FULL_BROKER}" / "meta.properties").read_text().splitlines()
    return int(dict(line.split("=", 1) for line in lines)["metadata.seq"])


def records(name: str, first: int, count: int) -> list[str]:
    return [f"{name}-{i:05d}".ljust(1000, ".") for i in range(first, first + count)]


def test_a_follower_with_a_full_disk_leaves_the_isr_and_catches_up_when_there_is_space(c: LocalCluster) -> None:
    create(c, "follower", min_insync=2, replicas=(2, 1, 3))
    written = records("follower", 0, 200)
    produce(c, "follower", written)
    log_lines = LogLines(c, f"broker-{FULL_BROKER}")
    with full_disk(c.folder / f"data-{FULL_BROKER}"):
        more = records("follower", 200, 200)
        produce(c, "follower", more)  # acknowledged by the two brokers with free space
        log_lines.wait(f"{log_phrases.APPENDS_SUSPENDED}follower-0", log_phrases.NO_SPACE)
        assert FULL_BROKER not in state(c, "follower").isr_ids
        assert c.processes[f"broker-{FULL_BROKER}"].poll() is None, "the broker exited"
    log_lines.wait(f"{log_phrases.APPENDS_RESUMED}follower-0")
    wait_until_recovered(c)
    check_records(c, "follower", written + more)
    assert len(log_lines.lines(log_phrases.APPENDS_SUSPENDED, "follower-0")) == 1


def test_a_leader_with_a_full_disk_acknowledges_nothing_and_continues_when_there_is_space(c: LocalCluster) -> None:
    create(c, "leader", min_insync=2, replicas=(1, 2, 3))
    written = records("leader", 0, 200)
    produce(c, "leader", written)
    # A checkpoint that cannot be written is logged once: the checkpoint of an earlier full disk must have succeeded.
    wait_for(lambda: checkpointed_offset(c) == c.image.seq, "the checkpoint of the applied metadata offset")
    log_lines = LogLines(c, f"broker-{FULL_BROKER}")
    with full_disk(c.folder / f"data-{FULL_BROKER}"):
        assert attempt(c, "leader", [TOO_LARGE], message_timeout_ms=2_000), (
            "a write without disk space was acknowledged"
        )
        log_lines.wait(f"{log_phrases.APPENDS_SUSPENDED}leader-0", log_phrases.NO_SPACE)
        create(c, "born-full", min_insync=2, replicas=(1, 2, 3))
        log_lines.wait(f"{log_phrases.REPLICA_NOT_OPENED}born-full-0", log_phrases.NO_SPACE)
        log_lines.wait(f"meta.properties {log_phrases.META_NOT_WRITTEN}")
        assert c.processes[f"broker-{FULL_BROKER}"].poll() is None, "the broker exited"
    more = records("leader", 300, 100)
    produce(c, "leader", more)
    assert log_lines.lines(f"{log_phrases.APPENDS_RESUMED}leader-0")
    produce(c, "born-full", ["first"])
    wait_until_recovered(c)
    check_records(c, "born-full", ["first"])
    check_records(c, "leader", written + more)


def test_a_broker_killed_with_a_full_disk_restarts_and_recovers_when_there_is_space(c: LocalCluster) -> None:
    create(c, "killed", min_insync=2, replicas=(1, 2, 3))
    written = records("killed", 0, 200)
    produce(c, "killed", written)
    with full_disk(c.folder / f"data-{FULL_BROKER}"):
        assert attempt(c, "killed", [TOO_LARGE], message_timeout_ms=1_000)
        c.kill(f"broker-{FULL_BROKER}")
        wait_for(lambda: leader(c, "killed") not in (-1, FULL_BROKER), "a leader with free space")
        more = records("killed", 300, 100)
        produce(c, "killed", more)
        log_lines = LogLines(c, f"broker-{FULL_BROKER}")
        c.start_broker(FULL_BROKER)
        log_lines.wait(f"{log_phrases.APPENDS_SUSPENDED}killed-0", log_phrases.NO_SPACE)
    log_lines.wait(f"{log_phrases.APPENDS_RESUMED}killed-0")
    wait_until_recovered(c)
    check_records(c, "killed", written + more)
