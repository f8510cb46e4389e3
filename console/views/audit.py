"""The audit log: list of changes, one change with its diff. `?within=1h` shows the changes of the last hour."""

from __future__ import annotations

from functools import partial

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from console import exports
from console.history_charts import RANGES
from console.views.shell import list_options, not_found, render_page, viewer_required
from console.vocabulary import operations_with
from controlplane.domain.changed_values import changed_values
from controlplane.monitoring import change_marks
from controlplane.selectors import changes, topics
from controlplane.selectors.changes import ChangeRow, previous_configs
from controlplane.services.common import Outcome

OUTCOMES = ("pending", "confirmed", "unchanged", "refused", "unknown")
KINDS = (
    "topic",
    "broker",
    "restart",
    "move",
    "plan",
    "proposal",
    "recovery",
    "group",
    "share_group",
    "route",
    "schema",
    "document",
    "acl",
    "scram",
    "quota",
    "transaction",
    "connector",
    "role_binding",
    "masking",
    "token",
    "alert",
    "threshold",
    "anomaly",
    "notification",
    "archive",
    "spark_job",
    "lake",
    "records",
    "session",
    "console_user",
)
CLUSTER_CHANGES = "changes"
"""The choice that omits reads of records and logins."""

WITHIN = ("15m", "1h", "24h", "7d")
"""The ranges that the page offers, of `history_charts.RANGES`."""


@viewer_required
def audit(request: HttpRequest) -> HttpResponse:
    q = request.GET
    outcome = q.get("outcome", "") if q.get("outcome", "") in OUTCOMES else ""
    kind = q.get("kind", "") if q.get("kind", "") in (*KINDS, CLUSTER_CHANGES) else ""
    query, by = q.get("q", "").strip(), q.get("actor", "").strip()
    within = q.get("within", "") if q.get("within", "") in WITHIN else ""
    since = timezone.now() - RANGES[within][1] if within else None
    read = partial(changes.change_list, query=query, outcome=outcome, actor=by, since=since)
    read = partial(read, operations=operations_with(query) if query else ())
    read = partial(read, reads=False) if kind == CLUSTER_CHANGES else partial(read, object_kind=kind)
    options = list_options(request, "-id")
    if exports.is_requested(request):
        return exports.response("audit", read, options["sort"])
    found = read(**options)
    context = {
        "page": found,
        "csv": True,
        "q": query,
        "outcome": outcome,
        "kind": kind,
        "by": by,
        "outcomes": OUTCOMES,
        "kinds": KINDS,
        "cluster_changes": CLUSTER_CHANGES,
        "within": within,
        "ranges": {key: RANGES[key][0] for key in WITHIN},
    }
    return render_page(request, "console/audit.html", context, nav="audit")


@viewer_required
def change(request: HttpRequest, change_id: int) -> HttpResponse:
    row = change_marks.change_row(change_id)
    if row is None:
        return not_found(request, _("change {change_id}").format(change_id=change_id), "audit", nav="audit")
    context = {"c": row, "diff": changed_values(row.before, row.after), "restore_url": _restore_url(row)}
    return render_page(request, "console/change.html", context, nav="audit")


def _restore_url(row: ChangeRow) -> str:
    """The form that restores the topic configs of before this change, or "" if it changed none or its topic is gone."""
    if row.outcome != Outcome.CONFIRMED or not previous_configs(row) or topics.topic_row(row.object_name) is None:
        return ""
    return f"{reverse('topic-alter', args=[row.object_name])}?restore={row.id}"
