"""Durations on pages: numbers with units in the language of the request. Pure.

Invariant: a lag in time has one form in tables, figures and sentences: a duration. Does not contain: durations that are typed into a form
(`config_units`), which are English in each language; the calculation of units (`controlplane.domain.text`).
"""

from __future__ import annotations

import math
import re

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from controlplane.domain import text

AMOUNT = r"(\d[\d,]*(?:\.\d+)?) (y|d|h|min|s)"
ONE_AMOUNT = re.compile(AMOUNT)
WHOLE_DURATION = re.compile(rf"{AMOUNT}(?: {AMOUNT})?")
EXACT_FROM_S = 60
"""A shorter lag in time is exact enough without the title."""


def duration(value_s: float) -> str:
    """`duration_text` in the language of the request."""
    return localized(text.duration_text(value_s))


def coarse(value_s: float, *, at_most: bool = False) -> str:
    """`coarse_duration` in the language of the request. `at_most`: an upper bound, which is rounded up."""
    return localized(text.coarse_duration(value_s, math.ceil if at_most else text.nearest))


def localized(value: str) -> str:
    """The units of a duration in the language of the request. A text that is not only a duration, for example a name, does not change."""
    is_duration = value[:1].isdecimal() and WHOLE_DURATION.fullmatch(value)
    return ONE_AMOUNT.sub(_amount, value) if is_duration else value


def _amount(amount: re.Match[str]) -> str:
    count, unit = amount.groups()
    match unit:
        case "y":
            return _("{count} y").format(count=count)
        case "d":
            return _("{count} d").format(count=count)
        case "h":
            return _("{count} h").format(count=count)
        case "min":
            return _("{count} min").format(count=count)
        case _s:
            return _("{count} s").format(count=count)


def lag_time(ms: int) -> SafeString:
    """A lag in time: tenths of a second below 10 s. A longer one has the exact seconds as its title."""
    value_s = ms / 1000
    if value_s < EXACT_FROM_S:
        return SafeString(localized(f"{value_s:.1f} s" if value_s < 10 else text.duration_text(value_s)))
    return SafeString(f'<span title="{localized(f"{value_s:,.0f} s")}">{duration(value_s)}</span>')
