"""Changes of the thresholds of alerts.

Invariants: only administrators change them, because a threshold hides alerts from everybody. The monitor applies a change with its next evaluation, two
seconds later. Does not contain: the evaluation (`controlplane.services.alerts`).
"""

from __future__ import annotations

import math

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, PermissionsMixin
from django.core.exceptions import PermissionDenied
from django.db import transaction

from controlplane.domain.alert_thresholds import RULES, AlertThresholds, ThresholdName, order_problem, value_problem
from controlplane.models import AlertThreshold
from controlplane.models.change import Outcome
from controlplane.selectors import alert_thresholds as selectors
from controlplane.services.common import Rejected, audited, record, record_refusal

NEEDS_ADMINISTRATOR = "Thresholds of alerts are changed by administrators (superusers)."


def check_administrator(user: AbstractBaseUser | AnonymousUser, name: str) -> None:
    """Raises PermissionDenied, after the refusal is in the audit log."""
    if not (isinstance(user, PermissionsMixin) and user.is_superuser):
        record_refusal(user.get_username(), "threshold.alter", "threshold", name[:255], Rejected(NEEDS_ADMINISTRATOR))
        raise PermissionDenied(NEEDS_ADMINISTRATOR)


@audited("threshold.alter", "{name}", after=lambda given: {"value": _json_number(given["value"])})
def alter_threshold(name: str, value: float | None, *, actor: str, comment: str = "") -> None:
    """Set the threshold, in its unit. `value` None: the default again. Raises Rejected."""
    if name not in tuple(ThresholdName):
        raise Rejected(f"There is no threshold {name!r}.", "name")
    key = ThresholdName(name)
    if value is not None and (problem := value_problem(key, value)) is not None:
        raise Rejected(problem, "value")
    with transaction.atomic():
        list(AlertThreshold.objects.select_for_update().values_list("pk"))
        before = selectors.current()
        changed = {k: v for k, v in before.values.items() if k is not key}
        if value is not None and value != RULES[key].default:
            changed[key] = value
        problem = order_problem(AlertThresholds(changed))
        if problem is not None:
            raise Rejected(problem, "value")
        if key in changed:
            AlertThreshold.objects.update_or_create(name=key, defaults={"value": changed[key], "changed_by": actor})
        else:
            AlertThreshold.objects.filter(name=key).delete()
        record(
            actor,
            "threshold.alter",
            "threshold",
            name,
            comment=comment,
            before={"value": before[key]},
            after={"value": AlertThresholds(changed)[key], "unit": RULES[key].unit},
            object_id=f"threshold-{name}",
            outcome=Outcome.CONFIRMED,
        )


def _json_number(value: float | None) -> float | str | None:
    """JSON has no infinity and no NaN."""
    return value if value is None or math.isfinite(value) else str(value)
