"""Role bindings: list, create, delete, and the check of one access."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from console.forms import WeirForm, comment_field
from console.texts import gettext_lazy
from console.views.actions import Deletion, confirm_deletion
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
from console.vocabulary import rejection_text, translated, word_text
from controlplane.domain.access import AclPattern
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.roles import NAME_CHARS_MAX, Access, AccessRole, RoleResource
from controlplane.selectors import role_bindings as selectors
from controlplane.services import Rejected, authorization
from controlplane.services import role_bindings as services
from controlplane.services.authorization import AccessReason

ROLES = {
    AccessRole.OPERATOR: gettext_lazy("operator: change, delete, reset offsets, move"),
    AccessRole.READER: gettext_lazy("reader: read records"),
    AccessRole.WRITER: gettext_lazy("writer: produce records"),
    AccessRole.VIEWER: gettext_lazy("viewer: see the resource, without its records"),
    AccessRole.OWNER: gettext_lazy("owner: all of these"),
}
ACCESSES = {
    Access.OPERATE: gettext_lazy("change the resource"),
    Access.VIEW: gettext_lazy("see the resource"),
    Access.READ_RECORDS: gettext_lazy("read records"),
    Access.PRODUCE_RECORDS: gettext_lazy("produce records"),
}
TYPES = {
    RoleResource.TOPIC: gettext_lazy("topic"),
    RoleResource.GROUP: gettext_lazy("group"),
    RoleResource.USER: gettext_lazy("SCRAM user"),
    RoleResource.BROKER: gettext_lazy("broker"),
    RoleResource.ROUTE: gettext_lazy("route"),
    RoleResource.QUOTA: gettext_lazy("quota"),
    RoleResource.ACL: gettext_lazy("ACL"),
    RoleResource.PLAN: gettext_lazy("saved plan"),
    RoleResource.CLUSTER: gettext_lazy("whole cluster"),
}
REASONS = {
    AccessReason.SUPERUSER: gettext_lazy("The user is an administrator (superuser)."),
    AccessReason.CLUSTER_OPERATOR: gettext_lazy("The user is an operator of the whole cluster (staff)."),
    AccessReason.PERMISSION: gettext_lazy("The user has the permission for all topics."),
    AccessReason.EVERY_USER: gettext_lazy("Every user sees the whole cluster, because WEIR_VIEW_BY_ROLE is off."),
    AccessReason.ROLE_BINDING: gettext_lazy("These role bindings permit it:"),
    AccessReason.NONE: gettext_lazy("No role binding permits it."),
}
EXACT = {"autocomplete": "off", "spellcheck": "false"}


class RoleBindingForm(WeirForm):
    user = forms.CharField(
        required=False,
        max_length=150,
        widget=forms.TextInput(attrs={**EXACT, "autofocus": True}),
        help_text=gettext_lazy("A user of the console. Empty for a group."),
    )
    group = forms.CharField(
        label=gettext_lazy("User group"),
        required=False,
        max_length=150,
        widget=forms.TextInput(attrs=EXACT),
        help_text=gettext_lazy("A group of console users (Django administration), instead of a user."),
    )
    role = forms.ChoiceField(choices=[(r.value, label) for r, label in ROLES.items()])
    resource_type = forms.ChoiceField(choices=[(t.value, label) for t, label in TYPES.items()])
    pattern_type = forms.ChoiceField(choices=[(p.value, p.value) for p in AclPattern], initial=AclPattern.PREFIXED)
    resource_name = forms.CharField(
        max_length=NAME_CHARS_MAX,
        widget=forms.TextInput(attrs=EXACT),
        help_text=gettext_lazy(
            "A name, a prefix, or * (literal) for all names. The name of the whole cluster is kafka-cluster."
        ),
    )
    comment = comment_field()


class AccessCheckForm(WeirForm):
    """Page: the permissions of a user for one resource. All input is in the URL."""

    user = forms.CharField(max_length=150, widget=forms.TextInput(attrs=EXACT))
    access = forms.ChoiceField(choices=[(a.value, label) for a, label in ACCESSES.items()])
    resource_type = forms.ChoiceField(choices=[(t.value, label) for t, label in TYPES.items()])
    resource_name = forms.CharField(max_length=NAME_CHARS_MAX, widget=forms.TextInput(attrs=EXACT))


@viewer_required
def binding_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    form = AccessCheckForm(request.GET if "access" in request.GET else None)
    context: dict[str, object] = {"q": query, "form": form}
    if form.is_bound and form.is_valid():
        try:
            check = authorization.check_access(**form.cleaned_data)
        except Rejected as error:
            form.reject(error)
        else:
            context |= {
                "check": check,
                "reason": REASONS[AccessReason(check.reason)],
                "access": ACCESSES[Access(form.cleaned_data["access"])],
            }
    context["page"] = selectors.binding_list(query=query, **list_options(request, "-id"))
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/role_bindings.html", context, nav="permissions", status=status)


@operator_required
def create(request: HttpRequest) -> HttpResponse:
    form = RoleBindingForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        values: dict[str, Any] = dict(form.cleaned_data)
        holder = values["user"] or values["group"]
        try:
            services.check_administrator(request.user, AuditOperation.ROLE_BINDING_CREATE, holder)
            services.create_binding(actor=actor(request), **values)
        except PermissionDenied as error:
            return render_page(
                request, "console/denied.html", {"reason": rejection_text(error)}, nav="permissions", status=403
            )
        except Rejected as error:
            form.reject(error)
        else:
            flash(request, _("{holder} has the role {role} now.").format(holder=holder, role=values["role"]))
            return redirect_to("role-bindings")
    body = {
        "user": "alice",
        "role": "operator",
        "resource_type": "topic",
        "pattern_type": "prefixed",
        "resource_name": "payments.",
    }
    context = {"form": form, "body": body}
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/role_binding_new.html", context, nav="permissions", status=status)


@operator_required
def delete(request: HttpRequest, binding_id: int) -> HttpResponse:
    row = selectors.binding_row(binding_id)
    if row is None:
        what = _("role binding {binding_id}").format(binding_id=binding_id)
        return not_found(request, what, "role-bindings", nav="permissions")

    def delete_it(comment: str) -> None:
        services.check_administrator(request.user, AuditOperation.ROLE_BINDING_DELETE, str(binding_id))
        services.delete_binding(binding_id, actor=actor(request), comment=comment)

    deletion = Deletion(
        title=_("Delete the role binding of {holder}").format(holder=row.user or row.group),
        lines=[
            _("{holder} loses the role {role} on {resource_type} {resource_name} ({pattern_type}).").format(
                holder=row.user or row.group,
                role=translated(word_text(row.role)),
                resource_type=translated(word_text(row.resource_type)),
                resource_name=row.resource_name,
                pattern_type=translated(word_text(row.pattern_type)),
            ),
            _("Created by {created_by}.").format(created_by=row.created_by),
        ],
        button=_("Delete the binding"),
        back=reverse("role-bindings"),
        crumb=_("Role bindings"),
        path=f"role-bindings/{binding_id}",
        message=_("Role binding {binding_id} deleted.").format(binding_id=binding_id),
        done="role-bindings",
    )
    return confirm_deletion(request, deletion, delete_it, nav="permissions")
