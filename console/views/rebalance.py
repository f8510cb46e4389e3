"""Rebalance proposal: goals by priority, before and after per broker.

Writes nothing. The button opens the review of a move, which computes the proposal again from the current state."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from console.texts import counted, gettext_lazy
from console.views.shell import render_page, viewer_required
from console.vocabulary import rejection_text
from controlplane.services import Rejected
from controlplane.services import rebalance as rebalancing
from controlplane.services.rebalance import GOALS, TOLERANCE_DEFAULT, Load

CHANGES_SHOWN_MAX = 200
"""Maximum number of changes shown on the page. The totals include all changes."""
GOAL_METRICS = {
    "rack": gettext_lazy("partitions with avoidable replicas in one rack"),
    "disk": gettext_lazy("bytes per broker"),
    "replicas": gettext_lazy("replicas per broker"),
    "leaders": gettext_lazy("preferred leaders per broker"),
    "traffic": gettext_lazy("inbound records per second of a broker's leaders"),
}

BYTES = "bytes"
COLUMNS = {
    "replicas": gettext_lazy("Replicas"),
    "leaders": gettext_lazy("Leaders"),
    BYTES: gettext_lazy("Disk"),
    "records_per_s": gettext_lazy("Records/s in"),
}


@dataclass(frozen=True, slots=True)
class Metric:
    """Values before and after, and their deviations from the mean of all brokers in per cent."""

    before: float
    after: float
    skew_before: float | None
    skew_after: float | None
    in_bytes: bool


@viewer_required
def rebalance(request: HttpRequest) -> HttpResponse:
    q = request.GET
    selected = [g for g in q.getlist("goal") if g]
    tolerance = q.get("tolerance", "")
    context: dict[str, object] = {
        "goals": [(g, GOAL_METRICS[g], g in selected or not selected) for g in _goals_in_order(selected)],
        "tolerance": tolerance or TOLERANCE_DEFAULT,
    }
    try:
        proposal = rebalancing.propose_changes(selected or None, _number(tolerance), CHANGES_SHOWN_MAX)
    except Rejected as error:
        return render_page(
            request, "console/rebalance.html", {**context, "error": rejection_text(error)}, nav="brokers", status=400
        )
    query = urlencode(
        [
            ("kind", "rebalance"),
            ("step", "review"),
            *(("goal", g) for g in proposal.scope.goals),
            ("tolerance", str(proposal.scope.tolerance)),
        ]
    )
    context |= {
        "p": proposal,
        "rows": _rows(proposal.before, proposal.after),
        "columns": COLUMNS.values(),
        "review": f"{reverse('move-new')}?{query}",
        "button": _("Review ({copies}, {changes_total})").format(
            copies=counted(proposal.copies, "replica move"), changes_total=counted(proposal.changes_total, "partition")
        ),
        "body": {"goals": proposal.scope.goals, "tolerance": proposal.scope.tolerance},
    }
    return render_page(request, "console/rebalance.html", context, nav="brokers")


def _goals_in_order(selected: list[str]) -> list[str]:
    """All goals, the selected ones first in their order."""
    first = [g for g in dict.fromkeys(selected) if g in GOALS]
    return [*first, *(g for g in GOALS if g not in first)]


def _number(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise Rejected(_("“{text}” is not a fraction. Enter 0.1 for 10 %.").format(text=text), "tolerance") from None


def _rows(before: list[Load], after: list[Load]) -> list[tuple[int, list[Metric]]]:
    """(broker id, [values]) in the order of COLUMNS."""
    means = {
        (c, i): sum(getattr(x, c) for x in loads) / len(loads) if loads else 0.0
        for c in COLUMNS
        for i, loads in enumerate((before, after))
    }

    def skew(value: float, mean: float) -> float | None:
        return round((value - mean) / mean * 100, 1) if mean else None

    return [
        (
            b.broker_id,
            [
                Metric(
                    getattr(b, c),
                    getattr(a, c),
                    skew(getattr(b, c), means[c, 0]),
                    skew(getattr(a, c), means[c, 1]),
                    in_bytes=c == BYTES,
                )
                for c in COLUMNS
            ],
        )
        for b, a in zip(before, after, strict=True)
    ]
