"""Changes of the thresholds of alerts, for the cluster and for single objects.

Invariants: only administrators change the values for the cluster, because such a value can hide alerts about every object from all users. A value for one
object hides alerts about this object only, like a silence: operators of the cluster change it. The monitor applies a change with its next evaluation, two
seconds later. Does not contain: the evaluation (`controlplane.services.alerts`).
"""

from __future__ import annotations

import math

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, PermissionsMixin
from django.core.exceptions import PermissionDenied
from django.db import transaction

from controlplane.domain.alert_thresholds import (
    OBJECTS,
    OVERRIDES_MAX,
    RULES,
    AlertThresholds,
    ThresholdName,
    object_problem,
    order_problem,
    value_problem,
)
from controlplane.domain.audit_operation import AuditOperation
from controlplane.models import AlertThreshold, AlertThresholdOverride, AlertThresholdVersion
from controlplane.models.change import Outcome
from controlplane.selectors import alert_thresholds as selectors
from controlplane.services.common import Rejected, audited, record, record_rejection
from weir_common.phrases import sentence

NEEDS_ADMINISTRATOR = "Thresholds of alerts are changed by administrators (superusers)."


def check_administrator(user: AbstractBaseUser | AnonymousUser, name: str) -> None:
    """Raises PermissionDenied after the rejection is written to the audit log."""
    if not (isinstance(user, PermissionsMixin) and user.is_superuser):
        record_rejection(
            user.get_username(), AuditOperation.THRESHOLD_ALTER, "threshold", name[:255], Rejected(NEEDS_ADMINISTRATOR)
        )
        raise PermissionDenied(NEEDS_ADMINISTRATOR)


@audited(AuditOperation.THRESHOLD_ALTER, "{name}", after=lambda given: {"value": _json_number(given["value"])})
def alter_threshold(
    name: str, value: float | None, *, actor: str, comment: str = "", if_version: int | None = None
) -> None:
    """Set the threshold, in its unit. `value` None restores the default. `if_version`: Rejected if the threshold has another version. Raises Rejected."""
    if name not in tuple(ThresholdName):
        raise Rejected(sentence("There is no threshold {name}.", name=repr(name)), "name")
    key = ThresholdName(name)
    if value is not None and (problem := value_problem(key, value)) is not None:
        raise Rejected(problem, "value")
    with transaction.atomic():
        _begin_change(key, if_version)
        list(AlertThreshold.objects.select_for_update().values_list("pk"))
        before = selectors.current_thresholds()
        changed = {k: v for k, v in before.values.items() if k is not key}
        if value is not None and value != RULES[key].default:
            changed[key] = value
        problem = order_problem(AlertThresholds(changed, before.overrides))
        if problem is not None:
            raise Rejected(problem, "value")
        if key in changed:
            AlertThreshold.objects.update_or_create(name=key, defaults={"value": changed[key], "changed_by": actor})
        else:
            AlertThreshold.objects.filter(name=key).delete()
        record(
            actor,
            AuditOperation.THRESHOLD_ALTER,
            "threshold",
            name,
            comment=comment,
            before={"value": before[key]},
            after={"value": AlertThresholds(changed)[key], "unit": RULES[key].unit},
            object_id=f"threshold-{name}",
            outcome=Outcome.CONFIRMED,
        )


@audited(AuditOperation.THRESHOLD_OVERRIDE, "{name}", after=lambda given: {"value": _json_number(given["value"])})
def override_threshold(
    name: str, subject: str, value: float | None, *, actor: str, comment: str = "", if_version: int | None = None
) -> None:
    """Set the threshold for one object, in its unit. With `value` None the threshold of the cluster applies again. The object may be created later.
    `if_version`: Rejected if the threshold has another version. Raises Rejected."""
    if name not in tuple(ThresholdName):
        raise Rejected(sentence("There is no threshold {name}.", name=repr(name)), "name")
    key = ThresholdName(name)
    if (problem := object_problem(key, subject)) is not None:
        raise Rejected(problem, "subject")
    if value is not None and (problem := value_problem(key, value)) is not None:
        raise Rejected(problem, "value")
    with transaction.atomic():
        _begin_change(key, if_version)
        list(AlertThreshold.objects.select_for_update().values_list("pk"))
        list(AlertThresholdOverride.objects.select_for_update().values_list("pk"))
        before = selectors.current_thresholds()
        own = {k: v for k, v in before.overrides.get(key, {}).items() if k != subject}
        if value is not None:
            own[subject] = value
        after = AlertThresholds(before.values, {**before.overrides, key: own})
        if (problem := order_problem(after)) is not None:
            raise Rejected(problem, "value")
        if len(own) > OVERRIDES_MAX:
            raise Rejected(
                sentence("At most {max} objects can override the threshold {name}.", max=OVERRIDES_MAX, name=name),
                "subject",
            )
        rows = AlertThresholdOverride.objects.filter(name=key, subject=subject)
        if value is None:
            rows.delete()
        else:
            AlertThresholdOverride.objects.update_or_create(
                name=key, subject=subject, defaults={"value": value, "changed_by": actor}
            )
        record(
            actor,
            AuditOperation.THRESHOLD_OVERRIDE,
            "threshold",
            name,
            comment=comment,
            before={"value": before.value_for(key, subject)},
            after={
                "value": after.value_for(key, subject),
                "unit": RULES[key].unit,
                str(OBJECTS[key]): subject,
                "own": value is not None,
            },
            object_id=f"threshold-{name}",
            outcome=Outcome.CONFIRMED,
        )


def _begin_change(name: ThresholdName, if_version: int | None) -> None:
    """Lock the threshold and count the change. Raises Rejected if it has another version."""
    AlertThresholdVersion.objects.get_or_create(name=name)
    row = AlertThresholdVersion.objects.select_for_update().get(name=name)
    if if_version is not None and row.version != if_version:
        raise Rejected("The threshold was changed after this form was opened. Open it again.")
    row.version += 1
    row.save(update_fields=["version"])


def _json_number(value: float | None) -> float | str | None:
    """The value for JSON, which has no infinity and no NaN."""
    return value if value is None or math.isfinite(value) else str(value)
