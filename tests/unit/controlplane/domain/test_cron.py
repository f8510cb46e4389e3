"""Cron expressions: fields, the next time, errors that name the field."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from controlplane.domain.cron import CronError, parse

AT = datetime(2026, 1, 31, 23, 58, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * * * *", datetime(2026, 1, 31, 23, 59, tzinfo=UTC)),
        ("0 3 * * *", datetime(2026, 2, 1, 3, 0, tzinfo=UTC)),
        ("*/20 * * * *", datetime(2026, 2, 1, 0, 0, tzinfo=UTC)),
        ("5/20 * * * *", datetime(2026, 2, 1, 0, 5, tzinfo=UTC)),
        ("0 0 * * 1", datetime(2026, 2, 2, 0, 0, tzinfo=UTC)),
        ("0 0 * * 7", datetime(2026, 2, 1, 0, 0, tzinfo=UTC)),
        ("30 8-10 15,20 * *", datetime(2026, 2, 15, 8, 30, tzinfo=UTC)),
        ("0 0 29 2 *", datetime(2028, 2, 29, 0, 0, tzinfo=UTC)),
        ("0 0 10 * 1", datetime(2026, 2, 2, 0, 0, tzinfo=UTC)),
    ],
)
def test_the_next_time(text: str, expected: datetime) -> None:
    assert parse(text).next_after(AT) == expected


def test_a_day_that_never_comes() -> None:
    assert parse("0 0 30 2 *").next_after(AT) is None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("* * * *", "five fields"),
        ("60 * * * *", "minute"),
        ("* x * * *", "hour"),
        ("* * 0 * *", "day of month"),
        ("* * * 5-3 *", "month"),
        ("* * * * */0", "day of week"),
    ],
)
def test_an_error_names_the_field(text: str, named: str) -> None:
    with pytest.raises(CronError, match=named):
        parse(text)
