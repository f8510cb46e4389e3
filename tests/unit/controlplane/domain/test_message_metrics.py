"""Values of messages: their ages, and when they count as unknown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from controlplane.domain.message_metrics import STALE_MS, MessageMetrics, values

NOW = datetime(2026, 11, 26, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)


def test_ages_are_those_at_the_time_of_the_sample() -> None:
    at = NOW - timedelta(seconds=90)
    found = values(MessageMetrics(3, at, half_expired=0, delayed_pending=2, delayed_next_at=at, sampled_at=NOW), NOW_MS)
    assert found == {
        "half_undecided": 3,
        "half_oldest_s": 90.0,
        "half_expired": 0,
        "delayed_pending": 2,
        "delayed_overdue_s": 90.0,
        "dead_letters": None,
    }
    due_since = MessageMetrics(
        half_undecided=1,
        half_oldest_at=NOW - timedelta(seconds=1),
        delayed_pending=1,
        delayed_next_at=NOW + timedelta(seconds=1),
        sampled_at=NOW,
    )
    later = values(due_since, NOW_MS + 9_000)
    assert (later["half_oldest_s"], later["delayed_overdue_s"]) == (1.0, 0.0), (
        "delivered and decided on time, as far as known"
    )
    due_later = MessageMetrics(delayed_pending=1, delayed_next_at=NOW + timedelta(hours=1), sampled_at=NOW)
    assert values(due_later, NOW_MS)["delayed_overdue_s"] == 0.0
    assert values(MessageMetrics(half_undecided=0, sampled_at=NOW), NOW_MS)["half_oldest_s"] == 0.0


def test_old_metrics_are_unknown() -> None:
    metrics = MessageMetrics(half_undecided=1, sampled_at=NOW)
    assert values(metrics, NOW_MS + STALE_MS) and not values(metrics, NOW_MS + STALE_MS + 1)
    assert not values(MessageMetrics(half_undecided=1), NOW_MS)
