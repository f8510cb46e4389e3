"""Permissions of a principal: the check of one operation with its explanation, and the effective permissions. All input is in the URL."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.acl_labels import operation_choices
from console.address_access import may_use
from console.forms import PrincipalField, WeirForm
from console.permission_links import acl_creation
from console.texts import gettext_lazy
from console.views.shell import list_options, render_page, viewer_required
from controlplane.domain.access import AclResource
from controlplane.domain.permission import PermissionReason
from controlplane.selectors import permissions
from controlplane.selectors.authorizers import authorizer_report
from controlplane.services import Rejected

EXPLANATIONS = {
    PermissionReason.SUPER_USER: gettext_lazy("The principal is in super.users."),
    PermissionReason.DENIED_BY_ACL: gettext_lazy("A deny ACL matches. Deny ACLs override allow ACLs."),
    PermissionReason.ALLOWED_BY_ACL: gettext_lazy("An allow ACL matches, and no deny ACL."),
    PermissionReason.NO_MATCHING_ACL: gettext_lazy(
        "The resource has ACLs, and none allows this operation to this principal from this host."
    ),
    PermissionReason.NO_ACL_OF_RESOURCE: gettext_lazy(
        "The resource has no ACL: allow.everyone.if.no.acl.found decides."
    ),
    PermissionReason.NO_AUTHORIZER: gettext_lazy(
        "The brokers have no authorizer: they allow every operation, and ACLs have no effect."
    ),
}


class PermissionForm(WeirForm):
    """A query about one principal. Without an operation, the result is the list of its permissions."""

    principal = PrincipalField(autofocus=True)
    host = forms.CharField(
        required=False,
        max_length=255,
        help_text=gettext_lazy("IP address of the client. Empty: only ACLs for all hosts apply."),
    )
    resource_type = forms.ChoiceField(
        required=False, choices=[("", "all"), *((w, w.replace("_", " ")) for w in AclResource)]
    )
    resource_name = forms.CharField(
        required=False, max_length=255, help_text=gettext_lazy("For one operation. Not needed for the cluster.")
    )
    operation = forms.ChoiceField(
        required=False,
        choices=[
            ("", gettext_lazy("list all permissions")),
            *operation_choices(permissions.operations()),
        ],
    )
    super_users = forms.CharField(
        required=False,
        label="super.users",
        help_text=gettext_lazy("In addition to those that the brokers report: User:admin;User:broker."),
    )
    allow_if_no_acl = forms.BooleanField(
        required=False,
        label=gettext_lazy("Allow without ACLs"),
        help_text=gettext_lazy("allow.everyone.if.no.acl.found, if the brokers do not respond."),
    )

    def options(self) -> permissions.AuthorizerOptions:
        v = self.cleaned_data
        users = tuple(u.strip() for u in v["super_users"].split(";") if u.strip())
        return permissions.AuthorizerOptions(users, v["allow_if_no_acl"])


def _remedy(request: HttpRequest, check: permissions.PermissionCheck) -> dict[str, str]:
    """The address of the form that allows a denied operation, if the user may use it."""
    if check.allowed:
        return {}
    if check.acl is None:
        name, address = "creation", acl_creation(check)
    else:
        name, address = "deletion", reverse("acl-delete", args=[check.acl.id])
    return {name: address} if may_use(request.user, address) else {}


@viewer_required
def permission_page(request: HttpRequest) -> HttpResponse:
    form = PermissionForm(request.GET if "principal" in request.GET else None)
    query = request.GET.get("q", "").strip()
    context: dict[str, object] = {"form": form, "q": query}
    if form.is_bound and form.is_valid():
        given = form.cleaned_data
        context["authorizer"] = report = authorizer_report()
        options = report.options(form.options())
        try:
            if given["operation"]:
                requested = {n: given[n] for n in ("principal", "host", "resource_type", "resource_name", "operation")}
                check = permissions.check_permission(**requested, options=options)
                context |= {
                    "check": check,
                    "explanation": EXPLANATIONS[PermissionReason(check.reason)],
                    **_remedy(request, check),
                }
            else:
                context["super_user"] = given["principal"].strip() in options.super_users
                context["page"] = permissions.permission_list(
                    principal=given["principal"],
                    host=given["host"],
                    resource_type=given["resource_type"],
                    query=query,
                    options=options,
                    **list_options(request, "resource_name"),
                )
        except Rejected as error:
            form.reject(error)
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/permissions.html", context, nav="permissions", status=status)
