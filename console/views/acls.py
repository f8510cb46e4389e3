"""ACLs: list, create, delete."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _

from console.access_forms import AclTemplateForm
from console.acl_labels import operation_text
from console.forms import AclForm
from console.views.actions import Deletion, confirm_deletion
from console.views.shell import (
    actor,
    flash,
    initial_from_query,
    list_options,
    not_found,
    operator_required,
    redirect_to,
    render_page,
    viewer_required,
)
from console.vocabulary import translated, word_text
from controlplane.domain.access import AclPermission
from controlplane.domain.acl_templates import TEMPLATES
from controlplane.selectors import acls
from controlplane.selectors.authorizers import authorizer_report
from controlplane.services import Rejected, acl_templates
from controlplane.services import acls as services

ACL_FIELDS = ("resource_type", "pattern_type", "resource_name", "principal", "host", "operation", "permission")


@viewer_required
def acl_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    found = acls.acl_list(query=query, **list_options(request, "resource_name"))
    return render_page(request, "console/acls.html", {"page": found, "q": query}, nav="acls")


@viewer_required
def enforcement(request: HttpRequest) -> HttpResponse:
    """The statement of the list about the authorizers of the brokers. It is a request of its own, because a broker that does not respond takes a second."""
    return render(request, "console/parts/acl_enforcement.html", {"a": authorizer_report()})


@operator_required
def create(request: HttpRequest) -> HttpResponse:
    form = AclForm(request.POST or None, initial=initial_from_query(request, *ACL_FIELDS))
    if request.method == "POST" and form.is_valid():
        acl = dict(form.cleaned_data)
        try:
            services.create_acl(actor=actor(request), **acl)
        except Rejected as error:
            form.reject(error)
        else:
            flash(
                request,
                _("ACL created: {permission} {operation} on {resource_type} {resource_name} for {principal}.").format(
                    permission=acl["permission"],
                    operation=acl["operation"],
                    resource_type=translated(word_text(acl["resource_type"])),
                    resource_name=acl["resource_name"],
                    principal=acl["principal"],
                ),
            )
            return redirect_to("acls")
    body = {n: form[n].value() or n.upper() for n in ACL_FIELDS}
    context = {"form": form, "body": body}
    return render_page(
        request, "console/acl_new.html", context, nav="acls", status=400 if form.is_bound and form.errors else 200
    )


@operator_required
def from_template(request: HttpRequest) -> HttpResponse:
    """Choose a template and its values, see the ACLs, create them."""
    form = AclTemplateForm(request.POST or None, initial=initial_from_query(request, "principal", "template"))
    preview = None
    if request.method == "POST" and form.is_valid():
        given = form.arguments()
        try:
            if request.POST.get("step") == "review":
                preview = acl_templates.preview_template(**given)
            else:
                found = acl_templates.apply_template(
                    **given, actor=actor(request), comment=form.cleaned_data["comment"]
                )
                created = sum(not acl.exists for acl in found)
                flash(
                    request,
                    _("{created} ACLs created for {principal}, {found} existed.").format(
                        created=created, principal=given["principal"], found=len(found) - created
                    ),
                )
                return redirect_to("acls")
        except Rejected as error:
            form.reject(error)
            preview = None
    context = {"form": form, "templates": TEMPLATES.values(), "preview": preview, "body": form.body()}
    context["path"] = f"acl-templates/{form['template'].value() or form.fields['template'].initial}/apply"
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/acl_template.html", context, nav="acls", status=status)


@operator_required
def delete(request: HttpRequest, acl_id: int) -> HttpResponse:
    row = acls.acl_row(acl_id)
    if row is None:
        return not_found(request, _("ACL {acl_id}").format(acl_id=acl_id), "acls", nav="acls")

    def delete_it(comment: str) -> None:
        services.delete_acl(acl_id, actor=actor(request), comment=comment)

    deletion = Deletion(
        title=_("Delete an ACL of {principal}").format(principal=row.principal),
        lines=[
            (
                _(
                    "{principal} loses {operation} on {resource_type} {resource_name} ({pattern_type}) from host {host}, unless another ACL allows it."
                )
                if row.permission == AclPermission.ALLOW
                else _(
                    "{principal} is no longer denied {operation} on {resource_type} {resource_name} ({pattern_type}) from host {host}. Other ACLs decide."
                )
            ).format(
                principal=row.principal,
                operation=operation_text(row.operation),
                resource_type=translated(word_text(row.resource_type)),
                resource_name=row.resource_name,
                pattern_type=row.pattern_type,
                host=row.host,
            ),
            _("Created by {created_by}.").format(created_by=row.created_by),
        ],
        button=_("Delete the {permission} ACL of {principal}").format(
            permission=row.permission, principal=row.principal
        ),
        back=reverse("acls"),
        crumb=_("ACLs"),
        path=f"acls/{acl_id}",
        message=_("ACL {acl_id} deleted.").format(acl_id=acl_id),
        done="acls",
    )
    return confirm_deletion(request, deletion, delete_it, nav="acls")
