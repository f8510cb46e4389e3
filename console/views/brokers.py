"""Brokers: list, one broker with its replicas, restart check, drain state, and the operations. A reversible operation runs immediately and offers
an undo; a drain has a review."""

from __future__ import annotations

from enum import StrEnum

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from console import exports
from console.forms import DrainForm
from console.history_charts import page_charts
from console.next_steps import buttons
from console.panels import lazy
from console.texts import gettext_lazy
from console.views.actions import ImmediateAction, run_immediately
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
from controlplane.domain.history import METRICS, HistorySubject
from controlplane.domain.scope import DrainScope
from controlplane.domain.text import size_text
from controlplane.selectors import alerts, brokers, forecasts, incidents, restarts
from controlplane.selectors.next_steps import start_broker
from controlplane.selectors.visibility import limited
from controlplane.services import Rejected, moves
from controlplane.services import brokers as services
from controlplane.services.authorization import NEEDS_CLUSTER_VIEWER

BROKER_CHARTS = (
    "bytes_in_per_s",
    "bytes_out_per_s",
    "replication_bytes_in_per_s",
    "disk_used_bytes",
    "size_bytes",
    "replicas_in_sync",
    "replicas_out_of_sync",
)

API_NAME_MAX = 100
"""Maximum number of characters of the name of an API."""


def _api_charts(api: str) -> list[tuple[str, str]]:
    """(API, metric): all metrics of the chosen one, or the p99 of those that clients and followers wait for."""
    metrics = [f.name for f in METRICS[HistorySubject.BROKER_API]]
    return [(api, f) for f in metrics] if api else [(n, metrics[0]) for n in ("Produce", "FetchConsumer", "Metadata")]


class BrokerVerb(StrEnum):
    """Operations on a broker."""

    CORDON = "cordon"
    UNCORDON = "uncordon"
    DEMOTE = "demote"
    RESTORE_LEADERSHIP = "restore_leadership"
    RESTORE = "restore"
    DRAIN = "drain"


IMMEDIATE: dict[str, ImmediateAction] = {
    BrokerVerb.CORDON: ImmediateAction(
        services.cordon, gettext_lazy("Broker {0} cordoned: no new replicas are assigned to it."), BrokerVerb.UNCORDON
    ),
    BrokerVerb.UNCORDON: ImmediateAction(
        services.uncordon, gettext_lazy("Broker {0} uncordoned: new replicas may be assigned to it."), BrokerVerb.CORDON
    ),
    BrokerVerb.DEMOTE: ImmediateAction(
        services.demote,
        gettext_lazy("Broker {0} demoted: leadership moves to other brokers."),
        BrokerVerb.RESTORE_LEADERSHIP,
    ),
    BrokerVerb.RESTORE_LEADERSHIP: ImmediateAction(
        services.restore_leadership,
        gettext_lazy("Leadership of broker {0} restored: it leads its preferred partitions within seconds."),
        BrokerVerb.DEMOTE,
    ),
    BrokerVerb.RESTORE: ImmediateAction(
        services.restore, gettext_lazy("Broker {0} uncordoned and its leadership restored.")
    ),
}


@viewer_required
def broker_list(request: HttpRequest) -> HttpResponse:
    found = brokers.broker_page(**list_options(request, "broker_id"))
    if exports.is_requested(request):
        return exports.response("brokers", brokers.broker_page, found.sort)
    context = {"page": found, "csv": True, "restart": lazy(restarts.working_restart)}
    return render_page(request, "console/brokers.html", context, nav="brokers")


