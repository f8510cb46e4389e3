"""What every page shares: who may look, the frame around it, and how a refusal, an absence or a lost database looks. Law: no domain.

Called by all views. A page is shown whole; htmx takes the part it wants out of it (`#main`, or a panel), so there is one template for the
page, the partial and what a live update reads again.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.contrib import messages
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache

from console import cells
from controlplane.selectors import live
from controlplane.selectors.common import as_dict
from controlplane.selectors.overview import overview
from controlplane.selectors.proposals import open_count
from controlplane.services import Refused

THEMES = ("auto", "light", "dark", "contrast")
THEME_COOKIE = "weir_theme"
PER_PAGE = 50

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

NAV = (
    ("overview", "Overview", "o"),
    ("brokers", "Brokers", "b"),
    ("topics", "Topics", "t"),
    ("groups", "Groups", "g"),
    ("moves", "Moves", "m"),
    ("proposals", "Proposals", "r"),
    ("messages", "Messages", "e"),
    ("acls", "ACLs", "a"),
    ("pipeline", "Pipeline", "p"),
    ("alerts", "Alerts", "l"),
    ("audit", "Audit", "u"),
)

DENIED = "Your login may look but not act. Acting needs the operator role (staff); ask an operator for it."

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponse]


def signed_in(view: View[P]) -> View[P]:
    """For whoever is logged in. Others go to the login and come back; a lost database becomes a page that says so."""

    @never_cache
    @wraps(view)
    def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        try:
            if not request.user.is_authenticated:
                return _to_login(request)
            return guard(view(request, *args, **kwargs))
        except DatabaseError as e:
            return guard(
                render(request, "console/unavailable.html", {"error": str(e), "theme": theme(request)}, status=503)
            )

    return guarded  # type: ignore[return-value]


def operator(view: View[P]) -> View[P]:
    """For operators; others see what is missing."""

    @signed_in
    @wraps(view)
    def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not request.user.is_staff:  # type: ignore[union-attr]
            return page(request, "console/denied.html", {"reason": DENIED}, status=403)
        return view(request, *args, **kwargs)

    return guarded  # type: ignore[return-value]


def page(
    request: HttpRequest, template: str, context: dict[str, Any] | None = None, *, nav: str = "", status: int = 200
) -> HttpResponse:
    """A page in its frame. Where the feed stood is read first: whatever changes while the page is made comes again by the socket."""
    run, seq = live.latest()
    now = overview()
    frame = {
        "run": run, "seq": seq, "o": now, "head": cells.health(as_dict(now)), "nav": nav, "nav_items": NAV,
        "theme": theme(request), "themes": THEMES, "may_act": getattr(request.user, "is_staff", False), "denied": DENIED,
        "proposals_open": open_count(),
    }  # fmt: skip
    return render(request, template, {**frame, **(context or {})}, status=status)


def missing(request: HttpRequest, what: str, back: str, nav: str = "") -> HttpResponse:
    """A page for what is not there (any more), with the way back."""
    return page(request, "console/missing.html", {"what": what, "back": back}, nav=nav, status=404)


def refused(request: HttpRequest, error: Refused, back: str, nav: str = "") -> HttpResponse:
    """A page for an act without a form that was refused."""
    return page(request, "console/refused.html", {"reason": error.reason, "back": back}, nav=nav, status=409)


def said(request: HttpRequest, sentence: str, undo: str = "") -> None:
    """A word about what was done, on the next page; `undo` is an address that takes it back, offered for ten seconds."""
    messages.success(request, sentence, extra_tags=undo)


def go(name: str, *args: Any, **query: str) -> HttpResponseRedirect:
    address = reverse(name, args=args)
    return HttpResponseRedirect(f"{address}?{urlencode(query)}" if query else address)


def who(request: HttpRequest) -> str:
    return str(request.user.get_username())


def theme(request: HttpRequest) -> str:
    chosen = request.COOKIES.get(THEME_COOKIE, "auto")
    return chosen if chosen in THEMES else "auto"


def asked_page(request: HttpRequest) -> int:
    return _number(request.GET.get("page"), 1)


def listing(request: HttpRequest, sort: str) -> dict[str, Any]:
    """A list's page, order and size as the address says."""
    return {
        "sort": request.GET.get("sort") or sort,
        "page": asked_page(request),
        "per_page": max(1, min(_number(request.GET.get("per_page"), PER_PAGE), 500)),
    }


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else default


def guard(response: HttpResponse) -> HttpResponse:
    """Scripts and styles come from our own files only: a record that carries markup can do nothing."""
    response.headers["Content-Security-Policy"] = CONTENT_POLICY
    response.headers["Referrer-Policy"] = "same-origin"
    return response


def failed(request: HttpRequest) -> HttpResponse:
    """The answer where a view failed: with what finds the place in the web process's log. Asks no database, which may be what failed."""
    known = {"path": request.path, "at": datetime.now(UTC), "theme": theme(request)}
    return guard(render(None, "500.html", known, status=500))


def _to_login(request: HttpRequest) -> HttpResponse:
    address = f"{reverse('login')}?{urlencode({'next': request.get_full_path()})}"
    if request.headers.get("HX-Request"):
        # A part of a page cannot log in: the browser must leave the page.
        response = HttpResponse(status=204)
        response.headers["HX-Redirect"] = address if request.method == "GET" else reverse("login")
        return response
    return HttpResponseRedirect(address)
