"""Thresholds of alerts: the values in force, and rows for pages and REST."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from controlplane.domain.alert import THRESHOLD_KINDS
from controlplane.domain.alert_thresholds import (
    MAXIMUM_NUMBERS,
    OBJECTS,
    RULES,
    AlertThresholds,
    ThresholdName,
    ThresholdScope,
    of_stored,
)
from controlplane.domain.audit_operation import AuditOperation
from controlplane.models import AlertThreshold, AlertThresholdOverride, AlertThresholdVersion, Change
from controlplane.models.change import Outcome
from controlplane.selectors.shared_rows import once_a_page
from controlplane.selectors.visibility import visible


@dataclass(frozen=True, slots=True)
class ThresholdOverrideRow:
    """The value of a threshold for one object. It takes precedence over the value for the cluster. `subject`: id of a broker, name of a group or
    topic."""

    subject: str
    value: float
    changed_at: datetime
    changed_by: str


@dataclass(frozen=True, slots=True)
class AppliedThreshold:
    """The value of a threshold that applies to an object. `scope` is the object kind for which the value was set, or `cluster`, also for a default. `objects` is
    the kind of object that can have its own value, or cluster."""

    name: str
    text: str
    unit: str
    value: float
    scope: ThresholdScope
    objects: ThresholdScope


@dataclass(frozen=True, slots=True)
class ThresholdChange:
    """A change of a threshold, from the audit log. `scope`: the kind of the object, or cluster. `change_id`: number of the entry of the audit log."""

    name: str
    before: float
    after: float
    unit: str
    scope: ThresholdScope
    at: datetime
    actor: str
    change_id: int


CHANGES_MAX = 20
"""Maximum number of changes of thresholds that are read for an alert, newest first."""


@dataclass(frozen=True, slots=True)
class AlertThresholdRow:
    """`value`: in force, in `unit`. `alert_kinds`: the alerts that depend on it. `changed_at` null: it has its default. `objects`: the kind of object
    that can have a separate value, or cluster; `overrides` has the objects with a separate value. `version`: number of changes by users, also the entity tag."""

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
    objects: ThresholdScope
    overrides: list[ThresholdOverrideRow]
    version: int

    @property
    def is_default(self) -> bool:
        return self.changed_at is None


def current_thresholds() -> AlertThresholds:
    """The values in force: two queries, once for a page."""
    return once_a_page("thresholds", _read_thresholds)


def _read_thresholds() -> AlertThresholds:
    overrides = AlertThresholdOverride.objects.values_list("name", "subject", "value")
    return of_stored(dict(AlertThreshold.objects.values_list("name", "value")), overrides)


def threshold_list() -> list[AlertThresholdRow]:
    """All thresholds, in the order of their rules."""
    rows = {row.name: row for row in AlertThreshold.objects.all()}
    own: dict[str, list[AlertThresholdOverride]] = {}
    for override in AlertThresholdOverride.objects.all():
        own.setdefault(override.name, []).append(override)
    values = of_stored(
        {name: row.value for name, row in rows.items()},
        ((o.name, o.subject, o.value) for found in own.values() for o in found),
    )
    versions = dict(AlertThresholdVersion.objects.values_list("name", "version"))
    return [_shape(name, values, rows.get(name), own.get(name, []), versions.get(name, 0)) for name in ThresholdName]


def threshold_row(name: str) -> AlertThresholdRow | None:
    return next((row for row in threshold_list() if row.name == name), None)


def applied_thresholds(kind: str, subject: str) -> list[AppliedThreshold]:
    """The thresholds that decide about alerts of this kind, with the values for this object. `subject` "": an alert about several objects, for which their
    maximum number decides, too."""
    names = [n for n, kinds in THRESHOLD_KINDS.items() if kind in kinds and not (subject and n in MAXIMUM_NUMBERS)]
    if not names:
        return []
    values = current_thresholds()
    return [applied_threshold(name, subject, values) for name in names]


def group_thresholds(group_id: str, values: AlertThresholds) -> list[AppliedThreshold]:
    """The thresholds that can have values for single groups, with those for this group."""
    names = (name for name, scope in OBJECTS.items() if scope is ThresholdScope.GROUP)
    return [applied_threshold(name, group_id, values) for name in names]


def applied_threshold(name: ThresholdName, subject: str, values: AlertThresholds) -> AppliedThreshold:
    objects = OBJECTS.get(name, ThresholdScope.CLUSTER)
    own = subject in values.overrides.get(name, {})
    scope = objects if own else ThresholdScope.CLUSTER
    return AppliedThreshold(name, RULES[name].text, RULES[name].unit, values.value_for(name, subject), scope, objects)


def threshold_changes(kind: str, subject: str, since: datetime, until: datetime | None) -> list[ThresholdChange]:
    """Changes of the thresholds that decide about alerts of this kind, for the cluster and for this object, within this time. `until` None: until now.
    The newest first."""
    names = {name.value: name for name, kinds in THRESHOLD_KINDS.items() if kind in kinds}
    if not names:
        return []
    changes = Change.objects.filter(
        verb__in=(AuditOperation.THRESHOLD_ALTER, AuditOperation.THRESHOLD_OVERRIDE),
        object_name__in=names,
        outcome=Outcome.CONFIRMED,
        at__gte=since,
        **({} if until is None else {"at__lte": until}),
    )
    found = []
    for change in visible(changes).order_by("-pk")[:CHANGES_MAX]:
        name, before, after = names[change.object_name], change.before or {}, change.after or {}
        objects = OBJECTS.get(name, ThresholdScope.CLUSTER)
        is_override = change.verb == AuditOperation.THRESHOLD_OVERRIDE
        if is_override and after.get(objects.value) != subject:
            continue
        scope = objects if is_override else ThresholdScope.CLUSTER
        found.append(
            ThresholdChange(
                name, before["value"], after["value"], RULES[name].unit, scope, change.at, change.actor, change.pk
            )
        )
    return found


def _shape(
    name: ThresholdName,
    values: AlertThresholds,
    row: AlertThreshold | None,
    overrides: list[AlertThresholdOverride],
    version: int,
) -> AlertThresholdRow:
    rule = RULES[name]
    changed = row if name in values.values else None
    valid = values.overrides.get(name, {})
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
        objects=OBJECTS.get(name, ThresholdScope.CLUSTER),
        overrides=[
            ThresholdOverrideRow(o.subject, o.value, o.changed_at, o.changed_by)
            for o in overrides
            if o.subject in valid
        ],
        version=version,
    )
