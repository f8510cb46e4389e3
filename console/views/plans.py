"""Plans: the list, one with its parts, what differs, and the acts upon it. Law: an act carries the digest of the plan that was read."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.forms import MoveOfPlanForm, WhyForm
from console.views.shell import go, listing, missing, operator, page, said, signed_in, who
from controlplane.selectors import moves, plans
from controlplane.selectors.plans import PlanRow
from controlplane.services import Refused, schedules
from controlplane.services import moves as move_services
from controlplane.services import plans as services
from controlplane.words import size_text, some


@signed_in
def plan_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    dropped = request.GET.get("only", "") == "dropped"
    context = {
        "page": plans.plan_list(query=query, dropped=dropped, **listing(request, "-id")),
        "q": query,
        "dropped": dropped,
        "damaged": moves.findings_open(),
    }
    return page(request, "console/plans.html", context, nav="moves")


@signed_in
def plan(request: HttpRequest, plan_id: int) -> HttpResponse:
    row = plans.plan_row(plan_id)
    if row is None:
        return missing(request, f"plan {plan_id}", "plans", nav="moves")
    where = listing(request, "topic")
    parts = plans.plan_parts(plan_id, page=where["page"], per_page=100)
    others = [p for p in plans.plan_list(per_page=20).rows if p.id != plan_id]
    return page(
        request,
        "console/plan.html",
        {
            "p": row,
            "page": parts,
            "others": others,
            "path": f"plans/{row.id}",
            "move_label": f"Move {some(row.copies, 'replica')} by it",
        },
        nav="moves",
    )


@signed_in
def difference(request: HttpRequest, plan_id: int) -> HttpResponse:
    other = request.GET.get("other", "")
    row, second = plans.plan_row(plan_id), plans.plan_row(int(other)) if other.isdigit() else None
    if row is None or (other.isdigit() and second is None):
        return missing(request, f"plan {plan_id if row is None else other}", "plans", nav="moves")
    found = plans.difference(plan_id, second.id if second is not None else None)
    return page(
        request,
        "console/plan_difference.html",
        {"p": row, "p_text": str(plan_id), "second": second, "d": found},
        nav="moves",
    )


@operator
def act(request: HttpRequest, plan_id: int, verb: str) -> HttpResponse:
    row = plans.plan_row(plan_id)
    if row is None or verb not in ("approve", "move", "drop"):
        return missing(request, f"plan {plan_id}" if row is None else f"act “{verb}” on a plan", "plans", nav="moves")
    if verb == "move":
        return _move(request, row)
    form = WhyForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        why = form.cleaned_data["why"]
        try:
            if verb == "approve":
                services.approve_plan(row.id, request.POST.get("digest", ""), who=who(request), why=why)
            else:
                services.drop_plan(row.id, who=who(request), why=why)
        except Refused as error:
            form.refuse(error)
        else:
            said(request, f"Plan {row.id} is {'approved' if verb == 'approve' else 'dropped'}.")
            return go("plan", row.id)
    sentences = {
        "approve": ["A move that is made of it is approved, too, with your name.", "What it says cannot change any more."],
        "drop": ["It leaves the list; what it said stays in the database, and its digest in the audit."],
    }  # fmt: skip
    labels = {"approve": f"Approve plan {row.id}", "drop": f"Drop plan {row.id}"}
    context: dict[str, Any] = {
        "title": labels[verb], "form": form, "button": labels[verb], "back": reverse("plan", args=[row.id]),
        "lines": [_summary(row), f"Its digest is {row.digest}.", *sentences[verb]],
        "hidden": {"digest": row.digest}, "method": "POST" if verb == "approve" else "DELETE",
        "path": f"plans/{row.id}/approve" if verb == "approve" else f"plans/{row.id}",
        "body": {"digest": row.digest, "why": "WHY"} if verb == "approve" else {"why": "WHY"},
    }  # fmt: skip
    return page(request, "console/confirm.html", context, nav="moves", status=_status(form))


def _move(request: HttpRequest, row: PlanRow) -> HttpResponse:
    """Make a move of it: at once, in a window, or only planned."""
    form = MoveOfPlanForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        v = form.cleaned_data
        caps = {k: v[k] for k in ("parts_in_flight_max", "parts_per_broker_max", "throttle_bytes_per_s", "compare")}
        try:
            schedules.check(form.window())
            move = services.move_of(row.id, request.POST.get("digest", ""), who=who(request), why=v["why"], caps=caps)
            if form.window() is not None:
                schedules.schedule_move(move.pk, form.window(), who=who(request), why=v["why"])
            elif v["start"] and not move.overrides:
                move_services.start_move(move.pk, who=who(request), why=v["why"])
        except Refused as error:
            form.refuse(error)
        else:
            said(request, f"Move {move.pk} is made of plan {row.id}.")
            return go("move", move.pk)
    lines = [
        _summary(row),
        "It is refused where a partition was placed anew since the plan was made; the difference against now shows where.",
        f"Approved by {row.approved_by}." if row.approved_by else "It is not approved: in a window it begins only once its move is.",
    ]  # fmt: skip
    body = {"digest": row.digest, "parts_in_flight_max": 8, "start": True, "why": "WHY"}
    context = {
        "title": f"Move by plan {row.id}", "form": form, "lines": lines, "button": f"Move {some(row.copies, 'replica')}",
        "back": reverse("plan", args=[row.id]), "hidden": {"digest": row.digest}, "method": "POST",
        "path": f"plans/{row.id}/move", "body": body,
    }  # fmt: skip
    return page(request, "console/confirm.html", context, nav="moves", status=_status(form))


def _summary(row: PlanRow) -> str:
    amount = "an amount not known" if row.bytes_to_copy is None else size_text(row.bytes_to_copy)
    return f"{row.title}: {some(row.parts, 'partition')}, {some(row.copies, 'replica')} to copy, {amount}."


def _status(form: Any) -> int:
    return 409 if form.is_bound and form.errors else 200
