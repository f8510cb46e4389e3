"""Records that replicas deleted because their leader did not have them, with the unclean leader election before the deletion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.proposal import ProposalKind
from controlplane.models import Change, Proposal, ReplicaTruncation
from controlplane.models.proposal import ProposalState
from controlplane.selectors.paging import Page, PageStart, paginate
from controlplane.selectors.visibility import visible

RECENT = timedelta(days=7)
"""Time for which the page of a partition shows a loss of acknowledged records first, as for an ended alert."""

SHOWN_MAX = 20
"""Maximum number of truncations on a page, newest first."""

ELECTIONS_MAX = 10
"""Maximum number of approved elections of a partition, and of automatic ones of its topic, that are read, newest first."""

RECORDED_LATE = timedelta(seconds=10)
"""Time from an automatic election to its row in the audit log, at most. A replica may delete its records in between."""

LATER_MAX = 100
"""Maximum number of truncations after an election in which the first one of each broker is searched."""


@dataclass(frozen=True, slots=True)
class TruncationRow:
    """A broker deleted the records of the offsets `first_offset` to `last_offset` from its replica, because its leader did not have them. `records`: the
    number of these offsets. `acknowledged`: those of them below the high watermark of the replica. More may have been acknowledged, because this high
    watermark may be older than that of the former leader. 0 is usual after a change of the leader. `approval_request`: the unclean leader election that
    operators approved before, if it has caused the deletion; null otherwise. `automatic_election`: the same for the change of the audit log with an
    automatic one."""

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
    automatic_election: int | None

    @property
    def is_recent_loss(self) -> bool:
        """Acknowledged records were deleted, or may have been by an unclean leader election."""
        after_election = self.approval_request is not None or self.automatic_election is not None
        return (self.acknowledged > 0 or after_election) and self.truncated_at > timezone.now() - RECENT


TRUNCATION_COLUMNS = {"truncated_at": "truncated_at", "broker_id": "broker_id"}


def truncations_of(topic: str, partition: int) -> QuerySet[ReplicaTruncation]:
    return ReplicaTruncation.objects.filter(topic_name=topic, partition=partition)


def partition_truncations(topic: str, partition: int) -> list[TruncationRow]:
    """The newest truncations of a partition."""
    return _rows(list(visible(truncations_of(topic, partition))[:SHOWN_MAX]))


def truncations_after_election(topic: str, partition: int, at: datetime, approval_request: int) -> list[TruncationRow]:
    """The effects of an approved unclean leader election at this time, the oldest first."""
    rows = visible(truncations_of(topic, partition).filter(truncated_at__gte=at)).order_by("truncated_at")
    return [row for row in _rows(list(rows[:SHOWN_MAX])) if row.approval_request == approval_request]


def truncation_page(
    rows: QuerySet[ReplicaTruncation], *, sort: str, page: PageStart, per_page: int, query: str = ""
) -> Page[TruncationRow]:
    return paginate(rows, _rows, page=page, per_page=per_page, sort=sort, columns=TRUNCATION_COLUMNS)


def _rows(rows: Sequence[ReplicaTruncation]) -> list[TruncationRow]:
    elections = {name: _elections(*name) for name in {(r.topic_name, r.partition) for r in rows}}
    return [_row(r, elections[r.topic_name, r.partition]) for r in rows]


@dataclass(frozen=True, slots=True)
class _Election:
    """An unclean leader election: its approval request, or the change of an automatic one. `first`: the first truncation of each broker after it, which
    the election has caused, also if the broker does not know that it deleted acknowledged records."""

    at: datetime
    approval_request: int | None
    change: int | None
    first: frozenset[int]


def _elections(topic: str, partition: int) -> list[_Election]:
    """The newest first."""
    found = [*_approved_elections(topic, partition), *_automatic_elections(topic, partition)]
    return [
        _Election(at, request, change, _first_truncations(topic, partition, at))
        for at, request, change in sorted(found, key=lambda election: election[0], reverse=True)
    ]


def _approved_elections(topic: str, partition: int) -> Iterator[tuple[datetime, int | None, int | None]]:
    approved = Proposal.objects.filter(
        kind=ProposalKind.UNCLEAN_ELECTION,
        target=f"{topic}-{partition}",
        state=ProposalState.DONE,
        decided_at__isnull=False,
    )
    for request, at in approved.order_by("-decided_at").values_list("pk", "decided_at")[:ELECTIONS_MAX]:
        if at is not None:
            yield at, request, None


def _automatic_elections(topic: str, partition: int) -> Iterator[tuple[datetime, int | None, int | None]]:
    verb = AuditOperation.TOPIC_ELECT_UNCLEAN_AUTOMATICALLY
    recorded = Change.objects.filter(object_kind="topic", object_name=topic, verb=verb)
    for change, at, after in recorded.order_by("-pk").values_list("pk", "at", "after")[:ELECTIONS_MAX]:
        if str(partition) in (after or {}):
            yield at - RECORDED_LATE, None, change


def _first_truncations(topic: str, partition: int, at: datetime) -> frozenset[int]:
    """The first truncation of each broker after this time."""
    first: dict[int, int] = {}
    later = truncations_of(topic, partition).filter(truncated_at__gte=at)
    for broker_id, pk in later.order_by("truncated_at").values_list("broker_id", "pk")[:LATER_MAX]:
        first.setdefault(broker_id, pk)
    return frozenset(first.values())


def _row(truncation: ReplicaTruncation, elections: Sequence[_Election]) -> TruncationRow:
    acknowledged = max(0, min(truncation.high_watermark, truncation.end_offset) - truncation.first_offset)
    last = next((e for e in elections if e.at <= truncation.truncated_at), None)
    is_effect = last is not None and (acknowledged > 0 or truncation.pk in last.first)
    return TruncationRow(
        topic=truncation.topic_name,
        partition=truncation.partition,
        broker_id=truncation.broker_id,
        first_offset=truncation.first_offset,
        last_offset=truncation.end_offset - 1,
        records=truncation.end_offset - truncation.first_offset,
        acknowledged=acknowledged,
        leader_epoch=truncation.leader_epoch,
        truncated_at=truncation.truncated_at,
        approval_request=last.approval_request if last is not None and is_effect else None,
        automatic_election=last.change if last is not None and is_effect else None,
    )
