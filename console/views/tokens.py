"""API tokens: list, create, revoke.

Each user creates and revokes their own tokens, within their role. The text of a token is in the page that answers the POST. The page is not cached
(`never_cache`) and has no URL of its own.
"""

from __future__ import annotations

from datetime import timedelta

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables

from console.access_forms import TokenForm
from console.forms import DestroyForm
from console.views.shell import (
    actor,
    flash,
    list_options,
    not_found,
    redirect_to,
    render_page,
    viewer_required,
)
from controlplane.domain.token_scopes import TokenScope, scope_of_role
from controlplane.selectors import api_tokens
from controlplane.services import Rejected
from controlplane.services import api_tokens as services
from controlplane.services.authorization import may_change_something


@viewer_required
def token_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    found = api_tokens.token_list(request.user, query=query, **list_options(request, "-id"))
    return render_page(request, "console/tokens.html", {"page": found, "q": query}, nav="tokens")


@sensitive_variables("text")
@viewer_required
def create(request: HttpRequest) -> HttpResponse:
    user = request.user
    limit = scope_of_role(is_operator=may_change_something(user), is_superuser=user.is_superuser)
    form = TokenForm(limit, request.POST or None)
    if request.method == "POST" and form.is_valid():
        values = form.cleaned_data
        days = values["days"]
        try:
            row, text = services.create_token(
                values["name"],
                actor=actor(request),
                scope=TokenScope(values["scope"]),
                limit=limit,
                expires_at=None if days is None else timezone.now() + timedelta(days=days),
                comment=values["comment"],
            )
        except Rejected as error:
            form.reject(error)
        else:
            context = {"token": api_tokens.token_shape(row), "text": text}
            return render_page(request, "console/token_created.html", context, nav="tokens")
    body = {"name": "NAME", "scope": "read", "expires_at": "2027-01-01T00:00:00Z"}
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/token_new.html", {"form": form, "body": body}, nav="tokens", status=status)


@viewer_required
def revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    row = api_tokens.token_row(token_id, request.user)
    if row is None:
        return not_found(request, _("API token {token_id}").format(token_id=token_id), "tokens", nav="tokens")
    form = DestroyForm(row.name, request.POST or None)
    if request.method == "POST" and form.is_valid():
        services.revoke_token(token_id, actor=actor(request), comment=form.cleaned_data["comment"])
        flash(request, _("API token {name} revoked.").format(name=row.name))
        return redirect_to("tokens")
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/token_revoke.html", {"token": row, "form": form}, nav="tokens", status=status)
