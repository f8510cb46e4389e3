"""Consumer groups with their lag. Law: a lag that is not known is None, and how many are not known is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controlplane.models import ConsumerGroup, GroupPartition
from controlplane.selectors.common import Page, age_s, paged


@dataclass(frozen=True, slots=True)
class GroupRow:
    """`verdict`: OK, WARN, STALL, STOP, REWIND, OVERTAKEN, IDLE or UNKNOWN (see controlplane.lag)."""

    group_id: str
    state: str
    member_count: int
    assignor: str
    coordinator: int | None
    lag_records: int | None
    lag_ms_max: int | None
    partitions_unknown: int
    verdict: str
    age_s: float | None


@dataclass(frozen=True, slots=True)
class GroupPartitionRow:
    topic: str
    index: int
    committed: int | None
    end_offset: int | None
    lag_records: int | None
    lag_ms: int | None
    verdict: str
    member_id: str
    client_id: str
    host: str


@dataclass(frozen=True, slots=True)
class GroupDetail:
    """`members`: [{"member_id", "client_id", "host", "partitions": [[topic, index], ...]}]."""

    row: GroupRow
    members: list[dict[str, Any]]
    partitions: list[GroupPartitionRow]


GROUP_COLUMNS = {
    "group_id": "group_id",
    "state": "state",
    "member_count": "member_count",
    "lag_records": "lag_records",
    "lag_ms_max": "lag_ms_max",
    "verdict": "verdict",
}


def group_list(
    *, query: str = "", sort: str = "group_id", page: int = 1, per_page: int = 50, topic: str = ""
) -> Page[GroupRow]:
    """Groups, of one topic when given. Sort columns: GROUP_COLUMNS."""
    rows = ConsumerGroup.objects.all()
    if query:
        rows = rows.filter(group_id__icontains=query)
    if topic:
        rows = rows.filter(partitions__topic=topic).distinct()
    return paged(
        rows, lambda found: [_row(g) for g in found],
        page=page, per_page=per_page, sort=sort, columns=GROUP_COLUMNS, query=query, tie="group_id",
    )  # fmt: skip


def group_detail(group_id: str) -> GroupDetail | None:
    group = ConsumerGroup.objects.filter(pk=group_id).first()
    if group is None:
        return None
    parts = GroupPartition.objects.filter(group=group).order_by("topic", "index")
    return GroupDetail(
        row=_row(group),
        members=list(group.members),
        partitions=[
            GroupPartitionRow(
                topic=p.topic, index=p.index, committed=p.committed, end_offset=p.end_offset, lag_records=p.lag_records,
                lag_ms=p.lag_ms, verdict=p.verdict, member_id=p.member_id, client_id=p.client_id, host=p.host,
            )
            for p in parts
        ],
    )  # fmt: skip


def _row(g: ConsumerGroup) -> GroupRow:
    return GroupRow(
        group_id=g.group_id, state=g.state, member_count=g.member_count, assignor=g.assignor, coordinator=g.coordinator,
        lag_records=g.lag_records, lag_ms_max=g.lag_ms_max, partitions_unknown=g.partitions_unknown, verdict=g.verdict,
        age_s=age_s(g.observed_at),
    )  # fmt: skip
