"""Metrics of half messages, delayed messages and dead letters of one topic. Pure.

Invariant: metrics that are too old are unknown, never zero. Does not contain: their collection (`monitoring.message_metrics`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime


@dataclass(frozen=True, slots=True)
class MessageMetrics:
    """The columns of `TopicMessages`; None: the topic does not have the feature, or it is not known yet."""

    half_undecided: int | None = None
    half_oldest_at: datetime | None = None
    half_oldest_checks: int | None = None
    half_checks: int | None = None
    half_expired: int | None = None
    delayed_pending: int | None = None
    delayed_next_at: datetime | None = None
    delayed_late_ms: int | None = None
    dead_letters: int | None = None
    dead_letters_grown: int | None = None
    sampled_at: datetime | None = None


COLUMNS = tuple(f.name for f in fields(MessageMetrics))

STALE_MS = 60_000
"""Milliseconds since the oldest response, after which the metrics count as unknown. A round that follows a broker failure takes some seconds."""


def values(metrics: MessageMetrics, now_ms: int) -> dict[str, int | float | None]:
    """The metrics of a topic by the names of its history; empty if they are too old at `now_ms` (Unix). Ages are those at the time of the sample: since then
    a message may have been decided or delivered."""
    if metrics.sampled_at is None or now_ms - metrics.sampled_at.timestamp() * 1000 > STALE_MS:
        return {}
    oldest, due, sampled_s = metrics.half_oldest_at, metrics.delayed_next_at, metrics.sampled_at.timestamp()
    return {
        "half_undecided": metrics.half_undecided,
        "half_oldest_s": None if metrics.half_undecided is None else age_s(oldest, sampled_s),
        "half_expired": metrics.half_expired,
        "delayed_pending": metrics.delayed_pending,
        "delayed_overdue_s": None if metrics.delayed_pending is None else age_s(due, sampled_s),
        "dead_letters": metrics.dead_letters,
    }


def age_s(at: datetime | None, sampled_s: float) -> float:
    """Seconds from a time to the sample; 0 without a time, and for a later time."""
    return 0.0 if at is None else max(0.0, sampled_s - at.timestamp())
