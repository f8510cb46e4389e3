"""Approval requests to override a safety rule, and the actions that this person may take on them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters

from brokerd.cluster.configs import half_topic_name
from brokerd.cluster.partition_names import split_partition_name
from controlplane.domain.proposal import ProposalKind
from controlplane.domain.transactions import parse_target
from controlplane.models import Proposal
from controlplane.models.proposal import ProposalState
from controlplane.selectors.common import StateFilter, TimeFilter, in_states
from controlplane.selectors.paging import Page, PageStart, paginate
from controlplane.selectors.truncations import TruncationRow, truncations_after_election
from controlplane.services import Rejected, proposals
from controlplane.services.overrides import KINDS
from controlplane.services.proposal_kinds import ShownView, with_phrases
from weir_common.phrases import with_phrase


@dataclass(frozen=True, slots=True)
class ProposalRow:
    """`shown` is the text that the author saw ({"title", "lines", "facts", "current_values"}). `current_values` change automatically: current ones while the
    request is open, otherwise those of the time of the request. `may_not`: why this person may not approve, empty = approval is allowed. `differs`: how the
    current view differs, so approval is rejected. `differs` is computed only for a single open request."""

    id: int
    kind: str
    label: str
    target: str
    arguments: dict[str, object]
    shown: ShownView
    shown_hash: str
    state: str
    proposed_by: str
    comment: str
    proposed_at: datetime
    expires_at: datetime
    decided_by: str
    decided_comment: str
    decided_at: datetime | None
    detail: str
    finished_at: datetime | None
    may_not: str
    differs: str
    current_values: list[str]

    @property
    def is_open(self) -> bool:
        return self.state == ProposalState.OPEN

    @property
    def is_of_move(self) -> bool:
        """The target is a move."""
        return self.kind in (ProposalKind.MOVE_APPROVE, ProposalKind.MOVE_DELETE_RECORDS)


COLUMNS = {
    "id": "id",
    "state": "state",
    "kind": "kind",
    "target": "target",
    "proposed_by": "proposed_by",
    "expires_at": "expires_at",
}


class ProposalFilter(TimeFilter):
    time_field = "proposed_at"
    query = filters.CharFilter(method="search", help_text="Part of the target or of the author's name.")
    state = StateFilter(
        {**in_states(ProposalState), "decided": ~Q(state=ProposalState.OPEN)},
        help_text="decided: all except open ones.",
    )

    def search(self, rows: QuerySet[Proposal], name: str, value: str) -> QuerySet[Proposal]:
        return rows.filter(Q(target__icontains=value) | Q(proposed_by__icontains=value))


def proposal_list(
    actor: str, *, query: str = "", sort: str = "-id", page: PageStart = 1, per_page: int = 50, state: str = ""
) -> Page[ProposalRow]:
    """Newest first. `state`: one of ProposalState, or "decided" for all except open ones."""
    rows = ProposalFilter.rows(Proposal.objects.all(), query=query, state=state)
    return proposal_page(rows, actor, sort=sort, page=page, per_page=per_page, query=query)


def proposal_page(
    rows: QuerySet[Proposal], actor: str, *, sort: str, page: PageStart, per_page: int, query: str = ""
) -> Page[ProposalRow]:
    return paginate(
        rows,
        lambda found: [_shape(r, actor) for r in found],
        page=page,
        per_page=per_page,
        sort=sort,
        columns=COLUMNS,
        query=query,
        tie="-id",
    )


@dataclass(frozen=True, slots=True)
class Place:
    """The subject of a request: a record, or (`offset` None) a partition."""

    topic: str
    partition: int
    offset: int | None


def place_of(kind: str, target: str) -> Place | None:
    """The partition of an election, or the half message of a decision. None for the other kinds, and for a target in another form."""
    if kind == ProposalKind.UNCLEAN_ELECTION:
        return None if (name := split_partition_name(target)) is None else Place(*name, None)
    if kind in (ProposalKind.HALF_COMMIT, ProposalKind.HALF_ROLLBACK) and (parsed := parse_target(target)) is not None:
        topic, partition, offset = parsed
        return Place(half_topic_name(topic), partition, offset)
    return None


def losses_after(row: ProposalRow) -> list[TruncationRow]:
    """The deletions of records that an approved unclean leader election has caused; none for other requests."""
    place = place_of(row.kind, row.target) if row.kind == ProposalKind.UNCLEAN_ELECTION else None
    if place is None or row.state != ProposalState.DONE or row.decided_at is None:
        return []
    return truncations_after_election(place.topic, place.partition, row.decided_at, row.id)


def proposal_row(proposal_id: int, actor: str) -> ProposalRow | None:
    row = Proposal.objects.filter(pk=proposal_id).first()
    if row is None:
        return None
    if row.state != ProposalState.OPEN:
        return _shape(row, actor)
    try:
        now = proposals.shown_now(row.kind, row.target, row.arguments)
        return _shape(row, actor, proposals.difference(row, now), list(now.current_values))
    except Rejected as rejection:
        return _shape(row, actor, rejection.reason)


def open_count() -> int:
    return Proposal.objects.filter(state=ProposalState.OPEN).count()


def _shape(proposal: Proposal, actor: str, differs: str = "", current_values: list[str] | None = None) -> ProposalRow:
    kind = KINDS.get(proposal.kind)
    shown = with_phrases(proposal.shown)
    return ProposalRow(
        id=proposal.pk,
        kind=proposal.kind,
        label=kind.label if kind else proposal.kind,
        target=proposal.target,
        arguments=proposal.arguments,
        shown=shown,
        shown_hash=proposal.shown_hash,
        state=proposal.state,
        proposed_by=proposal.proposed_by,
        comment=proposal.comment,
        proposed_at=proposal.proposed_at,
        expires_at=proposal.expires_at,
        decided_by=proposal.decided_by,
        decided_comment=proposal.decided_comment,
        decided_at=proposal.decided_at,
        detail=with_phrase(proposal.detail, proposal.detail_phrase),
        finished_at=proposal.finished_at,
        may_not=proposals.may_decide(proposal, actor),
        differs=differs,
        current_values=shown.get("current_values", []) if current_values is None else current_values,
    )
