"""Moves and replica recoveries: lists, one move with its progress, and the operations on it. Pause and resume run at once with an undo; cancel
and roll back have a review."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.forms import EndDrainForm, ProposeDestructionForm, ScheduleForm, ThrottleForm, WhyForm
from console.panels import lazy
from console.views.actions import ActionButton, ImmediateAction, run_immediately
from console.views.shell import (
    actor,
    flash,
    list_options,
    not_found,
    operator_required,
    redirect_to,
    render_page,
    viewer_required,
)
from controlplane.domain.text import size_text, some
from controlplane.selectors import brokers, move_loads, moves, recoveries
from controlplane.services import Rejected, proposals, schedules, tails
from controlplane.services import moves as services
from controlplane.services.adaptive_throttle import bounds_of
from controlplane.services.brokers import end_drain

IMMEDIATE: dict[str, ImmediateAction] = {
    "approve": ImmediateAction(services.approve_move, "Move {0} approved."),
    "start": ImmediateAction(services.start_move, "Move {0} started."),
    "pause": ImmediateAction(
        services.pause_move, "Move {0} paused: active reassignments finish, no new reassignments start.", "resume"
    ),
    "resume": ImmediateAction(services.resume_move, "Move {0} resumed.", "pause"),
}


class ReviewedAction(NamedTuple):
    """An action with a page that asks for a comment. `{0}` is the id of the move."""

    service: Callable[..., Any]
    title: str
    message: str


REVIEWED = {
    "cancel": ReviewedAction(services.cancel_move, "Cancel move {0}", "Move {0} is cancelling."),
    "roll_back": ReviewedAction(services.roll_back_move, "Roll back move {0}", "Move {0} is rolling back."),
}


@viewer_required
def move_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    tab = request.GET.get("tab") if request.GET.get("tab") in ("recoveries", "damage") else "moves"
    context: dict[str, Any] = {"q": query, "tab": tab, "damaged": recoveries.damage_reports_open()}
    if tab == "moves":
        working = {"working": True, "ended": False}.get(request.GET.get("only", ""))
        context["page"] = moves.move_list(query=query, working=working, **list_options(request, "-id"))
        context["only"] = request.GET.get("only", "")
    elif tab == "damage":
        context["only"] = request.GET.get("only", "")
        context["page"] = recoveries.damage_report_list(
            open_only=context["only"] != "all", **list_options(request, "-id")
        )
        context["auto_recovery"] = settings.WEIR.auto_recovery
    else:
        options = list_options(request, "-id")
        context["page"] = recoveries.recovery_list(page=options["page"], per_page=options["per_page"])
    return render_page(request, "console/moves.html", context, nav="moves")


@viewer_required
def move(request: HttpRequest, move_id: int) -> HttpResponse:
    kinds = move_loads.move_kinds(move_id)
    row = moves.move_row(move_id, kinds)
    if row is None:
        return not_found(request, f"move {move_id}", "moves", nav="moves")
    parts = lazy(
        moves.move_parts,
        move_id,
        **{**list_options(request, "topic"), "per_page": 100},
        only=request.GET.get("only", ""),
    )
    involved, counts = lazy(move_loads.move_brokers, kinds), move_loads.part_counts(kinds)
    context = {
        "m": row,
        "page": parts,
        "only": request.GET.get("only", ""),
        "rate": lazy(lambda: [(s.at, s.bytes_per_s) for s in moves.move_samples(move_id) if s.bytes_per_s is not None]),
        "causes": lazy(move_loads.move_causes, kinds),
        "brokers": involved,
        "receivers": lazy(lambda: sum(1 for b in involved() if b.parts_in)),
        "out_of_service": lazy(brokers.out_of_service, row.scope),
        "waits": lazy(lambda: [(w.at, w.p99_ms) for w in move_loads.producer_latency(move_id) if w.p99_ms is not None]),
        "story": lazy(moves.move_history, move_id),
        "counts": counts,
        "acts": buttons(row, counts),
        "immediate": [v for v in row.can if v in IMMEDIATE],
    }
    return render_page(request, "console/move.html", context, nav="moves")


def buttons(row: moves.MoveRow, counts: dict[str, int]) -> list[ActionButton]:
    active = sum(counts.get(s, 0) for s in moves.UNDER_WAY)
    ready = counts.get("ready", 0)
    waiting, done = counts.get("waiting", 0), counts.get("done", 0)
    now = "none" if row.throttle_bytes_per_s is None else f"{size_text(row.throttle_bytes_per_s)}/s"
    labels = {
        "approve": ActionButton("approve", "Approve", "The move does not start yet.", True),
        "start": ActionButton(
            "start", f"Start ({some(row.parts, 'partition')})", "Reassignments start at once.", True, "primary"
        ),
        "propose": ActionButton(
            "propose",
            "Request approval",
            "The move overrides a safety check: another operator must approve it.",
            False,
            "primary",
        ),
        "pause": ActionButton(
            "pause",
            f"Pause ({active} active, {waiting} queued)",
            "Active reassignments finish, no new reassignments start.",
            True,
        ),
        "resume": ActionButton("resume", f"Resume ({waiting} queued)", "Reassignments start again.", True, "primary"),
        "throttle": ActionButton(
            "throttle", f"Throttle (now {now})", "Change the throttle. It takes effect within a second.", False
        ),
        "schedule": ActionButton(
            "schedule", "Maintenance window", row.window_text or "Reassignments start at any time.", False
        ),
        "delete_records": ActionButton(
            "delete_records",
            f"Delete old records ({ready})",
            "Deletes them for all consumers now, instead of by retention. Another operator must approve. It cannot be undone.",
            False,
        ),
        "cancel": ActionButton(
            "cancel", f"Cancel (reverts {active}, keeps {done})", "Queued partitions stay unchanged.", False
        ),
        "roll_back": ActionButton(
            "roll_back", f"Roll back ({active + done})", "To the previous assignment, in its replica order.", False
        ),
    }
    # A cancelled move with all partitions reverted has nothing to roll back.
    without_effect = {"roll_back"} if row.state == "cancelled" and not active + done else set()
    return [labels[verb] for verb in row.can if verb not in without_effect]


@operator_required
def act(request: HttpRequest, move_id: int, verb: str) -> HttpResponse:
    row = moves.move_row(move_id)
    if row is not None and verb == "propose":
        return redirect_to("proposal-new", kind="move.approve", target=str(move_id), start="1")
    if row is not None and verb == "throttle":
        return _throttle(request, row, reverse("move", args=[move_id]))
    if row is not None and verb == "schedule":
        return _schedule(request, row, reverse("move", args=[move_id]))
    if row is not None and verb == "delete_records" and "delete_records" in row.can:
        return _cut(request, row, reverse("move", args=[move_id]))
    if row is None or verb not in {*IMMEDIATE, *REVIEWED}:
        return not_found(
            request, f"move {move_id}" if row is None else f"move operation “{verb}”", "moves", nav="moves"
        )
    back = reverse("move", args=[move_id])
    if verb in REVIEWED:
        return _review(request, row, verb, back)
    if request.method != "POST":
        return redirect_to("move", move_id)
    return run_immediately(request, IMMEDIATE[verb], move_id, page="move", act="move-act", nav="moves")


def _throttle(request: HttpRequest, row: moves.MoveRow, back: str) -> HttpResponse:
    now = row.throttle_bytes_per_s
    form = ThrottleForm(request.POST or None, initial=_initial(row))
    if request.method == "POST" and form.is_valid():
        v = form.cleaned_data
        try:
            cap = v["throttle_bytes_per_s"]
            bounds = bounds_of({} if cap is None else {"cap": cap}) if v["adaptive"] else None
            services.throttle_move(row.id, cap, adaptive=bounds, actor=actor(request), comment=v["comment"])
        except Rejected as error:
            form.refuse(error)
        else:
            rate = "none" if cap is None else f"{size_text(cap)}/s per broker"
            rate = f"adaptive, up to {rate}" if bounds else rate
            flash(request, f"Throttle of move {row.id}: {rate}.")
            return redirect_to("move", row.id)
    lines = [
        (
            f"Now: {'no throttle' if now is None else size_text(now) + '/s per broker'}. Present speed: "
            f"{'0' if not row.bytes_per_s else size_text(row.bytes_per_s) + '/s in total'}."
        ),
        "Brokers apply the throttle within a second, also to active reassignments.",
        "The end of the move restores the previous throttle configuration.",
    ]
    if row.needs_bytes_per_s is not None:
        lines.insert(
            1,
            f"The move cannot finish below {size_text(row.needs_bytes_per_s)}/s per broker: producers write faster.",
        )
    context = {
        "title": f"Throttle of move {row.id}",
        "form": form,
        "lines": lines,
        "button": "Set throttle",
        "back": back,
        "method": "POST",
        "path": f"moves/{row.id}/throttle",
        "body": {"throttle_bytes_per_s": now, "comment": "COMMENT"},
    }
    status = 409 if form.is_bound and form.errors else 200
    return render_page(request, "console/confirm.html", context, nav="moves", status=status)


def _initial(row: moves.MoveRow) -> dict[str, Any]:
    rate = row.adaptive.cap if row.adaptive else row.throttle_bytes_per_s
    return {"throttle_bytes_per_s": None if rate is None else rate / 1e6, "adaptive": row.adaptive is not None}


def _schedule(request: HttpRequest, row: moves.MoveRow, back: str) -> HttpResponse:
    now = row.window or {}
    initial = {**now, "days": [str(d) for d in now.get("days", [])]}
    form = ScheduleForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        try:
            schedules.schedule_move(row.id, form.window(), actor=actor(request), comment=form.cleaned_data["comment"])
        except Rejected as error:
            form.refuse(error)
        else:
            flash(request, f"Maintenance window of move {row.id} {'set' if form.window() else 'removed'}.")
            return redirect_to("move", row.id)
    lines = [
        f"Now: {row.window_text or 'no maintenance window, reassignments start at any time'}.",
        "At the end of the window active reassignments finish and no new ones start. The page shows when the move resumes.",
        "An approved move starts automatically when its window opens.",
    ]
    context = {
        "title": f"Maintenance window of move {row.id}",
        "form": form,
        "lines": lines,
        "button": "Set maintenance window",
        "back": back,
        "method": "POST",
        "path": f"moves/{row.id}/schedule",
        "body": {"window": row.window or {"opens": "22:00", "stop_by": "05:30"}, "comment": "COMMENT"},
    }
    status = 409 if form.is_bound and form.errors else 200
    return render_page(request, "console/confirm.html", context, nav="moves", status=status)


FIGURES_SHOWN_MAX = 100


def _cut(request: HttpRequest, row: moves.MoveRow, back: str) -> HttpResponse:
    """Requests to delete the old records of a move. Another operator must approve; this view deletes nothing."""
    preview = tails.deletion_preview(row.id)
    target, arguments = str(row.id), {"confirm": preview.confirm}
    digest = "" if preview.problem else proposals.shown("move.delete_records", target, arguments)[1]
    form = ProposeDestructionForm(preview.confirm, request.POST or None, initial={"shown_hash": digest})
    if request.method == "POST" and form.is_valid():
        v = form.cleaned_data
        try:
            made = proposals.propose(
                "move.delete_records",
                target,
                {"confirm": v["confirm_name"]},
                actor=actor(request),
                comment=v["comment"],
                shown_hash=v["shown_hash"],
            )
        except Rejected as error:
            form.refuse(error)
        else:
            flash(request, f"Approval request {made.pk} created. Nothing is deleted until another operator approves.")
            return redirect_to("proposal", made.pk)
    sentences = preview.sentences()
    lines = [*([preview.problem] if preview.problem else []), *sentences[:FIGURES_SHOWN_MAX]]
    if len(sentences) > FIGURES_SHOWN_MAX:
        lines.append(f"Total: {len(preview.parts)} partitions, committed offsets of {len(preview.groups)} groups.")
    lines += [
        "Consumers without committed offsets, for example Spark, are unknown. The deletion cannot be undone.",
        "Nothing is deleted until another operator approves.",
    ]
    context = {
        "title": f"Delete old records of move {row.id}",
        "form": form,
        "lines": lines,
        "button": f"Request deletion of {preview.records:,} records",
        "back": back,
        "method": "POST",
        "path": "proposals",
        "body": {"kind": "move.delete_records", "target": target, "arguments": arguments, "comment": "COMMENT"},
    }
    status = 409 if (form.is_bound and form.errors) or preview.problem is not None else 200
    return render_page(request, "console/confirm.html", context, nav="moves", status=status)


def named(rows: Sequence[brokers.BrokerRow]) -> str:
    return f"broker{'s' if len(rows) > 1 else ''} {', '.join(str(b.broker_id) for b in rows)}"


def _review(request: HttpRequest, row: moves.MoveRow, verb: str, back: str) -> HttpResponse:
    service, title, message = REVIEWED[verb]
    drained = brokers.out_of_service(row.scope)
    names = named(drained)
    # A roll-back restores the previous state. A cancelled drain may continue as another move.
    initial = {"uncordon": verb == "roll_back"}
    form = EndDrainForm(names, request.POST or None, initial=initial) if drained else WhyForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        v = form.cleaned_data
        try:
            end_drain(service, row.id, actor=actor(request), comment=v["comment"], uncordon=v.get("uncordon", False))
        except Rejected as error:
            form.refuse(error)
        else:
            flash(request, message.format(row.id))
            return redirect_to("move", row.id)
    counted = dict.fromkeys(("waiting", "done", *moves.UNDER_WAY), 0) | move_loads.part_counts(
        move_loads.move_kinds(row.id)
    )
    active = sum(counted[s] for s in moves.UNDER_WAY)
    if verb == "cancel":
        lines = [
            f"{some(counted['waiting'], 'queued partition')}: unchanged.",
            f"{some(active, 'active partition')}: reverted to the previous assignment, copied data is deleted.",
            f"{some(counted['done'], 'finished partition')}: kept on the new replicas. A roll-back also reverts these.",
        ]
        button = f"Cancel move, revert {some(active, 'partition')}"
    else:
        lines = [
            f"{some(counted['done'], 'finished partition')}: copied back to the previous assignment, in its replica order.",
            f"{some(active, 'active partition')}: reverted, copied data is deleted.",
            f"{some(counted['waiting'], 'queued partition')}: unchanged.",
        ]
        button = f"Roll back {some(counted['done'] + active, 'partition')}"
    body: dict[str, Any] = {"comment": "COMMENT"}
    if drained:
        stays = "stays cordoned and demoted" if len(drained) == 1 else "stay cordoned and demoted"
        lines.append(f"{names[0].upper()}{names[1:]} {stays}, unless you uncordon below.")
        body["uncordon"] = verb == "roll_back"
    context = {
        "title": title.format(row.id),
        "form": form,
        "lines": lines,
        "button": button,
        "back": back,
        "method": "POST",
        "path": f"moves/{row.id}/{verb}",
        "body": body,
    }
    status = 409 if form.is_bound and form.errors else 200
    return render_page(request, "console/confirm.html", context, nav="moves", status=status)
