"""The audit log: list of changes, one change with its diff."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from console import exports
from console.views.shell import list_options, not_found, render_page, viewer_required
from controlplane.monitoring import change_marks
from controlplane.selectors import changes

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
    "acl",
    "scram",
    "quota",
    "archive",
    "records",
    "session",
    "console_user",
)


@viewer_required
def audit(request: HttpRequest) -> HttpResponse:
    q = request.GET
    outcome = q.get("outcome", "") if q.get("outcome", "") in OUTCOMES else ""
    kind = q.get("kind", "") if q.get("kind", "") in KINDS else ""
    query, by = q.get("q", "").strip(), q.get("actor", "").strip()
    read = partial(changes.change_list, query=query, outcome=outcome, object_kind=kind, actor=by)
    options = list_options(request, "-id")
    if exports.wanted(request):
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
    }
    return render_page(request, "console/audit.html", context, nav="audit")


@viewer_required
def change(request: HttpRequest, change_id: int) -> HttpResponse:
    row = change_marks.change_row(change_id)
    if row is None:
        return not_found(request, _("change {change_id}").format(change_id=change_id), "audit", nav="audit")
    return render_page(
        request, "console/change.html", {"c": row, "diff": difference(row.before, row.after)}, nav="audit"
    )


def difference(before: Any, after: Any) -> list[tuple[str, Any, Any]]:
    """(key, before, after) of each different value, with dotted keys for nested values."""

    def flat(value: Any, name: str = "") -> dict[str, Any]:
        if isinstance(value, dict) and value:
            found: dict[str, Any] = {}
            for key, inner in value.items():
                found |= flat(inner, f"{name}.{key}" if name else str(key))
            return found
        return {} if value is None and not name else {name or "value": value}

    was, now = flat(before), flat(after)
    return [(key, was.get(key), now.get(key)) for key in sorted(was | now) if was.get(key) != now.get(key)]
