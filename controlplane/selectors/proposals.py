"""Proposals to override a safety refusal, and what this person may do with them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controlplane.models import Proposal
from controlplane.models.proposal import ProposalState
from controlplane.selectors.common import Page, paged
from controlplane.services import Refused, proposals
from controlplane.services.overrides import KINDS


@dataclass(frozen=True, slots=True)
class ProposalRow:
    """`shown` is what its author saw ({"title", "lines", "facts", "figures"}). `figures`: those that move by themselves, of now while it is open,
    else of when it was proposed. `may_not`: why whoever asks may not approve it, empty = he may. `differs`: what
    would be shown differently now, so that approving is refused; only looked at for an open one, alone."""

    id: int
    kind: str
    label: str
    target: str
    arguments: dict[str, Any]
    shown: dict[str, Any]
    shown_hash: str
    state: str
    proposed_by: str
    why: str
    proposed_at: datetime
    expires_at: datetime
    decided_by: str
    decided_why: str
    decided_at: datetime | None
    detail: str
    finished_at: datetime | None
    may_not: str
    differs: str
    figures: list[str]


COLUMNS = {
    "id": "id",
    "state": "state",
    "kind": "kind",
    "target": "target",
    "proposed_by": "proposed_by",
    "expires_at": "expires_at",
}


def proposal_list(
    who: str, *, query: str = "", sort: str = "-id", page: int = 1, per_page: int = 50, state: str = ""
) -> Page[ProposalRow]:
    """Newest first. `state`: one of ProposalState, "decided" for all but open ones."""
    rows = Proposal.objects.all()
    if query:
        rows = rows.filter(target__icontains=query) | rows.filter(proposed_by__icontains=query)
    if state == "decided":
        rows = rows.exclude(state=ProposalState.OPEN)
    elif state:
        rows = rows.filter(state=state)
    return paged(
        rows, lambda found: [_shape(r, who) for r in found],
        page=page, per_page=per_page, sort=sort, columns=COLUMNS, query=query, tie="-id",
    )  # fmt: skip


def proposal_row(proposal_id: int, who: str) -> ProposalRow | None:
    row = Proposal.objects.filter(pk=proposal_id).first()
    if row is None:
        return None
    if row.state != ProposalState.OPEN:
        return _shape(row, who)
    try:
        now = proposals.shown_now(row.kind, row.target, row.arguments)
        return _shape(row, who, proposals.difference(row, now), list(now.figures))
    except Refused as refused:
        return _shape(row, who, refused.reason)


def open_count() -> int:
    return Proposal.objects.filter(state=ProposalState.OPEN).count()


def _shape(r: Proposal, who: str, differs: str = "", figures: list[str] | None = None) -> ProposalRow:
    kind = KINDS.get(r.kind)
    return ProposalRow(
        id=r.pk, kind=r.kind, label=kind.label if kind else r.kind, target=r.target, arguments=r.arguments, shown=r.shown,
        shown_hash=r.shown_hash, state=r.state, proposed_by=r.proposed_by, why=r.why, proposed_at=r.proposed_at,
        expires_at=r.expires_at, decided_by=r.decided_by, decided_why=r.decided_why, decided_at=r.decided_at, detail=r.detail,
        finished_at=r.finished_at, may_not=proposals.may_decide(r, who), differs=differs,
        figures=r.shown.get("figures", []) if figures is None else figures,
    )  # fmt: skip
