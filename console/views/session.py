"""Login with a password, logout, renewal of a session, and the choice of the theme."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from console import durations
from console.panels import lazy
from console.session_renewal import RENEW_AT
from console.views import oidc, shell
from console.views.directory_sessions import end_session, limit_session, local_address, postpone, rejected_page
from controlplane.domain.external_login import LoginRejected, LoginSource
from controlplane.services import directory, logins

LDAP_BACKEND = "controlplane.services.login_backends.LdapUsers"


def _accepts_passwords() -> bool:
    """Return whether the login page has a form: for passwords of local users, or for those of an LDAP directory."""
    return settings.WEIR.password_login or bool(settings.WEIR.ldap_url)


class SignIn(LoginView):
    template_name = "console/login.html"
    redirect_authenticated_user = True

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        return shell.add_security_headers(super().dispatch(request, *args, **kwargs))  # type: ignore[arg-type]

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        """Check the password. After several failed logins the next attempt must wait. Until then the password is not checked."""
        if not _accepts_passwords():
            return render(request, self.template_name, self._choices(request.POST.get("next", "")), status=403)
        name, address = request.POST.get("username", ""), request.META.get("REMOTE_ADDR", "")
        if (wait := logins.wait_s(name, address)) > 0:
            context = {**self._choices(request.POST.get("next", "")), "wait": durations.duration(wait + 1)}
            response = render(request, self.template_name, context, status=429)
            response.headers["Retry-After"] = str(int(wait) + 1)
            return response
        try:
            response = super().post(request, *args, **kwargs)  # type: ignore[arg-type]
        except LoginRejected as rejection:
            return rejected_page(request, rejection, LoginSource.LDAP, request.POST.get("next", ""))
        if not request.user.is_authenticated:
            logins.count_failed_login(name, address)
        elif request.session.get(BACKEND_SESSION_KEY) == LDAP_BACKEND:
            logins.record_successful_login(name, address, request.user.get_username(), LoginSource.LDAP)
            limit_session(request)
        else:
            logins.record_successful_login(name, address, request.user.get_username(), LoginSource.PASSWORD)
        return response

    def get_context_data(self, **kwargs: object) -> dict[str, object]:
        return super().get_context_data(**self._choices(self.get_redirect_url()), **kwargs)

    def _choices(self, following: str) -> dict[str, object]:
        """The ways to log in that the settings permit. `following`: the requested page."""
        return {
            "theme": shell.theme(self.request),
            "next": following,
            "passwords": _accepts_passwords(),
            "local": bool(settings.LOCAL_CLUSTER.defaults["console_url"]),
            "first": lazy(logins.is_without_users),
            "directory": bool(settings.WEIR.ldap_url),
            "oidc": settings.WEIR.oidc_name if settings.WEIR.oidc_issuer else "",
            "oidc_query": urlencode({"next": following} if following else {}),
            "ended": self.request.GET.get("ended") == "1",
            "unsent": self.request.GET.get("unsent") == "1",
            "logged_out": self.request.GET.get("logged_out") == "1",
        }


class SignOut(LogoutView):
    http_method_names = ["post", "options"]

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        """End the session of the console. That of the provider continues, and the login page says so."""
        at_provider = request.session.get(BACKEND_SESSION_KEY) == oidc.BACKEND
        if request.user.is_authenticated:
            logins.logged_out(request.user.get_username())
        response = super().post(request, *args, **kwargs)  # type: ignore[arg-type]
        return shell.redirect_to("login", logged_out="1") if at_provider else response


@never_cache
@require_GET
def renew(request: HttpRequest) -> HttpResponse:
    """Let the directory confirm the user again: LDAP here, OpenID Connect through the browser without a page of the provider. If it does not respond, the
    session continues until its end."""
    following = local_address(request, request.GET.get("next", ""))
    if RENEW_AT not in request.session or not request.user.is_authenticated:
        return HttpResponseRedirect(following)
    try:
        if request.session.get(BACKEND_SESSION_KEY) != LDAP_BACKEND:
            elsewhere = oidc.other_address(request)
            return (
                HttpResponseRedirect(following)
                if elsewhere
                else oidc.provider_redirect(request, following, silent=True)
            )
        ended = directory.refresh_user(request.user)
    except LoginRejected:
        postpone(request)
        return HttpResponseRedirect(following)
    if ended:
        return end_session(request, following, ended)
    limit_session(request)
    return HttpResponseRedirect(following)


@require_POST
def choose_theme(request: HttpRequest) -> HttpResponse:
    """Store the theme in a cookie, so the next page is rendered with it."""
    chosen = request.POST.get("theme", "auto")
    back = request.POST.get("next", "/")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()}):
        back = "/"
    response = HttpResponseRedirect(back)
    if chosen in shell.THEMES:
        response.set_cookie(shell.THEME_COOKIE, chosen, max_age=365 * 86400, httponly=True, samesite="Lax")
    return response
