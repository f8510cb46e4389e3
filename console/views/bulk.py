"""Bulk operations: one change of all topics of a filter, or of the selected ones. Three steps: the change, its preview, its results."""

from __future__ import annotations

import json

from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from console.bulk_forms import BulkApplyForm, BulkTopicForm
from console.texts import counted, gettext_lazy
from console.views.bulk_results import BulkResultPage, bulk_result_page, filter_needed
from console.views.shell import actor, flash, operator_required, redirect_to, rejected, render_page, require_role
from controlplane.domain.roles import RoleResource
from controlplane.selectors.bulk_lists import BulkList, TooManyRows, keys_of_filter
from controlplane.services import Rejected, bulk_alerts
from controlplane.services import bulk_topics as services
from controlplane.services.bulk_topics import BulkOperation, BulkOutcome

RESULT = BulkResultPage(
    "topics",
    gettext_lazy("Topics"),
    gettext_lazy("Result of the change of topics"),
    gettext_lazy("Topic"),
    (
        (BulkOutcome.REQUESTED, gettext_lazy("Requested"), ""),
        (BulkOutcome.UNCHANGED, gettext_lazy("No change"), ""),
        (BulkOutcome.REJECTED, gettext_lazy("Rejected"), "amber"),
    ),
    row_url="topic",
    note=gettext_lazy("The controller applies the requested changes now. The audit log has the outcome of each."),
)
ROWS_SHOWN_MAX = 200
"""Maximum number of topics of a preview that the page lists; it counts the rest."""


@operator_required
def topics_of_filter(request: HttpRequest) -> HttpResponse:
    names, problem = _selected_topics(request)
    if names:
        require_role(request, RoleResource.TOPIC, names)
    step = request.POST.get("step", "")
    form = BulkApplyForm(request.POST) if step == "apply" else BulkTopicForm(request.POST or None)
    context: dict[str, object] = {
        "count": len(names),
        "selected": bool(request.GET.getlist("t")),
        "problem": problem,
        "filter": _filter(request),
        "back": urlencode(_filter(request)),
        "form": form,
    }
    if request.method == "POST" and form.is_valid() and not problem:
        if not _has_choice(request) and form.cleaned_data["change"].operation is BulkOperation.DELETE:
            return rejected(request, filter_needed(), "topics", nav="topics")
        if isinstance(form, BulkApplyForm):
            return _apply(request, form, context)
        return _preview(request, form, names, context)
    if step == "apply" and "topics" in form.cleaned_data and "change" in form.cleaned_data:
        # A wrong confirmation: the preview again, with the error.
        return _preview(request, form, list(form.cleaned_data["topics"]), context, status=400)
    status = 400 if form.is_bound else 200
    return render_page(request, "console/bulk_topics.html", context, nav="topics", status=status)


def _preview(
    request: HttpRequest, form: BulkTopicForm, names: list[str], context: dict[str, object], status: int = 200
) -> HttpResponse:
    change = form.cleaned_data["change"]
    try:
        rows = services.preview(names, change)
    except Rejected as error:
        form.reject(error)
        return render_page(request, "console/bulk_topics.html", context, nav="topics", status=409)
    deletes = change.operation is BulkOperation.DELETE
    affected = [r for r in rows if not r.problem and (deletes or r.changes)]
    context |= {
        "rows": rows[:ROWS_SHOWN_MAX],
        "more": max(0, len(rows) - ROWS_SHOWN_MAX),
        "affected": len(affected),
        "rejected": sum(1 for r in rows if r.problem),
        "unchanged": sum(1 for r in rows if not r.problem and not deletes and not r.changes),
        "records": sum(r.records or 0 for r in affected),
        "deletes": deletes,
        "chosen": json.dumps({r.name: r.generation for r in affected}),
        "example": affected[0].name if affected else "",
        "body": {"configs": {**change.set_configs, **dict.fromkeys(change.delete_configs)}},
    }
    return render_page(request, "console/bulk_topics_preview.html", context, nav="topics", status=status)


def _apply(request: HttpRequest, form: BulkApplyForm, context: dict[str, object]) -> HttpResponse:
    v = form.cleaned_data
    require_role(request, RoleResource.TOPIC, list(v["topics"]))
    try:
        results = services.execute(v["topics"], v["change"], actor=actor(request), comment=v["comment"])
    except Rejected as error:
        form.reject(error)
        return render_page(request, "console/bulk_topics.html", context, nav="topics", status=409)
    order = sorted(results, key=lambda r: (r.outcome is not BulkOutcome.REJECTED, r.name))
    return bulk_result_page(request, RESULT, order, urlencode(_filter(request)))


@require_POST
@operator_required
def acknowledge_alerts(request: HttpRequest) -> HttpResponse:
    """Acknowledge the selected alerts. No review: an acknowledgement changes nothing in the cluster and can be withdrawn."""
    results = bulk_alerts.acknowledge(request.POST.getlist("a")[: bulk_alerts.ALERTS_MAX], actor=actor(request))
    rejected = [r.detail for r in results if r.detail]
    done = len(results) - len(rejected)
    flash(
        request,
        _("{done} acknowledged.").format(done=counted(done, "alert"))
        + (
            _(" {rejected} not: {rejected_2}").format(rejected=len(rejected), rejected_2=rejected[0])
            if rejected
            else ""
        ),
    )
    return redirect_to("alerts")


def _filter(request: HttpRequest) -> dict[str, str]:
    """The filter of the list of topics, from the query string."""
    given = {name: request.GET.get(name, "").strip() for name in ("q", "state", "internal")}
    return {name: value for name, value in given.items() if value}


def _has_choice(request: HttpRequest) -> bool:
    """Topics are selected, or the filter excludes some. The parameter `internal` adds topics."""
    return bool(request.GET.getlist("t")) or bool(_filter(request).keys() - {"internal"})


def _selected_topics(request: HttpRequest) -> tuple[list[str], str]:
    """(names of the selected topics, or of all pages of the filter, why they cannot be changed together or "")."""
    selected = list(dict.fromkeys(request.GET.getlist("t")))
    if selected:
        return selected, ""
    chosen = _filter(request)
    values = {"query": chosen.get("q", ""), "state": chosen.get("state", ""), "internal": chosen.get("internal") == "1"}
    try:
        names = keys_of_filter(BulkList.TOPICS, values, services.TOPICS_MAX)
    except TooManyRows as error:
        return [], _(
            "The filter has {total:,} topics. A bulk operation has at most {topics_max:,}: narrow the filter."
        ).format(total=error.total, topics_max=error.most)
    return names, "" if names else _("No topic matches the filter.")
