"""A duration as a value: amounts of units of time, for texts in several languages. Pure.

Invariant: a duration is one by its type, not by its text, so a name such as `5 s` is none. Does not contain: the choice of units and of rounding
(`controlplane.domain.text`); units in other languages than English (`console.durations`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from weir_common.json_values import Json, JsonObject


class DurationUnit(StrEnum):
    """Units with their English text."""

    YEAR = "y"
    DAY = "d"
    HOUR = "h"
    MINUTE = "min"
    SECOND = "s"


UNITS = frozenset(map(str, DurationUnit))


@dataclass(frozen=True, slots=True)
class Duration:
    """`amounts`: (number as it is shown, its unit), the largest unit first."""

    amounts: tuple[tuple[str, DurationUnit], ...]

    @classmethod
    def of(cls, count: str, unit: DurationUnit) -> Duration:
        """A duration in one unit."""
        return cls(((count, unit),))

    def __str__(self) -> str:
        return " ".join(f"{count} {unit}" for count, unit in self.amounts)


def duration_to_json(value: Duration) -> JsonObject:
    """`{"duration": [["1", "h"], ["23", "min"]]}`."""
    return {"duration": [[count, str(unit)] for count, unit in value.amounts]}


def duration_from_json(amounts: Sequence[Json]) -> Duration:
    """The duration of a stored list of amounts. Raises TypeError for another list than `duration_to_json` writes."""
    return Duration(tuple(map(_amount, amounts)))


def _amount(stored: Json) -> tuple[str, DurationUnit]:
    match stored:
        case [str(count), str(unit)] if unit in UNITS:
            return count, DurationUnit(unit)
    raise TypeError(f"not a stored amount of time: {stored!r}")
