"""Consumer groups: list, one group with lag and members, deletion of an empty group."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from console import exports
from console.address_access import User
from console.forms import DestroyForm
from console.fragments import outcome_label
from console.history_charts import page_charts
from console.next_steps import StepButton, buttons
from console.panels import lazy
from console.states import LAG_STATUSES
from console.views.shell import (
    actor,
    flash,
    list_options,
    not_found,
    operator_required,
    redirect_to,
    render_page,
    viewer_required,
)
from controlplane.selectors import alerts, forecasts, groups, incidents, routes, share_groups
from controlplane.selectors.next_steps import raise_retention
from controlplane.services import Rejected
from controlplane.services import groups as services
from controlplane.services.common import Outcome


@viewer_required
def group_list(request: HttpRequest) -> HttpResponse:
    query, topic = request.GET.get("q", "").strip(), request.GET.get("topic", "").strip()
    read, options = partial(groups.group_list, query=query, topic=topic), list_options(request, "group_id")
    if exports.is_requested(request):
        return exports.response("groups", read, options["sort"])
    found = read(**options)
    empty = groups.empty_group_count(query=query, topic=topic)
    context = {"page": found, "csv": True, "q": query, "topic": topic, "empty": empty}
    return render_page(request, "console/groups.html", context, nav="groups")


TONE_ORDER = {"red": 0, "amber": 1}


def problems_first(rows: Iterable[groups.GroupPartitionRow]) -> list[groups.GroupPartitionRow]:
    """The partitions with lost data, then those with another problem, then the others, each in the given order."""

    def severity(row: groups.GroupPartitionRow) -> int:
        tone = LAG_STATUSES.get(row.status, LAG_STATUSES["unknown"])[1]
        return TONE_ORDER.get(tone, len(TONE_ORDER))

    return sorted(rows, key=severity)


@viewer_required
def group(request: HttpRequest, group_id: str) -> HttpResponse:
    detail = groups.group_detail(group_id)
    if detail is None:
        # A change of group configs does not say which kind of group the name has.
        if share_groups.share_group(group_id).row is not None:
            return redirect_to("share-group", group_id)
        return not_found(request, _("group {group_id}").format(group_id=group_id), "groups", nav="groups")
    charts = lazy(page_charts, request, f"group:{group_id}", "lag_records", "lag_s", "consumed_per_s")
    forecast = lazy(forecasts.forecast_of, f"group:{group_id}", "lag_records")
    context = {
        "g": detail,
        "partitions": problems_first(detail.partitions),
        "h": charts,
        "forecast": forecast,
        "alerts": lazy(lambda: incidents.with_incident_severity(alerts.open_alerts_of_group(group_id))),
        "route": routes.route_of_group(group_id),
        "steps": _retention_steps(detail.row, request.user),
    }
    return render_page(request, "console/group.html", context, nav="groups")


def _retention_steps(row: groups.GroupRow, user: User) -> list[StepButton]:
    """The form of the retention of the topic whose unread records will be deleted first."""
    if row.retention_in_s is None or not row.retention_partition:
        return []
    return list(buttons(raise_retention(row.retention_partition.rpartition("-")[0]), user))


@operator_required
def delete(request: HttpRequest, group_id: str) -> HttpResponse:
    detail = groups.group_detail(group_id)
    if detail is None:
        return not_found(request, _("group {group_id}").format(group_id=group_id), "groups", nav="groups")
    form = DestroyForm(group_id, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            outcome = services.delete_group(group_id, actor=actor(request), comment=form.cleaned_data["comment"])
        except Rejected as error:
            form.reject(error)
        else:
            flash(
                request,
                _("Group {group_id} deleted.").format(group_id=group_id)
                if outcome == Outcome.CONFIRMED
                else _("Group {group_id}: {outcome}.").format(group_id=group_id, outcome=outcome_label(outcome)),
            )
            return redirect_to("groups")
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/group_delete.html", {"g": detail, "form": form}, nav="groups", status=status)
