"""Addresses of the page "Time travel"."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from console.time_links import at_url, before_url, input_text

AT = datetime(2026, 1, 20, 12, 10, 30, tzinfo=UTC)


def test_times_are_in_utc() -> None:
    assert input_text(AT.astimezone(timezone(timedelta(hours=5)))) == "2026-01-20T12:10:30"


def test_links_name_the_time_and_the_quarter_of_an_hour_before() -> None:
    assert at_url(AT) == "/time-travel/?at=2026-01-20T12%3A10%3A30"
    assert at_url(AT, "brokers").endswith("&tab=brokers")
    assert before_url(AT) == "/time-travel/?since=2026-01-20T11%3A55%3A30&at=2026-01-20T12%3A11%3A30&tab=changes"
