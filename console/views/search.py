"""The search in the top bar: topics and groups by a part of their name."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from console.views.shell import page, signed_in
from controlplane.selectors import groups, topics

SHOWN = 20


@signed_in
def search(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    context = {
        "q": query,
        "topics": topics.topic_list(query=query, internal=True, per_page=SHOWN),
        "groups": groups.group_list(query=query, per_page=SHOWN),
    }
    return page(request, "console/search.html", context)
