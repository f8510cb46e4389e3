"""Deletion of several empty consumer groups: the selected ones, or all of a filter. A preview, then the results.

Invariant: without a filter nothing is deleted. A group whose consumers are stopped is empty, too, and loses its offsets.
"""

from __future__ import annotations

import json

from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from console.forms import DestroyForm
from console.texts import gettext_lazy
from console.views.bulk_results import BulkResultPage, bulk_result_page, filter_needed
from console.views.shell import actor, operator_required, rejected, render_page, require_role
from controlplane.domain.roles import RoleResource
from controlplane.selectors import groups
from controlplane.services import Rejected
from controlplane.services import bulk_groups as services
from controlplane.services.bulk_groups import GroupOutcome

RESULT = BulkResultPage(
    "groups",
    gettext_lazy("Groups"),
    gettext_lazy("Result of the deletion of groups"),
    gettext_lazy("Group"),
    (
        (GroupOutcome.DONE, gettext_lazy("Deleted"), ""),
        (GroupOutcome.UNKNOWN, gettext_lazy("Unknown"), "amber"),
        (GroupOutcome.REJECTED, gettext_lazy("Rejected"), "amber"),
    ),
)


@operator_required
def delete_of_filter(request: HttpRequest) -> HttpResponse:
    back = urlencode(_filter(request))
    try:
        rows = services.preview(_selected_groups(request))
    except Rejected as error:
        return rejected(request, error, "groups", nav="groups")
    empty = [r.group_id for r in rows if not r.members]
    if empty:
        require_role(request, RoleResource.GROUP, empty)
    previewed = _groups_of_preview(request) if request.method == "POST" else empty
    form = DestroyForm(str(len(previewed)), request.POST or None)
    form.fields["confirm_name"].label = _("Number of groups")
    if request.method == "POST":
        if previewed:
            require_role(request, RoleResource.GROUP, previewed)
        if form.is_valid():
            try:
                results = services.delete_groups(previewed, actor=actor(request), comment=form.cleaned_data["comment"])
            except Rejected as error:
                form.reject(error)
            else:
                return bulk_result_page(request, RESULT, results, back)
    chosen = set(previewed)
    context = {
        "form": form,
        "rows": [(r, r.group_id in chosen) for r in rows],
        "count": len(previewed),
        "offsets": sum(r.offsets for r in rows if r.group_id in chosen),
        "groups": json.dumps(previewed),
        "back": back,
        "path": f"groups/{previewed[0]}" if previewed else "",
    }
    status = 400 if form.is_bound else 200
    return render_page(request, "console/bulk_groups.html", context, nav="groups", status=status)


def _filter(request: HttpRequest) -> dict[str, str]:
    """The filter of the list of groups, from the query string."""
    given = {name: request.GET.get(name, "").strip() for name in ("q", "topic")}
    return {name: value for name, value in given.items() if value}


def _selected_groups(request: HttpRequest) -> list[str]:
    """The selected groups, or all of the filter, one more than the limit at most. Raises Rejected without a filter."""
    selected = list(dict.fromkeys(request.GET.getlist("g")))
    if selected:
        return selected
    given = _filter(request)
    if not given:
        raise filter_needed()
    found = groups.group_list(query=given.get("q", ""), topic=given.get("topic", ""), per_page=services.GROUPS_MAX + 1)
    return [row.group_id for row in found.rows]


def _groups_of_preview(request: HttpRequest) -> list[str]:
    """The groups of the preview that was shown, which a later comparison with the filter cannot extend."""
    try:
        given = json.loads(request.POST.get("groups", ""))
    except ValueError:
        return []
    return [g for g in given if isinstance(g, str)] if isinstance(given, list) else []
