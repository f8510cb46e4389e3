"""Brokers: the list, one broker with its replicas, whether it is safe to restart it, how far a drain is, and the acts upon it. Law: what can be
taken back is done at once and offers to; a drain is reviewed with its numbers first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.forms import DrainForm
from console.views.shell import go, listing, missing, operator, page, refused, said, signed_in, who
from controlplane.selectors import brokers, restarts
from controlplane.services import Refused, moves
from controlplane.services import brokers as services
from controlplane.words import size_text

AT_ONCE: dict[str, tuple[Callable[..., Any], str, str]] = {
    "cordon": (services.cordon, "Broker {0} is cordoned: no new replica comes to it.", "uncordon"),
    "uncordon": (services.uncordon, "Broker {0} may be given replicas again.", "cordon"),
    "leaders_off": (services.leaders_off, "Leadership moves off broker {0}.", "leaders_back"),
    "leaders_back": (services.leaders_back, "What prefers broker {0} returns to it within seconds.", "leaders_off"),
}
"""act -> (service, what is said, the act that takes it back)."""


@signed_in
def broker_list(request: HttpRequest) -> HttpResponse:
    context = {"brokers": brokers.broker_list(), "restart": restarts.working_restart()}
    return page(request, "console/brokers.html", context, nav="brokers")


@signed_in
def broker(request: HttpRequest, broker_id: int) -> HttpResponse:
    row = brokers.broker(broker_id)
    if row is None:
        return missing(request, f"broker {broker_id}", "brokers", nav="brokers")
    query = request.GET.get("q", "").strip()
    found = brokers.broker_replicas(broker_id, query=query, **listing(request, "topic"))
    context = {
        "b": row,
        "b_text": str(broker_id),
        "page": found,
        "q": query,
        "verdict": brokers.safe_to_restart(broker_id),
        "drain": brokers.drain_state(broker_id),
        "restart": restarts.working_restart(),
        "at_once": ["uncordon" if row.cordoned else "cordon", "leaders_off" if row.leads else "leaders_back"],
    }
    return page(request, "console/broker.html", context, nav="brokers")


@operator
def act(request: HttpRequest, broker_id: int, verb: str) -> HttpResponse:
    row = brokers.broker(broker_id)
    if row is None or verb not in AT_ONCE | {"drain": None}:
        what = f"broker {broker_id}" if row is None else f"act “{verb}” on a broker"
        return missing(request, what, "brokers", nav="brokers")
    if verb == "drain":
        return _drain(request, row)
    back = reverse("broker", args=[broker_id])
    if request.method != "POST":
        return go("broker", broker_id)
    service, sentence, undo = AT_ONCE[verb]
    try:
        service(broker_id, who=who(request))
    except Refused as error:
        return refused(request, error, back, nav="brokers")
    said(request, sentence.format(broker_id), reverse("broker-act", args=[broker_id, undo]))
    return go("broker", broker_id)


def _drain(request: HttpRequest, row: brokers.BrokerRow) -> HttpResponse:
    form = DrainForm(request.POST or None)
    throttle = form.cleaned_data.get("throttle_bytes_per_s") if form.is_bound and form.is_valid() else None
    if request.method == "POST" and form.is_valid():
        v = form.cleaned_data
        try:
            move = services.drain(row.broker_id, who=who(request), why=v["why"], throttle_bytes_per_s=throttle)
        except Refused as error:
            form.refuse(error)
        else:
            if move is None:
                said(request, f"Broker {row.broker_id} holds nothing; it is cordoned and leads nothing.")
                return go("broker", row.broker_id)
            said(request, f"Broker {row.broker_id} is being drained by move {move.pk}.")
            return go("move", move.pk)
    preview = moves.preview_move({"kind": "drain", "broker": row.broker_id}, throttle) if row.replicas else None
    amount = (
        "an amount not known" if preview is None or preview.bytes_to_copy is None else size_text(preview.bytes_to_copy)
    )
    body = {"throttle_bytes_per_s": throttle, "why": "WHY"}
    context = {
        "b": row, "form": form, "preview": preview, "curl_path": f"brokers/{row.broker_id}/drain", "body": body,
        "button": f"Drain it: move {len(preview.parts)} replicas, {amount}" if preview is not None else "Cordon it, nothing lies on it",
    }  # fmt: skip
    return page(
        request, "console/drain.html", context, nav="brokers", status=409 if form.is_bound and form.errors else 200
    )
