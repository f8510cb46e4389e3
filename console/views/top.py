"""Top: the topics, partitions, groups, brokers, clients and principals with the greatest figures."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse

from console.views.shell import render_page, viewer_required
from controlplane.selectors import top as selectors
from controlplane.selectors.top import TopOf

LABELS = {
    TopOf.TOPICS: "Topics",
    TopOf.PARTITIONS: "Partitions",
    TopOf.GROUPS: "Groups",
    TopOf.BROKERS: "Brokers",
    TopOf.CLIENTS: "Clients",
    TopOf.PRINCIPALS: "Principals",
}


@viewer_required
def top_page(request: HttpRequest) -> HttpResponse:
    of = request.GET.get("of", "")
    kind = TopOf(of) if of in list(TopOf) else TopOf.TOPICS
    lists = [(t, [(r, subject_url(r.subject)) for r in t.rows]) for t in selectors.top_lists(kind)]
    silent = sorted({b for t, _ in lists for b in t.brokers_silent})
    context = {
        "lists": lists,
        "of": kind,
        "kinds": LABELS,
        "silent": silent,
        "label": LABELS[kind],
        "curl_path": f"top?of={kind}",
    }
    return render_page(request, "console/top.html", context, nav="top")


def subject_url(subject: str) -> str:
    """The page of kind:NAME; empty if it has none."""
    kind, _, name = subject.partition(":")
    topic, _, index = name.rpartition(":")
    try:
        return reverse(kind, args=[topic, index] if kind == "partition" else [name]) if name else ""
    except NoReverseMatch:
        return ""
