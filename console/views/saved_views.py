"""Saved views of the user, and the columns that the user sees in a table. Viewers have them, too."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from console.views.shell import flash, redirect_to, rejected, render_page, viewer_required
from controlplane.selectors import saved_views as selectors
from controlplane.services import Rejected
from controlplane.services import saved_views as services


@viewer_required
def view_list(request: HttpRequest) -> HttpResponse:
    return render_page(request, "console/saved_views.html", {"views": selectors.saved_views(_user_id(request))})


@require_POST
@viewer_required
def save(request: HttpRequest) -> HttpResponse:
    name, address = request.POST.get("name", ""), request.POST.get("address", "")
    try:
        services.save_view(_user_id(request), name, address)
    except Rejected as error:
        return rejected(request, error, "/saved-views/")
    flash(
        request,
        _("Saved as “{split}”. The list is under your name, and Ctrl+K finds it.").format(split=" ".join(name.split())),
    )
    return HttpResponseRedirect(address)


@require_POST
@viewer_required
def delete(request: HttpRequest, view_id: int) -> HttpResponse:
    try:
        services.delete_view(_user_id(request), view_id)
    except Rejected as error:
        return rejected(request, error, "/saved-views/")
    flash(request, _("Saved view deleted."))
    return redirect_to("saved-views")


@require_POST
@viewer_required
def choose_columns(request: HttpRequest, table: str) -> HttpResponse:
    """Show the columns in `show` of those in `all`; `next`: the page to return to."""
    shown = set(request.POST.getlist("show"))
    try:
        services.hide_columns(_user_id(request), table, [c for c in request.POST.getlist("all") if c not in shown])
    except Rejected as error:
        return rejected(request, error, "/")
    back = request.POST.get("next", "/")
    safe = url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()})
    return HttpResponseRedirect(back if safe else "/")


def _user_id(request: HttpRequest) -> int:
    user_id = request.user.pk
    assert user_id is not None, "the decorators require a login"
    return int(user_id)
