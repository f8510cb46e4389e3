"""Comparison of computed alerts with stored alerts: rows to create, to update and to resolve. Pure.

Invariant: an alert that returns within FLAP_SECONDS continues with its first start time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.domain.alert_types import ComputedAlert

FLAP_SECONDS = 60.0
"""An alert that returns within these seconds keeps its first start time. Otherwise a follower that flaps at its limit would cause twenty alerts."""


@dataclass(frozen=True, slots=True)
class StoredAlert:
    """A stored row. `ended_s`: end time in seconds; None = open. An ended row can be reopened for FLAP_SECONDS."""

    id: int
    kind: str
    subject: str
    severity: str
    text: str
    do: str
    ended_s: float | None


@dataclass(frozen=True, slots=True)
class AlertChanges:
    """`created`: new rows. `updated`: rows with a new text or severity, or reopened rows. `resolved`: ids."""

    created: tuple[ComputedAlert, ...]
    updated: tuple[tuple[int, ComputedAlert], ...]
    resolved: tuple[int, ...]


def changes(stored: Sequence[StoredAlert], computed: Sequence[ComputedAlert], now_s: float) -> AlertChanges:
    """Return the rows that the computed alerts create, update and resolve. `stored`: open rows, and those that ended within FLAP_SECONDS."""
    rows = {(k.kind, k.subject): k for k in stored if k.ended_s is None or now_s - k.ended_s <= FLAP_SECONDS}
    created: list[ComputedAlert] = []
    updated: list[tuple[int, ComputedAlert]] = []
    for a in computed:
        row = rows.pop((a.kind, a.subject), None)
        if row is None:
            created.append(a)
        elif row.ended_s is not None or (row.severity, row.text, row.do) != (a.severity, a.text, a.do):
            updated.append((row.id, a))
    return AlertChanges(tuple(created), tuple(updated), tuple(k.id for k in rows.values() if k.ended_s is None))
