"""Moves and replica recoveries: lists, one move with its progress, and the operations on it. Pause and resume run immediately with an undo; cancel
and roll back have a review."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console import next_steps
from console.forms import EndDrainForm, ProposeDestructionForm, ReasonForm, ScheduleForm, ThrottleForm
from console.move_reviews import active_parts, cancel_lines, remaining_line, roll_back_lines
from console.panels import lazy
from console.texts import counted, gettext_lazy
from console.views.actions import ImmediateAction, run_immediately
from console.views.move_buttons import buttons
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
from controlplane.domain.move_states import UNDER_WAY, MoveVerb, PartState
from controlplane.domain.proposal import ProposalKind
from controlplane.domain.text import size_text
from controlplane.selectors import alerts, brokers, incidents, move_loads, move_parts, moves, recoveries
from controlplane.selectors.move_returns import copies_back
from controlplane.selectors.move_steps import plan_move_again
from controlplane.services import Rejected, proposals, schedules, tails
from controlplane.services import moves as services
from controlplane.services.adaptive_throttle import bounds_of
from controlplane.services.brokers import end_drain

IMMEDIATE: dict[str, ImmediateAction] = {
    MoveVerb.APPROVE: ImmediateAction(services.approve_move, gettext_lazy("Move {0} approved.")),
    MoveVerb.START: ImmediateAction(services.start_move, gettext_lazy("Move {0} started.")),
    MoveVerb.PAUSE: ImmediateAction(
        services.pause_move,
        gettext_lazy("Move {0} paused: active reassignments finish, no new reassignments start."),
        MoveVerb.RESUME,
    ),
    MoveVerb.RESUME: ImmediateAction(services.resume_move, gettext_lazy("Move {0} resumed."), MoveVerb.PAUSE),
}


class ReviewedAction(NamedTuple):
    """An action with a page on which the operator enters a comment. `{0}` is the id of the move."""

    service: Callable[..., Any]
    title: str
    message: str


REVIEWED: dict[str, ReviewedAction] = {
    MoveVerb.CANCEL: ReviewedAction(
        services.cancel_move, gettext_lazy("Cancel move {0}"), gettext_lazy("Move {0} is cancelling.")
    ),
    MoveVerb.ROLL_BACK: ReviewedAction(
        services.roll_back_move, gettext_lazy("Roll back move {0}"), gettext_lazy("Move {0} is rolling back.")
    ),
}


ALL_REPORTS = "all"
"""Value of the filter of damage reports that shows ended ones too."""


@viewer_required
def move_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    tab = request.GET.get("tab") if request.GET.get("tab") in ("recoveries", "damage") else "moves"
    state = request.GET.get("state", "")
    context: dict[str, object] = {"q": query, "tab": tab, "state": state, "damaged": recoveries.damaged_replicas_open()}
    if tab == "moves":
        page = context["page"] = moves.move_list(query=query, state=state, **list_options(request, "-id"))
        context["active"] = lazy(_active_moves, query, state, page.total)
    elif tab == "damage":
        all_reports = state == ALL_REPORTS
        context["page"] = recoveries.damage_report_list(
            state="" if all_reports else recoveries.OPEN, **list_options(request, "-id")
        )
        context["all_reports"] = all_reports
        context["auto_recovery"] = settings.WEIR.auto_recovery
    else:
        options = list_options(request, "-id")
        context["page"] = recoveries.recovery_list(page=options["page"], per_page=options["per_page"])
    return render_page(request, "console/moves.html", context, nav="moves")


def _active_moves(query: str, state: str, listed: int) -> int:
    """The number of moves that a change of the filtered throttles changes: without a state of the filter, the active ones."""
    if state == moves.FINISHED or not listed:
        return 0
    return listed if state else moves.move_list(query=query, state=moves.UNFINISHED, per_page=1).total


@viewer_required
def move(request: HttpRequest, move_id: int) -> HttpResponse:
    kinds = move_loads.move_kinds(move_id)
    row = moves.move_row(move_id, kinds)
    if row is None:
        return not_found(request, _("move {move_id}").format(move_id=move_id), "moves", nav="moves")
    options = list_options(request, move_parts.STATE)
    parts = lazy(
        move_parts.move_parts,
        move_id,
        sort=options["sort"],
        page=options["page"],
        per_page=100,
        state=request.GET.get("state", ""),
    )
    involved, counts = lazy(move_loads.move_brokers, kinds), move_loads.part_counts(kinds)
    context = {
        "m": row,
        "page": parts,
        "state": request.GET.get("state", ""),
        "rate": lazy(lambda: [(s.at, s.bytes_per_s) for s in moves.move_samples(move_id) if s.bytes_per_s is not None]),
        "alerts": lazy(lambda: incidents.with_incident_severity(alerts.open_alerts_of_move(move_id))),
        "causes": lazy(move_loads.blocked_parts, move_id, kinds),
        "brokers": involved,
        "receivers": lazy(lambda: sum(1 for b in involved() if b.parts_in)),
        "out_of_service": lazy(brokers.out_of_service, row.scope),
        "waits": lazy(lambda: [(w.at, w.p99_ms) for w in move_loads.producer_latency(move_id) if w.p99_ms is not None]),
        "story": lazy(moves.move_history, move_id),
        "counts": counts,
        "acts": buttons(row, counts),
        "steps": lazy(lambda: list(next_steps.buttons(plan_move_again(row.id, row.state), request.user))),
        "immediate": [v for v in row.can if v in IMMEDIATE],
    }
    return render_page(request, "console/move.html", context, nav="moves")


@operator_required
def act(request: HttpRequest, move_id: int, verb: str) -> HttpResponse:
    row = moves.move_row(move_id)
    if row is not None and verb == MoveVerb.PROPOSE:
        return redirect_to("proposal-new", kind=ProposalKind.MOVE_APPROVE, target=str(move_id), start="1")
    if row is not None and verb == MoveVerb.THROTTLE:
        return _throttle(request, row, reverse("move", args=[move_id]))
    if row is not None and verb == MoveVerb.SCHEDULE:
        return _schedule(request, row, reverse("move", args=[move_id]))
    if row is not None and verb == MoveVerb.DELETE_RECORDS and MoveVerb.DELETE_RECORDS in row.can:
        return _propose_record_deletion(request, row, reverse("move", args=[move_id]))
    if row is None or verb not in {*IMMEDIATE, *REVIEWED}:
        return not_found(
            request,
            _("move {move_id}").format(move_id=move_id)
            if row is None
            else _("move operation “{verb}”").format(verb=verb),
            "moves",
            nav="moves",
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
            form.reject(error)
        else:
            rate = _("none") if cap is None else _("{cap}/s per broker").format(cap=size_text(cap))
            rate = _("adaptive, up to {rate}").format(rate=rate) if bounds else rate
            flash(request, _("Throttle of move {id}: {rate}.").format(id=row.id, rate=rate))
            return redirect_to("move", row.id)
    lines = [
        _("Now: no throttle.") if now is None else _("Now: {rate}/s per broker.").format(rate=size_text(now)),
        _("Current speed: 0.")
        if not row.bytes_per_s
        else _("Current speed: {rate}/s in total.").format(rate=size_text(row.bytes_per_s)),
        remaining_line(row),
        _("Brokers apply the throttle within a second, also to active reassignments."),
        _("The end of the move restores the previous throttle configuration."),
    ]
    if row.needs_bytes_per_s is not None:
        lines.insert(
            1,
            _("The move cannot finish below {needs_bytes_per_s}/s per broker: producers write faster.").format(
                needs_bytes_per_s=size_text(row.needs_bytes_per_s)
            ),
        )
    context = {
        "title": _("Throttle of move {id}").format(id=row.id),
        "form": form,
        "lines": [line for line in lines if line],
        "button": _("Set throttle"),
        "back": back,
        "crumb": _("Move {id}").format(id=row.id),
        "method": "POST",
        "path": f"moves/{row.id}/throttle",
        "body": {"throttle_bytes_per_s": now, "comment": "COMMENT"},
    }
    return render_page(request, "console/confirm.html", context, nav="moves", status=409 if form.errors else 200)


def _initial(row: moves.MoveRow) -> dict[str, object]:
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
            form.reject(error)
        else:
            message = (
                _("Maintenance window of move {id} set.")
                if form.window()
                else _("Maintenance window of move {id} removed.")
            )
            flash(request, message.format(id=row.id))
            return redirect_to("move", row.id)
    lines = [
        _("Now: {window}.").format(window=row.window_text)
        if row.window_text
        else _("Now: no maintenance window, reassignments start at any time."),
        _(
            "At the end of the window active reassignments finish and no new ones start. The page shows when the move resumes."
        ),
        _("An approved move starts automatically when its window opens."),
    ]
    context = {
        "title": _("Maintenance window of move {id}").format(id=row.id),
        "form": form,
        "lines": lines,
        "button": _("Set maintenance window"),
        "back": back,
        "crumb": _("Move {id}").format(id=row.id),
        "method": "POST",
        "path": f"moves/{row.id}/schedule",
        "body": {"window": row.window or {"opens": "22:00", "stop_by": "05:30"}, "comment": "COMMENT"},
    }
    return render_page(request, "console/confirm.html", context, nav="moves", status=409 if form.errors else 200)


METRICS_SHOWN_MAX = 100


def _propose_record_deletion(request: HttpRequest, row: moves.MoveRow, back: str) -> HttpResponse:
    """Requests to delete the old records of a move. Another operator must approve; this view deletes nothing."""
    preview = tails.deletion_preview(row.id)
    target, arguments = str(row.id), {"confirm": preview.confirm}
    digest = "" if preview.problem else proposals.render_target(ProposalKind.MOVE_DELETE_RECORDS, target, arguments)[1]
    form = ProposeDestructionForm(preview.confirm, request.POST or None, initial={"shown_hash": digest})
    if request.method == "POST" and form.is_valid():
        deletion = form.cleaned_data
        try:
            made = proposals.propose(
                ProposalKind.MOVE_DELETE_RECORDS,
                target,
                {"confirm": deletion["confirm_name"]},
                actor=actor(request),
                comment=deletion["comment"],
                shown_hash=deletion["shown_hash"],
            )
        except Rejected as error:
            form.reject(error)
        else:
            flash(
                request,
                _("Approval request {id} created. Nothing is deleted until another operator approves.").format(
                    id=made.pk
                ),
            )
            return redirect_to("proposal", made.pk)
    sentences = preview.sentences()
    lines = [*([preview.problem] if preview.problem else []), *sentences[:METRICS_SHOWN_MAX]]
    if len(sentences) > METRICS_SHOWN_MAX:
        lines.append(
            _("Total: {parts} partitions, committed offsets of {groups} groups.").format(
                parts=len(preview.parts), groups=len(preview.groups)
            )
        )
    lines += [
        _("Consumers without committed offsets, for example Spark, are unknown. The deletion cannot be undone."),
        _("Nothing is deleted until another operator approves."),
    ]
    context = {
        "title": _("Delete old records of move {id}").format(id=row.id),
        "form": form,
        "lines": lines,
        "button": _("Request deletion of {records:,} records").format(records=preview.records),
        "back": back,
        "crumb": _("Move {id}").format(id=row.id),
        "method": "POST",
        "path": "proposals",
        "body": {
            "kind": ProposalKind.MOVE_DELETE_RECORDS,
            "target": target,
            "arguments": arguments,
            "comment": "COMMENT",
        },
    }
    status = 409 if (form.is_bound and form.errors) or preview.problem is not None else 200
    return render_page(request, "console/confirm.html", context, nav="moves", status=status)


def broker_names(rows: Sequence[brokers.BrokerRow]) -> str:
    names = _(", ").join(str(b.broker_id) for b in rows)
    return ngettext("broker {names}", "brokers {names}", len(rows)).format(names=names)


def _review(request: HttpRequest, row: moves.MoveRow, verb: str, back: str) -> HttpResponse:
    service, title, message = REVIEWED[verb]
    drained = brokers.out_of_service(row.scope)
    names = broker_names(drained)
    # A roll-back restores the previous state. A cancelled drain may continue as another move.
    initial = {"uncordon": verb == MoveVerb.ROLL_BACK}
    form = EndDrainForm(names, request.POST or None, initial=initial) if drained else ReasonForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        v = form.cleaned_data
        try:
            end_drain(service, row.id, actor=actor(request), comment=v["comment"], uncordon=v.get("uncordon", False))
        except Rejected as error:
            form.reject(error)
        else:
            flash(request, message.format(row.id))
            return redirect_to("move", row.id)
    parts = dict.fromkeys((PartState.WAITING, PartState.DONE, *UNDER_WAY), 0) | move_loads.part_counts(
        move_loads.move_kinds(row.id)
    )
    active = active_parts(parts)
    if verb == MoveVerb.CANCEL:
        lines = cancel_lines(parts)
        button = _("Cancel move, revert {active}").format(active=counted(active, "partition"))
    else:
        lines = roll_back_lines(parts, copies_back(row.id), row.throttle_bytes_per_s)
        button = _("Roll back {done}").format(done=counted(parts[PartState.DONE] + active, "partition"))
    body: dict[str, object] = {"comment": "COMMENT"}
    if drained:
        stays = ngettext(
            "{names} stays cordoned and demoted, unless you uncordon below.",
            "{names} stay cordoned and demoted, unless you uncordon below.",
            len(drained),
        )
        lines.append(stays.format(names=f"{names[0].upper()}{names[1:]}"))
        body["uncordon"] = verb == MoveVerb.ROLL_BACK
    context = {
        "title": title.format(row.id),
        "form": form,
        "lines": lines,
        "button": button,
        "back": back,
        "back_label": _("Do not cancel") if verb == MoveVerb.CANCEL else "",
        "crumb": _("Move {id}").format(id=row.id),
        "method": "POST",
        "path": f"moves/{row.id}/{verb}",
        "body": body,
    }
    return render_page(request, "console/confirm.html", context, nav="moves", status=409 if form.errors else 200)
