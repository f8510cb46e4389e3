"""One change of the limits of several quotas, or of the throttle of several moves: the selected ones, or all of a filter. Form, preview, results."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode
from django.utils.translation import ngettext

from console.bulk_forms import BulkLimitForm, BulkQuotaLimitsForm, BulkThrottleForm, previewed_keys
from console.texts import gettext_lazy
from console.views.bulk_results import BulkResultPage, bulk_result_page
from console.views.shell import actor, operator_required, rejected, render_page, require_role
from controlplane.domain.roles import RoleResource
from controlplane.selectors.bulk_lists import BulkList, keys_of_filter
from controlplane.services import Rejected
from controlplane.services import bulk_limits as services
from controlplane.services.bulk_limits import BulkLimitOutcome, BulkLimitResult, BulkLimitRow

OUTCOMES = (
    (BulkLimitOutcome.DONE, gettext_lazy("Changed"), ""),
    (BulkLimitOutcome.UNCHANGED, gettext_lazy("No change"), ""),
    (BulkLimitOutcome.REJECTED, gettext_lazy("Rejected"), "amber"),
)


@dataclass(frozen=True, slots=True)
class LimitsPage:
    """`back`: URL name of the list and its place in the navigation. `filters`: its query parameters and their names in the filter. `most`: rows of one change.
    `names_of`: the names of the resources whose role is needed. `path`: of the equivalent request."""

    kind: BulkList
    resource: RoleResource
    back: str
    back_title: str
    filters: dict[str, str]
    most: int
    title: str
    form: type[BulkLimitForm]
    preview: Callable[[Sequence[str], Any], list[BulkLimitRow]]
    execute: Callable[..., list[BulkLimitResult]]
    names_of: Callable[[Sequence[BulkLimitRow]], Sequence[str]]
    path: str

    def title_for(self, rows: int) -> str:
        if self.kind is BulkList.MOVES:
            text = ngettext("Change the throttle of {count} move", "Change the throttle of {count} moves", rows)
        else:
            text = ngettext("Change the limits of {count} quota", "Change the limits of {count} quotas", rows)
        return text.format(count=f"{rows:,}")


QUOTAS = LimitsPage(
    BulkList.QUOTAS,
    RoleResource.QUOTA,
    "quotas",
    gettext_lazy("Quotas"),
    {"q": "query", "entity_type": "entity_type"},
    services.ROWS_MAX,
    gettext_lazy("Change the limits of quotas"),
    BulkQuotaLimitsForm,
    services.preview_quotas,
    services.set_quotas,
    lambda rows: [r.name for r in rows],
    "bulk/quota-limits",
)
MOVES = LimitsPage(
    BulkList.MOVES,
    RoleResource.TOPIC,
    "moves",
    gettext_lazy("Moves"),
    {"q": "query", "state": "state"},
    services.MOVES_MAX,
    gettext_lazy("Change the throttle of moves"),
    BulkThrottleForm,
    services.preview_throttles,
    services.throttle_moves,
    lambda rows: services.topics_of_moves([r.key for r in rows]),
    "bulk/move-throttle",
)


@operator_required
def quota_limits(request: HttpRequest) -> HttpResponse:
    return _change_of_filter(request, QUOTAS)


@operator_required
def move_throttles(request: HttpRequest) -> HttpResponse:
    return _change_of_filter(request, MOVES)


def _change_of_filter(request: HttpRequest, page: LimitsPage) -> HttpResponse:
    given = {n: v for n in page.filters if (v := request.GET.get(n, "").strip())}
    back, step = urlencode(given), request.POST.get("step", "")
    form = page.form(request.POST or None)
    value = form.value() if form.is_bound and form.is_valid() else None
    try:
        keys = previewed_keys(request) if step == "apply" else _selected_keys(request, page, given)
        rows = page.preview(keys, form.unchanged if value is None else value)
    except Rejected as error:
        return rejected(request, error, page.back, nav=page.back)
    if rows:
        require_role(request, page.resource, page.names_of(rows))
    reviewed = form.is_bound and not form.errors
    if step == "apply" and reviewed and rows:
        try:
            results = page.execute(keys, value, actor=actor(request), comment=form.cleaned_data["comment"])
        except Rejected as error:
            form.reject(error)
            reviewed = False
        else:
            shown = BulkResultPage(page.back, page.back_title, page.title, gettext_lazy("Name"), OUTCOMES)
            return bulk_result_page(request, shown, results, back)
    affected = [r for r in rows if r.changes and not r.problem]
    context = {
        "p": page,
        "title": page.title_for(len(rows)) if rows else page.title,
        "form": form,
        "rows": rows,
        "reviewed": reviewed,
        "affected": len(affected),
        "keys": json.dumps([r.key for r in affected]),
        "back": back,
        "body": {"names": [r.key for r in affected][:3], **form.body(), "comment": "REASON"} if reviewed else {},
    }
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/bulk_limits.html", context, nav=page.back, status=status)


def _selected_keys(request: HttpRequest, page: LimitsPage, filters: dict[str, str]) -> list[str]:
    """The selected rows, or all of the filter. Raises Rejected for too many."""
    selected = list(dict.fromkeys(request.GET.getlist("key")))
    values = {page.filters[name]: value for name, value in filters.items()}
    if page is MOVES:
        values.setdefault("state", "unfinished")
    return selected or keys_of_filter(page.kind, values, page.most)
