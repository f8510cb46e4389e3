from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain import window as windows

NIGHT = windows.read({"opens": "22:00", "stop_by": "05:30"})
WORKDAYS = windows.read({"opens": "22:00", "stop_by": "05:30", "days": [0, 1, 2, 3, 4]})


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "open_", "until"),
    [
        ("2026-11-21T21:59", False, "2026-11-21T22:00"),
        ("2026-11-21T22:00", True, "2026-11-22T05:30"),
        ("2026-11-22T05:29", True, "2026-11-22T05:30"),
        ("2026-11-22T05:30", False, "2026-11-22T22:00"),
    ],
)
def test_a_window_over_midnight_is_open_until_its_stop_by(now: str, open_: bool, until: str) -> None:
    assert windows.window_state(NIGHT, utc(now)) == (open_, utc(until))


def test_a_window_of_workdays_belongs_to_the_day_it_opens_on() -> None:
    assert utc("2026-11-21T12:00").weekday() == 5
    assert windows.window_state(WORKDAYS, utc("2026-11-21T03:00")) == (True, utc("2026-11-21T05:30")), (
        "opened on Friday"
    )
    assert windows.window_state(WORKDAYS, utc("2026-11-21T23:00")) == (False, utc("2026-11-23T22:00"))


def test_a_window_that_opens_once_does_not_open_again() -> None:
    once = windows.read({"from": "2026-11-21T22:00", "stop_by": "2026-11-22T05:30"})
    assert windows.window_state(once, utc("2026-11-21T10:00")) == (False, utc("2026-11-21T22:00"))
    assert windows.window_state(once, utc("2026-11-21T23:00")) == (True, utc("2026-11-22T05:30"))
    assert windows.window_state(once, utc("2026-11-22T05:30")) == (False, None)
    assert windows.window_state(windows.read({"stop_by": "2026-11-22T05:30"}), utc("2026-11-01T00:00"))[0]


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({}, 'needs "stop_by"'),
        ({"opens": "25:00", "stop_by": "05:00"}, "not a time of day"),
        ({"opens": "22:00"}, "not a time of day"),
        ({"opens": "22:00", "stop_by": "22:00"}, "opens when it closes"),
        ({"opens": "22:00", "stop_by": "05:00", "days": []}, "at least one"),
        ({"opens": "22:00", "stop_by": "05:00", "days": [7]}, "0 (Monday) to 6"),
        ({"opens": "22:00", "stop_by": "05:00", "until": "x"}, "Unknown field 'until'"),
        ({"from": "2026-11-22T05:30", "stop_by": "2026-11-21T05:30"}, "closes before it opens"),
        ({"from": "soon", "stop_by": "2026-11-21T05:30"}, "not a time"),
        ({"stop_by": "2026-11-21T05:30", "days": [1]}, "opens once"),
    ],
)
def test_an_invalid_window_is_rejected_with_an_example(said: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as rejection:
        windows.read(said)
    assert sentence in str(rejection.value)


MINUTES = st.integers(0, 1439).map(lambda m: f"{m // 60:02}:{m % 60:02}")


@given(MINUTES, MINUTES, st.sets(st.integers(0, 6), min_size=1), st.integers(0, 20_000))
def test_every_window_changes_at_its_next_change(opens: str, stop: str, days: set[int], minutes: int) -> None:
    if opens == stop:
        return
    window = windows.read({"opens": opens, "stop_by": stop, "days": sorted(days)})
    now = utc("2026-11-16T00:00") + timedelta(minutes=minutes)
    was_open, until = windows.window_state(window, now)
    assert until is not None and now < until <= now + timedelta(days=8)
    assert windows.window_state(window, until - timedelta(seconds=1))[0] == was_open
    # If one window ends in the minute in which the next opens, it stays open.
    back_to_back = windows.window_state(window, until)[0] == was_open
    assert not back_to_back or was_open


@pytest.mark.parametrize(
    "value",
    [
        {"opens": "22:00", "stop_by": "05:30"},
        {"opens": "22:00", "stop_by": "05:30", "days": [0, 4]},
        {"stop_by": "2026-11-22T05:30"},
        {"from": "2026-11-21T22:00", "stop_by": "2026-11-22T05:30"},
    ],
)
def test_a_window_is_formatted_as_it_was_entered(value: dict[str, Any]) -> None:
    assert windows.to_json(windows.read(value)) == value


def test_a_window_keeps_its_seconds() -> None:
    window = windows.Window(ends=datetime(2026, 11, 22, 5, 30, 7, tzinfo=UTC))
    assert windows.read(windows.to_json(window)) == window
