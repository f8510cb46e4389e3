"""Login, logout and the choice of the theme."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from console.views import shell
from controlplane.domain.text import duration_text
from controlplane.services import logins


class SignIn(LoginView):
    template_name = "console/login.html"
    redirect_authenticated_user = True

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        return shell.add_security_headers(super().dispatch(request, *args, **kwargs))  # type: ignore[arg-type]

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        """After several failed logins the next attempt must wait; until then the password is not checked."""
        name, address = request.POST.get("username", ""), request.META.get("REMOTE_ADDR", "")
        if (wait := logins.wait_s(name, address)) > 0:
            context = {
                "theme": shell.theme(request),
                "next": request.POST.get("next", ""),
                "wait": duration_text(wait + 1),
            }
            response = render(request, self.template_name, context, status=429)
            response.headers["Retry-After"] = str(int(wait) + 1)
            return response
        response = super().post(request, *args, **kwargs)  # type: ignore[arg-type]
        (logins.succeeded if request.user.is_authenticated else logins.failed)(name, address)
        return response

    def get_context_data(self, **kwargs: object) -> dict[str, object]:
        return super().get_context_data(theme=shell.theme(self.request), **kwargs)


class SignOut(LogoutView):
    http_method_names = ["post", "options"]


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
