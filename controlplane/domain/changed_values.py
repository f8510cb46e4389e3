"""The values that a change of the audit log changed, from the JSON values before and after it. Pure.

Does not contain: the choice of the values that are recorded; services hide secrets before they record a change.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.cluster.model import NO_LEADER

ONLY_VALUE = "value"
"""Name of a value that is recorded without a name, such as a throttle."""

EMPTY: tuple[object, ...] = ("", [], {})
LISTED_MAX = 2
"""Maximum number of values that a list shows of a change. The change itself has all."""


@dataclass(frozen=True, slots=True)
class ChangedValue:
    """`name`: with dots for nested values. `before`, `after`: JSON values; null where the value did not exist."""

    name: str
    before: object
    after: object


def changed_values(before: object, after: object) -> list[ChangedValue]:
    """Each different value, by name."""
    was, now = _flat(before), _flat(after)
    both = was | now
    empty = {name for name, value in both.items() if value == {} and any(n.startswith(f"{name}.") for n in both)}
    names = sorted(both.keys() - empty)
    return [ChangedValue(n, was.get(n), now.get(n)) for n in names if was.get(n) != now.get(n)]


def first_values(before: object, after: object) -> tuple[list[ChangedValue], int]:
    """The first different values, for a list of changes, and the number of the others. An empty value that did not exist before is none of them."""
    found = [v for v in changed_values(before, after) if v.before is not None or v.after not in EMPTY]
    return found[:LISTED_MAX], max(0, len(found) - LISTED_MAX)


def is_no_leader(value: object) -> bool:
    """Return whether a recorded leader of a partition means that the partition had none."""
    return value == NO_LEADER


def _flat(value: object, name: str = "") -> dict[str, object]:
    if isinstance(value, dict) and value:
        found: dict[str, object] = {}
        for key, inner in value.items():
            found |= _flat(inner, f"{name}.{key}" if name else str(key))
        return found
    return {} if value is None and not name else {name or ONLY_VALUE: value}
