"""Maintenance window of a move: when it may start copies. Pure.

A window opens and has a stop-by time, after which no copy starts, every day or once. All times are UTC. Does not contain: clocks, rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from weir_common.json_values import Json, JsonObject

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Window:
    """Daily: `opens` and `stop_by` as times of day, on `days` (0 = Monday; the day of the opening). Once: `begins` (None = now) and `ends`."""

    opens: time | None = None
    stop_by: time | None = None
    days: frozenset[int] = frozenset(range(7))
    begins: datetime | None = None
    ends: datetime | None = None


def read(value: Mapping[str, Json]) -> Window:
    """{"opens": "22:00", "stop_by": "05:30", "days": [0, 1, 2, 3, 4]} (`days` is optional), or once
    {"from": "2026-11-21T22:00", "stop_by": "2026-11-22T05:30"} (`from` is optional). Raises ValueError with the reason."""
    unknown = sorted(set(value) - {"opens", "stop_by", "days", "from"})
    if unknown:
        raise ValueError(f"Unknown field {unknown[0]!r}: a window has opens, stop_by and days, or from and stop_by.")
    if "opens" not in value:
        if "days" in value:
            raise ValueError('"days" needs "opens"; a window with "from" opens once.')
        begins, ends = _instant(value.get("from")), _instant(value.get("stop_by"))
        if ends is None:
            raise ValueError('A window with "from" needs "stop_by", such as 2026-11-22T05:30 (UTC).')
        if begins is not None and begins >= ends:
            raise ValueError("The window closes before it opens.")
        return Window(begins=begins, ends=ends)
    opens, stop_by = _time(value["opens"]), _time(value.get("stop_by"))
    if opens == stop_by:
        raise ValueError("The window opens when it closes. Remove the window if copies may start at any time.")
    days = value.get("days", list(range(7)))
    if not isinstance(days, list) or not days or not all(isinstance(d, int) and 0 <= d <= 6 for d in days):
        raise ValueError("Days are numbers from 0 (Monday) to 6, at least one.")
    return Window(opens, stop_by, frozenset(d for d in days if isinstance(d, int)))


def to_json(window: Window) -> JsonObject:
    """The JSON value that `read` reads."""
    if window.ends is not None:
        head: JsonObject = {} if window.begins is None else {"from": _format_time(window.begins)}
        return head | {"stop_by": _format_time(window.ends)}
    assert window.opens is not None and window.stop_by is not None
    days: JsonObject = {} if len(window.days) == len(DAYS) else {"days": [*sorted(window.days)]}
    return {"opens": f"{window.opens:%H:%M}", "stop_by": f"{window.stop_by:%H:%M}", **days}


def _format_time(at: datetime) -> str:
    exact = at.second or at.microsecond
    return at.replace(tzinfo=None).isoformat(timespec="auto" if exact else "minutes")


def _time(text: Json) -> time:
    try:
        return datetime.strptime(str(text), "%H:%M").time()  # noqa: DTZ007  a time of day has no zone; all are UTC
    except ValueError:
        raise ValueError(f"{text!r} is not a time of day; use the format 22:00 (UTC).") from None


def _instant(text: Json) -> datetime | None:
    if not text:
        return None
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        raise ValueError(f"{text!r} is not a time; use the format 2026-11-21T22:00 (UTC).") from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def window_state(window: Window, now: datetime) -> tuple[bool, datetime | None]:
    """(open, until when): open until its stop-by time, or closed until its next opening. Closed until None = it does not open again."""
    if window.ends is not None:
        if now >= window.ends:
            return False, None
        if window.begins is not None and now < window.begins:
            return False, window.begins
        return True, window.ends
    assert window.opens is not None and window.stop_by is not None
    today = now.astimezone(UTC).date()
    for offset in range(-1, 9):
        day = today + offset * DAY
        if day.weekday() not in window.days:
            continue
        opens = datetime.combine(day, window.opens, UTC)
        stop = datetime.combine(day, window.stop_by, UTC)
        if stop <= opens:
            stop += DAY
        if stop > now:
            return (True, stop) if opens <= now else (False, opens)
    raise AssertionError("a day of the week comes within nine days")


def text(window: Window) -> str:
    """The human-readable window."""
    if window.ends is not None:
        begins = f"from {window.begins:%Y-%m-%d %H:%M} " if window.begins is not None else ""
        return f"{begins}to {window.ends:%Y-%m-%d %H:%M} UTC"
    assert window.opens is not None and window.stop_by is not None
    days = "" if len(window.days) == 7 else " " + " ".join(DAYS[d] for d in sorted(window.days))
    return f"{window.opens:%H:%M} to {window.stop_by:%H:%M} UTC{days or ' every day'}"
