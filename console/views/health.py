"""Health checks with scores, and anomalies of metrics."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _

from console.texts import gettext_lazy
from console.views.shell import (
    actor,
    flash,
    not_found,
    operator_required,
    page_number,
    redirect_to,
    render_page,
    viewer_required,
)
from controlplane.domain.anomaly import WATCHED_OF, AlertSwitch, Baseline
from controlplane.domain.health import CheckScope, CheckState
from controlplane.selectors import anomalies
from controlplane.selectors import health as selectors
from controlplane.services import anomalies as services

SCOPES = (
    (CheckScope.CLUSTER, gettext_lazy("Cluster")),
    (CheckScope.BROKER, gettext_lazy("Brokers")),
    (CheckScope.TOPIC, gettext_lazy("Topics")),
    (CheckScope.GROUP, gettext_lazy("Groups")),
)
SCORED = SCOPES[1:]
ORDER = {CheckState.FAILED: 0, CheckState.UNKNOWN: 1, CheckState.PASSED: 2}
NAV = "health"


@viewer_required
def check_list(request: HttpRequest) -> HttpResponse:
    scope = request.GET.get("scope", "")
    scope = scope if scope in list(CheckScope) else ""
    report = selectors.health_report(scope)
    context = {
        "report": report,
        "checks": sorted(report.checks, key=lambda c: ORDER[CheckState(c.state)]),
        "scope": scope,
        "scopes": SCOPES,
        "tab": "checks",
        "scored": SCORED,
        "unusual": len(anomalies.anomaly_list()),
    }
    return render_page(request, "console/health.html", context, nav=NAV)


@viewer_required
def check(request: HttpRequest, name: str) -> HttpResponse:
    rule = selectors.rule_named(name)
    if rule is None:
        return not_found(request, _("health check “{name}”").format(name=name), "health", nav=NAV)
    row = next(c for c in selectors.health_report(rule.scope).checks if c.name == name)
    page = selectors.failure_list(name, page=page_number(request))
    rows = [(f, object_url(rule.scope, f.subject)) for f in page.rows]
    context = {"c": row, "page": page, "rows": rows, "tab": "checks", "scored": SCORED}
    return render_page(request, "console/health_check.html", context, nav=NAV)


@viewer_required
def scores(request: HttpRequest, scope: str) -> HttpResponse:
    if scope not in [s for s, _ in SCORED]:
        return not_found(request, _("health scores of “{scope}”").format(scope=scope), "health", nav=NAV)
    page = selectors.score_list(scope, page=page_number(request))
    context = {
        "page": page,
        "rows": [(r, object_url(scope, r.subject)) for r in page.rows],
        "others": selectors.object_count(scope) - page.total,
        "label": dict(SCORED)[CheckScope(scope)],
        "tab": scope,
        "scored": SCORED,
    }
    return render_page(request, "console/health_scores.html", context, nav=NAV)


@viewer_required
def anomaly_page(request: HttpRequest) -> HttpResponse:
    rows = [(a, _subject_url(a.subject), _chart_query(a)) for a in anomalies.anomaly_list()]
    context = {"rows": rows, "metrics": anomalies.watched_metrics(), "tab": "anomalies", "scored": SCORED}
    return render_page(request, "console/anomalies.html", context, nav=NAV)


@operator_required
def switch(request: HttpRequest, name: str, verb: str) -> HttpResponse:
    if name not in WATCHED_OF or verb not in list(AlertSwitch):
        return not_found(request, _("watched metric “{name}”").format(name=name), "anomalies", nav=NAV)
    if request.method == "POST":
        services.switch_alerts(name, verb == AlertSwitch.ON, actor=actor(request))
        flash(request, _("Alerts about {lower} are {verb}.").format(lower=WATCHED_OF[name].label.lower(), verb=verb))
    return redirect_to("anomalies")


def object_url(scope: str, subject: str) -> str:
    """The page of the object of a check; empty for the cluster."""
    if scope == CheckScope.CLUSTER or not subject:
        return ""
    try:
        return reverse(str(scope).replace("_", "-"), args=[subject])
    except NoReverseMatch:
        return ""


def _subject_url(subject: str) -> str:
    kind, __, name = subject.partition(":")
    return object_url(kind, name) or reverse("overview")


def _chart_query(row: anomalies.AnomalyRow) -> str:
    """The range of charts that shows the time of the comparison."""
    return urlencode({"range": "24h" if row.baseline == Baseline.HOURS else "7d"})
