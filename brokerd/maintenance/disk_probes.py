"""The probes of the log directories: each writes a small file periodically, on a separate thread, so that a hung disk blocks nothing else.

Invariants: a directory whose probe hangs goes offline like one whose device failed. Threads that wait for a hung disk are replaced, so that the other
directories are flushed. Does not contain the limits' meaning (`disk_probe`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from brokerd.cluster.disk_health import DiskHealth
from brokerd.cluster.model import Now
from brokerd.maintenance.disk_probe import DiskProbe, ProbeLimits
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.jobs import Runner
from brokerd.storage.log_dirs import LogDir, LogDirs

log = logging.getLogger(__name__)

TICK_MS = 1_000
"""Interval at which the duration of running probes is checked; this is the precision of the limits."""
STUCK_S = 5.0
"""While a disk hangs, a thread whose job has run for this time is replaced. If its job is only long, it completes nevertheless."""


class ProbeEnvironment(Protocol):
    def probe_lane(self) -> Runner:
        """A separate thread for the probes of one directory."""

    def probe_disk(self, folder: Path) -> int:
        """Write and flush a small file in the folder, and return the time in ms. Blocks. Raises DiskFailed, DiskFull."""


class StuckThreads(Protocol):
    def replace_stuck(self, running_s: float) -> int:
        """Replace the threads whose job has run for longer, and return their number."""


class _ProbedDirectory:
    """A log directory with its probe. `took_ms`: result of the last probe, written by the thread."""

    __slots__ = ("directory", "lane", "probe", "took_ms")

    def __init__(self, directory: LogDir, lane: Runner) -> None:
        self.directory, self.lane, self.probe, self.took_ms = directory, lane, DiskProbe(), 0
        directory.lane = lane


class DiskProbes:
    """`setting` returns the value of a broker setting."""

    def __init__(
        self,
        log_dirs: LogDirs,
        environment: ProbeEnvironment,
        jobs: StuckThreads,
        setting: Callable[[str], Any],
    ) -> None:
        self._log_dirs, self._environment, self._jobs, self._setting = log_dirs, environment, jobs, setting
        self._watched = [_ProbedDirectory(d, environment.probe_lane()) for d in log_dirs.all]

    def _limits(self) -> ProbeLimits:
        return ProbeLimits(
            interval_ms=int(self._setting("weir.log.dir.probe.interval.ms")),
            slow_ms=int(self._setting("weir.log.dir.slow.ms")),
            hung_ms=int(self._setting("weir.log.dir.hung.ms")),
        )

    def tick(self, now: Now) -> None:
        limits = self._limits()
        for watched in self._watched:
            if watched.directory.failed is None:
                due = watched.probe.tick(now.mono_ms, limits)
                self._publish(watched)
                if due:
                    watched.lane.submit(partial(self._write, watched), partial(self._on_probe_done, watched))
        if any(w.probe.health is DiskHealth.HUNG for w in self._watched):
            replaced = self._jobs.replace_stuck(STUCK_S)
            if replaced:
                log.warning("threads that wait for a hung disk replaced: count=%d", replaced)

    def _write(self, watched: _ProbedDirectory) -> None:
        watched.took_ms = self._environment.probe_disk(watched.directory.path)

    def _on_probe_done(self, watched: _ProbedDirectory, error: BaseException | None) -> None:
        if error is None:
            watched.probe.on_finished(watched.took_ms, self._limits())
            if watched.probe.health is DiskHealth.HUNG:
                log.warning(
                    "hung log directory answers again: path=%s probe_ms=%d online=after-restart",
                    watched.directory.path,
                    watched.took_ms,
                )
        else:
            watched.probe.on_failed()
            if isinstance(error, DiskFailed) and error.of_device:
                self._log_dirs.fail(watched.directory, str(error))
            elif not isinstance(error, DiskFull):  # a full disk has a separate alert
                log.warning("probe of a log directory failed: path=%s error=%s", watched.directory.path, error)
        self._publish(watched)

    def _publish(self, watched: _ProbedDirectory) -> None:
        """Copy the health to the log directory. If the disk hangs, the log directory goes offline."""
        directory, probe = watched.directory, watched.probe
        before, directory.health, directory.probe_ms = directory.health, probe.health, probe.latency_ms
        if probe.health is before:
            return
        if probe.health is DiskHealth.HUNG:
            self._log_dirs.fail(
                directory, f"the disk hangs: a write of 4 KiB has not returned for {probe.waiting_ms} ms"
            )
        elif probe.health is DiskHealth.SLOW:
            log.warning("log directory slow: path=%s probe_ms=%d", directory.path, probe.latency_ms or 0)
        else:
            log.info("log directory no longer slow: path=%s probe_ms=%d", directory.path, probe.latency_ms or 0)
