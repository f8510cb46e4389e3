"""Signing in and out, and the choice of light, dark or high contrast."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from console.views import shell


class SignIn(LoginView):
    template_name = "console/login.html"
    redirect_authenticated_user = True

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        return shell.guard(super().dispatch(request, *args, **kwargs))  # type: ignore[arg-type]

    def get_context_data(self, **kwargs: object) -> dict[str, object]:
        return super().get_context_data(theme=shell.theme(self.request), **kwargs)


class SignOut(LogoutView):
    http_method_names = ["post", "options"]


@require_POST
def choose_theme(request: HttpRequest) -> HttpResponse:
    """Remember the theme in a cookie, so that the first byte of the next page has it already."""
    chosen = request.POST.get("theme", "auto")
    back = request.POST.get("next", "/")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()}):
        back = "/"
    response = HttpResponseRedirect(back)
    if chosen in shell.THEMES:
        response.set_cookie(shell.THEME_COOKIE, chosen, max_age=365 * 86400, httponly=True, samesite="Lax")
    return response
