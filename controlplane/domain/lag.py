"""Consumer lag: arithmetic and status of a group in one partition. Pure.

Invariants: unknown is None, never zero. A status depends on rates over a window of commits, never on two observations alone. A status changes
only when the opposite is equally clear. Does not contain: clocks (times are arguments, wall clock milliseconds), rows.

Causes of false alarms, known from Burrow, and the rule against each:
- A consumer commits in bursts. Lag is measured at its commits, and the usual interval between its commits sets the stall limit.
- A topic has little traffic. The wait begins when a record is available.
- One record remains, such as a transaction marker. A lag of one record is not a stall.
- A client drains one partition after the other. A member that progresses in another partition is not stalled.
- A group has offsets of topics that it no longer reads.
- Clients commit without being members.
- The offsets of a stopped group are reset. That is not progress: only regular commits without members are.
- A group that has read everything is started again some time after a record arrives. The time until it counts as stopped begins with this record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from controlplane.domain.limits import SAMPLE_GAP_MS
from controlplane.domain.log_ends import RecordAge

WINDOW_MS = 900_000
"""Minimum length of a trend in milliseconds. In this time the lag of a consumer that is 4 % too slow grows by half a minute."""

WINDOW_WAITS = 8
"""A trend covers this many of the longest waits of a consumer, if that is more than WINDOW_MS. A shorter window hides the trend of a
slow rhythm."""

COMMITS_MAX = 120
"""Maximum number of stored commits of one partition. At the maximum, every second one of the older half is dropped."""

RECENT_MS = 180_000
"""Milliseconds of the newest commits, which show a change of direction."""

SPACING_MS = 10_000
"""Milliseconds between stored commits. 90 of them fill the window."""

TREND_LEAST_MS = 60_000
"""A group needs this much history before it can be falling behind."""

POINTS_LEAST = 4
"""Minimum number of commits of a trend."""

BEHIND_MS = 30_000
"""Lag in time from which a consumer can be falling behind. Batching causes less."""

STALL_MS = 30_000
"""Minimum stall limit. It applies to a consumer that commits more often than every 10 s."""

STALL_UNKNOWN_MS = 300_000
"""Stall limit while the rhythm of a consumer is unknown. The consumer may work in large batches."""

STALL_WAITS = 3
"""A consumer is stalled after this many of its usual waits."""

STALL_ALONE_MS = 600_000
"""Stall limit of a partition whose member progresses in another partition. librdkafka drains the fetched records of one partition before
it continues with the next. Pauses of 30 s were observed, and it may prefetch 100,000 records of each partition."""

SPEED_WAITS = 5
"""Waits of a consumer that its rate covers. Fewer waits would give the rate of one burst."""

STALL_RECORDS = 2
"""Minimum lag in records of a stall. One record may be a transaction marker, which no consumer commits past. Some clients (Faust) always commit an offset that
is one record too low."""

WAITS_KEPT = 8
"""Number of waits, the longest of the window, from which the commit rhythm is computed."""

GAP_MS = 30_000
"""Maximum time between two observations of a wait. A longer gap is caused by the monitor, not by the consumer."""

GONE_MS = 30_000
"""A group is stopped if it had no members and no commits for this time while records were unread. A restart of its only member is shorter."""

REWOUND_MS = 60_000
"""Time for which the status REWOUND is shown."""

LOST_MS = 600_000
"""Time for which the status DATA_LOST is shown."""


@dataclass(frozen=True, slots=True)
class LagLimits:
    """The limits that an administrator can change (`alert_thresholds`)."""

    behind_ms: int = BEHIND_MS
    stall_ms: int = STALL_MS
    gone_ms: int = GONE_MS

    @property
    def caught_up_ms(self) -> float:
        """Half of the lag at which a consumer can be falling behind, so that a status does not alternate."""
        return self.behind_ms / 2


DEFAULT_LIMITS = LagLimits()


class LagStatus(StrEnum):
    HEALTHY = "healthy"
    IDLE = "idle"
    NOT_SUBSCRIBED = "not_subscribed"
    CATCHING_UP = "catching_up"
    BLOCKED = "blocked"
    FALLING_BEHIND = "falling_behind"
    STALLED = "stalled"
    STOPPED = "stopped"
    REWOUND = "rewound"
    DATA_LOST = "data_lost"
    UNKNOWN = "unknown"


SEVERITY = (
    LagStatus.IDLE,
    LagStatus.NOT_SUBSCRIBED,
    LagStatus.HEALTHY,
    LagStatus.UNKNOWN,
    LagStatus.CATCHING_UP,
    LagStatus.REWOUND,
    LagStatus.BLOCKED,
    LagStatus.FALLING_BEHIND,
    LagStatus.STALLED,
    LagStatus.STOPPED,
    LagStatus.DATA_LOST,
)
"""Statuses in order of severity. A group has the status of its worst partition."""

LOSING = frozenset({LagStatus.FALLING_BEHIND, LagStatus.STALLED, LagStatus.STOPPED, LagStatus.DATA_LOST})
"""Statuses in which unread records get older. Retention is forecast only for these."""


class Block(StrEnum):
    """The reason why a partition cannot be read further by any consumer."""

    NONE = ""
    NO_LEADER = "no_leader"
    UNDER_MIN_ISR = "under_min_isr"
    OPEN_TRANSACTION = "open_transaction"


@dataclass(frozen=True, slots=True)
class LagSample:
    """One observation: `end` is the log end offset of the partition, `committed` the next offset that the group will read."""

    at_ms: int
    committed: int
    end: int


@dataclass(frozen=True, slots=True)
class Trend:
    """Rates over the commits of a window. `span_ms`: from the first to the last commit."""

    consumed_per_s: float
    produced_per_s: float
    span_ms: int

    @property
    def lost_ms(self) -> float:
        """Growth of the lag in time over the window. Negative: the lag shrank."""
        if self.produced_per_s <= 0:
            return -float(self.span_ms) if self.consumed_per_s > 0 else 0.0
        return self.span_ms * (self.produced_per_s - self.consumed_per_s) / self.produced_per_s


def lag_records(committed: int | None, end: int | None) -> int | None:
    """Unread records. None if one of the offsets is unknown; never below zero, because the end may be read before a commit."""
    if committed is None or end is None or committed < 0:
        return None
    return max(0, end - committed)


@dataclass(slots=True)
class Track:
    """Progress of a group in one partition: commits, rhythm, and the resulting status."""

    commits: deque[LagSample] = field(default_factory=deque)
    """Observations just after a commit, or without unread records. Only at these moments does the lag of a bursty consumer show its rate."""
    newest: LagSample | None = None
    moved_ms: int | None = None
    """Time of the last observed change of `committed`."""
    waiting_ms: int | None = None
    """Start of the current wait: records are unread and nothing was committed since."""
    waits: list[tuple[int, int]] = field(default_factory=list)
    """(end time, duration) of the longest waits of the window, oldest first."""
    trend_status: LagStatus = LagStatus.HEALTHY
    """HEALTHY, CATCHING_UP or FALLING_BEHIND. It stays until the opposite is clear."""
    alone_ms: int | None = None
    """Time since which the group has no members, if it had members before."""
    had_members: bool = False
    rewound_ms: int | None = None
    lost_ms: int | None = None
    lost_records: int = 0
    """Records deleted before they were read, since `lost_ms` was last unset."""
    lost_upto: int = 0
    """The log start offset up to which lost records are counted."""
    limits: LagLimits = DEFAULT_LIMITS
    """Limits of the status. The stored form of the history does not contain them."""

    # -- observations --------------------------------------------------------------------------------------------------
    def add(self, sample: LagSample, log_start: int | None) -> None:
        last = self.newest
        if last is not None and sample.at_ms < last.at_ms:
            return
        if last is not None and (sample.committed < last.committed or sample.end < last.end):
            if sample.committed < last.committed:
                self.rewound_ms = sample.at_ms
            self.commits.clear()
            self.trend_status = LagStatus.HEALTHY
        elif last is not None and sample.at_ms - last.at_ms > SAMPLE_GAP_MS:
            self.commits.clear()  # rates over the gap would be wrong; the status stays until the opposite is clear
        self._note_loss(sample, log_start)
        self._note_wait(sample, last)
        moved = last is not None and sample.committed != last.committed
        if moved or sample.committed >= sample.end:
            self._note_commit(sample)
        self.newest = sample

    def _note_loss(self, sample: LagSample, log_start: int | None) -> None:
        if self.lost_ms is not None and sample.at_ms - self.lost_ms >= LOST_MS:
            self.lost_ms, self.lost_records = None, 0
        if log_start is None or sample.committed >= log_start:
            return
        self.lost_records += max(0, log_start - max(sample.committed, self.lost_upto))
        self.lost_ms, self.lost_upto = sample.at_ms, log_start

    def _note_wait(self, sample: LagSample, last: LagSample | None) -> None:
        unread = sample.committed < sample.end
        if last is not None and sample.committed != last.committed:
            self.moved_ms = sample.at_ms
            since_ms = last.at_ms if self.waiting_ms is None else self.waiting_ms
            left = self.had_members and self.alone_ms is not None and since_ms < self.alone_ms
            if sample.committed > last.committed and sample.at_ms - last.at_ms <= GAP_MS and not left:
                self._keep_wait(sample.at_ms, since_ms)
            self.waiting_ms = None
        if not unread:
            self.waiting_ms = None
        elif self.waiting_ms is None:
            self.waiting_ms = sample.at_ms

    def _keep_wait(self, at_ms: int, since_ms: int) -> None:
        self.waits.append((at_ms, at_ms - since_ms))
        while len(self.waits) > 2 and self.waits[0][0] < at_ms - WINDOW_MS:
            del self.waits[0]
        if len(self.waits) > WAITS_KEPT:
            self.waits.remove(min(self.waits, key=lambda w: w[1]))

    def _note_commit(self, sample: LagSample) -> None:
        if len(self.commits) > 1 and sample.at_ms - self.commits[-2].at_ms < SPACING_MS:
            self.commits.pop()
        self.commits.append(sample)
        # The last commits of a slow consumer stay even if they are older than the window. Otherwise the consumer would have no trend.
        while len(self.commits) > POINTS_LEAST and self.commits[0].at_ms < sample.at_ms - self.window_ms:
            self.commits.popleft()
        if len(self.commits) > COMMITS_MAX:
            self.commits = deque(c for i, c in enumerate(self.commits) if i % 2 == 0 or i > COMMITS_MAX // 2)

    # -- derived values ------------------------------------------------------------------------------------------------
    @property
    def rhythm_ms(self) -> int | None:
        """Usual wait between commits while records are unread: the second longest wait, so that one exception does not count. None with fewer
        than two waits."""
        return sorted(ms for _, ms in self.waits)[-2] if len(self.waits) > 1 else None

    @property
    def stall_limit_ms(self) -> int:
        usual = STALL_UNKNOWN_MS if self.rhythm_ms is None else STALL_WAITS * self.rhythm_ms
        return max(self.limits.stall_ms, usual)

    @property
    def longest_wait_ms(self) -> int:
        return max((ms for _, ms in self.waits), default=0)

    @property
    def window_ms(self) -> int:
        return max(WINDOW_MS, WINDOW_WAITS * self.longest_wait_ms)

    @property
    def clear_ms(self) -> float:
        """Minimum growth of the lag in time that counts as a trend. The lag of a consumer jumps by the length of its waits."""
        return max(self.limits.behind_ms, 1.5 * self.longest_wait_ms)

    def follow_group(self, group_status: LagStatus, age: RecordAge | None) -> None:
        """Set FALLING_BEHIND if the whole group falls behind and the lag of this partition is larger than the consumer's waits explain."""
        behind = age is not None and age.ms >= self.clear_ms
        if group_status is LagStatus.FALLING_BEHIND and self.trend_status is LagStatus.HEALTHY and behind:
            self.trend_status = LagStatus.FALLING_BEHIND

    def trend(self, window_ms: int) -> Trend | None:
        """Rates by least squares over the commits of the window; None with too few commits."""
        if not self.commits:
            return None
        since = self.commits[-1].at_ms - window_ms
        points = [c for c in self.commits if c.at_ms >= since]
        if len(points) < POINTS_LEAST:
            points = list(self.commits)[-POINTS_LEAST:]
        span = points[-1].at_ms - points[0].at_ms
        if len(points) < POINTS_LEAST or span < TREND_LEAST_MS:
            return None
        at = [(p.at_ms - points[0].at_ms) / 1000 for p in points]
        return Trend(_slope(at, [p.committed for p in points]), _slope(at, [p.end for p in points]), span)

    def speeds(self, now_ms: int) -> tuple[float, float] | None:
        """(consumed, produced) records per second: over the last minutes, or over several waits of a consumer that commits rarely. None if the
        observations are too short for that. A consumer past its stall limit has the rate zero."""
        trend = self.trend(max(RECENT_MS, SPEED_WAITS * self.longest_wait_ms))
        if trend is None or trend.span_ms < SPEED_WAITS * self.longest_wait_ms:
            return None
        stopped = self.waiting_ms is not None and now_ms - self.waiting_ms >= self.stall_limit_ms
        return (0.0 if stopped else max(0.0, trend.consumed_per_s)), max(0.0, trend.produced_per_s)

    def follow_trend(self, age: RecordAge | None, now_ms: int) -> None:
        """Update `trend_status`. `age`: age of the first unread record now; None = unknown."""
        if age is None or not self.commits:
            return
        at_commit = max(0, age.ms - max(0, now_ms - self.commits[-1].at_ms))
        if at_commit < self.limits.caught_up_ms:
            if not age.at_least:
                self.trend_status = LagStatus.HEALTHY
            return
        recent, whole = self.trend(RECENT_MS), self.trend(self.window_ms)
        if recent is None or whole is None:
            return
        clear = self.clear_ms
        shrinks = recent.lost_ms <= -clear / 2
        grows = at_commit >= self.limits.behind_ms and (
            recent.lost_ms >= clear or (whole.lost_ms >= clear and not shrinks)
        )
        if grows:
            self.trend_status = LagStatus.FALLING_BEHIND
        elif shrinks and (self.trend_status is LagStatus.FALLING_BEHIND or at_commit >= clear):
            self.trend_status = LagStatus.CATCHING_UP
        elif abs(whole.lost_ms) < self.limits.behind_ms / 4 and at_commit < 2 * self.limits.behind_ms:
            self.trend_status = (
                LagStatus.HEALTHY
            )  # a small lag that neither grows nor shrinks is a delay that the consumer intends

    def note_members(self, has_members: bool, now_ms: int) -> None:
        if has_members:
            self.had_members, self.alone_ms = True, None
        elif self.alone_ms is None:
            self.alone_ms = now_ms

    def block(self, at_ms: int) -> None:
        """The partition cannot be read further. The wait of the consumer starts when it can be read again. A group without members does not wait: its time
        until it counts as stopped continues."""
        if self.waiting_ms is not None and self.alone_ms is None:
            self.waiting_ms = at_ms

    def status(
        self,
        now_ms: int,
        *,
        subscribed: bool = True,
        block: Block = Block.NONE,
        elsewhere_ms: int | None = None,
    ) -> LagStatus:
        """`subscribed` is False if the group has members and none of them reads this topic. `elsewhere_ms` is the time at which the member of this partition
        last made progress in another partition."""
        if self.newest is None:
            return LagStatus.UNKNOWN
        unread = self.newest.end - self.newest.committed
        if not subscribed and not self._progresses(now_ms):
            return LagStatus.NOT_SUBSCRIBED
        if self.lost_ms is not None and now_ms - self.lost_ms < LOST_MS:
            return LagStatus.DATA_LOST
        if self.rewound_ms is not None and now_ms - self.rewound_ms < REWOUND_MS:
            return LagStatus.REWOUND
        if self.alone_ms is not None and not self._progresses(now_ms):
            if unread <= 0:
                return LagStatus.IDLE
            unread_ms = max(self.alone_ms, self.waiting_ms or 0)
            if now_ms - unread_ms >= self.limits.gone_ms:
                return LagStatus.STOPPED
            had_read_all = unread_ms > self.alone_ms
            return self.trend_status if self.had_members or had_read_all else LagStatus.UNKNOWN
        if unread <= 0:
            return LagStatus.HEALTHY
        if block is not Block.NONE:
            return LagStatus.BLOCKED
        if self._is_stalled(now_ms, unread, elsewhere_ms):
            return LagStatus.STALLED
        return self.trend_status

    def _progresses(self, now_ms: int) -> bool:
        """Return whether the consumer of this partition committed recently. Clients may commit without being members. One commit after the members left is a
        reset of the offsets, or the first of such a client: it does not hide for minutes that the group is stopped."""
        limit = self.stall_limit_ms
        if self.had_members and self.alone_ms is not None and self.rhythm_ms is None:
            limit = self.limits.stall_ms
        return self.moved_ms is not None and now_ms - self.moved_ms < limit

    def _is_stalled(self, now_ms: int, unread: int, elsewhere_ms: int | None) -> bool:
        if self.waiting_ms is None or unread < STALL_RECORDS:
            return False
        limit = self.stall_limit_ms
        if elsewhere_ms is not None and now_ms - elsewhere_ms < limit:
            limit = max(limit, STALL_ALONE_MS)
        return now_ms - self.waiting_ms >= limit


def _slope(at: list[float], values: list[int]) -> float:
    """Slope by least squares, per unit of `at`. Values are relative to the first, because offsets may exceed the exact range of a float."""
    mean_at = sum(at) / len(at)
    spread = sum((t - mean_at) ** 2 for t in at)
    return sum((t - mean_at) * (v - values[0]) for t, v in zip(at, values, strict=True)) / spread


def worst_status(statuses: Iterable[LagStatus]) -> LagStatus:
    """The most severe status; UNKNOWN without statuses."""
    found = [SEVERITY.index(s) for s in statuses]
    return SEVERITY[max(found)] if found else LagStatus.UNKNOWN
