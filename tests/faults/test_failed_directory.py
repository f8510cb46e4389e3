"""The disk under one of a broker's two log directories fails and comes back with its journal's content: an ext4 file system, shut down during the test.

From then on every call returns EIO, as with a failed disk controller. Unflushed data is lost.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import log_phrases
from tests.cluster.local import LocalCluster, wait_for
from tests.faults.loop_disk import LoopDisk
from tests.faults.scene import LogLines, create, leader, produce, read, state, wait_until_recovered

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]
BROKER = 1


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    made = LoopDisk(tmp_path / "other-disk", tmp_path / "image")
    yield made
    made.unmount()


def replica_bytes(name: str, *directories: Path) -> bytes:
    """The bytes of a broker's replica, in whichever log directory it is."""
    folder = next(d / f"{name}-0" for d in directories if (d / f"{name}-0").exists())
    return b"".join(segment.read_bytes() for segment in sorted(folder.glob("*.log")))


def test_a_failed_disk_loses_no_record_and_its_replicas_recover_after_a_remount(tmp_path: Path, disk: LoopDisk) -> None:
    first, second = tmp_path / f"data-{BROKER}", disk.folder / "data"
    c = LocalCluster(tmp_path, 3, {"replica.lag.time.max.ms": "2000"})
    c.own_settings[BROKER] = {"log.dirs": f"{first},{second}"}
    with c:
        names = [f"t{i}" for i in range(4)]
        for name in names:
            create(c, name, min_insync=2, replicas=(1, 2, 3))
            produce(c, name, [f"{name}-before{i}" for i in range(50)])
        lost = [n for n in names if (second / f"{n}-0").exists()]
        kept = [n for n in names if (first / f"{n}-0").exists()]
        assert lost and kept and sorted(lost + kept) == names
        process, log_lines = c.processes[f"broker-{BROKER}"], LogLines(c, f"broker-{BROKER}")
        disk.fail()
        for name in names:
            produce(c, name, [f"{name}-meanwhile{i}" for i in range(50)])
        for name in lost:
            wait_for(lambda name=name: leader(c, name) in (2, 3), f"{name} to be led by a broker that has it")  # type: ignore[misc]
            wait_for(lambda name=name: BROKER not in state(c, name).isr_ids, f"{name} to go on without the dead disk")  # type: ignore[misc]
        assert log_lines.wait(log_phrases.LOG_DIRECTORY_OFFLINE, str(second), "online=1 total=2")
        assert process.poll() is None, "the broker ended with one failed disk"
        assert all(leader(c, name) == BROKER for name in kept)
        c.kill(f"broker-{BROKER}", signal.SIGTERM)
        disk.unmount()
        disk.mount()
        c.start_broker(BROKER)
        wait_until_recovered(c)
        for name in names:
            expected = [f"{name}-{when}{i}" for when in ("before", "meanwhile") for i in range(50)]
            assert read(c, name) == expected
            wait_for(
                lambda name=name: (
                    replica_bytes(name, first, second)
                    == replica_bytes(name, tmp_path / "data-2")
                    == replica_bytes(name, tmp_path / "data-3")
                ),  # type: ignore[misc]
                f"replicas of {name} equal byte for byte",
            )
