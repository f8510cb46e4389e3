"""Alerts: the list, the page of one alert with its incident, acknowledgement, notes, silences, runbooks."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from console import exports, runbooks
from console.alert_forms import NoteForm, SilenceForm
from console.next_steps import StepButton, buttons
from console.panels import lazy
from console.texts import gettext_lazy, known_language
from console.views.actions import ImmediateAction, run_immediately
from console.views.directory_sessions import local_address
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
from controlplane.selectors import alerts, incidents, notifications
from controlplane.selectors.visibility import current_visibility
from controlplane.services import Rejected
from controlplane.services import incidents as services


class AlertVerb(StrEnum):
    """Operations on an alert."""

    ACKNOWLEDGE = "acknowledge"
    WITHDRAW = "withdraw"
    NOTE = "note"
    SILENCE = "silence"


IMMEDIATE: dict[str, ImmediateAction] = {
    AlertVerb.ACKNOWLEDGE: ImmediateAction(
        services.acknowledge, gettext_lazy("Alert {0} acknowledged."), AlertVerb.WITHDRAW
    ),
    AlertVerb.WITHDRAW: ImmediateAction(services.withdraw, gettext_lazy("Acknowledgement of alert {0} withdrawn.")),
}


@viewer_required
def alert_list(request: HttpRequest) -> HttpResponse:
    ended = request.GET.get("state", "") == alerts.RESOLVED
    state = alerts.RESOLVED if ended else alerts.OPEN
    read, options = (
        partial(alerts.alert_list, state=state, raised=() if ended else incidents.raised()),
        list_options(request, "-ended_at" if ended else "severity"),
    )
    if exports.is_requested(request):
        return exports.response("alerts", read, options["sort"])
    found = read(**options)
    context = {
        "page": found,
        "csv": True,
        "tab": "ended" if ended else "open",
        "ended": ended,
        "silent": None if ended else alerts.silence(),
    }
    return render_page(request, "console/alerts.html", context, nav="alerts")


@viewer_required
def alert(request: HttpRequest, alert_id: int) -> HttpResponse:
    return _page(request, alert_id, NoteForm())


@operator_required
def act(request: HttpRequest, alert_id: int, verb: str) -> HttpResponse:
    row = alerts.alert_row(alert_id)
    if row is None or verb not in list(AlertVerb):
        return not_found(request, _("alert operation “{verb}”").format(verb=verb), "alerts", nav="alerts")
    if verb == AlertVerb.SILENCE:
        return _silence(request, row)
    if request.method != "POST":
        return redirect_to("alert", alert_id)
    if verb == AlertVerb.NOTE:
        return _note(request, alert_id)
    back = _page_of_button(request, reverse("alert", args=[alert_id]))
    return run_immediately(request, IMMEDIATE[verb], alert_id, page="alert", act="alert-act", nav="alerts", back=back)


def _page_of_button(request: HttpRequest, default: str) -> str:
    """The address of the page whose button sent this request; `default` if the browser does not name it."""
    page = request.headers.get("Referer", "")
    return local_address(request, page) if page and urlsplit(page).path != request.path else default


def _note(request: HttpRequest, alert_id: int) -> HttpResponse:
    form = NoteForm(request.POST)
    if form.is_valid():
        try:
            services.add_note(alert_id, form.cleaned_data["text"], actor=actor(request))
        except Rejected as error:
            form.reject(error)
        else:
            return redirect_to("alert", alert_id)
    return _page(request, alert_id, form, status=400)


def _silence(request: HttpRequest, row: alerts.AlertRow) -> HttpResponse:
    form = SilenceForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        v = form.cleaned_data
        subject = row.subject if v["scope"] == "object" else None
        try:
            made = services.silence(row.kind, subject, v["minutes"], actor=actor(request), comment=v["comment"])
        except Rejected as error:
            form.reject(error)
        else:
            flash(
                request,
                _("Silenced until {ends_at:%Y-%m-%d %H:%M} UTC.").format(ends_at=made.ends_at),
                reverse("silence-end", args=[made.pk]),
            )
            return redirect_to("alert", row.id)
    context = {
        "a": row,
        "form": form,
        "body": {"kind": row.kind, "subject": row.subject, "minutes": 60, "comment": "COMMENT"},
    }
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/alert_silence.html", context, nav="alerts", status=status)


def _page(request: HttpRequest, alert_id: int, form: NoteForm, *, status: int = 200) -> HttpResponse:
    if alerts.alert_row(alert_id) is None:
        return not_found(request, _("alert {alert_id}").format(alert_id=alert_id), "alerts", nav="alerts")
    detail = lazy(incidents.incident_detail, alert_id)

    def next_steps() -> list[StepButton]:
        found = detail()
        return [] if found is None else list(buttons(found.next_steps, request.user))

    context = {
        "alert_id": alert_id,
        "d": detail,
        "sent": lazy(notifications.deliveries_of_alert, alert_id),
        "sent_shown": bool(alert_id) and not current_visibility().limited,
        "sent_none": lazy(lambda: _sent_none(detail())),
        "steps": lazy(next_steps),
        "silences": lazy(lambda: [] if (found := detail()) is None else alerts.silences_of(found.alert)),
        "form": form,
        "verbs": ["acknowledge", "withdraw", "notes"],
    }
    return render_page(request, "console/alert.html", context, nav="alerts", status=status)


def _sent_none(detail: incidents.IncidentDetail | None) -> str:
    """Return why no notification was sent for an alert."""
    if detail is None or detail.alert.ended_at is not None:
        return _("Sent to no channel.")
    if detail.alert.silenced_until is not None:
        return _("None sent: the alert is silenced until {ends_at:%Y-%m-%d %H:%M} UTC.").format(
            ends_at=detail.alert.silenced_until
        )
    if detail.caused_by is not None:
        return _("None of its own: the notifications of its cause report it.")
    if notifications.is_covered([detail.alert, *detail.effects]):
        return _("None sent yet.")
    return _("Not sent: no channel takes this alert.")


@viewer_required
def silence_list(request: HttpRequest) -> HttpResponse:
    page = alerts.silence_list(**list_options(request, "-ends_at"))
    return render_page(request, "console/silences.html", {"page": page, "tab": "silences"}, nav="alerts")


@require_POST
@operator_required
def end_silence(request: HttpRequest, silence_id: int) -> HttpResponse:
    try:
        services.end_silence(silence_id, actor=actor(request))
    except Rejected as error:
        return rejected(request, error, reverse("silences"), nav="alerts")
    flash(request, _("Silence {silence_id} ended.").format(silence_id=silence_id))
    return HttpResponseRedirect(_page_of_button(request, reverse("silences")))


@require_POST
@operator_required
def start_process(request: HttpRequest, name: str) -> HttpResponse:
    try:
        services.start_process(name, actor=actor(request))
    except Rejected as error:
        return rejected(request, error, reverse("alerts"), nav="alerts")
    flash(request, _("The supervisor starts the process {name}.").format(name=name))
    return HttpResponseRedirect(_page_of_button(request, reverse("overview")))


@viewer_required
def runbook(request: HttpRequest, kind: str) -> HttpResponse:
    text = runbooks.html(kind, known_language(get_language()))
    if text is None:
        return not_found(request, _("runbook “{kind}”").format(kind=kind), "alerts", nav="alerts")
    return render_page(request, "console/runbook.html", {"kind": kind, "text": text}, nav="alerts")
