"""Durations on pages: numbers with units in the language of the request. Pure.

Invariant: a lag in time has one form in tables, figures and sentences: a duration. Does not contain: durations that are typed into a form
(`config_units`), which are English in each language; the calculation of units (`controlplane.domain.text`); the type (`weir_common.durations`).
"""

from __future__ import annotations

import math

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from controlplane.domain import text
from weir_common.durations import Duration, DurationUnit

EXACT_FROM_S = 60
"""A shorter lag in time is exact enough without the title."""


def duration(value_s: float) -> str:
    """Seconds in the two largest units, in the language of the request."""
    return localized(text.duration(value_s))


def coarse(value_s: float, *, at_most: bool = False) -> str:
    """`coarse_duration` in the language of the request. `at_most`: an upper bound, which is rounded up."""
    return localized(text.coarse_duration(value_s, math.ceil if at_most else text.nearest))


def localized(value: Duration) -> str:
    """The duration with the units of the language of the request."""
    return " ".join(_amount(count, unit) for count, unit in value.amounts)


def _amount(count: str, unit: DurationUnit) -> str:
    match unit:
        case DurationUnit.YEAR:
            return _("{count} y").format(count=count)
        case DurationUnit.DAY:
            return _("{count} d").format(count=count)
        case DurationUnit.HOUR:
            return _("{count} h").format(count=count)
        case DurationUnit.MINUTE:
            return _("{count} min").format(count=count)
        case DurationUnit.SECOND:
            return _("{count} s").format(count=count)


def _seconds(count: str) -> str:
    return localized(Duration.of(count, DurationUnit.SECOND))


def lag_time(ms: int) -> SafeString:
    """A lag in time: tenths of a second below 10 s. A longer one has the exact seconds as its title."""
    value_s = ms / 1000
    if value_s < EXACT_FROM_S:
        return SafeString(_seconds(f"{value_s:.1f}") if value_s < 10 else duration(value_s))
    return SafeString(f'<span title="{_seconds(f"{value_s:,.0f}")}">{duration(value_s)}</span>')
