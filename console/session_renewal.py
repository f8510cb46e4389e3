"""Middleware that redirects a page to the renewal of its session after half of the session's time, so that the directory confirms the user.

Invariants: only requests for whole pages are redirected, never a form, a live update, a socket or the REST API, whose data would be lost. The session itself
ends at its fixed time, in the session store. Does not contain: the redirect and its response (`console.views.session`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode

RENEW_AT = "login_renew_at"
"""Key in the session of a user of the directory: the time of the next renewal, in seconds since the epoch."""
EXEMPT = ("/api/", "/login/", "/logout/", "/static/", "/texts/", "/theme/", "/palette/")


class SessionRenewal:
    """Middleware that renews sessions of a directory. Only settings with a directory contain it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not _is_page(request) or request.session.get(RENEW_AT, float("inf")) > time.time():
            return self._get_response(request)
        address = f"{reverse('login-renew')}?{urlencode({'next': request.get_full_path()})}"
        if request.headers.get("HX-Request"):
            # A script cannot follow the redirect to another site: the browser must.
            response = HttpResponse(status=204)
            response.headers["HX-Redirect"] = address
            return response
        return HttpResponseRedirect(address)


def _is_page(request: HttpRequest) -> bool:
    if request.method != "GET" or request.path.startswith(EXEMPT):
        return False
    if request.headers.get("HX-Request"):
        return bool(request.headers.get("HX-Boosted"))
    return request.headers.get("Sec-Fetch-Mode", "navigate") == "navigate"
