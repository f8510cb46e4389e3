"""The entries of the command palette for the typed text."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console import palette
from console.views.shell import viewer_required

QUERY_CHARS_MAX = 300
"""Characters of the typed text: a topic name has up to 249."""


@viewer_required
def entries(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "")[:QUERY_CHARS_MAX]
    may_act = getattr(request.user, "is_staff", False)
    found = palette.entries(query, may_act=may_act, user_id=int(request.user.pk or 0))
    return render(request, "console/parts/palette_entries.html", {"entries": found})
