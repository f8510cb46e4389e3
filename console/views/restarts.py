"""Rolling restarts: list, review, one restart, and the operations on it."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from console.forms import ReasonForm
from console.texts import counted, gettext_lazy
from console.views.actions import ActionButton, ImmediateAction, run_immediately
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
from controlplane.domain.restart import StepState
from controlplane.domain.roles import RoleResource
from controlplane.selectors import brokers, restarts
from controlplane.services import Rejected
from controlplane.services import rolling_restart as services

IMMEDIATE: dict[str, ImmediateAction] = {
    "pause": ImmediateAction(
        services.pause_restart, gettext_lazy("Rolling restart {0} paused: no further broker is restarted."), "resume"
    ),
    "resume": ImmediateAction(services.resume_restart, gettext_lazy("Rolling restart {0} resumed."), "pause"),
    "cancel": ImmediateAction(services.cancel_restart, gettext_lazy("Rolling restart {0} is cancelling.")),
}


@viewer_required
def restart_list(request: HttpRequest) -> HttpResponse:
    options = list_options(request, "-id")
    context = {"page": restarts.restart_list(page=options["page"], per_page=options["per_page"])}
    return render_page(request, "console/restarts.html", context, nav="brokers")


@operator_required
def new(request: HttpRequest) -> HttpResponse:
    rows = brokers.broker_list()
    parameters = request.POST if request.method == "POST" else request.GET
    chosen = [int(b) for b in parameters.getlist("b") if b.isdigit()] or [b.broker_id for b in rows if b.alive]
    form = ReasonForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        require_role(request, RoleResource.BROKER, [str(b) for b in chosen])
        try:
            made = services.start_restart(chosen, actor=actor(request), comment=form.cleaned_data["comment"])
        except Rejected as error:
            form.reject(error)
        else:
            flash(request, _("Rolling restart {id} started.").format(id=made.pk))
            return redirect_to("restart", made.pk)
    turns = [(b, brokers.safe_to_restart(b.broker_id)) for i in chosen for b in rows if b.broker_id == i]
    count = counted(len(turns), "broker")
    context = {
        "turns": turns,
        "form": form,
        "button": _("Restart {count}, one at a time").format(count=count),
        "body": {"brokers": chosen, "comment": "COMMENT"},
        "working": restarts.working_restart(),
    }
    return render_page(
        request,
        "console/restart_new.html",
        context,
        nav="brokers",
        status=409 if form.is_bound and form.errors else 200,
    )


@viewer_required
def restart(request: HttpRequest, restart_id: int) -> HttpResponse:
    row = restarts.restart_row(restart_id)
    if row is None:
        return not_found(
            request, _("rolling restart {restart_id}").format(restart_id=restart_id), "brokers", nav="brokers"
        )
    return render_page(
        request,
        "console/restart.html",
        {"r": row, "acts": buttons(row), "immediate": [b.verb for b in buttons(row)]},
        nav="brokers",
    )


def buttons(row: restarts.RestartRow) -> list[ActionButton]:
    queued = sum(1 for t in row.turns if t.state == StepState.WAITING)
    labels = {
        "pause": ActionButton(
            "pause",
            _("Pause ({queued} queued)").format(queued=queued),
            _("The current restart finishes, no further broker is restarted."),
            True,
        ),
        "resume": ActionButton(
            "resume",
            _("Resume ({queued} queued)").format(queued=queued),
            _("The next broker restarts when it is safe."),
            True,
            "primary",
        ),
        "cancel": ActionButton(
            "cancel",
            _("Cancel ({queued} not restarted)").format(queued=queued),
            _("The current restart finishes, the queued brokers are not restarted."),
            True,
        ),
    }
    return [labels[verb] for verb in row.can]


@operator_required
def act(request: HttpRequest, restart_id: int, verb: str) -> HttpResponse:
    if restarts.restart_row(restart_id) is None or verb not in IMMEDIATE:
        return not_found(request, _("rolling restart operation “{verb}”").format(verb=verb), "brokers", nav="brokers")
    if request.method != "POST":
        return redirect_to("restart", restart_id)
    return run_immediately(request, IMMEDIATE[verb], restart_id, page="restart", act="restart-act", nav="brokers")
