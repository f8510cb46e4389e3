"""Numbers, sizes and durations in sentences. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable

from weir_common.durations import Duration, DurationUnit


def count_text(count: int, noun: str, many: str = "") -> str:
    """`1 partition`, `2 partitions`; `many` for an irregular plural."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def size_text(count: float) -> str:
    """A human-readable number of bytes: `20.0 MB`."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 999.5 or unit == "TB":  # 999.5 would be rounded to 1000
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 99.95 else f"{amount:.1f} {unit}"


def duration(value_s: float) -> Duration:
    """Seconds in the two largest units."""
    s = int(value_s)
    if s < 60:
        return Duration.of(str(s), DurationUnit.SECOND)
    if s < 3600:
        return _two(s // 60, DurationUnit.MINUTE, s % 60 if s < 600 else 0, DurationUnit.SECOND)
    if s < 86400:
        return _two(s // 3600, DurationUnit.HOUR, s % 3600 // 60, DurationUnit.MINUTE)
    return _two(s // 86400, DurationUnit.DAY, s % 86400 // 3600, DurationUnit.HOUR)


def _two(large: int, unit: DurationUnit, small: int, part: DurationUnit) -> Duration:
    return Duration(((str(large), unit), (str(small), part)) if small else ((str(large), unit),))


def nearest(value: float) -> int:
    """A half is rounded up, not to the next even number."""
    return math.floor(value + 0.5)


def coarse_duration(value_s: float, rounded: Callable[[float], int] = nearest) -> Duration:
    """Seconds rounded to one unit, for sentences that must not change every second. Hours below ten have halves. `rounded`: `math.floor` for a lower
    bound, `math.ceil` for an upper one."""
    whole_s = rounded(value_s)
    tens = rounded(whole_s / 10) * 10
    if whole_s < 10:
        return Duration.of(str(whole_s), DurationUnit.SECOND)
    if tens < 60:
        return Duration.of(str(tens), DurationUnit.SECOND)
    if whole_s < 5400:
        return Duration.of(str(rounded(whole_s / 60)), DurationUnit.MINUTE)
    if whole_s < 36_000:
        return Duration.of(f"{rounded(whole_s / 1800) / 2:g}", DurationUnit.HOUR)
    if whole_s < 172_800:
        return Duration.of(str(rounded(whole_s / 3600)), DurationUnit.HOUR)
    return Duration.of(str(rounded(whole_s / 86400)), DurationUnit.DAY)


def coarse_count(count: float) -> str:
    """A number with its two leading digits, for sentences that must not change every second."""
    value = int(count)
    if value < 100:
        return f"{value:,}"
    step = 10 ** (len(str(value)) - 2)
    return f"{round(value / step) * step:,}"


def leading_digit(count: float) -> str:
    """A number with its leading digit: less exact than `coarse_count`, for rates that vary by some percent from one reading to the next."""
    value = max(1, round(count))
    step = 10 ** (len(str(value)) - 1)
    return f"{round(value / step) * step:,}"


def needed_count(count: float) -> str:
    """A number with its three leading digits, rounded up, because less would not suffice."""
    value = math.ceil(count)
    step = 10 ** max(0, len(str(value)) - 3)
    return f"{-(-value // step) * step:,}"
