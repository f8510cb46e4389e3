"""Routes: list, one with lag, states and a test of a record, create, edit, delete."""

from __future__ import annotations

import json

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from console.history_charts import page_charts
from console.panels import lazy
from console.route_bindings import rows_of, text_of
from console.route_forms import RouteChangeForm, RouteForm, RouteTestForm
from console.texts import gettext_lazy
from console.views.actions import Deletion, confirm_deletion
from console.views.shell import (
    actor,
    flash,
    list_options,
    not_found,
    operator_required,
    redirect_to,
    rejected,
    render_page,
    viewer_required,
)
from controlplane.selectors import routes, topics
from controlplane.services import Rejected
from controlplane.services import routes as services

EDIT = "bindings-edit"
"""Name of the buttons that add and remove rows of bindings."""
SWITCHES = {
    "stop": (False, "start", gettext_lazy("Route {name} stopped. It keeps its position.")),
    "start": (True, "stop", gettext_lazy("Route {name} started.")),
}
"""(enabled, the reverse operation, the message) by the operation."""
BODY = {
    "name": "NAME",
    "source": "TOPIC",
    "start": "latest",
    "bindings": [{"target": "TOPIC", "match": {"kind": "key", "value": "KEY"}}],
}


@viewer_required
def route_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    found = routes.route_list(query=query, **list_options(request, "name"))
    return render_page(request, "console/routes.html", {"page": found, "q": query}, nav="topics")


@viewer_required
def route(request: HttpRequest, name: str) -> HttpResponse:
    detail = routes.route_detail(name)
    if detail is None:
        return not_found(request, _("route {name}").format(name=name), "routes", nav="topics")
    tested = None
    form = RouteTestForm(request.GET if "key" in request.GET else None)
    if form.is_bound and form.is_valid():
        tested = routes.test_record(name, form.cleaned_data["key"] or None, form.cleaned_data["headers"])
    context = {
        "d": detail,
        "bindings": [text_of(b) for b in detail.bindings],
        "h": lazy(page_charts, request, f"group:{detail.route.group}", "lag_records", "lag_s", "consumed_per_s"),
        "form": form,
        "tested": tested,
        "test_path": f"routes/{name}/test",
        "test_body": {"key": "KEY", "headers": [{"name": "NAME", "value": "VALUE"}]},
    }
    return render_page(request, "console/route.html", context, nav="topics")


@operator_required
def create(request: HttpRequest) -> HttpResponse:
    as_json = _as_json(request)
    form = RouteForm(request.POST or None, as_json=as_json)
    if (button := request.POST.get(EDIT)) and not as_json:
        form.edit_rows(button)
    elif request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            services.create_route(given["name"], form.definition(), actor=actor(request), comment=given["comment"])
        except Rejected as error:
            form.reject(error)
        else:
            flash(request, _("Route {name} created.").format(name=given["name"]))
            return redirect_to("route", given["name"])
    status = 400 if form.is_bound and form.errors else 200
    context = {"form": form, "body": BODY, "topic_names": topics.topic_names()}
    return render_page(request, "console/route_new.html", context, nav="topics", status=status)


def _as_json(request: HttpRequest) -> bool:
    """Return whether the form shows the bindings as JSON, now or after the button that was clicked."""
    if request.method == "POST":
        return "bindings" in request.POST
    return request.GET.get("as") == "json"


@operator_required
def edit(request: HttpRequest, name: str) -> HttpResponse:
    row, definition = routes.route_row(name), routes.route_definition(name)
    if row is None or definition is None:
        return not_found(request, _("route {name}").format(name=name), "routes", nav="topics")
    rows = rows_of(definition["bindings"])
    as_json = _as_json(request) or (rows is None and request.method != "POST")
    initial: dict[str, object] = {
        **{n: definition.get(n, "") for n in ("owner", "description", "principal")},
        "enabled": row.enabled,
        "generation": row.generation,
        "bindings": json.dumps(definition["bindings"], indent=1, ensure_ascii=False) if as_json else rows,
    }
    form = RouteChangeForm(request.POST or None, initial=initial, as_json=as_json)
    if (button := request.POST.get(EDIT)) and not as_json:
        form.edit_rows(button)
    elif request.method == "POST" and form.is_valid():
        try:
            services.change_route(
                name,
                form.definition(),
                actor=actor(request),
                comment=form.cleaned_data["comment"],
                if_generation=form.cleaned_data["generation"],
            )
        except Rejected as error:
            form.reject(error)
        else:
            flash(request, _("Route {name} changed.").format(name=name))
            return redirect_to("route", name)
    context: dict[str, object] = {
        "row": row,
        "form": form,
        "body": {"enabled": not row.enabled, "comment": "REASON"},
        "topic_names": topics.topic_names(),
    }
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/route_edit.html", context, nav="topics", status=status)


@require_POST
@operator_required
def act(request: HttpRequest, name: str, verb: str) -> HttpResponse:
    if routes.route_row(name) is None or verb not in SWITCHES:
        return not_found(request, _("route {name}").format(name=name), "routes", nav="topics")
    enabled, reverse_verb, message = SWITCHES[verb]
    try:
        services.change_route(name, {"enabled": enabled}, actor=actor(request))
    except Rejected as error:
        return rejected(request, error, reverse("route", args=[name]), nav="topics")
    flash(request, message.format(name=name), reverse("route-act", args=[name, reverse_verb]))
    return redirect_to("route", name)


@operator_required
def delete(request: HttpRequest, name: str) -> HttpResponse:
    row = routes.route_row(name)
    if row is None:
        return not_found(request, _("route {name}").format(name=name), "routes", nav="topics")

    def delete_it(comment: str) -> None:
        services.delete_route(name, actor=actor(request), comment=comment)

    deletion = Deletion(
        title=_("Delete route {name}").format(name=name),
        lines=[
            _("Records of {source} are no longer routed to {targets}.").format(
                source=row.source, targets=_(", ").join(row.targets[:5])
            ),
            _("Records in the targets stay. The position is lost."),
        ],
        button=_("Delete the route"),
        back=reverse("route", args=[name]),
        crumb=name,
        path=f"routes/{name}",
        message=_("Route {name} deleted.").format(name=name),
        done="routes",
    )
    return confirm_deletion(request, deletion, delete_it, nav="topics")
