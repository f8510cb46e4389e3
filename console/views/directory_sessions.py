"""Sessions of users of a directory, for LDAP and OpenID Connect: their end, and the page of a rejected login. Invariants: a session ends at a fixed
time after the directory last confirmed the user, also if it is in use (`session.set_expiry`). A directory that
does not respond ends no session before that time. Does not contain: the login itself (`console.views.session`, `console.views.oidc`).
"""

from __future__ import annotations

import time
from datetime import timedelta

from django.conf import settings
from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.utils.translation import gettext

from console.session_renewal import RENEW_AT
from console.views import shell
from controlplane.domain.external_login import REJECTIONS, LoginRejected, LoginRejection, LoginSource
from controlplane.services import external_logins

RETRY_SECONDS = 60
"""Pause after a renewal that could not reach the directory. The session continues until its end."""
STATUS = {
    LoginRejection.UNREACHABLE: 503,
    LoginRejection.BAD_RESPONSE: 502,
    LoginRejection.BAD_DIRECTORY: 502,
    LoginRejection.ATTRIBUTE_MISSING: 502,
    LoginRejection.INVALID_TOKEN: 502,
    LoginRejection.CLAIM_MISSING: 502,
    LoginRejection.TOO_MANY_GROUPS: 502,
    LoginRejection.WRONG_STATE: 400,
}
"""HTTP status by rejection. Rejections that are not listed have 403."""
OF_THE_ACCOUNT = (
    LoginRejection.NO_GROUP,
    LoginRejection.NAME_TAKEN,
    LoginRejection.INVALID_NAME,
    LoginRejection.DISABLED,
)
"""Rejections that another account may not have. A provider that keeps its session does not ask for one."""


def limit_session(request: HttpRequest) -> None:
    """The end of a session whose user the directory has just confirmed, and the time of its renewal."""
    minutes = settings.WEIR.login_session_minutes
    request.session.set_expiry(timezone.now() + timedelta(minutes=minutes))
    request.session[RENEW_AT] = time.time() + minutes * 30


def postpone(request: HttpRequest) -> None:
    request.session[RENEW_AT] = time.time() + RETRY_SECONDS


def end_session(request: HttpRequest, following: str, reason: str) -> HttpResponse:
    """End the console session of a user whom the directory no longer confirms."""
    if request.user.is_authenticated:
        external_logins.record_logout(request.user.get_username(), reason=reason)
        logout(request)
    return HttpResponseRedirect(f"{reverse('login')}?{urlencode({'next': following, 'ended': '1'})}")


def rejected_page(
    request: HttpRequest, rejection: LoginRejected, source: LoginSource, following: str = ""
) -> HttpResponse:
    """The page of a rejected login, with the groups that would permit it. `following`: the requested page, for the next attempt."""
    if rejection.user:
        address = request.META.get("REMOTE_ADDR", "")
        external_logins.record_failure(rejection.user, source, address, str(rejection))
    reason = gettext(REJECTIONS[rejection.rejection]).format(**rejection.values)
    another = source == LoginSource.OIDC and rejection.rejection in OF_THE_ACCOUNT
    context = {
        "theme": shell.theme(request),
        "reason": reason,
        "query": urlencode({"next": following} if following else {}),
        "provider": settings.WEIR.oidc_name if another else "",
    }
    status = STATUS.get(rejection.rejection, 403)
    return shell.add_security_headers(render(request, "console/login_rejected.html", context, status=status))


def local_address(request: HttpRequest, address: str) -> str:
    """`address` if it is a page of this console, else the overview."""
    safe = url_has_allowed_host_and_scheme(address, allowed_hosts={request.get_host()}, require_https=False)
    return address if address and safe else reverse("overview")
