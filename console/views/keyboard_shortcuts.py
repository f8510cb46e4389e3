"""The list of keyboard shortcuts. A page loads it when it is opened."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console.views.shell import navigation, viewer_required
from controlplane.selectors.visibility import current_visibility


@viewer_required
def keyboard_shortcuts(request: HttpRequest) -> HttpResponse:
    entries = [entry for _, section in navigation(current_visibility()) for entry in section]
    return render(request, "console/parts/keyboard_shortcuts.html", {"nav_items": entries})
