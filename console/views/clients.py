"""Connected clients, with their software and traffic."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from console.views.shell import list_options, render_page, viewer_required
from controlplane.selectors import clients as selectors

DEFAULT_SORT, TOPIC_SORT = "-bytes_per_s", "-produced_bytes_per_s"
BROKER_DIGITS_MAX = 9


@viewer_required
def client_list(request: HttpRequest) -> HttpResponse:
    query, broker = request.GET.get("q", "").strip(), request.GET.get("broker", "")
    broker = broker if broker.isascii() and broker.isdigit() and len(broker) <= BROKER_DIGITS_MAX else ""
    topic = request.GET.get("topic", "")
    with_brokers = request.GET.get("with") == "brokers"
    found = selectors.client_list(
        query=query,
        broker=int(broker) if broker else None,
        topic=topic,
        with_brokers=with_brokers,
        **list_options(request, TOPIC_SORT if topic else DEFAULT_SORT),
    )
    context = {
        "page": found,
        "found": found,
        "q": query,
        "broker": broker,
        "topic": topic,
        "with": "brokers" if with_brokers else "",
    }
    return render_page(request, "console/clients.html", context, nav="clients")
