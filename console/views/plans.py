"""Plans: list, one plan, comparison, and the operations on it. An operation carries the digest of the plan that the user has seen."""

from __future__ import annotations

from enum import StrEnum

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from console.forms import MoveOfPlanForm, ReasonForm
from console.texts import counted
from console.views.shell import (
    actor,
    flash,
    list_options,
    not_found,
    operator_required,
    redirect_to,
    render_page,
    require_role,
    viewer_required,
)
from console.vocabulary import translated
from controlplane.domain.roles import RoleResource
from controlplane.domain.text import size_text
from controlplane.selectors import plans, recoveries
from controlplane.selectors.plans import PlanRow
from controlplane.services import Rejected, schedules
from controlplane.services import moves as move_services
from controlplane.services import plans as services
from controlplane.services.move_planning import MoveCaps


class PlanVerb(StrEnum):
    """Operations on a plan. `MOVE`: create a move of it. `DROP`: archive it."""

    APPROVE = "approve"
    MOVE = "move"
    DROP = "drop"


@viewer_required
def plan_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    state = plans.ARCHIVED if request.GET.get("state") == plans.ARCHIVED else ""
    context = {
        "page": plans.plan_list(query=query, state=state, **list_options(request, "-id")),
        "q": query,
        "state": state,
        "damaged": recoveries.damaged_replicas_open(),
    }
    return render_page(request, "console/plans.html", context, nav="moves")


@viewer_required
def plan(request: HttpRequest, plan_id: int) -> HttpResponse:
    row = plans.plan_row(plan_id)
    if row is None:
        return not_found(request, _("plan {plan_id}").format(plan_id=plan_id), "plans", nav="moves")
    where = list_options(request, "topic")
    parts = plans.plan_parts(plan_id, page=where["page"], per_page=100)
    others = [p for p in plans.plan_list(per_page=20).rows if p.id != plan_id]
    return render_page(
        request,
        "console/plan.html",
        {
            "p": row,
            "page": parts,
            "others": others,
            "path": f"plans/{row.id}",
            "move_label": _("Start a move ({copies})").format(copies=counted(row.copies, "replica")),
        },
        nav="moves",
    )


@viewer_required
def difference(request: HttpRequest, plan_id: int) -> HttpResponse:
    other = request.GET.get("other", "")
    row, second = plans.plan_row(plan_id), plans.plan_row(int(other)) if other.isdigit() else None
    if row is None or (other.isdigit() and second is None):
        return not_found(
            request, _("plan {plan_id}").format(plan_id=plan_id if row is None else other), "plans", nav="moves"
        )
    found = plans.difference(plan_id, second.id if second is not None else None)
    return render_page(
        request,
        "console/plan_difference.html",
        {"p": row, "p_text": str(plan_id), "second": second, "d": found},
        nav="moves",
    )


