"""Shared by all views: access decorators, the page frame, error pages, flash messages and redirects. Contains no domain logic.

A page, its partials and its live updates have one template. htmx selects `#main` from a whole page. A live update requests some panels, and the
template renders only these (`console.panels`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypedDict
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache

from console import address_access, cluster_cells
from console.access_rules import may_be_seen
from console.address_access import DENIED
from console.panels import RequestedPanels, known_position, lazy
from console.texts import gettext_lazy
from console.vocabulary import rejection_text, translated
from controlplane.domain.roles import Access, RoleResource
from controlplane.domain.visibility import Visibility
from controlplane.monitoring import live_selectors
from controlplane.selectors.other_clusters import cluster_links
from controlplane.selectors.overview import overview_shape, shared_overview
from controlplane.selectors.shared_rows import use_shared_rows
from controlplane.selectors.visibility import current_visibility
from controlplane.services import Rejected, authorization
from controlplane.services.common import READ_ONLY
from controlplane.services.proposal_rows import open_count

THEMES = ("auto", "light", "dark", "contrast")
THEME_COOKIE = "weir_theme"
PER_PAGE = 50

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

NAV_SECTIONS = (
    (
        "",
        (
            ("overview", gettext_lazy("Overview"), "o"),
            ("alerts", gettext_lazy("Alerts"), "l"),
            ("health", gettext_lazy("Health"), "c"),
            ("top", gettext_lazy("Top"), "n"),
        ),
    ),
    (
        gettext_lazy("Cluster"),
        (
            ("brokers", gettext_lazy("Brokers"), "b"),
            ("topics", gettext_lazy("Topics"), "t"),
            ("messages", gettext_lazy("Messages"), "e"),
            ("groups", gettext_lazy("Groups"), "g"),
            ("clients", gettext_lazy("Clients"), "v"),
            ("transactions", gettext_lazy("Transactions"), "x"),
            ("moves", gettext_lazy("Moves"), "m"),
            ("proposals", gettext_lazy("Approvals"), "r"),
        ),
    ),
    (
        gettext_lazy("Access"),
        (
            ("acls", gettext_lazy("ACLs"), "a"),
            ("users", gettext_lazy("Users"), "s"),
            ("permissions", gettext_lazy("Permissions"), "w"),
            ("quotas", gettext_lazy("Quotas"), "q"),
            ("tokens", gettext_lazy("API tokens"), "k"),
        ),
    ),
    (
        gettext_lazy("Pipeline"),
        (
            ("pipeline", gettext_lazy("Archives"), "p"),
            ("spark-jobs", gettext_lazy("Spark jobs"), "j"),
            ("lake", gettext_lazy("Lake"), "i"),
            ("connect", gettext_lazy("Connect"), "d"),
        ),
    ),
    (
        gettext_lazy("History"),
        (
            ("time-travel", gettext_lazy("Time travel"), "h"),
            ("audit", gettext_lazy("Audit log"), "u"),
        ),
    ),
)
"""(title, entries) of each section of the main navigation. An entry is (URL name, label, key after g)."""
NAV = tuple(entry for _, entries in NAV_SECTIONS for entry in entries)

FEED_POSITION = "weir.feed_position"
"""Key in `request.META`: (run, seq) of the live feed before the rows of the page were read."""

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponse]


def viewer_required(view: View[P]) -> View[P]:
    """Requires a login; other requests are redirected to the login page. A user who sees only some resources gets a 403 page for others, and for pages about
    the whole cluster. A database error becomes a 503 page."""

    @never_cache
    @wraps(view)
    def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        try:
            if not request.user.is_authenticated:
                return _redirect_to_login(request)
            with _rows_of_page(request) as position:
                request.META.setdefault(FEED_POSITION, position)
                if reason := hidden(request):
                    denied = render_page(request, "console/denied.html", {"reason": reason}, status=403)
                    return add_security_headers(denied)
                return add_security_headers(view(request, *args, **kwargs))
        except DatabaseError as e:
            context = {"error": str(e), "theme": theme(request)}
            return add_security_headers(render(request, "console/unavailable.html", context, status=503))

    return guarded  # type: ignore[return-value]


def _rows_of_page(request: HttpRequest) -> AbstractContextManager[tuple[str, int]]:
    """Yields the position of the rows in the live feed. A page that changes something reads its own rows, before and after the change."""
    if request.method in ("GET", "HEAD"):
        return use_shared_rows(live_selectors.latest, known_position(request))
    return nullcontext(live_selectors.latest())


def operator_required(view: View[P]) -> View[P]:
    """Requires the operator role (staff), or a role binding for the resource of the page. Others get a 403 page that names the missing role. While
    WEIR_READ_ONLY is on, so does each change."""
    view.needs_operator = True  # type: ignore[attr-defined]

    @viewer_required  # type: ignore[arg-type]
    @wraps(view)
    def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        reason = lacking_role(request) or (READ_ONLY if settings.WEIR.read_only and request.method == "POST" else "")
        try:
            if reason:
                raise PermissionDenied(reason)
            return view(request, *args, **kwargs)
        except PermissionDenied as error:
            return render_page(request, "console/denied.html", {"reason": rejection_text(error)}, status=403)

    return guarded  # type: ignore[return-value]


def hidden(request: HttpRequest) -> str:
    """Return the reason why the user may not see this page; empty if the user may."""
    return address_access.hidden(request.resolver_match, request.POST.dict(), request.GET.dict())


def rejection(request: HttpRequest) -> str:
    """Return the reason why the user may not change the resource of this page, or the cluster; empty if the user may."""
    return lacking_role(request) or (READ_ONLY if settings.WEIR.read_only else "")


def lacking_role(request: HttpRequest) -> str:
    """The role that the user lacks for this page; empty if none."""
    return address_access.lacking_role(request.user, request.resolver_match, request.POST.dict(), request.GET.dict())


def require_role(request: HttpRequest, resource: RoleResource, names: Collection[str]) -> None:
    """Raises PermissionDenied with the names that the user may not change. A view calls it when its form knows the resources, before any change.
    Without names the role for the whole cluster is needed."""
    if reason := authorization.rejection_of(request.user, Access.OPERATE, resource, names):
        raise PermissionDenied(reason)


def render_page(
    request: HttpRequest,
    template: str,
    context: Mapping[str, object] | None = None,
    *,
    nav: str = "",
    status: int = 200,
) -> HttpResponse:
    """A page in its frame, or the requested panels. A page carries the feed position from before the view read its rows, so the
    socket sends all later changes."""
    run, seq = request.META.get(FEED_POSITION) or live_selectors.latest()
    panels, now, reason, seen = (
        RequestedPanels(request),
        lazy(shared_overview),
        rejection(request),
        current_visibility(),
    )
    frame = {
        "frame": "console/frame.html" if panels.whole else "console/panels.html",
        "panels": panels,
        "run": run,
        "seq": seq,
        "o": now,
        "head": lazy(lambda: cluster_cells.health(overview_shape(now()))),
        "nav": nav,
        "limited": seen.limited,
        "nav_sections": navigation(seen),
        "theme": theme(request),
        "themes": THEMES,
        "may_act": not reason,
        "read_only": settings.WEIR.read_only,
        "denied": translated(reason) or DENIED,
        "proposals_open": lazy(open_count),
        "colour": settings.WEIR.cluster_colour,
        "cluster_links": cluster_links(),
    }
    return render(request, template, {**frame, **(context or {})}, status=status)


@dataclass(frozen=True, slots=True)
class NavEntry:
    """An entry of the main navigation. `name`: of its URL; `key`: the key after g."""

    name: str
    label: str
    key: str
    address: str


@lru_cache(maxsize=256)
def navigation(visibility: Visibility) -> list[tuple[str, list[NavEntry]]]:
    """The sections with the entries that a user with this visibility may open. Labels are translated when a template shows them."""
    sections = [
        (title, [NavEntry(*e, reverse(e[0])) for e in entries if may_be_seen(visibility, e[0])])
        for title, entries in NAV_SECTIONS
    ]
    return [(title, entries) for title, entries in sections if entries]


def not_found(request: HttpRequest, what: str, back: str, nav: str = "") -> HttpResponse:
    """A 404 page. `what` names the object, `back` is the URL name of its list."""
    return render_page(request, "console/missing.html", {"what": what, "back": back}, nav=nav, status=404)


def rejected(request: HttpRequest, error: Rejected, back: str, nav: str = "") -> HttpResponse:
    """A 409 page for a rejected operation without a form. `back`: a path, or the URL name of a page. Only a POST is recorded in the audit log."""
    path = back if back.startswith("/") else reverse(back)
    context = {"reason": rejection_text(error), "back": path, "recorded": request.method == "POST"}
    return render_page(request, "console/rejected.html", context, nav=nav, status=409)


def flash(request: HttpRequest, message: str, undo: str = "") -> None:
    """Show a message on the next page. `undo` is the URL of the reverse operation; the page offers it for ten seconds."""
    messages.success(request, message, extra_tags=undo)


def redirect_to(name: str, *args: object, **query: str) -> HttpResponseRedirect:
    address = reverse(name, args=args)
    return HttpResponseRedirect(f"{address}?{urlencode(query)}" if query else address)


def initial_from_query(request: HttpRequest, *names: str) -> dict[str, str]:
    """The first values of fields of a form that a link to it names."""
    return {name: request.GET[name] for name in names if name in request.GET}


def actor(request: HttpRequest) -> str:
    """The user name that the audit log records."""
    return str(request.user.get_username())


def theme(request: HttpRequest) -> str:
    chosen = request.COOKIES.get(THEME_COOKIE, "auto")
    return chosen if chosen in THEMES else "auto"


def page_number(request: HttpRequest) -> int:
    return _number(request.GET.get("page"), 1)


class ListOptions(TypedDict):
    """Keyword arguments of the selectors of lists. `page` counts from 1."""

    sort: str
    page: int
    per_page: int


def list_options(request: HttpRequest, sort: str) -> ListOptions:
    """Sort order, page number and page size of a list, from the query string. `sort` is the default order."""
    return {
        "sort": request.GET.get("sort") or sort,
        "page": page_number(request),
        "per_page": max(1, min(_number(request.GET.get("per_page"), PER_PAGE), 500)),
    }


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else default


def add_security_headers(response: HttpResponse) -> HttpResponse:
    """Scripts and styles load from our own files only: markup in a record cannot run."""
    response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    response.headers["Referrer-Policy"] = "same-origin"
    return response


def server_error(request: HttpRequest) -> HttpResponse:
    """The 500 page, with the path and time to find in the log. The page reads no database, because the database may be the cause."""
    known = {"path": request.path, "at": datetime.now(UTC), "theme": theme(request)}
    return add_security_headers(render(None, "500.html", known, status=500))


def _redirect_to_login(request: HttpRequest) -> HttpResponse:
    """The login, and afterwards the page again. A form is not sent after it: `unsent` makes the login page say so."""
    reads, htmx = request.method in ("GET", "HEAD"), bool(request.headers.get("HX-Request"))
    query = {"next": request.get_full_path()}
    if not reads:
        # The address of a form may accept no GET: htmx names the page with the form. The login view ignores the address of another site.
        shown = urlsplit(request.headers.get("HX-Current-URL", ""))
        query = {"next": shown._replace(scheme="", netloc="").geturl() or query["next"], "unsent": "1"}
    address = f"{reverse('login')}?{urlencode(query)}"
    if htmx:
        # htmx would swap the login form into a part of the page: the browser must load the login page instead.
        response = HttpResponse(status=204)
        response.headers["HX-Redirect"] = address
        return response
    return HttpResponseRedirect(address)
