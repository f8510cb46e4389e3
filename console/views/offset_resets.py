"""Offset resets of consumer groups: the form, the preview with its confirmation, the result with its undo. Also the removal of a member."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from console.reset_forms import ApplyForm, RemoveMemberForm, ResetForm
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
from controlplane.domain.offset_reset_types import ResetState
from controlplane.selectors import groups
from controlplane.selectors import offset_resets as selectors
from controlplane.selectors.offset_resets import ResetVerb
from controlplane.services import Rejected, group_members
from controlplane.services import offset_resets as services
from controlplane.services.common import Outcome

COMPUTED = {ResetVerb.PREVIEW: services.preview_again, ResetVerb.UNDO: services.undo}
"""Operations that end in a new preview."""


@viewer_required
def reset_list(request: HttpRequest) -> HttpResponse:
    options, group = list_options(request, "-id"), request.GET.get("group", "").strip()
    page = selectors.reset_list(group_id=group, page=options["page"], per_page=options["per_page"])
    return render_page(request, "console/offset_resets.html", {"page": page, "group": group}, nav="groups")


@operator_required
def new(request: HttpRequest) -> HttpResponse:
    group_id = request.GET.get("group", "")
    initial = {"target": request.GET.get("target", "earliest"), "topics": request.GET.get("topics", "")}
    form = ResetForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        try:
            made = services.preview(group_id, form.spec(), actor=actor(request))
        except Rejected as error:
            form.reject(error)
        else:
            return redirect_to("offset-reset", made.pk)
    context = {"group_id": group_id, "g": groups.group_detail(group_id), "form": form}
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/offset_reset_new.html", context, nav="groups", status=status)


@viewer_required
def reset(request: HttpRequest, reset_id: int) -> HttpResponse:
    return _page(request, reset_id, ApplyForm())


@operator_required
def act(request: HttpRequest, reset_id: int, verb: str) -> HttpResponse:
    if selectors.reset_row(reset_id) is None or verb not in list(ResetVerb):
        return not_found(request, _("offset reset operation “{verb}”").format(verb=verb), "groups", nav="groups")
    if request.method != "POST":
        return redirect_to("offset-reset", reset_id)
    if verb == ResetVerb.APPLY:
        return _apply(request, reset_id)
    try:
        if verb in COMPUTED:
            return redirect_to("offset-reset", COMPUTED[ResetVerb(verb)](reset_id, actor=actor(request)).pk)
        services.cancel(reset_id, actor=actor(request))
    except Rejected as error:
        return rejected(request, error, reverse("offset-reset", args=[reset_id]), nav="groups")
    flash(request, _("Offset reset {reset_id} cancelled.").format(reset_id=reset_id))
    return redirect_to("offset-reset", reset_id)


def _apply(request: HttpRequest, reset_id: int) -> HttpResponse:
    form = ApplyForm(request.POST)
    if form.is_valid():
        v = form.cleaned_data
        try:
            row = services.apply(
                reset_id, actor=actor(request), comment=v["comment"], wait_minutes=v["wait_minutes"] or 0
            )
        except Rejected as error:
            form.reject(error)
        else:
            if row.state == ResetState.APPLIED:
                flash(request, _("Offsets of group {group_id} reset and read back.").format(group_id=row.group_id))
            return redirect_to("offset-reset", reset_id)
    return _page(request, reset_id, form, status=409)


def _page(request: HttpRequest, reset_id: int, form: ApplyForm, *, status: int = 200) -> HttpResponse:
    detail = selectors.reset_detail(reset_id)
    if detail is None:
        return not_found(request, _("offset reset {reset_id}").format(reset_id=reset_id), "groups", nav="groups")
    options = list_options(request, "")
    context: dict[str, object] = {
        "r": detail.row,
        "page": selectors.partitions_page(detail, page=options["page"], per_page=options["per_page"]),
        "form": form,
        "g": groups.group_detail(detail.row.group_id),
        "apply_path": f"offset-resets/{reset_id}/apply",
        "apply_body": {"comment": "COMMENT", "wait_minutes": 0},
    }
    return render_page(request, "console/offset_reset.html", context, nav="groups", status=status)


@operator_required
def remove_member(request: HttpRequest) -> HttpResponse:
    group_id, member_id = request.GET.get("group", ""), request.GET.get("member", "")
    detail = groups.group_detail(group_id)
    member = next((m for m in detail.members if m["member_id"] == member_id), None) if detail else None
    if detail is None or member is None:
        return not_found(
            request,
            _("member {member_id} of group {group_id}").format(member_id=member_id, group_id=group_id),
            "groups",
            nav="groups",
        )
    form = RemoveMemberForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            outcome = group_members.remove_member(
                group_id, member_id, actor=actor(request), comment=form.cleaned_data["comment"]
            )
        except Rejected as error:
            form.reject(error)
        else:
            flash(
                request,
                _("Member {member_id} removed.").format(member_id=member_id)
                if outcome == Outcome.CONFIRMED
                else _("Member {member_id}: outcome unknown.").format(member_id=member_id),
            )
            return redirect_to("group", group_id)
    context = {
        "g": detail,
        "member": member,
        "form": form,
        "body": {"group_id": group_id, "member_id": member_id, "comment": "COMMENT"},
    }
    status = 409 if form.is_bound and form.errors else 200
    return render_page(request, "console/member_remove.html", context, nav="groups", status=status)
