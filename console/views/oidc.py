"""Login through OpenID Connect: the redirect to the provider and its callback, for a login and for the silent renewal of a session.

Invariants: the page after the login is one of this console. The pages work with GET only: the content security policy does not let a form end at another site.
Does not contain: the protocol (`controlplane.clients.oidc`), the rights of groups (`controlplane.services.external_logins`).
"""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import login, logout
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.crypto import get_random_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from console.views import shell
from console.views.directory_sessions import end_session, limit_session, local_address, postpone, rejected_page
from controlplane.domain.external_login import LoginRejected, LoginRejection, LoginSource
from controlplane.services import external_logins, oidc

BACKEND = "controlplane.services.login_backends.OidcUsers"
STARTED = "oidc_started"
"""Key in the session: the purpose of each state."""
STARTED_MAX = 10
"""Maximum number of logins that are started at the same time in one session, for example one per tab. The oldest is forgotten."""
STARTED_SECONDS = 3600
"""A session without a user, which only keeps started logins, ends after this time. Authlib forgets a state after the same time."""
STATE_CHARS = 40
NO_SESSION = "The login provider has no session of the user."


@never_cache
@require_GET
def start(request: HttpRequest) -> HttpResponse:
    """Redirect to the provider. A user who is logged in goes to the requested page."""
    following = local_address(request, request.GET.get("next", ""))
    if request.user.is_authenticated:
        return HttpResponseRedirect(following)
    if away := other_address(request):
        return HttpResponseRedirect(away)
    try:
        return provider_redirect(request, following, silent=False)
    except LoginRejected as rejection:
        return rejected_page(request, rejection, LoginSource.OIDC, following)


@never_cache
@require_GET
def callback(request: HttpRequest) -> HttpResponse:
    """The provider's redirect back."""
    _require_enabled()
    state = request.GET.get("state", "")
    started = dict(request.session.get(STARTED) or {})
    known = started.pop(state, None)
    if known is None:
        return rejected_page(request, LoginRejected(LoginRejection.WRONG_STATE), LoginSource.OIDC)
    request.session[STARTED] = started
    following, silent = local_address(request, known["next"]), bool(known["silent"])
    if silent and request.GET.get("error") in oidc.LOGIN_REQUIRED:
        return end_session(request, following, NO_SESSION)
    try:
        found = oidc.user_of_callback(request)
        user = external_logins.user_of(found)
    except LoginRejected as rejection:
        if silent and rejection.rejection == LoginRejection.UNREACHABLE:
            postpone(request)
            return HttpResponseRedirect(following)
        if request.user.is_authenticated:
            external_logins.record_logout(request.user.get_username(), reason=str(rejection))
            logout(request)
        return rejected_page(request, rejection, LoginSource.OIDC, following)
    finally:
        oidc.forget_state(request, state)
    if not (request.user.is_authenticated and request.user.pk == user.pk):
        login(request, user, backend=BACKEND)
        external_logins.record_login(user.get_username(), LoginSource.OIDC, request.META.get("REMOTE_ADDR", ""))
    limit_session(request)
    return HttpResponseRedirect(following)


def provider_redirect(request: HttpRequest, following: str, *, silent: bool) -> HttpResponse:
    """The redirect to the provider. `silent`: without a page of the provider. Raises LoginRejected."""
    _require_enabled()
    state = get_random_string(STATE_CHARS)
    started: dict[str, object] = dict(request.session.get(STARTED) or {})
    for old in list(started)[: max(0, len(started) - STARTED_MAX + 1)]:
        del started[old]
        oidc.forget_state(request, old)
    response = oidc.redirect_to_provider(request, _callback_address(request), state, silent=silent)
    request.session[STARTED] = {**started, state: {"next": following, "silent": silent}}
    if not request.user.is_authenticated:
        request.session.set_expiry(STARTED_SECONDS)
    return shell.add_security_headers(response)


def _require_enabled() -> None:
    if not oidc.is_configured():
        raise Http404


def _callback_address(request: HttpRequest) -> str:
    path = reverse("oidc-callback")
    base = settings.WEIR.console_url
    return f"{base.rstrip('/')}{path}" if base else request.build_absolute_uri(path)


def other_address(request: HttpRequest) -> str:
    """Return the address of this page at WEIR_CONSOLE_URL, or "" if the browser uses that host already. The provider returns to that host, which
    does not receive the session cookie of another host name."""
    base = settings.WEIR.console_url
    if not base or urlsplit(base).netloc.lower() == request.get_host().lower():
        return ""
    return f"{base.rstrip('/')}{request.get_full_path()}"
