"""Thresholds of alerts: the values in force, and rows for pages and REST."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from controlplane.domain.alert import THRESHOLD_KINDS
from controlplane.domain.alert_thresholds import RULES, AlertThresholds, ThresholdName, of_stored
from controlplane.models import AlertThreshold


@dataclass(frozen=True, slots=True)
class AlertThresholdRow:
    """`value`: in force, in `unit`. `alert_kinds`: the alerts that it decides about. `changed_at` null: it has its default."""

    name: str
    text: str
    unit: str
    value: float
    default: float
    minimum: float
    maximum: float
    alert_kinds: list[str]
    changed_at: datetime | None
    changed_by: str

    @property
    def is_default(self) -> bool:
        return self.changed_at is None


def current() -> AlertThresholds:
    """The values in force: one query."""
    return of_stored(dict(AlertThreshold.objects.values_list("name", "value")))


def threshold_list() -> list[AlertThresholdRow]:
    """All thresholds, in the order of their rules."""
    rows = {row.name: row for row in AlertThreshold.objects.all()}
    values = of_stored({name: row.value for name, row in rows.items()})
    return [_shape(name, values, rows.get(name)) for name in ThresholdName]


def threshold_row(name: str) -> AlertThresholdRow | None:
    return next((row for row in threshold_list() if row.name == name), None)


def _shape(name: ThresholdName, values: AlertThresholds, row: AlertThreshold | None) -> AlertThresholdRow:
    rule = RULES[name]
    changed = row if name in values.values else None
    return AlertThresholdRow(
        name=name,
        text=rule.text,
        unit=rule.unit,
        value=values[name],
        default=rule.default,
        minimum=rule.minimum,
        maximum=rule.maximum,
        alert_kinds=[kind.value for kind in THRESHOLD_KINDS[name]],
        changed_at=changed.changed_at if changed is not None else None,
        changed_by=changed.changed_by if changed is not None else "",
    )
