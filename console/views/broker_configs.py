"""Settings of a broker: the list with sources, compared with another broker, and the change of a dynamic one with its review."""

from __future__ import annotations

import json

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from console.config_forms import CLUSTER_SCOPE, BrokerConfigForm
from console.panels import lazy
from console.views.shell import (
    actor,
    flash,
    not_found,
    operator_required,
    redirect_to,
    render_page,
    require_role,
    viewer_required,
)
from controlplane.domain.roles import ALL_BROKERS, RoleResource
from controlplane.selectors import broker_configs as selectors
from controlplane.selectors.brokers import visible_brokers
from controlplane.services import Rejected
from controlplane.services import broker_configs as services

CHOICES = tuple(c.value for c in selectors.BrokerConfigChoice)


@viewer_required
def config_list(request: HttpRequest, broker_id: int) -> HttpResponse:
    other, only = request.GET.get("other", ""), request.GET.get("only", "")
    query = request.GET.get("q", "").strip()
    found = selectors.broker_configs(
        broker_id,
        other_id=int(other) if other.isascii() and other.isdigit() and len(other) < 10 else None,
        query=query,
        only=only if only in CHOICES else "",
    )
    if found is None:
        return not_found(request, _("broker {broker_id}").format(broker_id=broker_id), "brokers", nav="brokers")
    others = [b.broker_id for b in visible_brokers() if b.broker_id != broker_id]
    context = {"c": found, "q": query, "only": only, "others": others, "other": other}
    return render_page(request, "console/broker_configs.html", context, nav="brokers")


@operator_required
def edit(request: HttpRequest, broker_id: int) -> HttpResponse:
    """The form, then the review. The second step applies only to the values that the first step has read."""
    if not any(b.broker_id == broker_id for b in visible_brokers()):
        return not_found(request, _("broker {broker_id}").format(broker_id=broker_id), "brokers", nav="brokers")
    first = {n: request.GET[n] for n in ("name", "value", "scope") if n in request.GET}
    form = BrokerConfigForm(broker_id, request.POST or None, initial=first)
    name = str(form["name"].value() or "")
    context: dict[str, object] = {
        "broker_id": broker_id,
        "form": form,
        "body": {"configs": {"NAME": "VALUE"}},
        "name": name,
        "now": lazy(selectors.broker_config, broker_id, name),
    }
    if request.method != "POST" or not form.is_valid():
        status = 400 if form.is_bound else 200
        return render_page(request, "console/broker_config_edit.html", context, nav="brokers", status=status)
    scope = services.CLUSTER_WIDE if form.cleaned_data["scope"] == CLUSTER_SCOPE else broker_id
    require_role(request, RoleResource.BROKER, [ALL_BROKERS if scope == services.CLUSTER_WIDE else str(broker_id)])
    try:
        if request.POST.get("step") != "apply":
            changes = services.preview_change(scope, form.configs())
            reviewed = {c.name: c.now for c in changes}
            more = {
                "changes": changes,
                "reviewed": json.dumps(reviewed),
                "cluster_wide": scope == services.CLUSTER_WIDE,
                "body": {
                    "configs": form.configs(),
                    "cluster_wide": scope == services.CLUSTER_WIDE,
                    "comment": form.cleaned_data["comment"],
                },
            }
            return render_page(request, "console/broker_config_review.html", {**context, **more}, nav="brokers")
        services.alter_configs(
            scope,
            form.configs(),
            actor=actor(request),
            comment=form.cleaned_data["comment"],
            reviewed=reviewed_values(request.POST.get("reviewed", "")),
        )
    except Rejected as error:
        form.reject(error)
        return render_page(request, "console/broker_config_edit.html", context, nav="brokers", status=400)
    flash(request, _("{name} changed. Brokers apply it within a second.").format(name=form.cleaned_data["name"]))
    return redirect_to("broker-configs", broker_id, q=form.cleaned_data["name"])


def reviewed_values(text: str) -> dict[str, str | None]:
    """The values that the review showed. Raises Rejected if the form has none."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Rejected(_("The form has no reviewed change. Enter it again."))
    return found
