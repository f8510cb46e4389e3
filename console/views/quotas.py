"""Client quotas: list, one quota with its current use, create, edit, delete."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from console.access_rules import may_open
from console.quota_forms import NAME_FIELDS, LimitsForm, QuotaForm, QuotaLimitsForm
from console.templatetags.quotas import limit as limit_text
from console.views.actions import Deletion, confirm_deletion
from console.views.shell import (
    actor,
    flash,
    initial_from_query,
    list_options,
    not_found,
    operator_required,
    redirect_to,
    render_page,
    require_role,
    viewer_required,
)
from controlplane.domain.quota import ENTITIES, ENTITY_TYPES, UNITS, Entity, entity_text
from controlplane.domain.roles import RoleResource
from controlplane.selectors import quotas
from controlplane.selectors.clients import client_rates
from controlplane.services import Rejected
from controlplane.services import quotas as services


@viewer_required
def quota_list(request: HttpRequest) -> HttpResponse:
    query, entity_type = request.GET.get("q", "").strip(), request.GET.get("entity_type", "")
    entity_type = entity_type if entity_type in ENTITY_TYPES else ""
    found = quotas.quota_list(query=query, entity_type=entity_type, **list_options(request, "name"))
    context = {"page": found, "q": query, "entity_type": entity_type, "entity_types": ENTITY_TYPES, "quotas": UNITS}
    return render_page(request, "console/quotas.html", context, nav="quotas")


@viewer_required
def quota(request: HttpRequest, quota_id: int) -> HttpResponse:
    detail = quotas.quota_detail(quota_id)
    if detail is None:
        return not_found(request, _("quota {quota_id}").format(quota_id=quota_id), "quotas", nav="quotas")
    return render_page(request, "console/quota.html", {"d": detail}, nav="quotas")


@operator_required
def create(request: HttpRequest) -> HttpResponse:
    form = QuotaForm(request.POST or None, initial=initial_from_query(request, "applies_to", "user", "client_id"))
    if request.method == "POST" and form.is_valid():
        require_role(request, RoleResource.QUOTA, [entity_text(form.entity())])
        try:
            row = services.set_quota(
                form.entity(), form.limits(), actor=actor(request), comment=form.cleaned_data["comment"]
            )
        except Rejected as error:
            form.reject(error)
        else:
            flash(request, _("Quota set."))
            return redirect_to("quota", row.pk)
    if may_open("clients"):
        _show_rates(form, _linked_entity(request))
    body = {"entity": {"user": "USER"}, "limits": {"producer_byte_rate": 1_000_000}}
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/quota_new.html", {"form": form, "body": body}, nav="quotas", status=status)


def _linked_entity(request: HttpRequest) -> Entity:
    """The client or user whose link opened the form of a new quota. Empty without a link."""
    types = ENTITIES.get(request.GET.get("applies_to", ""), ())
    return {entity_type: request.GET.get(NAME_FIELDS[entity_type]) or None for entity_type in types}


def _show_rates(form: LimitsForm, entity: Entity) -> None:
    rates = client_rates(entity)
    if rates is not None:
        form.show_rates(entity_text(entity), rates)


@operator_required
def edit(request: HttpRequest, quota_id: int) -> HttpResponse:
    row = quotas.quota_row(quota_id)
    if row is None:
        return not_found(request, _("quota {quota_id}").format(quota_id=quota_id), "quotas", nav="quotas")
    now = {limit.quota: limit.value for limit in row.limits}
    form = QuotaLimitsForm(row.entity, now, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            after = services.set_quota(
                row.entity,
                form.limits(),
                actor=actor(request),
                comment=form.cleaned_data["comment"],
                reviewed=form.cleaned_data["seen"],
            )
        except Rejected as error:
            form.reject(error)
        else:
            flash(
                request,
                _("Quota of {name} changed.").format(name=row.name)
                if after.value
                else _("Quota of {name} deleted.").format(name=row.name),
            )
            return redirect_to("quota", quota_id) if after.value else redirect_to("quotas")
    _show_rates(form, row.entity)
    context: dict[str, object] = {"row": row, "form": form, "body": {"limits": now, "comment": "REASON"}}
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/quota_edit.html", context, nav="quotas", status=status)


@operator_required
def delete(request: HttpRequest, quota_id: int) -> HttpResponse:
    row = quotas.quota_row(quota_id)
    if row is None:
        return not_found(request, _("quota {quota_id}").format(quota_id=quota_id), "quotas", nav="quotas")

    def delete_it(comment: str) -> None:
        services.delete_quota(quota_id, actor=actor(request), comment=comment)

    deletion = Deletion(
        title=_("Delete the quota of {name}").format(name=row.name),
        lines=[
            *(
                _("The limit {quota} of {limit} per broker no longer applies.").format(
                    quota=limit.quota, limit=limit_text(limit)
                )
                for limit in row.limits
            ),
            _("Less specific quotas apply to its clients afterwards."),
        ],
        button=_("Delete the quota of {name}").format(name=row.name),
        back=reverse("quota", args=[quota_id]),
        crumb=row.name,
        path=f"quotas/{quota_id}",
        message=_("Quota of {name} deleted.").format(name=row.name),
        done="quotas",
    )
    return confirm_deletion(request, deletion, delete_it, nav="quotas")
