"""Values that a move's row derives."""

from __future__ import annotations

from datetime import UTC, datetime

from controlplane.models import Move

START = datetime(2026, 11, 1, 6, tzinfo=UTC)


def test_the_deadline_counts_from_the_start_of_the_move() -> None:
    assert Move(started_at=START, deadline_hours=30).deadline == datetime(2026, 11, 2, 12, tzinfo=UTC)


def test_a_move_that_has_not_started_or_has_no_limit_has_no_deadline() -> None:
    assert Move(deadline_hours=30).deadline is None
    assert Move(started_at=START).deadline is None
