"""Approval requests: operations that override a safety check, requested by one operator and decided by another.

Both operators see the same review. An operator without the right to approve sees the disabled button and the reason."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from console.forms import DecideForm, ProposeForm
from console.fragments import state_label
from console.record_links import record_url
from console.texts import gettext_lazy
from console.views.shell import (
    actor,
    flash,
    list_options,
    not_found,
    operator_required,
    redirect_to,
    rejected,
    render_page,
    viewer_required,
)
from console.vocabulary import translated
from controlplane.domain.proposal import ProposalKind
from controlplane.domain.transactions import parse_target
from controlplane.services import Rejected
from controlplane.services import proposal_rows as proposals
from controlplane.services import proposals as services

TABS = (("", gettext_lazy("All")), ("open", gettext_lazy("Open")), ("decided", gettext_lazy("Decided")))


@viewer_required
def proposal_list(request: HttpRequest) -> HttpResponse:
    q = request.GET
    state = q.get("state", "") if q.get("state", "") in dict(TABS) else ""
    query = q.get("q", "").strip()
    found = proposals.proposal_list(actor(request), query=query, state=state, **list_options(request, "-id"))
    context = {"page": found, "q": query, "state": state, "tabs": TABS}
    return render_page(request, "console/proposals.html", context, nav="proposals")


@operator_required
def new(request: HttpRequest) -> HttpResponse:
    """The review of an approval request, and the form for its reason."""
    kind, target = request.GET.get("kind", ""), request.GET.get("target", "")
    arguments: dict[str, object] = {"start": True} if request.GET.get("start") else {}
    back = _page_before(kind, target)
    try:
        shown, digest = services.render_target(kind, target, arguments)
    except Rejected as error:
        return rejected(request, error, back, nav="proposals")
    form = ProposeForm(request.POST or None, initial={"shown_hash": digest})
    if request.method == "POST" and form.is_valid():
        v = form.cleaned_data
        try:
            row = services.propose(
                kind, target, arguments, actor=actor(request), comment=v["comment"], shown_hash=v["shown_hash"]
            )
        except Rejected as error:
            form.reject(error)
        else:
            flash(request, _("Approval request {id} created. Another operator must approve it.").format(id=row.pk))
            return redirect_to("proposal", row.pk)
    context = {
        "title": _("Request approval: {operation}").format(operation=translated(shown.title)),
        "form": form,
        "lines": [*map(translated, shown.lines), _("Nothing changes until another operator approves.")],
        "button": _("Request approval"),
        "back": back,
        "crumb": _("Approval requests") if back == reverse("proposals") else _("Half messages"),
        "method": "POST",
        "path": "proposals",
        "body": {"kind": kind, "target": target, "arguments": arguments, "comment": "COMMENT", "shown_hash": digest},
    }
    status = 409 if form.is_bound and form.errors else 200
    return render_page(request, "console/confirm.html", context, nav="proposals", status=status)


def _page_before(kind: str, target: str) -> str:
    """The page that offers the request: the half messages of the topic, else the list of approval requests."""
    message = parse_target(target) if kind in (ProposalKind.HALF_COMMIT, ProposalKind.HALF_ROLLBACK) else None
    return reverse("proposals") if message is None else reverse("half-messages", args=[message[0]])


def _target_url(kind: str, target: str) -> str:
    """The page that shows the target: the partition without a leader, the record of the half message, the transaction. Empty if there is none."""
    if kind == ProposalKind.TRANSACTION_FENCE:
        return reverse("transaction", args=[target])
    place = proposals.place_of(kind, target)
    if place is None:
        return ""
    if place.offset is None:
        return reverse("partition", args=[place.topic, place.partition])
    return record_url(place.topic, place.partition, place.offset)


@viewer_required
def proposal(request: HttpRequest, proposal_id: int) -> HttpResponse:
    row = proposals.proposal_row(proposal_id, actor(request))
    if row is None:
        return not_found(
            request, _("approval request {proposal_id}").format(proposal_id=proposal_id), "proposals", nav="proposals"
        )
    if request.method == "POST":
        return _decide(request, proposal_id)
    return _render_proposal(request, row, DecideForm())


@operator_required
def _decide(request: HttpRequest, proposal_id: int) -> HttpResponse:
    form = DecideForm(request.POST)
    approves = request.POST.get("act") == "approve"
    if form.is_valid():
        comment = form.cleaned_data["comment"]
        try:
            decided = (services.approve if approves else services.reject)(
                proposal_id, actor=actor(request), comment=comment
            )
        except Rejected as error:
            form.reject(error)
        else:
            flash(
                request,
                _("Approval request {proposal_id}: {state}. {detail}").format(
                    proposal_id=proposal_id, state=state_label(decided.state), detail=decided.detail
                ),
            )
            return redirect_to("proposal", proposal_id)
    row = proposals.proposal_row(proposal_id, actor(request))
    assert row is not None
    return _render_proposal(request, row, form)


def _render_proposal(request: HttpRequest, row: proposals.ProposalRow, form: DecideForm) -> HttpResponse:
    own = row.proposed_by == actor(request)
    context = {
        "p": row,
        "target_url": _target_url(row.kind, row.target),
        "losses": proposals.losses_after(row),
        "form": form,
        "own": own,
        "p_text": str(row.id),
        "body": {"comment": "COMMENT"},
        "facts": sorted(row.shown["facts"].items()),
    }
    return render_page(request, "console/proposal.html", context, nav="proposals", status=409 if form.errors else 200)
