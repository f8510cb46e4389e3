"""The overview page: open incidents, health, key metrics, problems, active moves, recent changes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.address_access import User, may_use
from console.history_charts import page_charts
from console.next_steps import StepButton, buttons
from console.panels import lazy
from console.views.shell import render_page, viewer_required
from controlplane.domain.alert_types import Severity
from controlplane.selectors import brokers, changes, groups, incidents, moves, partitions
from controlplane.selectors.alerts import SILENCE_ID, AlertRow
from controlplane.selectors.next_steps import next_steps

INCIDENTS_SHOWN = 5
CLUSTER_CHARTS = (
    "records_per_s",
    "bytes_in_per_s",
    "bytes_out_per_s",
    "lag_records",
    "size_bytes",
    "under_replicated",
)
SHOWN = 8
"""Rows of each panel. A link shows all rows."""


@dataclass(frozen=True, slots=True)
class IncidentNote:
    """An incident with the buttons of its next step. `acknowledgement`: the address that acknowledges it; empty if that is done or the user may not."""

    cause: AlertRow
    severity: str
    effects: list[AlertRow]
    steps: list[StepButton]
    acknowledgement: str

    @property
    def is_at_risk(self) -> bool:
        return self.severity == Severity.AT_RISK


def _incident_notes(rows: list[incidents.IncidentRow], user: User) -> list[IncidentNote]:
    return [
        IncidentNote(
            i.cause,
            i.severity,
            i.effects,
            list(islice(buttons(next_steps(i.cause), user), 1)),
            _acknowledgement(i.cause, user),
        )
        for i in rows[:INCIDENTS_SHOWN]
    ]


def _acknowledgement(alert: AlertRow, user: User) -> str:
    if alert.acknowledged_at is not None or alert.id == SILENCE_ID:
        return ""
    address = reverse("alert-act", args=[alert.id, "acknowledge"])
    return address if may_use(user, address) else ""


@viewer_required
def overview(request: HttpRequest) -> HttpResponse:
    found = lazy(incidents.incident_list)
    notes = lazy(lambda: _incident_notes(found(), request.user))
    return render_page(
        request,
        "console/overview.html",
        {
            "incidents": notes,
            "acknowledgeable": lazy(lambda: [i.cause.id for i in notes() if i.acknowledgement]),
            "acknowledge": ["acknowledge"],
            "incidents_more": lazy(lambda: max(0, len(found()) - INCIDENTS_SHOWN)),
            "brokers": lazy(brokers.broker_list),
            "problems": lazy(partitions.in_trouble, SHOWN),
            "lagging": lazy(groups.group_list, sort="-lag_records", per_page=SHOWN),
            "moves": lazy(moves.move_list, state=moves.UNFINISHED, per_page=SHOWN),
            "changes": lazy(changes.change_list, per_page=SHOWN, reads=False),
            "h": lazy(page_charts, request, "cluster", *CLUSTER_CHARTS),
        },
        nav="overview",
    )