@viewer_required
def broker(request: HttpRequest, broker_id: int) -> HttpResponse:
    row = brokers.broker(broker_id)
    if row is None:
        return not_found(request, _("broker {broker_id}").format(broker_id=broker_id), "brokers", nav="brokers")
    query, api = request.GET.get("q", "").strip(), request.GET.get("api", "").strip()[:API_NAME_MAX]
    found = lazy(brokers.broker_replicas, broker_id, query=query, **list_options(request, "topic"))
    context = {
        "b": row,
        "b_text": str(broker_id),
        "page": found,
        "q": query,
        "alerts": lazy(lambda: incidents.with_incident_severity(alerts.open_alerts_of_broker(broker_id))),
        "verdict": lazy(brokers.safe_to_restart, broker_id),
        "steps": lazy(lambda: list(buttons(start_broker(broker_id), request.user))),
        "drain": lazy(brokers.drain_state, broker_id),
        "demote_label": _("Move leadership off ({leaders})").format(leaders=row.leaders),
        "drain_label": _("Drain ({replicas} replicas)").format(replicas=row.replicas),
        "restart": lazy(restarts.working_restart),
        "api": api,
        "requests": lazy(brokers.broker_requests, broker_id),
        "refusals": lazy(brokers.broker_rejections, broker_id),
        "h": lazy(
            page_charts,
            request,
            f"broker:{broker_id}",
            *BROKER_CHARTS,
            also=[(f"broker_api:{broker_id}:{name}", metric, name) for name, metric in _api_charts(api)],
        ),
        "forecast": lazy(forecasts.forecast_of, f"broker:{broker_id}", forecasts.DISK_METRIC),
        "immediate": [
            BrokerVerb.UNCORDON if row.cordoned else BrokerVerb.CORDON,
            BrokerVerb.DEMOTE if row.leads else BrokerVerb.RESTORE_LEADERSHIP,
        ],
    }
    return render_page(request, "console/broker.html", context, nav="brokers")


@operator_required
def act(request: HttpRequest, broker_id: int, verb: str) -> HttpResponse:
    row = brokers.broker(broker_id)
    if row is None or verb not in list(BrokerVerb):
        what = (
            _("broker {broker_id}").format(broker_id=broker_id)
            if row is None
            else _("broker operation “{verb}”").format(verb=verb)
        )
        return not_found(request, what, "brokers", nav="brokers")
    if verb == BrokerVerb.DRAIN:
        if limited():
            raise PermissionDenied(NEEDS_CLUSTER_VIEWER)  # the review and the move are about all topics of the broker
        return _drain(request, row)
    if request.method != "POST":
        return redirect_to("broker", broker_id)
    return run_immediately(request, IMMEDIATE[verb], broker_id, page="broker", act="broker-act", nav="brokers")


def _drain(request: HttpRequest, row: brokers.BrokerRow) -> HttpResponse:
    form = DrainForm(request.POST or None)
    throttle = form.cleaned_data.get("throttle_bytes_per_s") if form.is_bound and form.is_valid() else None
    if request.method == "POST" and form.is_valid():
        v = form.cleaned_data
        try:
            move = services.drain(
                row.broker_id, actor=actor(request), comment=v["comment"], throttle_bytes_per_s=throttle
            )
        except Rejected as error:
            form.reject(error)
        else:
            if move is None:
                flash(
                    request,
                    _("Broker {broker_id} has no replicas. It is cordoned and demoted.").format(
                        broker_id=row.broker_id
                    ),
                )
                return redirect_to("broker", row.broker_id)
            flash(request, _("Broker {broker_id} is draining: move {id}.").format(broker_id=row.broker_id, id=move.pk))
            return redirect_to("move", move.pk)
    preview = moves.preview_move(DrainScope(broker=row.broker_id), throttle) if row.replicas else None
    amount = _("unknown size") if preview is None or preview.bytes_to_copy is None else size_text(preview.bytes_to_copy)
    body = {"throttle_bytes_per_s": throttle, "comment": "COMMENT"}
    context = {
        "b": row,
        "form": form,
        "preview": preview,
        "curl_path": f"brokers/{row.broker_id}/drain",
        "body": body,
        "button": _("Drain: move {parts} replicas, {amount}").format(parts=len(preview.parts), amount=amount)
        if preview is not None
        else _("Cordon and demote"),
    }
    return render_page(
        request, "console/drain.html", context, nav="brokers", status=409 if form.is_bound and form.errors else 200
    )
