"""Consumer groups: the list, one group with its lag per partition and members, and deleting an empty one."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from console.forms import DestroyForm
from console.views.shell import go, listing, missing, operator, page, said, signed_in, who
from controlplane.selectors import console_history, groups
from controlplane.services import Refused
from controlplane.services import groups as services


@signed_in
def group_list(request: HttpRequest) -> HttpResponse:
    query, topic = request.GET.get("q", "").strip(), request.GET.get("topic", "").strip()
    found = groups.group_list(query=query, topic=topic, **listing(request, "group_id"))
    return page(request, "console/groups.html", {"page": found, "q": query, "topic": topic}, nav="groups")


@signed_in
def group(request: HttpRequest, group_id: str) -> HttpResponse:
    detail = groups.group_detail(group_id)
    if detail is None:
        return missing(request, f"group {group_id}", "groups", nav="groups")
    lag = console_history.series(f"group:{group_id}", "lag_records")
    return page(request, "console/group.html", {"g": detail, "lag": lag}, nav="groups")


@operator
def delete(request: HttpRequest, group_id: str) -> HttpResponse:
    detail = groups.group_detail(group_id)
    if detail is None:
        return missing(request, f"group {group_id}", "groups", nav="groups")
    form = DestroyForm(group_id, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            outcome = services.delete_group(group_id, who=who(request), why=form.cleaned_data["why"])
        except Refused as error:
            form.refuse(error)
        else:
            said(
                request, f"Group {group_id}: {outcome}." if outcome != "confirmed" else f"Group {group_id} is deleted."
            )
            return go("groups")
    status = 400 if form.is_bound and form.errors else 200
    return page(request, "console/group_delete.html", {"g": detail, "form": form}, nav="groups", status=status)
