"""Deletion of several quotas or SCRAM users: the selected ones, or all of a filter. A preview, then the results.

Invariant: without a filter nothing is deleted. "All of the filter" would be every row of the cluster.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode

from console.bulk_forms import previewed_keys
from console.forms import DestroyForm
from console.texts import gettext_lazy
from console.views.bulk_results import BulkResultPage, bulk_result_page, filter_needed
from console.views.shell import actor, operator_required, rejected, render_page, require_role
from controlplane.domain.roles import RoleResource
from controlplane.selectors import quotas, users
from controlplane.services import Rejected
from controlplane.services import bulk_access as services
from controlplane.services.bulk_access import BulkAccessKind, BulkAccessOutcome, BulkAccessRow


@dataclass(frozen=True, slots=True)
class BulkPage:
    """`back`: the URL name of the list and its place in the navigation. `filters`: its query parameters. `path`: REST path of one deletion."""

    kind: BulkAccessKind
    resource: RoleResource
    back: str
    back_title: str
    filters: tuple[str, ...]
    path: str
    title: str
    number: str
    effect: str
    button: str


QUOTAS = BulkPage(
    BulkAccessKind.QUOTAS,
    RoleResource.QUOTA,
    "quotas",
    gettext_lazy("Quotas"),
    ("q", "entity_type"),
    "quotas/",
    gettext_lazy("Delete quotas"),
    gettext_lazy("Number of quotas"),
    gettext_lazy("Less specific quotas apply to these clients afterwards."),
    gettext_lazy("Delete the quotas"),
)
USERS = BulkPage(
    BulkAccessKind.USERS,
    RoleResource.USER,
    "users",
    gettext_lazy("SCRAM users"),
    ("q", "mechanism"),
    "users/",
    gettext_lazy("Delete SCRAM users"),
    gettext_lazy("Number of users"),
    gettext_lazy("Clients of these users cannot log in any more. Their ACLs and quotas stay."),
    gettext_lazy("Delete the users"),
)


OUTCOMES = (
    (BulkAccessOutcome.DONE, gettext_lazy("Deleted"), ""),
    (BulkAccessOutcome.REJECTED, gettext_lazy("Rejected"), "amber"),
)


@operator_required
def quotas_of_filter(request: HttpRequest) -> HttpResponse:
    return _delete_of_filter(request, QUOTAS)


@operator_required
def users_of_filter(request: HttpRequest) -> HttpResponse:
    return _delete_of_filter(request, USERS)


def _delete_of_filter(request: HttpRequest, page: BulkPage) -> HttpResponse:
    given = {n: v for n in page.filters if (v := request.GET.get(n, "").strip())}
    back = urlencode(given)
    try:
        keys = previewed_keys(request) if request.method == "POST" else _selected_keys(request, page, given)
        rows = services.preview(page.kind, keys)
    except Rejected as error:
        return rejected(request, error, page.back, nav=page.back)
    if rows:
        require_role(request, page.resource, [row.name for row in rows])
    form = DestroyForm(str(len(rows)), request.POST or None)
    form.fields["confirm_name"].label = page.number
    if request.method == "POST" and rows and form.is_valid():
        return _result(request, page, rows, form, back)
    context = {
        "p": page,
        "form": form,
        "rows": rows,
        "count": len(rows),
        "keys": json.dumps([row.key for row in rows]),
        "back": back,
        "path": f"{page.path}{rows[0].key}" if rows else "",
    }
    status = 400 if form.is_bound else 200
    return render_page(request, "console/bulk_access.html", context, nav=page.back, status=status)


def _result(
    request: HttpRequest, page: BulkPage, rows: list[BulkAccessRow], form: DestroyForm, back: str
) -> HttpResponse:
    keys, comment = [row.key for row in rows], form.cleaned_data["comment"]
    results = services.delete(page.kind, keys, actor=actor(request), comment=comment)
    shown = BulkResultPage(page.back, page.back_title, page.title, gettext_lazy("Name"), OUTCOMES)
    return bulk_result_page(request, shown, results, back)


def _selected_keys(request: HttpRequest, page: BulkPage, filters: dict[str, str]) -> list[str]:
    """The selected rows, or all of the filter, one more than the limit at most. Raises Rejected without a filter."""
    selected = list(dict.fromkeys(request.GET.getlist("key")))
    if selected:
        return selected
    if not filters:
        raise filter_needed()
    query, most = filters.get("q", ""), services.ROWS_MAX
    if page.kind is BulkAccessKind.QUOTAS:
        kind = filters.get("entity_type", "")
        pages = quotas.quota_list(query=query, entity_type=kind, per_page=most)
        return [str(row.id) for row in pages.rows] if pages.total <= most else ["0"] * pages.total
    found = users.user_list(query=query, mechanism=filters.get("mechanism", ""), per_page=most)
    return [row.name for row in found.rows] if found.total <= most else [""] * found.total
