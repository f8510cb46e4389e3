"""Connected clients, with their software and traffic."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from console.texts import gettext_lazy
from console.views.shell import list_options, render_page, viewer_required
from controlplane.selectors import clients as selectors
from controlplane.selectors.clients import TopicUse

DEFAULT_SORT = "-bytes_per_s"
TOPIC_USES = {
    "": gettext_lazy("Producers and consumers"),
    TopicUse.PRODUCED: gettext_lazy("Producers"),
    TopicUse.FETCHED: gettext_lazy("Consumers"),
}
SORTS = {
    "": "-produced_bytes_per_s",
    TopicUse.PRODUCED: "-produced_bytes_per_s",
    TopicUse.FETCHED: "-fetched_bytes_per_s",
}
"""Default order of the list of one topic."""
BROKER_DIGITS_MAX = 9


@viewer_required
def client_list(request: HttpRequest) -> HttpResponse:
    query, broker = request.GET.get("q", "").strip(), request.GET.get("broker", "")
    broker = broker if broker.isascii() and broker.isdigit() and len(broker) <= BROKER_DIGITS_MAX else ""
    topic = request.GET.get("topic", "")
    topic_use = request.GET.get("use", "") if topic and request.GET.get("use", "") in TOPIC_USES else ""
    with_brokers = request.GET.get("with") == "brokers"
    found = selectors.client_list(
        query=query,
        broker=int(broker) if broker else None,
        topic=topic,
        topic_use=topic_use,
        with_brokers=with_brokers,
        **list_options(request, SORTS[topic_use] if topic else DEFAULT_SORT),
    )
    context = {
        "page": found,
        "found": found,
        "q": query,
        "broker": broker,
        "topic": topic,
        "use": topic_use,
        "uses": TOPIC_USES,
        "with": "brokers" if with_brokers else "",
    }
    return render_page(request, "console/clients.html", context, nav="clients")
