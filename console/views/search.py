"""Search of the top bar: topics and groups by a part of their name, and pages by their label or a synonym."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from console.palette import fixed_entries
from console.views.shell import rejection, render_page, viewer_required
from controlplane.selectors import groups, topics

SHOWN = 20
PAGES_SHOWN_MAX = 8


@viewer_required
def search(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    context = {
        "q": query,
        "topics": topics.topic_list(query=query, internal=True, per_page=SHOWN),
        "pages": fixed_entries(query, may_act=not rejection(request))[:PAGES_SHOWN_MAX] if query else [],
        "groups": groups.group_list(query=query, per_page=SHOWN),
    }
    return render_page(request, "console/search.html", context)
