"""Acts that override a safety refusal: proposed by one operator, decided by another. Law: both see the same lines; who may not approve sees the
button and why it is not his."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.forms import DecideForm, ProposeForm
from console.views.shell import go, listing, missing, operator, page, refused, said, signed_in, who
from controlplane.selectors import proposals
from controlplane.services import Refused
from controlplane.services import proposals as services

TABS = (("", "all"), ("open", "open"), ("decided", "decided"))


@signed_in
def proposal_list(request: HttpRequest) -> HttpResponse:
    q = request.GET
    state = q.get("state", "") if q.get("state", "") in dict(TABS) else ""
    query = q.get("q", "").strip()
    found = proposals.proposal_list(who(request), query=query, state=state, **listing(request, "-id"))
    context = {"page": found, "q": query, "state": state, "tabs": TABS}
    return page(request, "console/proposals.html", context, nav="proposals")


@operator
def new(request: HttpRequest) -> HttpResponse:
    """What would be proposed, and the reason for it."""
    kind, target = request.GET.get("kind", ""), request.GET.get("target", "")
    arguments: dict[str, Any] = {"start": True} if request.GET.get("start") else {}
    back = reverse("proposals")
    try:
        shown, digest = services.shown(kind, target, arguments)
    except Refused as error:
        return refused(request, error, back, nav="proposals")
    form = ProposeForm(request.POST or None, initial={"shown_hash": digest})
    if request.method == "POST" and form.is_valid():
        v = form.cleaned_data
        try:
            row = services.propose(kind, target, arguments, who=who(request), why=v["why"], shown_hash=v["shown_hash"])
        except Refused as error:
            form.refuse(error)
        else:
            said(request, f"Proposal {row.pk} waits for another operator.")
            return go("proposal", row.pk)
    context = {
        "title": shown.title, "form": form, "lines": [*shown.lines, "Nothing happens before another operator approves."],
        "button": "Propose it", "back": back, "method": "POST", "path": "proposals",
        "body": {"kind": kind, "target": target, "arguments": arguments, "why": "WHY", "shown_hash": digest},
    }  # fmt: skip
    status = 409 if form.is_bound and form.errors else 200
    return page(request, "console/confirm.html", context, nav="proposals", status=status)


@signed_in
def proposal(request: HttpRequest, proposal_id: int) -> HttpResponse:
    row = proposals.proposal_row(proposal_id, who(request))
    if row is None:
        return missing(request, f"proposal {proposal_id}", "proposals", nav="proposals")
    if request.method == "POST":
        return _decide(request, proposal_id)
    return _shown(request, row, DecideForm())


@operator
def _decide(request: HttpRequest, proposal_id: int) -> HttpResponse:
    form = DecideForm(request.POST)
    yes = request.POST.get("act") == "approve"
    if form.is_valid():
        why = form.cleaned_data["why"]
        try:
            decided = (services.approve if yes else services.reject)(proposal_id, who=who(request), why=why)
        except Refused as error:
            form.refuse(error)
        else:
            said(request, f"Proposal {proposal_id} is {decided.state}. {decided.detail}")
            return go("proposal", proposal_id)
    row = proposals.proposal_row(proposal_id, who(request))
    assert row is not None
    return _shown(request, row, form)


def _shown(request: HttpRequest, row: proposals.ProposalRow, form: DecideForm) -> HttpResponse:
    own = row.proposed_by == who(request)
    context = {
        "p": row,
        "form": form,
        "own": own,
        "p_text": str(row.id),
        "body": {"why": "WHY"},
        "facts": sorted(row.shown["facts"].items()),
    }
    return page(request, "console/proposal.html", context, nav="proposals", status=409 if form.errors else 200)
