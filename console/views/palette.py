"""The entries of the command palette for the typed text."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console import palette
from console.views.shell import rejection, viewer_required

QUERY_CHARS_MAX = 300
"""Maximum number of characters of the typed text: a topic name has up to 249."""


@viewer_required
def entries(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "")[:QUERY_CHARS_MAX]
    found = palette.entries(query, may_act=not rejection(request), user_id=int(request.user.pk or 0))
    return render(request, "console/parts/palette_entries.html", {"entries": found})
