"""Pauses between the fetches of replicas that catch up, while producers need the CPU (decision 104).

A copy without a limit takes all of a core. The leader and the broker that copies each measure how long their event loop ran, and how long it waited for a
core, since the last response. If producers use the broker, the next fetch is delayed until both shares are acceptable again on average.
Invariants: without producers nothing is delayed, and a copy always has its minimum share of time. Pure, except for `thread_times`. Does not contain: which
replicas catch up, and which of them are too urgent for a pause.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from brokerd.cluster.model import TopicPartition
from brokerd.net.thread_times import ThreadTimes

WAITING_SHARE_MAX = 0.05
"""Maximum share of time that the event loop waits for a core."""
RUNNING_SHARE_MAX = 0.7
"""Maximum share of time that the event loop runs."""
PAUSE_MS_MAX = 500
"""Maximum length of one pause."""
PROGRESS_MS = 5_000
"""Interval in which the progress of a replica is measured."""
PROGRESS_SHARE_MIN = 0.5
"""Minimum share of the copied records by which the lag must shrink. Otherwise producers write too fast for a copy with pauses."""
PRODUCERS_NS = 1_000_000_000
"""Producers use the broker if it served one of them within this time."""
NS_PER_MS = 1_000_000


@dataclass(slots=True)
class LastResponse:
    """`times` at the last response with a peer. `pause_ns`: the pause after it. `rest_ns`: pauses are whole milliseconds; this remainder is added to the next
    pause."""

    times: ThreadTimes
    pause_ns: int = 0
    rest_ns: int = 0


class CatchUpPacing:
    """`thread_times` returns the times of the event loop's thread, or None if the system does not measure them. `percent_min` returns the minimum percentage of
    time in which replicas that catch up fetch. Each peer (leader or follower) has its own pauses."""

    def __init__(self, thread_times: Callable[[], ThreadTimes | None], percent_min: Callable[[], int]) -> None:
        self._thread_times, self._percent_min = thread_times, percent_min
        self._last: dict[int, LastResponse] = {}
        self._served: int | None = None
        self._served_at: int | None = None
        self.paused_ms = 0
        """Sum of all pauses. It only grows."""

    def wanted_ms(self, peer: int, served: int) -> int:
        """The pause that this broker requests before the next fetch, after a response with records. `peer`: broker id. `served`: number of requests of
        producers that this broker has served until now."""
        wanted_ns, _ = self._measure(peer, served)
        last = self._last.get(peer)
        if last is not None:
            last.pause_ns = wanted_ns
        return wanted_ns // NS_PER_MS

    def pause_ms(self, peer: int, served: int, requested_ms: int) -> int:
        """The pause of the follower: the longer one of its own and that of the leader (`requested_ms`), within the limits of the minimum percentage."""
        wanted_ns, busy_ns = self._measure(peer, served)
        longest_ns = busy_ns * (100 / self._percent_min() - 1)
        last = self._last.get(peer)
        if last is None:
            return 0
        total_ns = int(min(max(wanted_ns, requested_ms * NS_PER_MS), longest_ns)) + last.rest_ns
        pause = total_ns // NS_PER_MS
        last.pause_ns, last.rest_ns = pause * NS_PER_MS, total_ns % NS_PER_MS
        self.paused_ms += pause
        return pause

    def _measure(self, peer: int, served: int) -> tuple[int, int]:
        """(requested pause, time without a pause since the last response) in ns."""
        times = self._thread_times()
        if times is None:
            return 0, 0
        if served != self._served:
            self._served_at = None if self._served is None else times.clock
            self._served = served
        last = self._last.get(peer)
        self._last[peer] = LastResponse(times, rest_ns=0 if last is None else last.rest_ns)
        if last is None:
            return 0, 0
        busy_ns = max(0, times.clock - last.times.clock - last.pause_ns)
        if self._served_at is None or times.clock - self._served_at > PRODUCERS_NS:
            return 0, busy_ns
        cycle_ns = max(
            (times.waiting - last.times.waiting) / WAITING_SHARE_MAX,
            (times.running - last.times.running) / RUNNING_SHARE_MAX,
        )
        return int(max(0, min(cycle_ns - busy_ns, PAUSE_MS_MAX * NS_PER_MS))), busy_ns


class CatchUpProgress:
    """The replicas of one connection that catch up, and which of them are too slow for pauses. Such a replica stays without pauses until it has caught up."""

    def __init__(self) -> None:
        self._began: dict[TopicPartition, tuple[int, int, int]] = {}
        """{partition: (monotonic ms, log end offset, lag in records) at the start of the current interval}."""
        self._slow: set[TopicPartition] = set()

    def on_appended(self, tp: TopicPartition, end_offset: int, high_watermark: int, now_ms: int) -> None:
        lag = high_watermark - end_offset
        began_ms, began_offset, began_lag = self._began.setdefault(tp, (now_ms, end_offset, lag))
        if now_ms - began_ms < PROGRESS_MS:
            return
        if began_lag - lag < PROGRESS_SHARE_MIN * (end_offset - began_offset):
            self._slow.add(tp)
        self._began[tp] = now_ms, end_offset, lag

    def is_slow(self, tp: TopicPartition) -> bool:
        return tp in self._slow

    def forget(self, tp: TopicPartition) -> None:
        self._began.pop(tp, None)
        self._slow.discard(tp)
