"""Search of the top bar: topics and groups by a part of their name."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from console.views.shell import render_page, viewer_required
from controlplane.selectors import groups, topics

SHOWN = 20


@viewer_required
def search(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    context = {
        "q": query,
        "topics": topics.topic_list(query=query, internal=True, per_page=SHOWN),
        "groups": groups.group_list(query=query, per_page=SHOWN),
    }
    return render_page(request, "console/search.html", context)
