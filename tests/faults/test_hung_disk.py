"""The disk under one of a broker's two log directories hangs: flushes do not return. Its leaders move, the other directory is served, and nothing is lost."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerd.storage.jobs import URGENT_THREADS
from brokerd.storage.probe_file import PROBE_FILE
from tests import log_phrases
from tests.cluster.local import LocalCluster, wait_for
from tests.faults.loop_disk import LoopDisk
from tests.faults.scene import LogLines, create, leader, produce, read, state, wait_until_recovered

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(300)]
BROKER = 1
FLUSHED = {"flush_messages": "1"}
"""Acknowledged after a flush: the threads that flush wait for the hung disk."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    made = LoopDisk(tmp_path / "other-disk", tmp_path / "image")
    yield made
    made.unmount()


def test_leaders_leave_a_hung_disk_and_the_other_directory_is_served(tmp_path: Path, disk: LoopDisk) -> None:
    first, second = tmp_path / f"data-{BROKER}", disk.folder / "data"
    c = LocalCluster(tmp_path, 3, {"replica.lag.time.max.ms": "2000"})
    c.own_settings[BROKER] = {
        "log.dirs": f"{first},{second}",
        "weir.log.dir.probe.interval.ms": "1000",
        "weir.log.dir.slow.ms": "1000",
        "weir.log.dir.hung.ms": "8000",
    }
    with c:
        names = [f"t{i}" for i in range(2 * URGENT_THREADS + 2)]
        for name in names:
            create(c, name, min_insync=2, replicas=(1, 2, 3), **FLUSHED)
            produce(c, name, [f"{name}-before{i}" for i in range(20)])
        lost = [n for n in names if (second / f"{n}-0").exists()]
        kept = [n for n in names if (first / f"{n}-0").exists()]
        assert len(lost) > URGENT_THREADS and kept and sorted(lost + kept) == sorted(names)
        wait_for(lambda: (second / PROBE_FILE).exists(), "the first probe")
        process, log_lines = c.processes[f"broker-{BROKER}"], LogLines(c, f"broker-{BROKER}")
        with disk.slow_writes(process.pid):
            for name in lost:  # the flush of the leader hangs: acknowledged by the next leader
                produce(c, name, [f"{name}-meanwhile{i}" for i in range(20)])
                assert leader(c, name) in (2, 3)
            for name in kept:  # all flush threads wait for the hung disk until they are replaced
                produce(c, name, [f"{name}-meanwhile{i}" for i in range(20)])
                assert leader(c, name) == BROKER and BROKER in state(c, name).isr_ids
            for name in lost:
                wait_for(
                    lambda name=name: BROKER not in state(c, name).isr_ids, f"{name} to go on without the hung disk"
                )  # type: ignore[misc]
            assert log_lines.wait(log_phrases.LOG_DIRECTORY_SLOW, str(second))
            assert log_lines.wait(
                log_phrases.LOG_DIRECTORY_OFFLINE, str(second), "online=1 total=2", log_phrases.DISK_HANGS
            )
            assert process.poll() is None, "the broker ended with one hung disk"
        c.kill(f"broker-{BROKER}", signal.SIGTERM)
        c.start_broker(BROKER)
        wait_until_recovered(c)
        for name in names:
            assert read(c, name) == [f"{name}-{when}{i}" for when in ("before", "meanwhile") for i in range(20)]
            wait_for(lambda name=name: set(state(c, name).isr_ids) == {1, 2, 3}, f"{name} in sync")  # type: ignore[misc]
