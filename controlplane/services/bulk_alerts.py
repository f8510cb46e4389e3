"""Acknowledgement of many alerts, one by one.

Invariant: a rejection of one alert does not stop the other alerts, and its reason is in the result. Does not contain: one acknowledgement
(`incidents`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from controlplane.models import Alert
from controlplane.selectors.bulk_lists import row_ids
from controlplane.selectors.visibility import visible
from controlplane.services import incidents
from controlplane.services.common import Rejected
from weir_common.phrases import sentence

ALERTS_MAX = 500
"""Maximum number of alerts of one acknowledgement: a page of the list."""


class BulkAlertOutcome(StrEnum):
    DONE = "done"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class BulkAlertRow:
    """`key`: the id. `name`: the kind. `problem`: why it will be rejected, or ""."""

    key: str
    name: str
    problem: str


@dataclass(frozen=True, slots=True)
class BulkAlertResult:
    key: str
    name: str
    outcome: BulkAlertOutcome
    detail: str


def preview(keys: Sequence[str]) -> list[BulkAlertRow]:
    """The alerts, in the order of the keys. Unknown keys are omitted."""
    rows = {str(a.pk): a for a in visible(Alert.objects.filter(pk__in=row_ids(keys)))}
    return [BulkAlertRow(k, rows[k].kind, _problem(rows[k])) for k in dict.fromkeys(keys) if k in rows]


def _problem(alert: Alert) -> str:
    if alert.ended_at is not None:
        return "The alert has ended."
    if alert.acknowledged_at is None:
        return ""
    return sentence("{user} acknowledged it before.", user=alert.acknowledged_by)


def acknowledge(keys: Sequence[str], *, actor: str, comment: str = "") -> list[BulkAlertResult]:
    """Acknowledge them one after the other, each with its change in the audit log. Raises Rejected for too many."""
    if len(keys) > ALERTS_MAX:
        raise Rejected(
            sentence(
                "{count} alerts are more than {max}, the limit of an acknowledgement.",
                count=f"{len(keys):,}",
                max=f"{ALERTS_MAX:,}",
            )
        )
    kinds = {row.key: row.name for row in preview(keys)}
    results = []
    for number in row_ids(list(dict.fromkeys(keys))):
        key = str(number)
        try:
            incidents.acknowledge(number, actor=actor, comment=comment)
        except Rejected as error:
            results.append(BulkAlertResult(key, kinds.get(key, key), BulkAlertOutcome.REJECTED, error.reason))
        else:
            results.append(BulkAlertResult(key, kinds.get(key, key), BulkAlertOutcome.DONE, ""))
    return results
