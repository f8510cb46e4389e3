"""SCRAM users: list, one user, create, change the password, delete.

A generated password is in the page that answers the POST. The page is not cached (`never_cache`) and has no URL of its own.
"""

from __future__ import annotations

from functools import partial

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from console import exports
from console.access_forms import PasswordForm, UserForm
from console.forms import DestroyForm
from console.views.shell import (
    actor,
    flash,
    list_options,
    not_found,
    operator_required,
    redirect_to,
    render_page,
    viewer_required,
)
from controlplane.domain.scram_users import MECHANISMS
from controlplane.selectors import users
from controlplane.services import Rejected
from controlplane.services import users as services


@viewer_required
def user_list(request: HttpRequest) -> HttpResponse:
    query, mechanism = request.GET.get("q", "").strip(), request.GET.get("mechanism", "")
    mechanism = mechanism if mechanism in MECHANISMS else ""
    read, options = partial(users.user_list, query=query, mechanism=mechanism), list_options(request, "name")
    if exports.is_requested(request):
        return exports.response("users", read, options["sort"])
    found = read(**options)
    context = {"page": found, "csv": True, "q": query, "mechanism": mechanism, "mechanisms": MECHANISMS}
    return render_page(request, "console/users.html", context, nav="users")


@viewer_required
def user(request: HttpRequest, name: str) -> HttpResponse:
    detail = users.user_detail(name)
    if detail is None:
        return not_found(request, _("SCRAM user {name}").format(name=name), "users", nav="users")
    return render_page(request, "console/user.html", {"u": detail}, nav="users")


@sensitive_post_parameters("password")
@sensitive_variables("form", "values", "generated")
@operator_required
def create(request: HttpRequest) -> HttpResponse:
    form = UserForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        values = dict(form.cleaned_data)
        try:
            generated = services.create_user(actor=actor(request), **values)
        except Rejected as error:
            form.reject(error)
        else:
            return _password_response(request, values["name"], generated, created=True)
    body = {"name": "NAME", "mechanisms": list(MECHANISMS)}
    return render_page(
        request,
        "console/user_new.html",
        {"form": form, "body": body},
        nav="users",
        status=400 if form.is_bound and form.errors else 200,
    )


@sensitive_post_parameters("password")
@sensitive_variables("form", "generated")
@operator_required
def change_password(request: HttpRequest, name: str) -> HttpResponse:
    detail = users.user_detail(name)
    if detail is None:
        return not_found(request, _("SCRAM user {name}").format(name=name), "users", nav="users")
    form = PasswordForm(request.POST or None)
    form.fields["password"].label = _("New password")
    if request.method == "POST" and form.is_valid():
        try:
            generated = services.change_password(name, actor=actor(request), **form.cleaned_data)
        except Rejected as error:
            form.reject(error)
        else:
            return _password_response(request, name, generated, created=False)
    return render_page(
        request,
        "console/user_password.html",
        {"u": detail, "form": form, "body": {"password": None, "comment": "REASON"}},
        nav="users",
        status=400 if form.is_bound and form.errors else 200,
    )


@operator_required
def delete(request: HttpRequest, name: str) -> HttpResponse:
    detail = users.user_detail(name)
    if detail is None:
        return not_found(request, _("SCRAM user {name}").format(name=name), "users", nav="users")
    form = DestroyForm(name, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            services.delete_user(name, actor=actor(request), comment=form.cleaned_data["comment"])
        except Rejected as error:
            form.reject(error)
        else:
            flash(request, _("User {name} deleted.").format(name=name))
            return redirect_to("users")
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/user_delete.html", {"u": detail, "form": form}, nav="users", status=status)


@sensitive_variables("generated")
def _password_response(request: HttpRequest, name: str, generated: str | None, *, created: bool) -> HttpResponse:
    """Return the response after a password was set: the page with the generated password, or else a redirect to the page of the user."""
    if generated is None:
        flash(
            request,
            _("User {name} created.").format(name=name)
            if created
            else _("Password of user {name} changed.").format(name=name),
        )
        return redirect_to("user", name)
    context = {"name": name, "password": generated, "created": created}
    return render_page(request, "console/user_created.html", context, nav="users")