@operator_required
def act(request: HttpRequest, plan_id: int, verb: str) -> HttpResponse:
    row = plans.plan_row(plan_id)
    if row is None or verb not in list(PlanVerb):
        return not_found(
            request,
            _("plan {plan_id}").format(plan_id=plan_id)
            if row is None
            else _("plan operation “{verb}”").format(verb=verb),
            "plans",
            nav="moves",
        )
    if verb == PlanVerb.MOVE:
        return _move(request, row)
    if verb == PlanVerb.APPROVE:
        require_role(request, RoleResource.PLAN, ())  # an approval is for operators of the whole cluster
    form = ReasonForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        comment = form.cleaned_data["comment"]
        try:
            if verb == PlanVerb.APPROVE:
                services.approve_plan(row.id, request.POST.get("digest", ""), actor=actor(request), comment=comment)
            else:
                services.drop_plan(row.id, actor=actor(request), comment=comment)
        except Rejected as error:
            form.reject(error)
        else:
            message = _("Plan {id} approved.") if verb == PlanVerb.APPROVE else _("Plan {id} archived.")
            flash(request, message.format(id=row.id))
            return redirect_to("plan", row.id)
    effects: dict[str, list[str]] = {
        PlanVerb.APPROVE: [_("A move of this plan is approved too, with your name."), _("The plan cannot change.")],
        PlanVerb.DROP: [_("The plan moves to the archived plans. The audit log keeps its digest.")],
    }
    labels: dict[str, str] = {
        PlanVerb.APPROVE: _("Approve plan {id}").format(id=row.id),
        PlanVerb.DROP: _("Archive plan {id}").format(id=row.id),
    }
    context: dict[str, object] = {
        "title": labels[verb],
        "form": form,
        "button": labels[verb],
        "back": reverse("plan", args=[row.id]),
        "crumb": _("Plan {id}").format(id=row.id),
        "lines": [_summary(row), f"Digest: {row.digest}", *effects[verb]],
        "hidden": {"digest": row.digest},
        "method": "POST" if verb == PlanVerb.APPROVE else "DELETE",
        "path": f"plans/{row.id}/approve" if verb == PlanVerb.APPROVE else f"plans/{row.id}",
        "body": {"digest": row.digest, "comment": "COMMENT"} if verb == PlanVerb.APPROVE else {"comment": "COMMENT"},
    }
    return render_page(request, "console/confirm.html", context, nav="moves", status=_status(form))


def _move(request: HttpRequest, row: PlanRow) -> HttpResponse:
    """Create a move of the plan: start it now, run it in a maintenance window, or only plan it."""
    form = MoveOfPlanForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        requested_move = form.cleaned_data
        caps = MoveCaps(
            parts_in_flight_max=requested_move["parts_in_flight_max"],
            parts_per_broker_max=requested_move["parts_per_broker_max"],
            throttle_bytes_per_s=requested_move["throttle_bytes_per_s"],
            compare=requested_move["compare"],
        )
        try:
            window = form.window()
            schedules.check(schedules.parse_window(window))
            move = services.move_of(
                row.id,
                request.POST.get("digest", ""),
                actor=actor(request),
                comment=requested_move["comment"],
                caps=caps,
            )
            if window is not None:
                schedules.schedule_move(move.pk, window, actor=actor(request), comment=requested_move["comment"])
            elif requested_move["start"] and not move.overrides:
                move_services.start_move(move.pk, actor=actor(request), comment=requested_move["comment"])
        except Rejected as error:
            form.reject(error)
        else:
            flash(request, _("Move {id} created from plan {id_2}.").format(id=move.pk, id_2=row.id))
            return redirect_to("move", move.pk)
    lines = [
        _summary(row),
        _(
            "The move is rejected if the assignment of a partition has changed since the plan was made. Compare with now shows where."
        ),
        _("Approved by {approved_by}.").format(approved_by=row.approved_by)
        if row.approved_by
        else _("The plan is not approved: in a maintenance window the move starts only after its approval."),
    ]
    body = {"digest": row.digest, "parts_in_flight_max": 8, "start": True, "comment": "COMMENT"}
    context = {
        "title": _("Move from plan {id}").format(id=row.id),
        "form": form,
        "lines": lines,
        "button": _("Move {copies}").format(copies=counted(row.copies, "replica")),
        "back": reverse("plan", args=[row.id]),
        "crumb": _("Plan {id}").format(id=row.id),
        "hidden": {"digest": row.digest},
        "method": "POST",
        "path": f"plans/{row.id}/move",
        "body": body,
    }
    return render_page(request, "console/confirm.html", context, nav="moves", status=_status(form))


def _summary(row: PlanRow) -> str:
    amount = _("unknown size") if row.bytes_to_copy is None else size_text(row.bytes_to_copy)
    return _("{title}: {parts}, {copies} to copy, {amount}.").format(
        title=translated(row.title),
        parts=counted(row.parts, "partition"),
        copies=counted(row.copies, "replica"),
        amount=amount,
    )


def _status(form: forms.BaseForm) -> int:
    return 409 if form.is_bound and form.errors else 200
