"""Share groups: list, one group with its members and partitions, deletion of a group without members."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from console.forms import DestroyForm
from console.fragments import outcome_label
from console.history_charts import page_charts
from console.panels import lazy
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
from controlplane.selectors import alerts, incidents, topics
from controlplane.selectors import share_groups as selectors
from controlplane.services import Rejected
from controlplane.services import share_groups as services
from controlplane.services.common import Outcome


@viewer_required
def share_group_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    found = selectors.share_group_list(query=query, **list_options(request, "group_id"))
    context = {"page": found, "found": found, "q": query}
    return render_page(request, "console/share_groups.html", context, nav="groups")


@viewer_required
def share_group(request: HttpRequest, group_id: str) -> HttpResponse:
    found = selectors.share_group(group_id)
    if _absent(found):
        return not_found(request, _("share group “{group_id}”").format(group_id=group_id), "share-groups", nav="groups")
    charts = lazy(page_charts, request, f"share_group:{group_id}", "lag_records", "lag_s", "member_count")
    context = {
        "g": found,
        "h": charts,
        "alerts": lazy(lambda: incidents.with_incident_severity(alerts.open_alerts_of_group(group_id))),
        "letters_missing": bool(found.dead_letter_topic) and topics.topic_row(found.dead_letter_topic) is None,
    }
    return render_page(request, "console/share_group.html", context, nav="groups")


@operator_required
def delete(request: HttpRequest, group_id: str) -> HttpResponse:
    found = selectors.share_group(group_id)
    if _absent(found):
        return not_found(request, _("share group “{group_id}”").format(group_id=group_id), "share-groups", nav="groups")
    form = DestroyForm(group_id, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            outcome = services.delete_share_group(group_id, actor=actor(request), comment=form.cleaned_data["comment"])
        except Rejected as error:
            form.reject(error)
        else:
            done = "deleted" if outcome == Outcome.CONFIRMED else outcome_label(outcome)
            flash(request, _("Share group {group_id}: {done}.").format(group_id=group_id, done=done))
            return redirect_to("share-groups")
    status = 400 if form.is_bound and form.errors else 200
    # No row while the coordinator does not respond.
    lag = found.row.lag_records if found.row else None
    context = {"g": found, "form": form, "lag": lag}
    return render_page(request, "console/share_group_delete.html", context, nav="groups", status=status)


def _absent(group: selectors.ShareGroupDetail) -> bool:
    """Return whether every coordinator answered and none of them has the group."""
    return group.row is None and not group.brokers_silent and not group.offline_partitions
