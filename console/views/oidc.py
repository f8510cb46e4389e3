"""Login through OpenID Connect: the redirect to the provider, its callback, and the silent renewal of a session.

Invariants: the page after the login is one of this console. A session of a user of the directory ends at a fixed time after the last confirmation,
whatever its activity (`session.set_expiry`). The pages work with GET only: the content security policy does not let a form end at another site.
Does not contain: the protocol (`controlplane.clients.oidc`), the rights of groups (`controlplane.services.external_logins`).
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import login, logout
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import get_random_string
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from console.session_renewal import RENEW_AT
from console.views import shell
from controlplane.domain.external_login import REFUSALS, LoginRefusal, LoginRefused, LoginSource
from controlplane.services import external_logins, oidc

BACKEND = "controlplane.services.login_backends.OidcUsers"
STARTED = "oidc_started"
"""Key in the session: what each state was created for."""
STARTED_MAX = 10
"""Logins that are started at the same time in one session, for example one per tab. The oldest is forgotten."""
STARTED_SECONDS = 3600
"""A session without a user, which only keeps started logins, ends after this time. Authlib forgets a state after the same time."""
RETRY_SECONDS = 60
"""Pause after a silent renewal that could not reach the provider. The session continues until its end."""
STATE_CHARS = 40
STATUS = {
    LoginRefusal.UNREACHABLE: 503,
    LoginRefusal.BAD_ANSWER: 502,
    LoginRefusal.INVALID_TOKEN: 502,
    LoginRefusal.CLAIM_MISSING: 502,
    LoginRefusal.TOO_MANY_GROUPS: 502,
    LoginRefusal.WRONG_STATE: 400,
}
"""All other refusals: 403."""


@never_cache
@require_GET
def start(request: HttpRequest) -> HttpResponse:
    """Redirect to the provider. A user who is logged in goes to the page that was asked for."""
    following = _local(request, request.GET.get("next", ""))
    if request.user.is_authenticated:
        return HttpResponseRedirect(following)
    if away := _other_address(request):
        return HttpResponseRedirect(away)
    return _redirect(request, following, silent=False)


@never_cache
@require_GET
def renew(request: HttpRequest) -> HttpResponse:
    """Ask the provider to confirm the user again, without a page of the provider. If it cannot be reached, the session continues until its end."""
    following = _local(request, request.GET.get("next", ""))
    if RENEW_AT not in request.session or not request.user.is_authenticated or _other_address(request):
        return HttpResponseRedirect(following)
    try:
        return _redirect(request, following, silent=True, raises=True)
    except LoginRefused:
        request.session[RENEW_AT] = time.time() + RETRY_SECONDS
        return HttpResponseRedirect(following)


@never_cache
@require_GET
def callback(request: HttpRequest) -> HttpResponse:
    """The provider's redirect back."""
    _required()
    state = request.GET.get("state", "")
    started = dict(request.session.get(STARTED) or {})
    known = started.pop(state, None)
    if known is None:
        return refused(request, LoginRefused(LoginRefusal.WRONG_STATE))
    request.session[STARTED] = started
    following, silent = _local(request, known["next"]), bool(known["silent"])
    if silent and request.GET.get("error") in oidc.LOGIN_REQUIRED:
        return _end(request, following)
    try:
        found = oidc.user_of_callback(request)
        user = external_logins.user_of(found)
    except LoginRefused as refusal:
        if silent and refusal.refusal == LoginRefusal.UNREACHABLE:
            request.session[RENEW_AT] = time.time() + RETRY_SECONDS
            return HttpResponseRedirect(following)
        if request.user.is_authenticated:
            external_logins.record_logout(request.user.get_username(), reason=str(refusal))
            logout(request)
        return refused(request, refusal)
    finally:
        oidc.forget_state(request, state)
    if not (request.user.is_authenticated and request.user.pk == user.pk):
        login(request, user, backend=BACKEND)
        external_logins.record_login(user.get_username(), LoginSource.OIDC, request.META.get("REMOTE_ADDR", ""))
    limit_session(request)
    return HttpResponseRedirect(following)


def limit_session(request: HttpRequest) -> None:
    """The end of a session whose user the directory has just confirmed, and the time of its renewal."""
    minutes = settings.WEIR.login_session_minutes
    request.session.set_expiry(timezone.now() + timedelta(minutes=minutes))
    request.session[RENEW_AT] = time.time() + minutes * 30


def refused(request: HttpRequest, refusal: LoginRefused) -> HttpResponse:
    """The page of a refused login, which says what would help."""
    if refusal.user:
        address = request.META.get("REMOTE_ADDR", "")
        external_logins.record_failure(refusal.user, LoginSource.OIDC, address, str(refusal))
    context = {
        "theme": shell.theme(request),
        "reason": gettext(REFUSALS[refusal.refusal]).format(**refusal.values),
        "passwords": settings.WEIR.password_login,
    }
    status = STATUS.get(refusal.refusal, 403)
    return shell.add_security_headers(render(request, "console/login_refused.html", context, status=status))


def _redirect(request: HttpRequest, following: str, *, silent: bool, raises: bool = False) -> HttpResponse:
    _required()
    state = get_random_string(STATE_CHARS)
    started: dict[str, Any] = dict(request.session.get(STARTED) or {})
    for old in list(started)[: max(0, len(started) - STARTED_MAX + 1)]:
        del started[old]
        oidc.forget_state(request, old)
    try:
        response = oidc.redirect_to_provider(request, _callback_address(request), state, silent=silent)
    except LoginRefused as refusal:
        if raises:
            raise
        return refused(request, refusal)
    request.session[STARTED] = {**started, state: {"next": following, "silent": silent}}
    if not request.user.is_authenticated:
        request.session.set_expiry(STARTED_SECONDS)
    return shell.add_security_headers(response)


def _end(request: HttpRequest, following: str) -> HttpResponse:
    """The provider has no session of the user any more: the session of the console ends, too."""
    if request.user.is_authenticated:
        external_logins.record_logout(
            request.user.get_username(), reason="The login provider has no session of the user."
        )
        logout(request)
    return HttpResponseRedirect(f"{reverse('login')}?{urlencode({'next': following, 'ended': '1'})}")


def _required() -> None:
    if not oidc.configured():
        raise Http404


def _callback_address(request: HttpRequest) -> str:
    path = reverse("oidc-callback")
    base = settings.WEIR.console_url
    return f"{base.rstrip('/')}{path}" if base else request.build_absolute_uri(path)


def _other_address(request: HttpRequest) -> str:
    """This page at WEIR_CONSOLE_URL, if the browser used another name of the console: the provider returns to the former, where the session of
    the latter is unknown."""
    base = settings.WEIR.console_url
    if not base or urlsplit(base).netloc.lower() == request.get_host().lower():
        return ""
    return f"{base.rstrip('/')}{request.get_full_path()}"


def _local(request: HttpRequest, address: str) -> str:
    safe = url_has_allowed_host_and_scheme(address, allowed_hosts={request.get_host()}, require_https=False)
    return address if address and safe else reverse("overview")
