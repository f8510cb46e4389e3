"""A directory whose probe hangs goes offline, one whose device fails too, and the health is visible at the directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from brokerd.cluster.disk_health import DiskHealth
from brokerd.cluster.model import Now
from brokerd.maintenance.disk_probes import DiskProbes
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.log_dirs import LogDirs
from tests.simulation.disk import SimDisk

A, B = Path("/a"), Path("/b")
SETTINGS = {"weir.log.dir.probe.interval.ms": 1_000, "weir.log.dir.slow.ms": 100, "weir.log.dir.hung.ms": 10_000}
Done = Callable[[BaseException | None], None]


class Lane:
    """Keeps a job until the test ends it."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], object], Done]] = []

    def submit(self, run: Callable[[], object], done: Done, *, urgent: bool = False) -> None:
        self.jobs.append((run, done))

    def complete(self) -> None:
        run, done = self.jobs.pop()
        try:
            run()
        except (DiskFailed, DiskFull) as e:
            done(e)
        else:
            done(None)


class Scene:
    def __init__(self) -> None:
        self.lanes: list[Lane] = []
        self.took: dict[Path, int | Exception] = {A: 1, B: 1}
        self.dirs = LogDirs([A, B], SimDisk())
        self.replacements: list[float] = []
        self.probes = DiskProbes(self.dirs, self, self, SETTINGS.__getitem__)
        self.at_ms = 0

    def probe_lane(self) -> Lane:
        self.lanes.append(Lane())
        return self.lanes[-1]

    def probe_disk(self, folder: Path) -> int:
        took = self.took[folder]
        if isinstance(took, Exception):
            raise took
        return took

    def replace_stuck(self, running_s: float) -> int:
        self.replacements.append(running_s)
        return 1

    def seconds(self, count: int, *responding: int) -> None:
        """`responding`: the lanes whose probes return at once."""
        for _ in range(count):
            self.probes.tick(Now(self.at_ms, self.at_ms))
            for i in responding:
                if self.lanes[i].jobs:
                    self.lanes[i].complete()
            self.at_ms += 1_000

    @property
    def health(self) -> list[DiskHealth]:
        return [d.health for d in self.dirs.all]


def test_a_hung_directory_goes_offline_and_the_other_stays(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.seconds(12, 0)
    assert scene.health == [DiskHealth.OK, DiskHealth.HUNG]
    assert [d.path for d in scene.dirs.online] == [A]
    assert "write of 4 KiB has not returned" in (scene.dirs.all[1].failed or "")
    assert scene.replacements and scene.dirs.all[0].probe_ms == 1
    assert "threads that wait for a hung disk replaced" in caplog.text
    scene.lanes[1].complete()
    assert scene.health[1] is DiskHealth.HUNG and scene.dirs.all[1].failed
    assert "hung log directory answers again" in caplog.text
    scene.seconds(5, 0)
    assert not scene.lanes[1].jobs, "an offline directory is not probed"


def test_a_slow_directory_stays_online_until_its_probes_are_fast(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.took[A] = 150
    scene.seconds(6, 0, 1)
    assert scene.health == [DiskHealth.SLOW, DiskHealth.OK]
    assert (scene.dirs.all[0].failed, scene.dirs.all[0].probe_ms) == (None, 150)
    assert caplog.text.count("log directory slow: path=/a probe_ms=150") == 1
    scene.took[A] = 2
    scene.seconds(8, 0, 1)
    assert scene.health == [DiskHealth.OK, DiskHealth.OK] and not scene.replacements


def test_a_failed_device_takes_the_directory_offline_and_a_full_disk_does_not() -> None:
    scene = Scene()
    scene.took = {A: DiskFull("no space left"), B: DiskFailed("Input/output error", of_device=True)}
    scene.seconds(4, 0, 1)
    assert [d.path for d in scene.dirs.online] == [A]
    assert scene.health == [DiskHealth.OK, DiskHealth.OK]
