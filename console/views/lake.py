"""The lake: its tables, one table with columns, snapshots and files, and the query box."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from console.spark_job_forms import LakeQueryForm
from console.views.shell import actor, not_found, operator_required, rejected, render_page, viewer_required
from controlplane.selectors import lake as selectors
from controlplane.services import Rejected
from controlplane.services import lake as services

NAV = "lake"


@viewer_required
def tables(request: HttpRequest) -> HttpResponse:
    try:
        context = {"tables": selectors.tables(), "unavailable": ""}
    except selectors.LakeUnavailable as e:
        context = {"tables": [], "unavailable": str(e)}
    return render_page(request, "console/lake.html", context, nav=NAV)


@viewer_required
def table(request: HttpRequest, namespace: str, name: str) -> HttpResponse:
    try:
        found = selectors.table(namespace, name)
    except selectors.LakeUnavailable as e:
        return rejected(request, Rejected(str(e)), request.path, nav=NAV)
    if found is None:
        return not_found(request, _("table {namespace}.{name}").format(namespace=namespace, name=name), "lake", nav=NAV)
    return render_page(request, "console/lake_table.html", {"d": found, "t": found.table}, nav=NAV)


@operator_required
def query(request: HttpRequest) -> HttpResponse:
    form = LakeQueryForm(request.POST or None, initial={"sql": request.GET.get("sql", "")})
    result = None
    if request.method == "POST" and form.is_valid():
        try:
            result = services.query_lake(form.cleaned_data["sql"], actor=actor(request))
        except Rejected as error:
            form.reject(error)
    status = 400 if form.is_bound and (form.errors or (result and result.error)) else 200
    body = {"sql": str(form["sql"].value() or "SELECT 1")}
    context = {"form": form, "result": result, "body": body}
    return render_page(request, "console/lake_query.html", context, nav=NAV, status=status)
