"""Brokers: the list, and one broker with its replicas and whether it is safe to restart it."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from console.views.shell import listing, missing, page, signed_in
from controlplane.selectors import brokers


@signed_in
def broker_list(request: HttpRequest) -> HttpResponse:
    return page(request, "console/brokers.html", {"brokers": brokers.broker_list()}, nav="brokers")


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
    }
    return page(request, "console/broker.html", context, nav="brokers")
