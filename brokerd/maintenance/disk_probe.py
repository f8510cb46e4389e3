"""State of a disk (healthy, slow, hung), derived from the durations of periodic small writes (probes).

Invariants: one probe at a time. A disk becomes slow after several slow probes and healthy again after more fast ones, so that a single value changes
nothing. HUNG is final: the directory is offline until the next start. Time counts only between two ticks that are close to each other, so the time of a
suspended process does not count. Pure. Does not contain: files, threads (`disk_probes`).
"""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.cluster.disk_health import DiskHealth

SLOW_PROBES = 3
"""Number of consecutive slow probes after which the disk is slow. One slow write is usual when a large flush is in progress."""
FAST_PROBES = 6
"""Number of consecutive probes below half of the limit after which the disk is healthy again."""
TICK_GAP_MS_MAX = 3_000
"""Maximum number of milliseconds that count between two ticks. A longer gap means that the process or its event loop was suspended."""


@dataclass(frozen=True, slots=True)
class ProbeLimits:
    """Limits in milliseconds. `interval_ms` is the time between the end of a probe and the next probe; 0 disables probes."""

    interval_ms: int
    slow_ms: int
    hung_ms: int


@dataclass(slots=True)
class DiskProbe:
    """`last_ms` is the duration of the last finished probe, None before the first. `waiting_ms` is the time since the current probe started, None if no probe
    is running."""

    health: DiskHealth = DiskHealth.OK
    last_ms: int | None = None
    waiting_ms: int | None = None
    _idle_ms: int = 0
    _ticked_ms: int | None = None
    _slow: int = 0
    _fast: int = 0

    @property
    def latency_ms(self) -> int | None:
        """The duration of the last probe, or of the running probe if that is longer. None if unknown."""
        known = [ms for ms in (self.last_ms, self.waiting_ms or None) if ms is not None]
        return max(known, default=None)

    def tick(self, now_ms: int, limits: ProbeLimits) -> bool:
        """Count the time. If the result is True, the caller starts a probe and calls `on_finished` or `on_failed` when it ends."""
        passed_ms = 0 if self._ticked_ms is None else min(max(0, now_ms - self._ticked_ms), TICK_GAP_MS_MAX)
        self._ticked_ms = now_ms
        if self.waiting_ms is not None:
            self.waiting_ms += passed_ms
            if self.waiting_ms >= limits.hung_ms:
                self.health = DiskHealth.HUNG
            elif self.waiting_ms >= SLOW_PROBES * limits.slow_ms:
                self._became(DiskHealth.SLOW)
            return False
        self._idle_ms += passed_ms
        if not limits.interval_ms:
            self._became(DiskHealth.OK)
            return False
        if self._idle_ms < limits.interval_ms or self.health is DiskHealth.HUNG:
            return False
        self._idle_ms, self.waiting_ms = 0, 0
        return True

    def on_finished(self, took_ms: int, limits: ProbeLimits) -> None:
        self.last_ms, self.waiting_ms = took_ms, None
        slow, fast = took_ms >= limits.slow_ms, took_ms * 2 < limits.slow_ms
        self._slow, self._fast = self._slow + 1 if slow else 0, self._fast + 1 if fast else 0
        if self._slow >= SLOW_PROBES or took_ms >= SLOW_PROBES * limits.slow_ms:
            self._became(DiskHealth.SLOW)
        elif self._fast >= FAST_PROBES:
            self._became(DiskHealth.OK)

    def on_failed(self) -> None:
        """The probe ended without a duration, for example because the disk is full."""
        self.waiting_ms = None

    def _became(self, health: DiskHealth) -> None:
        if self.health is not DiskHealth.HUNG:
            self.health = health
