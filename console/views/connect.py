"""Kafka Connect: clusters and connectors, one connector, create, change, pause, resume, stop, restart, delete. Cluster and name are query parameters,
because the name of a connector may have a slash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from console.connect_forms import ConnectorForm, RestartConnectorForm, given_config
from console.forms import DestroyForm, ReasonForm
from console.texts import gettext_lazy
from console.views.shell import (
    actor,
    flash,
    list_options,
    not_found,
    operator_required,
    rejected,
    render_page,
    viewer_required,
)
from console.vocabulary import rejection_text
from controlplane.selectors import connect as selectors
from controlplane.services import Rejected
from controlplane.services import connect as services

NAV = "connect"
STATES = {
    "": gettext_lazy("All"),
    "failed": gettext_lazy("With failures"),
    "paused": gettext_lazy("Paused"),
    "stopped": gettext_lazy("Stopped"),
    "unassigned": gettext_lazy("Unassigned"),
}


@viewer_required
def connector_list(request: HttpRequest) -> HttpResponse:
    given = {name: request.GET.get(name, "").strip() for name in ("q", "cluster", "state")}
    found = selectors.connector_list(
        query=given["q"], cluster=given["cluster"], state=given["state"], **list_options(request, "state")
    )
    context = {
        "page": found,
        **given,
        "states": STATES,
        "problems": [c for c in found.clusters if c.problem],
        "elsewhere": [c.name for c in found.clusters if c.is_this_cluster is False],
    }
    return render_page(request, "console/connect.html", context, nav=NAV)


@viewer_required
def connector(request: HttpRequest) -> HttpResponse:
    cluster, name = _cluster_and_name(request)
    try:
        found = selectors.connector_detail(cluster, name)
    except Rejected as error:
        return rejected(request, error, "connect", nav=NAV)
    if found is None:
        return _missing(request, name)
    context = {"d": found, "rest": f"connectors/connector?{_query(cluster, name)}", "query": _query(cluster, name)}
    return render_page(request, "console/connector.html", context, nav=NAV)


@operator_required
def create(request: HttpRequest) -> HttpResponse:
    """First the cluster and the class of the connector, then its configs."""
    cluster = request.GET.get("cluster") or next(iter(selectors.cluster_names()), "")
    class_name = request.GET.get("class", "")
    try:
        if not class_name:
            plugins = selectors.plugin_list(cluster) if cluster else []
            context = {"cluster": cluster, "clusters": selectors.cluster_names(), "plugins": plugins}
            return render_page(request, "console/connector_new.html", context, nav=NAV)
        return _form_page(request, cluster, "", {services.CLASS: class_name}, version="")
    except Rejected as error:
        return rejected(request, error, "connect", nav=NAV)


@operator_required
def edit(request: HttpRequest) -> HttpResponse:
    cluster, name = _cluster_and_name(request)
    try:
        found = selectors.connector_detail(cluster, name)
        if found is None:
            return _missing(request, name)
        return _form_page(request, cluster, name, {c.name: c.value for c in found.config}, version=found.version)
    except Rejected as error:
        return rejected(request, error, "connect", nav=NAV)


def _form_page(request: HttpRequest, cluster: str, name: str, config: dict[str, str], *, version: str) -> HttpResponse:
    """The form of a new connector (`name` "") or of an existing one. `config`: its values before the form is sent."""
    class_name, checked, problem = config.get(services.CLASS, ""), None, ""
    if request.method == "POST":
        form, checked = _validated_form(request, cluster, name, class_name)
        if form.is_valid() and request.POST.get("step") != "check":
            v = form.cleaned_data
            chosen, sent = name or v["name"], {services.CLASS: class_name, **given_config(request.POST)[0]}
            who = {"actor": actor(request), "comment": v["comment"]}
            try:
                if name:
                    services.change_connector(cluster, chosen, sent, version=v["version"], **who)
                else:
                    services.create_connector(cluster, chosen, sent, **who)
            except Rejected as error:
                form.reject(error)
            else:
                done = _("Config of {name} changed.") if name else _("Connector {name} created.")
                flash(request, done.format(name=chosen))
                return _to_connector(cluster, chosen)
    else:
        fields, problem = _fields(cluster, config, name)
        form = ConnectorForm(fields, config, is_new=not name, initial={"version": version})
    context: dict[str, object] = {
        "form": form,
        "cluster": cluster,
        "name": name,
        "class_name": class_name,
        "checked": checked,
        "problem": problem,
        "back": _page(cluster, name) if name else reverse("connect"),
        "rest": "connectors/change" if name else "connectors/create",
        "body": {
            "cluster": cluster,
            "name": name or "NAME",
            "config": {services.CLASS: class_name, "tasks.max": "1"},
            "comment": "REASON",
        },
    }
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/connector_edit.html", context, nav=NAV, status=status)


def _validated_form(
    request: HttpRequest, cluster: str, name: str, class_name: str
) -> tuple[ConnectorForm, services.ConnectorValidation | None]:
    """(form with all errors of the workers next to their fields, the validation, None if the workers could not validate)."""
    config, problems = given_config(request.POST)
    complete = {services.CLASS: class_name, **config}
    checked, rejection = None, None
    try:
        # A missing name is an error of the form. It must not hide those of the configs.
        checked = services.validate_config(cluster, name or request.POST.get("name", "").strip() or "NAME", complete)
    except Rejected as error:
        rejection = error
    fields = checked.fields if checked else _fields(cluster, complete, name)[0]
    form = ConnectorForm(fields, complete, request.POST, is_new=not name)
    if request.POST.get("step") == "check":
        form.fields["comment"].required = False
    form.is_valid()
    for problem in problems:
        form.add_error("extra", problem)
    if rejection and not (rejection.field == "name" and "name" in form.errors):
        form.reject(rejection)
    for f in checked.fields if checked else ():
        for text in f.errors:
            form.add_config_error(f.name, text)
    return form, checked


def _fields(cluster: str, config: dict[str, str], name: str) -> tuple[list[services.ConnectorConfigField], str]:
    """(definitions of the plugin, why there are none). Without them the form has the set configs as lines."""
    try:
        return services.connector_fields(cluster, config, name), ""
    except Rejected as error:
        return [], rejection_text(error)


@operator_required
def act(request: HttpRequest, verb: str) -> HttpResponse:
    """Pause, resume, or restart one task: they are reversible, so they need no confirmation."""
    cluster, name = _cluster_and_name(request)
    task = request.GET.get("task", "")
    who = {"actor": actor(request)}
    acts: dict[str, tuple[Callable[[], None], str, str]] = {
        "pause": (lambda: services.pause_connector(cluster, name, **who), _("Connector {name} paused."), "resume"),
        "resume": (lambda: services.resume_connector(cluster, name, **who), _("Connector {name} resumed."), "pause"),
    }
    if task.isascii() and task.isdigit() and len(task) < 10:
        restarted = _("Task {task} of {name} restarts.").format(task=task, name="{name}")
        acts["restart-task"] = (lambda: services.restart_task(cluster, name, int(task), **who), restarted, "")
    if verb not in acts:
        return not_found(request, _("operation {name}").format(name=verb), "connect", nav=NAV)
    if request.method != "POST":
        return _to_connector(cluster, name)
    service, message, undo = acts[verb]
    try:
        service()
    except Rejected as error:
        return rejected(request, error, "connect", nav=NAV)
    back = f"{reverse('connector-act', args=[undo])}?{_query(cluster, name)}" if undo else ""
    flash(request, message.replace("{name}", name), back)
    return _to_connector(cluster, name)


@operator_required
def stop(request: HttpRequest) -> HttpResponse:
    cluster, name = _cluster_and_name(request)
    return _confirm(
        request,
        cluster,
        name,
        ReasonForm(request.POST or None),
        lambda v: services.stop_connector(cluster, name, actor=actor(request), comment=v["comment"]),
        title=_("Stop connector {name}").format(name=name),
        lines=[
            _("Its tasks end and free their connections and memory. No record is read or written."),
            _("Config and offsets stay. Resume starts it where it stopped."),
        ],
        button=_("Stop connector"),
        message=_("Connector {name} stopped.").format(name=name),
        operation="connectors/stop",
    )


@operator_required
def restart(request: HttpRequest) -> HttpResponse:
    cluster, name = _cluster_and_name(request)
    return _confirm(
        request,
        cluster,
        name,
        RestartConnectorForm(request.POST or None),
        lambda v: services.restart_connector(cluster, name, actor=actor(request), **v),
        title=_("Restart connector {name}").format(name=name),
        lines=[
            _(
                "The restarted tasks read and write no records for some seconds. They continue at their last committed offsets."
            )
        ],
        button=_("Restart connector"),
        message=_("Connector {name} restarts.").format(name=name),
        operation="connectors/restart",
        body={"include_tasks": True, "only_failed": True},
    )


@operator_required
def delete(request: HttpRequest) -> HttpResponse:
    cluster, name = _cluster_and_name(request)
    return _confirm(
        request,
        cluster,
        name,
        DestroyForm(name, request.POST or None),
        lambda v: services.delete_connector(cluster, name, actor=actor(request), comment=v["comment"]),
        title=_("Delete connector {name}").format(name=name),
        lines=[
            _(
                "Its tasks end and its config is deleted. The config has secrets that cannot be read here: keep a copy of them."
            ),
            _("Topics and records stay. A new connector of this name continues at the offsets of this one."),
        ],
        button=_("Delete connector {name}").format(name=name),
        message=_("Connector {name} deleted.").format(name=name),
        operation="connectors/delete",
        type_name=name,
    )


def _confirm(
    request: HttpRequest,
    cluster: str,
    name: str,
    form: forms.Form,
    service: Callable[[dict[str, Any]], None],
    *,
    title: str,
    lines: list[str],
    button: str,
    message: str,
    operation: str,
    type_name: str = "",
    body: dict[str, object] | None = None,
) -> HttpResponse:
    """The page of an operation with its effects, and its execution. `service` gets the cleaned form and raises Rejected."""
    if request.method == "POST" and form.is_valid():
        try:
            service(form.cleaned_data)
        except Rejected as error:
            form.reject(error)  # type: ignore[attr-defined]
        else:
            flash(request, message)
            return HttpResponseRedirect(reverse("connect")) if type_name else _to_connector(cluster, name)
    context = {
        "form": form,
        "title": title,
        "lines": lines,
        "button": button,
        "type_name": type_name,
        "kind": "fatal" if type_name else "primary",
        "cluster": cluster,
        "name": name,
        "back": _page(cluster, name),
        "rest": operation,
        "body": {"cluster": cluster, "name": name, **(body or {}), "comment": "REASON"},
    }
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/connector_confirm.html", context, nav=NAV, status=status)


def _cluster_and_name(request: HttpRequest) -> tuple[str, str]:
    return request.GET.get("cluster", ""), request.GET.get("name", "")


def _missing(request: HttpRequest, name: str) -> HttpResponse:
    return not_found(request, _("connector {name}").format(name=name), "connect", nav=NAV)


def _query(cluster: str, name: str) -> str:
    return urlencode({"cluster": cluster, "name": name})


def _page(cluster: str, name: str) -> str:
    return f"{reverse('connector')}?{_query(cluster, name)}"


def _to_connector(cluster: str, name: str) -> HttpResponseRedirect:
    return HttpResponseRedirect(_page(cluster, name))
