"""Rolling restarts: the review, the page of one, and the acts upon it. Law: what is done to a process stands on the page before it is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.forms import WhyForm
from console.views.moves import Act
from console.views.shell import go, listing, missing, operator, page, refused, said, signed_in, who
from controlplane.selectors import brokers, restarts
from controlplane.services import Refused
from controlplane.services import restarting as services

AT_ONCE: dict[str, tuple[Callable[..., Any], str, str]] = {
    "pause": (services.pause_restart, "Rolling restart {0} is paused: no further broker goes.", "resume"),
    "resume": (services.resume_restart, "Rolling restart {0} goes on.", "pause"),
    "cancel": (services.cancel_restart, "Rolling restart {0} is being cancelled.", ""),
}


@signed_in
def restart_list(request: HttpRequest) -> HttpResponse:
    where = listing(request, "-id")
    context = {"page": restarts.restart_list(page=where["page"], per_page=where["per_page"])}
    return page(request, "console/restarts.html", context, nav="brokers")


@operator
def new(request: HttpRequest) -> HttpResponse:
    rows = brokers.broker_list()
    named = request.POST if request.method == "POST" else request.GET
    chosen = [int(b) for b in named.getlist("b") if b.isdigit()] or [b.broker_id for b in rows if b.alive]
    form = WhyForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            made = services.start_restart(chosen, who=who(request), why=form.cleaned_data["why"])
        except Refused as error:
            form.refuse(error)
        else:
            said(request, f"Rolling restart {made.pk} has begun.")
            return go("restart", made.pk)
    turns = [(b, brokers.safe_to_restart(b.broker_id)) for i in chosen for b in rows if b.broker_id == i]
    many = f"{len(turns)} broker{'' if len(turns) == 1 else 's'}"
    context = {
        "turns": turns, "form": form, "button": f"Restart {many}, one after the other",
        "body": {"brokers": chosen, "why": "WHY"}, "working": restarts.working_restart(),
    }  # fmt: skip
    return page(
        request,
        "console/restart_new.html",
        context,
        nav="brokers",
        status=409 if form.is_bound and form.errors else 200,
    )


@signed_in
def restart(request: HttpRequest, restart_id: int) -> HttpResponse:
    row = restarts.restart_row(restart_id)
    if row is None:
        return missing(request, f"rolling restart {restart_id}", "brokers", nav="brokers")
    return page(
        request,
        "console/restart.html",
        {"r": row, "acts": acts(row), "at_once": [a.verb for a in acts(row)]},
        nav="brokers",
    )


def acts(row: restarts.RestartRow) -> list[Act]:
    left = sum(1 for t in row.turns if t.state == "waiting")
    labels = {
        "pause": Act("pause", f"Pause: {left} wait", "No further broker goes; the one under way is waited for.", True),
        "resume": Act("resume", f"Resume: {left} to go", "The next broker goes when it is safe.", True, "primary"),
        "cancel": Act("cancel", f"Cancel: spare {left}", "Those that had no turn keep running; the one under way is waited for.", True),
    }  # fmt: skip
    return [labels[verb] for verb in row.can]


@operator
def act(request: HttpRequest, restart_id: int, verb: str) -> HttpResponse:
    if restarts.restart_row(restart_id) is None or verb not in AT_ONCE:
        return missing(request, f"act “{verb}” on a rolling restart", "brokers", nav="brokers")
    if request.method != "POST":
        return go("restart", restart_id)
    service, sentence, undo = AT_ONCE[verb]
    try:
        service(restart_id, who=who(request))
    except Refused as error:
        return refused(request, error, reverse("restart", args=[restart_id]), nav="brokers")
    said(request, sentence.format(restart_id), reverse("restart-act", args=[restart_id, undo]) if undo else "")
    return go("restart", restart_id)
