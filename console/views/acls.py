"""ACL bindings. Law: the page says where brokers enforce them."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.forms import AclForm, WhyForm
from console.views.shell import go, listing, missing, operator, page, said, signed_in, who
from controlplane.selectors import acls
from controlplane.services import Refused
from controlplane.services import acls as services


@signed_in
def acl_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    found = acls.acl_list(query=query, **listing(request, "resource_name"))
    return page(request, "console/acls.html", {"page": found, "q": query}, nav="acls")


@operator
def create(request: HttpRequest) -> HttpResponse:
    form = AclForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        v = dict(form.cleaned_data)
        try:
            services.create_acl(who=who(request), **v)
        except Refused as error:
            form.refuse(error)
        else:
            said(
                request,
                f"{v['permission']} {v['operation']} on {v['resource_type']} {v['resource_name']} for {v['principal']} is stored.",
            )
            return go("acls")
    names = ("resource_type", "pattern_type", "resource_name", "principal", "host", "operation", "permission")
    body = {n: form[n].value() or n.upper() for n in names}
    context = {"form": form, "body": body}
    return page(
        request, "console/acl_new.html", context, nav="acls", status=400 if form.is_bound and form.errors else 200
    )


@operator
def delete(request: HttpRequest, acl_id: int) -> HttpResponse:
    row = acls.acl_row(acl_id)
    if row is None:
        return missing(request, f"binding {acl_id}", "acls", nav="acls")
    form = WhyForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            services.delete_acl(acl_id, who=who(request), why=form.cleaned_data["why"])
        except Refused as error:
            form.refuse(error)
        else:
            said(request, f"Binding {acl_id} is removed.")
            return go("acls")
    context = {
        "title": f"Remove binding {acl_id}",
        "form": form,
        "lines": [
            f"{row.permission} {row.operation} on {row.resource_type} {row.resource_name} ({row.pattern_type}) for {row.principal} from {row.host}.",
            f"Stored by {row.created_by}.",
        ],
        "button": f"Remove the {row.permission} for {row.principal}",
        "back": reverse("acls"),
        "method": "DELETE",
        "path": f"acls/{acl_id}",
    }
    return page(request, "console/confirm.html", context, nav="acls")
