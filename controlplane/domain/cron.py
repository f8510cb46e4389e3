"""Cron expressions with five fields (minute, hour, day of month, month, day of week), in UTC. Pure.

As in cron, a day matches if the day of the month or the day of the week matches, when both are restricted. 0 and 7 are Sunday.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from weir_common.phrases import Phrase, sentence

DAYS_MAX = 4 * 366
"""Maximum number of days in which the next time is searched. A 29 February is always within this number of days."""

FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 7))


class CronError(ValueError):
    """The expression is not valid. The text names the field."""


@dataclass(frozen=True, slots=True)
class Cron:
    """The allowed values of each field."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    def next_after(self, at: datetime) -> datetime | None:
        """The first matching minute after `at`, which is in UTC. None if there is none, as for 30 February."""
        day = (at + timedelta(minutes=1)).replace(second=0, microsecond=0)
        for _ in range(DAYS_MAX):
            if self._matches_day(day):
                for hour in sorted(h for h in self.hours if h >= day.hour):
                    first = day.minute if hour == day.hour else 0
                    minute = min((m for m in self.minutes if m >= first), default=None)
                    if minute is not None:
                        return day.replace(hour=hour, minute=minute)
            day = (day + timedelta(days=1)).replace(hour=0, minute=0)
        return None

    def _matches_day(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        by_day, by_weekday = day.day in self.days, (day.isoweekday() % 7) in self.weekdays
        if self.any_day or self.any_weekday:
            return by_day and by_weekday
        return by_day or by_weekday


def parse(text: str) -> Cron:
    """Parse an expression of five fields. Raises CronError with the name of an invalid field."""
    parts = text.split()
    if len(parts) != len(FIELDS):
        raise CronError(
            sentence(
                "A schedule has five fields (minute, hour, day of month, month, day of week), not {count}.",
                count=len(parts),
            )
        )
    values = [_field(part, *field) for part, field in zip(parts, FIELDS, strict=True)]
    weekdays = frozenset(day % 7 for day in values[4])
    return Cron(values[0], values[1], values[2], values[3], weekdays, parts[2] == "*", parts[4] == "*")


def _field(text: str, name: str, low: int, high: int) -> frozenset[int]:
    out: set[int] = set()
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        step = _number(step_text, name, 1, high) if slash else 1
        if span == "*":
            first, last = low, high
        else:
            first_text, dash, last_text = span.partition("-")
            first = _number(first_text, name, low, high)
            last = _number(last_text, name, low, high) if dash else (high if slash else first)
        if last < first:
            raise CronError(
                sentence("The {field} {value} ends before it begins.", field=Phrase(name), value=repr(part))
            )
        out.update(range(first, last + 1, step))
    return frozenset(out)


def _number(text: str, name: str, low: int, high: int) -> int:
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        raise CronError(
            sentence(
                "The {field} {value} is not a number from {low} to {high}.",
                field=Phrase(name),
                value=repr(text),
                low=low,
                high=high,
            )
        )
    return int(text)
