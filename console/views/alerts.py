"""What is wrong now, since when, and what to do; what was wrong lately."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from console.views.shell import listing, page, signed_in
from controlplane.selectors import alerts


@signed_in
def alert_list(request: HttpRequest) -> HttpResponse:
    ended = request.GET.get("only", "") == "ended"
    found = alerts.alert_list(ended=ended, **listing(request, "-ended_at" if ended else "severity"))
    context = {"page": found, "ended": ended, "silent": None if ended else alerts.silence()}
    return page(request, "console/alerts.html", context, nav="alerts")
