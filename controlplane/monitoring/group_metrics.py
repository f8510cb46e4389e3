"""The observed values of a consumer group, and their rows. None = not observed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from controlplane.clients.group_samples import DescribedMember, GroupSample, Key, StoredMember
from controlplane.domain.lag import Block, LagStatus
from controlplane.domain.log_ends import RecordAge
from controlplane.domain.retention import Forecast
from controlplane.models import ConsumerGroup, GroupPartition


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A group in one partition. An assigned partition without a committed offset has only the status UNKNOWN, unless its log is
    empty."""

    end: int | None = None
    records: int | None = None
    age: RecordAge | None = None
    status: LagStatus = LagStatus.UNKNOWN
    block: Block = Block.NONE
    consumed_per_s: float | None = None
    produced_per_s: float | None = None
    forecast: Forecast | None = None
    lost_records: int = 0


@dataclass(slots=True)
class GroupMetrics:
    sample: GroupSample
    coordinator: int
    at_ms: int
    lags: dict[Key, PartitionLag] = field(default_factory=dict)
    lag_records: int | None = None
    lag_ms_max: int | None = None
    lag_at_least: bool = False
    """`lag_ms_max` is a lower bound: a partition's lag is older than the first observation."""
    unknown: int = 0
    status: LagStatus = LagStatus.UNKNOWN
    consumed_per_s: float | None = None
    produced_per_s: float | None = None
    lost_records: int = 0
    first_lost: Key | None = None
    """The partition where retention deletes unread records first."""

    @property
    def forecast(self) -> Forecast | None:
        return None if self.first_lost is None else self.lags[self.first_lost].forecast


def group_row(metrics: GroupMetrics, now: datetime) -> ConsumerGroup:
    return ConsumerGroup(
        group_id=metrics.sample.group_id,
        state=metrics.sample.state,
        protocol_type=metrics.sample.protocol_type,
        assignor=metrics.sample.assignor,
        coordinator=metrics.coordinator,
        members=members(metrics.sample),
        member_count=len(metrics.sample.members),
        lag_records=metrics.lag_records,
        lag_ms_max=metrics.lag_ms_max,
        lag_at_least=metrics.lag_at_least,
        partitions_unknown=metrics.unknown,
        status=metrics.status.value,
        **pace(metrics),
        observed_at=now,
    )


def pace(g: GroupMetrics) -> dict[str, object]:
    """A group's read rate, and its retention forecast: columns of its row, and part of its live update."""
    expected = g.forecast
    return {
        "consumed_per_s": g.consumed_per_s,
        "produced_per_s": g.produced_per_s,
        "lost_records": g.lost_records,
        "retention_partition": f"{g.first_lost[0]}-{g.first_lost[1]}" if g.first_lost is not None else "",
        "retention_in_s": None if expected is None else expected.in_s,
        "retention_limit": "" if expected is None else expected.limit.value,
        "retention_at_most": expected is not None and expected.at_most,
    }


def partition_rows(metrics: GroupMetrics, now: datetime) -> list[GroupPartition]:
    owners = owners_of(metrics.sample)
    rows = []
    for key, partition_lag in metrics.lags.items():
        member = owners.get(key)
        rows.append(
            GroupPartition(
                group_id=metrics.sample.group_id,
                topic=key[0],
                index=key[1],
                committed=metrics.sample.committed.get(key),
                end_offset=partition_lag.end,
                lag_records=partition_lag.records,
                lag_ms=partition_lag.age.ms if partition_lag.age is not None else None,
                lag_at_least=partition_lag.age is not None and partition_lag.age.at_least,
                status=partition_lag.status.value,
                block=partition_lag.block.value,
                consumed_per_s=partition_lag.consumed_per_s,
                produced_per_s=partition_lag.produced_per_s,
                retention_in_s=partition_lag.forecast.in_s if partition_lag.forecast is not None else None,
                retention_limit=partition_lag.forecast.limit.value if partition_lag.forecast is not None else "",
                member_id=member.member_id if member else "",
                client_id=member.client_id if member else "",
                host=member.host if member else "",
                observed_at=now,
            )
        )
    return rows


def members(group: GroupSample) -> list[StoredMember]:
    return [
        {
            "member_id": x.member_id,
            "client_id": x.client_id,
            "host": x.host,
            "partitions": [list(p) for p in x.partitions],
        }
        for x in group.members
    ]


def owners_of(group: GroupSample) -> dict[Key, DescribedMember]:
    return {key: member for member in group.members for key in member.partitions}
