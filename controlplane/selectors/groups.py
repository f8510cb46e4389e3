"""Consumer groups with their lag. Invariant: an unknown lag is None, and the row has the number of partitions with an unknown lag."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import QuerySet
from django_filters import rest_framework as filters

from brokerd.cluster.partition_names import split_partition_name
from controlplane.clients.group_samples import DescribedGroupState, GroupType, StoredMember
from controlplane.domain.alert_thresholds import AlertThresholds, ThresholdName, ThresholdScope
from controlplane.models import ConsumerGroup, GroupPartition
from controlplane.selectors.alert_thresholds import (
    AppliedThreshold,
    applied_threshold,
    current_thresholds,
    group_thresholds,
)
from controlplane.selectors.common import RowFilter, StateFilter, age_s, in_states
from controlplane.selectors.paging import Page, PageStart, paginate
from controlplane.selectors.visibility import TOPIC, limited, sees, visible


@dataclass(frozen=True, slots=True)
class GroupRow:
    """`protocol_type`: consumer, streams (KIP-1071), or that of another client such as connect. `status`: healthy, idle, not_subscribed, catching_up,
    blocked, falling_behind, stalled, stopped, rewound, data_lost or unknown. `lag_at_least`: the lag in time is a lower bound. Speeds are records per second of the last minutes. `retention_in_s`: when the setting `retention_limit` deletes
    unread records of `retention_partition` at the current speeds; null = not expected; `retention_at_most`: it may be earlier. `behind_threshold_s`: the
    threshold group_behind that decides about `status`, and `behind_threshold_scope`: whether it is that of the cluster or of this group."""

    group_id: str
    state: str
    member_count: int
    protocol_type: str
    assignor: str
    coordinator: int | None
    lag_records: int | None
    lag_ms_max: int | None
    lag_at_least: bool
    partitions_unknown: int
    status: str
    consumed_per_s: float | None
    produced_per_s: float | None
    lost_records: int
    retention_partition: str
    retention_in_s: float | None
    retention_limit: str
    retention_at_most: bool
    age_s: float | None
    behind_threshold_s: float
    behind_threshold_scope: ThresholdScope

    @property
    def is_streams(self) -> bool:
        return self.protocol_type == GroupType.STREAMS


@dataclass(frozen=True, slots=True)
class GroupPartitionRow:
    """`block`: why no consumer can read further (no_leader, under_min_isr, open_transaction), or empty."""

    topic: str
    index: int
    committed: int | None
    end_offset: int | None
    lag_records: int | None
    lag_ms: int | None
    lag_at_least: bool
    status: str
    block: str
    consumed_per_s: float | None
    produced_per_s: float | None
    retention_in_s: float | None
    retention_limit: str
    member_id: str
    client_id: str
    host: str


@dataclass(frozen=True, slots=True)
class GroupDetail:
    """`members`: [{"member_id", "client_id", "host", "partitions": [[topic, index], ...]}]. `thresholds`: those that decide about its status and alerts."""

    row: GroupRow
    members: list[StoredMember]
    partitions: list[GroupPartitionRow]
    thresholds: list[AppliedThreshold]


GROUP_COLUMNS = {
    "group_id": "group_id",
    "state": "state",
    "member_count": "member_count",
    "lag_records": "lag_records",
    "lag_ms_max": "lag_ms_max",
    "status": "status",
}


class GroupFilter(RowFilter):
    state = StateFilter(in_states(DescribedGroupState), help_text="State of the group, as its coordinator reports it.")
    query = filters.CharFilter(field_name="group_id", lookup_expr="icontains", help_text="Part of a name.")
    topic = filters.CharFilter(method="of_topic")

    def of_topic(self, rows: QuerySet[ConsumerGroup], name: str, value: str) -> QuerySet[ConsumerGroup]:
        """The groups with offsets of the topic; none for a topic that the user may not see."""
        return rows.filter(partitions__topic=value).distinct() if sees(TOPIC, value) else rows.none()


def group_list(
    *, query: str = "", sort: str = "group_id", page: PageStart = 1, per_page: int = 50, topic: str = ""
) -> Page[GroupRow]:
    """Groups, of one topic when given. Sort columns: GROUP_COLUMNS."""
    rows = GroupFilter.rows(ConsumerGroup.objects.all(), query=query, topic=topic)
    return group_page(rows, sort=sort, page=page, per_page=per_page, query=query)


def empty_group_count(*, query: str = "", topic: str = "") -> int:
    """The number of groups of this filter without members."""
    return visible(GroupFilter.rows(ConsumerGroup.objects.filter(member_count=0), query=query, topic=topic)).count()


def group_page(
    rows: QuerySet[ConsumerGroup], *, sort: str, page: PageStart, per_page: int, query: str = ""
) -> Page[GroupRow]:
    return paginate(
        rows,
        _rows,
        page=page,
        per_page=per_page,
        sort=sort,
        columns=GROUP_COLUMNS,
        query=query,
        tie="group_id",
    )


def group_detail(group_id: str) -> GroupDetail | None:
    group = visible(ConsumerGroup.objects.filter(pk=group_id)).first()
    if group is None:
        return None
    parts, thresholds = (
        visible(GroupPartition.objects.filter(group=group)).order_by("topic", "index"),
        current_thresholds(),
    )
    return GroupDetail(
        row=_row(group, thresholds),
        members=_members(group),
        partitions=[
            GroupPartitionRow(
                topic=p.topic,
                index=p.index,
                committed=p.committed,
                end_offset=p.end_offset,
                lag_records=p.lag_records,
                lag_ms=p.lag_ms,
                lag_at_least=p.lag_at_least,
                status=p.status,
                block=p.block,
                consumed_per_s=p.consumed_per_s,
                produced_per_s=p.produced_per_s,
                retention_in_s=p.retention_in_s,
                retention_limit=p.retention_limit,
                member_id=p.member_id,
                client_id=p.client_id,
                host=p.host,
            )
            for p in parts
        ],
        thresholds=group_thresholds(group_id, thresholds),
    )


def _members(group: ConsumerGroup) -> list[StoredMember]:
    """The members, with their partitions of visible topics."""
    members: list[StoredMember] = list(group.members)
    if not limited():
        return members
    return [{**m, "partitions": [p for p in m.get("partitions", []) if sees(TOPIC, str(p[0]))]} for m in members]


def _rows(listed: Iterable[ConsumerGroup]) -> list[GroupRow]:
    groups = list(listed)
    thresholds = current_thresholds() if groups else AlertThresholds()
    return [_row(g, thresholds) for g in groups]


def _row(group: ConsumerGroup, thresholds: AlertThresholds) -> GroupRow:
    partition = group.retention_partition
    name = split_partition_name(partition)
    behind = applied_threshold(ThresholdName.GROUP_BEHIND, group.group_id, thresholds)
    return GroupRow(
        group_id=group.group_id,
        state=group.state,
        member_count=group.member_count,
        protocol_type=group.protocol_type,
        assignor=group.assignor,
        coordinator=group.coordinator,
        lag_records=group.lag_records,
        lag_ms_max=group.lag_ms_max,
        lag_at_least=group.lag_at_least,
        partitions_unknown=group.partitions_unknown,
        status=group.status,
        consumed_per_s=group.consumed_per_s,
        produced_per_s=group.produced_per_s,
        lost_records=group.lost_records,
        retention_partition=partition if name is None or sees(TOPIC, name[0]) else "",
        retention_in_s=group.retention_in_s,
        retention_limit=group.retention_limit,
        retention_at_most=group.retention_at_most,
        age_s=age_s(group.observed_at),
        behind_threshold_s=behind.value,
        behind_threshold_scope=behind.scope,
    )
