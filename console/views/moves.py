"""Moves and recoveries: the lists, one move with its progress, and the acts upon it. Law: pausing is done at once and can be undone;
cancelling and rolling back are reviewed with their numbers first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.forms import ProposeDestructionForm, ScheduleForm, ThrottleForm, WhyForm
from console.views.shell import go, listing, missing, operator, page, refused, said, signed_in, who
from controlplane.selectors import move_loads, moves
from controlplane.services import Refused, proposals, schedules, tails
from controlplane.services import moves as services
from controlplane.words import size_text, some

AT_ONCE: dict[str, tuple[Callable[..., Any], str, str]] = {
    "approve": (services.approve_move, "Move {0} is approved.", ""),
    "start": (services.start_move, "Move {0} has started.", ""),
    "pause": (services.pause_move, "Move {0} is paused: no further copy begins, those under way finish.", "resume"),
    "resume": (services.resume_move, "Move {0} goes on.", "pause"),
}
"""act -> (service, what is said, the act that takes it back)."""

REVIEWED: dict[str, tuple[Callable[..., Any], str, str]] = {
    "cancel": (services.cancel_move, "Cancel move {0}", "Move {0} is being cancelled."),
    "roll_back": (services.roll_back_move, "Roll back move {0}", "Move {0} is being rolled back."),
}


@signed_in
def move_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    tab = request.GET.get("tab") if request.GET.get("tab") in ("recoveries", "damage") else "moves"
    context: dict[str, Any] = {"q": query, "tab": tab, "damaged": moves.findings_open()}
    if tab == "moves":
        working = {"working": True, "ended": False}.get(request.GET.get("only", ""))
        context["page"] = moves.move_list(query=query, working=working, **listing(request, "-id"))
        context["only"] = request.GET.get("only", "")
    elif tab == "damage":
        context["only"] = request.GET.get("only", "")
        context["page"] = moves.finding_list(open_only=context["only"] != "all", **listing(request, "-id"))
        context["by_itself"] = settings.RECOVERY_BY_ITSELF
    else:
        where = listing(request, "-id")
        context["page"] = moves.recovery_list(page=where["page"], per_page=where["per_page"])
    return page(request, "console/moves.html", context, nav="moves")


@signed_in
def move(request: HttpRequest, move_id: int) -> HttpResponse:
    kinds = move_loads.move_kinds(move_id)
    row = moves.move_row(move_id, kinds)
    if row is None:
        return missing(request, f"move {move_id}", "moves", nav="moves")
    parts = moves.move_parts(
        move_id, **{**listing(request, "topic"), "per_page": 100}, only=request.GET.get("only", "")
    )
    rate = [(s.at, s.bytes_per_s) for s in moves.move_samples(move_id) if s.bytes_per_s is not None]
    brokers, counts = move_loads.move_brokers(kinds), move_loads.part_counts(kinds)
    context = {
        "m": row, "page": parts, "only": request.GET.get("only", ""), "rate": rate, "causes": move_loads.move_causes(kinds), "brokers": brokers, "receivers": sum(1 for b in brokers if b.parts_in),
        "waits": [(w.at, w.p99_ms) for w in move_loads.move_waits(move_id) if w.p99_ms is not None], "story": moves.move_story(move_id),
        "counts": counts, "acts": acts(row, counts), "at_once": [v for v in row.can if v in AT_ONCE],
    }  # fmt: skip
    return page(request, "console/move.html", context, nav="moves")


@dataclass(frozen=True, slots=True)
class Act:
    """A button of the action bar: it names its effect. `at_once`: it posts; else it leads to a review."""

    verb: str
    label: str
    hint: str
    at_once: bool
    kind: str = ""


def acts(row: moves.MoveRow, counts: dict[str, int]) -> list[Act]:
    flying = sum(counts.get(s, 0) for s in moves.UNDER_WAY)
    ready = counts.get("ready", 0)
    waiting, done = counts.get("waiting", 0), counts.get("done", 0)
    now = "none" if row.throttle_bytes_per_s is None else f"{size_text(row.throttle_bytes_per_s)}/s"
    labels = {
        "approve": Act("approve", "Approve", "Nothing moves yet.", True),
        "start": Act("start", f"Start: move {some(row.parts, 'partition')}", "Copies begin at once.", True, "primary"),
        "propose": Act("propose", "Propose: another approves", "It goes against a safety refusal; nobody begins it alone.", False, "primary"),
        "pause": Act("pause", f"Pause: {flying} finish, {waiting} wait", "No further copy begins; those under way finish.", True),
        "resume": Act("resume", f"Resume: {waiting} to go", "Copies begin again.", True, "primary"),
        "throttle": Act("throttle", f"Throttle (now {now})", "Slower or faster, felt at once.", False),
        "schedule": Act("schedule", "Window" if row.window else "Give it a window", row.window_text or "Copies may begin at any time.", False),
        "cut": Act("cut", f"Cut: delete the old records of {ready}", "Now, for everybody, instead of by retention. Another operator approves; nothing takes it back.", False),
        "cancel": Act("cancel", f"Cancel: return {flying}, keep {done}", "What waits stays where it is.", False),
        "roll_back": Act("roll_back", f"Roll back: return {flying + done}", "To the recorded placement, in its order.", False),
    }  # fmt: skip
    # A cancelled move of which nothing has stayed where it was going is back already.
    idle = {"roll_back"} if row.state == "cancelled" and not flying + done else set()
    return [labels[verb] for verb in row.can if verb not in idle]


@operator
def act(request: HttpRequest, move_id: int, verb: str) -> HttpResponse:
    row = moves.move_row(move_id)
    if row is not None and verb == "propose":
        return go("proposal-new", kind="move.approve", target=str(move_id), start="1")
    if row is not None and verb == "throttle":
        return _throttle(request, row, reverse("move", args=[move_id]))
    if row is not None and verb == "schedule":
        return _schedule(request, row, reverse("move", args=[move_id]))
    if row is not None and verb == "cut" and "cut" in row.can:
        return _cut(request, row, reverse("move", args=[move_id]))
    if row is None or verb not in AT_ONCE | REVIEWED:
        return missing(request, f"move {move_id}" if row is None else f"act “{verb}” on a move", "moves", nav="moves")
    back = reverse("move", args=[move_id])
    if verb in REVIEWED:
        return _reviewed(request, row, verb, back)
    if request.method != "POST":
        return go("move", move_id)
    service, sentence, undo = AT_ONCE[verb]
    try:
        service(move_id, who=who(request))
    except Refused as error:
        return refused(request, error, back, nav="moves")
    said(request, sentence.format(move_id), reverse("move-act", args=[move_id, undo]) if undo else "")
    return go("move", move_id)


def _throttle(request: HttpRequest, row: moves.MoveRow, back: str) -> HttpResponse:
    now = row.throttle_bytes_per_s
    form = ThrottleForm(request.POST or None, initial=_initial(row))
    if request.method == "POST" and form.is_valid():
        v = form.cleaned_data
        try:
            cap = v["throttle_bytes_per_s"]
            bounds = ({} if cap is None else {"cap": cap}) if v["adaptive"] else None
            services.throttle_move(row.id, cap, adaptive=bounds, who=who(request), why=v["why"])
        except Refused as error:
            form.refuse(error)
        else:
            rate = "no throttle" if cap is None else f"{size_text(cap)}/s per broker"
            rate = f"an adaptive throttle up to {rate}" if bounds else rate
            said(request, f"Move {row.id} has {rate} now.")
            return go("move", row.id)
    lines = [
        f"Now: {'none' if now is None else size_text(now) + '/s per broker'}; it copies "
        f"{'nothing at the moment' if not row.bytes_per_s else size_text(row.bytes_per_s) + '/s in all'}.",
        "Brokers hear of it within a second; copies under way go on at the new rate.",
        "When the move ends, what was set before is in force again.",
    ]
    if row.needs_bytes_per_s is not None:
        lines.insert(
            1, f"It will not finish with less than {size_text(row.needs_bytes_per_s)}/s per broker: more comes in."
        )
    context = {
        "title": f"Throttle move {row.id}", "form": form, "lines": lines, "button": "Set the throttle", "back": back,
        "method": "POST", "path": f"moves/{row.id}/throttle", "body": {"throttle_bytes_per_s": now, "why": "WHY"},
    }  # fmt: skip
    status = 409 if form.is_bound and form.errors else 200
    return page(request, "console/confirm.html", context, nav="moves", status=status)


def _initial(row: moves.MoveRow) -> dict[str, Any]:
    rate = row.adaptive["cap"] if row.adaptive else row.throttle_bytes_per_s
    return {"throttle_bytes_per_s": None if rate is None else rate / 1e6, "adaptive": row.adaptive is not None}


def _schedule(request: HttpRequest, row: moves.MoveRow, back: str) -> HttpResponse:
    now = row.window or {}
    initial = {**now, "days": [str(d) for d in now.get("days", [])]}
    form = ScheduleForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        try:
            schedules.schedule_move(row.id, form.window(), who=who(request), why=form.cleaned_data["why"])
        except Refused as error:
            form.refuse(error)
        else:
            said(request, f"Move {row.id}: {'a new window' if form.window() else 'no window any more'}.")
            return go("move", row.id)
    lines = [
        f"Now: {row.window_text or 'none, copies may begin at any time'}.",
        "At its stop-by no further copy begins; those under way finish, and the page says when it goes on.",
        "An approved move begins by itself when its window opens.",
    ]
    context = {
        "title": f"The window of move {row.id}", "form": form, "lines": lines, "button": "Set the window", "back": back,
        "method": "POST", "path": f"moves/{row.id}/schedule",
        "body": {"window": row.window or {"opens": "22:00", "stop_by": "05:30"}, "why": "WHY"},
    }  # fmt: skip
    status = 409 if form.is_bound and form.errors else 200
    return page(request, "console/confirm.html", context, nav="moves", status=status)


FIGURES_SHOWN_MAX = 100


def _cut(request: HttpRequest, row: moves.MoveRow, back: str) -> HttpResponse:
    """Nothing is deleted from here: it is proposed, and another operator approves."""
    preview = tails.cut_preview(row.id)
    target, arguments = str(row.id), {"confirm": preview.confirm}
    digest = "" if preview.problem else proposals.shown("move.cut", target, arguments)[1]
    form = ProposeDestructionForm(preview.confirm, request.POST or None, initial={"shown_hash": digest})
    if request.method == "POST" and form.is_valid():
        v = form.cleaned_data
        try:
            made = proposals.propose(
                "move.cut", target, {"confirm": v["confirm_name"]}, who=who(request), why=v["why"], shown_hash=v["shown_hash"]
            )  # fmt: skip
        except Refused as error:
            form.refuse(error)
        else:
            said(request, f"Proposal {made.pk} waits for another operator; nothing is deleted before.")
            return go("proposal", made.pk)
    said_of_it = preview.sentences()
    lines = [*([preview.problem] if preview.problem else []), *said_of_it[:FIGURES_SHOWN_MAX]]
    if len(said_of_it) > FIGURES_SHOWN_MAX:
        lines.append(f"In all {len(preview.parts)} partitions and {len(preview.groups)} groups' shares of them.")
    lines += [
        "Whether others read there without a group (Spark, consumers with their own offsets) is unknown. Nothing takes this back.",
        "Nothing happens before another operator approves.",
    ]
    context = {
        "title": f"Cut move {row.id}", "form": form, "lines": lines, "button": f"Propose to delete {preview.records:,} records", "back": back,
        "method": "POST", "path": "proposals", "body": {"kind": "move.cut", "target": target, "arguments": arguments, "why": "WHY"},
    }  # fmt: skip
    status = 409 if (form.is_bound and form.errors) or preview.problem is not None else 200
    return page(request, "console/confirm.html", context, nav="moves", status=status)


def _reviewed(request: HttpRequest, row: moves.MoveRow, verb: str, back: str) -> HttpResponse:
    service, title, sentence = REVIEWED[verb]
    form = WhyForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            service(row.id, who=who(request), why=form.cleaned_data["why"])
        except Refused as error:
            form.refuse(error)
        else:
            said(request, sentence.format(row.id))
            return go("move", row.id)
    counted = dict.fromkeys(("waiting", "done", *moves.UNDER_WAY), 0) | move_loads.part_counts(
        move_loads.move_kinds(row.id)
    )
    flying = sum(counted[s] for s in moves.UNDER_WAY)
    if verb == "cancel":
        lines = [
            f"{some(counted['waiting'], 'partition has', 'partitions have')} not begun: kept where they are.",
            f"{some(flying, 'is', 'are')} being copied: back to the recorded placement, what was copied is thrown away.",
            f"{some(counted['done'], 'has', 'have')} arrived: kept there; roll back to return these, too.",
        ]
        button = f"Cancel it, return {some(flying, 'partition')}"
    else:
        lines = [
            f"{some(counted['done'], 'partition has', 'partitions have')} arrived: copied back to the recorded placement, in its order.",
            f"{some(flying, 'is', 'are')} being copied: back, what was copied is thrown away.",
            f"{some(counted['waiting'], 'has', 'have')} not begun: kept where they are.",
        ]
        button = f"Roll back {some(counted['done'] + flying, 'partition')}"
    context = {
        "title": title.format(row.id), "form": form, "lines": lines, "button": button, "back": back,
        "method": "POST", "path": f"moves/{row.id}/{verb}", "body": {"why": "WHY"},
    }  # fmt: skip
    status = 409 if form.is_bound and form.errors else 200
    return page(request, "console/confirm.html", context, nav="moves", status=status)
