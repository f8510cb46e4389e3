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


def group_row(g: GroupMetrics, now: datetime) -> ConsumerGroup:
    return ConsumerGroup(
        group_id=g.sample.group_id,
        state=g.sample.state,
        protocol_type=g.sample.protocol_type,
        assignor=g.sample.assignor,
        coordinator=g.coordinator,
        members=members(g.sample),
        member_count=len(g.sample.members),
        lag_records=g.lag_records,
        lag_ms_max=g.lag_ms_max,
        lag_at_least=g.lag_at_least,
        partitions_unknown=g.unknown,
        status=g.status.value,
        **pace(g),
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


def partition_rows(g: GroupMetrics, now: datetime) -> list[GroupPartition]:
    owners = owners_of(g.sample)
    rows = []
    for key, p in g.lags.items():
        member = owners.get(key)
        rows.append(
            GroupPartition(
                group_id=g.sample.group_id,
                topic=key[0],
                index=key[1],
                committed=g.sample.committed.get(key),
                end_offset=p.end,
                lag_records=p.records,
                lag_ms=p.age.ms if p.age is not None else None,
                lag_at_least=p.age is not None and p.age.at_least,
                status=p.status.value,
                block=p.block.value,
                consumed_per_s=p.consumed_per_s,
                produced_per_s=p.produced_per_s,
                retention_in_s=p.forecast.in_s if p.forecast is not None else None,
                retention_limit=p.forecast.limit.value if p.forecast is not None else "",
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
