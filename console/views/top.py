"""Top: the topics, partitions, groups, brokers, clients and principals with the greatest values."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse

from console.texts import gettext_lazy
from console.views.shell import render_page, viewer_required
from controlplane.domain.history import HistorySubject
from controlplane.selectors import top as selectors
from controlplane.selectors.top import TopOf

LABELS = {
    TopOf.TOPICS: gettext_lazy("Topics"),
    TopOf.PARTITIONS: gettext_lazy("Partitions"),
    TopOf.GROUPS: gettext_lazy("Groups"),
    TopOf.BROKERS: gettext_lazy("Brokers"),
    TopOf.CLIENTS: gettext_lazy("Clients"),
    TopOf.PRINCIPALS: gettext_lazy("Principals"),
}

ONE = {
    TopOf.TOPICS: gettext_lazy("Topic"),
    TopOf.PARTITIONS: gettext_lazy("Partition"),
    TopOf.GROUPS: gettext_lazy("Group"),
    TopOf.BROKERS: gettext_lazy("Broker"),
    TopOf.CLIENTS: gettext_lazy("Client"),
    TopOf.PRINCIPALS: gettext_lazy("Principal"),
}
"""Heads of the columns with one object in each row."""


@viewer_required
def top_page(request: HttpRequest) -> HttpResponse:
    of = request.GET.get("of", "")
    kind = TopOf(of) if of in list(TopOf) else TopOf.TOPICS
    lists = [
        (t, [(r, subject_url(r.subject)) for r in t.rows], any(r.share_pct is not None for r in t.rows))
        for t in selectors.top_lists(kind)
    ]
    silent = sorted({b for t, _, _ in lists for b in t.brokers_silent})
    context = {
        "lists": lists,
        "of": kind,
        "kinds": LABELS,
        "silent": silent,
        "label": LABELS[kind],
        "one": ONE[kind],
        "curl_path": f"top?of={kind}",
    }
    return render_page(request, "console/top.html", context, nav="top")


def subject_url(subject: str) -> str:
    """The page of kind:NAME; empty if it has none."""
    kind, __, name = subject.partition(":")
    topic, __, index = name.rpartition(":")
    try:
        return reverse(kind, args=[topic, index] if kind == HistorySubject.PARTITION else [name]) if name else ""
    except NoReverseMatch:
        return ""
