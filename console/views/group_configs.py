"""Configs of a group: the list with the values of the group and the defaults, and the change of a config with its review."""

from __future__ import annotations

import json

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from console.config_forms import GroupConfigForm
from console.views.broker_configs import reviewed_values
from console.views.shell import actor, flash, operator_required, redirect_to, render_page, viewer_required
from controlplane.domain.group_config import kind_of
from controlplane.selectors import group_configs as selectors
from controlplane.services import Rejected
from controlplane.services import group_configs as services

CHOICES = tuple(c.value for c in selectors.GroupConfigChoice)


@viewer_required
def config_list(request: HttpRequest, group_id: str) -> HttpResponse:
    only, query = request.GET.get("only", ""), request.GET.get("q", "").strip()
    choice = selectors.GroupConfigChoice(only if only in CHOICES else "")
    found = selectors.group_configs(group_id)
    context = {
        "c": found,
        "rows": selectors.filter_configs(found.configs, choice, query),
        "q": query,
        "only": choice,
    }
    return render_page(request, "console/group_configs.html", context, nav="groups")


@operator_required
def edit(request: HttpRequest, group_id: str) -> HttpResponse:
    """The form, then the review. The second step applies only to the values that the first step has read."""
    first = {n: request.GET[n] for n in ("name", "value") if n in request.GET}
    form = GroupConfigForm(request.POST or None, initial=first)
    context: dict[str, object] = {"group_id": group_id, "form": form, "body": {"configs": {"NAME": "VALUE"}}}
    if request.method != "POST" or not form.is_valid():
        status = 400 if form.is_bound else 200
        return render_page(request, "console/group_config_edit.html", context, nav="groups", status=status)
    comment = form.cleaned_data["comment"]
    try:
        if request.POST.get("step") != "apply":
            changes = services.preview_group_change(group_id, form.configs())
            more = {
                "changes": changes,
                "reviewed": json.dumps({c.name: c.now for c in changes}),
                "body": {"configs": form.configs(), "comment": comment},
            }
            return render_page(request, "console/group_config_review.html", {**context, **more}, nav="groups")
        services.alter_group_configs(
            group_id,
            form.configs(),
            actor=actor(request),
            comment=comment,
            reviewed=reviewed_values(request.POST.get("reviewed", "")),
        )
    except Rejected as error:
        form.reject(error)
        return render_page(request, "console/group_config_edit.html", context, nav="groups", status=400)
    flash(request, _("{name} changed. Brokers apply it within a second.").format(name=form.cleaned_data["name"]))
    name = form.cleaned_data["name"]
    return redirect_to("group-configs", group_id, q=name, only=kind_of(name))
