"""Records that replicas deleted because their leader did not have them, with the approved unclean leader election before the deletion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, QuerySet
from django.utils import timezone

from controlplane.domain.proposal import ProposalKind
from controlplane.models import Proposal, ReplicaTruncation
from controlplane.models.proposal import ProposalState
from controlplane.selectors.paging import Page, PageStart, paginate
from controlplane.selectors.visibility import visible

RECENT = timedelta(days=7)
"""Time for which the page of a partition shows a loss of acknowledged records first, as for an ended alert."""

SHOWN_MAX = 20
"""Maximum number of truncations on a page, newest first."""


@dataclass(frozen=True, slots=True)
class TruncationRow:
    """A broker deleted the records of the offsets `first_offset` to `last_offset` from its replica, because its leader did not have them. `records`: the
    number of these offsets. `acknowledged`: those of them below the high watermark of the replica. More may have been acknowledged, because this high
    watermark may be older than that of the former leader. 0 is usual after a change of the leader. `approval_request`: the last unclean leader election of
    the partition that operators approved before; null: none, or no acknowledged record was deleted."""

    topic: str
    partition: int
    broker_id: int
    first_offset: int
    last_offset: int
    records: int
    acknowledged: int
    leader_epoch: int
    truncated_at: datetime
    approval_request: int | None

    @property
    def is_recent_loss(self) -> bool:
        return self.acknowledged > 0 and self.truncated_at > timezone.now() - RECENT


TRUNCATION_COLUMNS = {"truncated_at": "truncated_at", "broker_id": "broker_id"}


def truncations_of(topic: str, partition: int) -> QuerySet[ReplicaTruncation]:
    return ReplicaTruncation.objects.filter(topic_name=topic, partition=partition)


def partition_truncations(topic: str, partition: int) -> list[TruncationRow]:
    """The newest truncations of a partition."""
    return _rows(list(visible(truncations_of(topic, partition))[:SHOWN_MAX]))


def lost_after(topic: str, partition: int, at: datetime) -> list[TruncationRow]:
    """The first deletions of acknowledged records of a partition after this time, the oldest first."""
    rows = truncations_of(topic, partition).filter(truncated_at__gte=at, first_offset__lt=F("high_watermark"))
    return _rows(list(visible(rows).order_by("truncated_at")[:SHOWN_MAX]))


def truncation_page(
    rows: QuerySet[ReplicaTruncation], *, sort: str, page: PageStart, per_page: int, query: str = ""
) -> Page[TruncationRow]:
    return paginate(rows, _rows, page=page, per_page=per_page, sort=sort, columns=TRUNCATION_COLUMNS)


def _rows(rows: Sequence[ReplicaTruncation]) -> list[TruncationRow]:
    elections = _elections({f"{r.topic_name}-{r.partition}" for r in rows if r.first_offset < r.high_watermark})
    return [_row(r, elections) for r in rows]


def _elections(targets: set[str]) -> list[tuple[str, datetime, int]]:
    """(partition, time of the approval, approval request) of the unclean leader elections of these partitions, newest first."""
    if not targets:
        return []
    approved = Proposal.objects.filter(
        kind=ProposalKind.UNCLEAN_ELECTION, target__in=targets, state=ProposalState.DONE, decided_at__isnull=False
    )
    return list(approved.order_by("-decided_at").values_list("target", "decided_at", "pk"))


def _row(r: ReplicaTruncation, elections: Sequence[tuple[str, datetime, int]]) -> TruncationRow:
    acknowledged = max(0, min(r.high_watermark, r.end_offset) - r.first_offset)
    name = f"{r.topic_name}-{r.partition}"
    before = (pk for target, at, pk in elections if target == name and at <= r.truncated_at)
    return TruncationRow(
        topic=r.topic_name,
        partition=r.partition,
        broker_id=r.broker_id,
        first_offset=r.first_offset,
        last_offset=r.end_offset - 1,
        records=r.end_offset - r.first_offset,
        acknowledged=acknowledged,
        leader_epoch=r.leader_epoch,
        truncated_at=r.truncated_at,
        approval_request=next(before, None) if acknowledged else None,
    )
