"""Sizes of topics and partitions over both tiers, and what they cost per month. From rows: what the leaders reported last."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.db.models import Count, Q, Sum

from controlplane.domain.storage_cost import StorageCost, StoragePrices, monthly_cost
from controlplane.models import ObservedPartition, ObservedReplica, ObservedTopic
from controlplane.selectors.common import age_s


@dataclass(frozen=True, slots=True)
class PartitionStorage:
    """Bytes. `local_bytes`: on the leader. `replica_bytes`: on all its replicas. `remote_bytes`: in the remote store. `total_bytes`: all records once,
    over both tiers. `copying_bytes`: the segment that is being copied to the store, 0 = none. `read_bytes_per_s`: read from the store for consumers.
    `cost`: estimate
    for the current sizes. null = unknown, without tiered storage, or without a price."""

    index: int
    local_bytes: int | None
    replica_bytes: int | None
    remote_bytes: int | None
    total_bytes: int | None
    copying_bytes: int | None
    read_bytes_per_s: float | None
    age_s: float | None
    cost: StorageCost | None

    @property
    def tiered(self) -> bool:
        return self.remote_bytes is not None


@dataclass(frozen=True, slots=True)
class TopicStorage:
    """Sums over the partitions whose sizes are known. `tiered`: a partition has a remote size. `unknown`: partitions without a reported local size.
    `cost`: estimate for the current sizes; null = no price is set."""

    topic: str
    tiered: bool
    unknown: int
    local_bytes: int
    replica_bytes: int
    remote_bytes: int
    total_bytes: int
    copying_bytes: int
    read_bytes_per_s: float
    cost: StorageCost | None


def prices() -> StoragePrices:
    own = settings.WEIR
    return StoragePrices(own.price_disk, own.price_remote, own.price_currency)


def topic_storage(name: str) -> TopicStorage | None:
    """Return None for an unknown topic."""
    if not ObservedTopic.objects.filter(name=name).exists():
        return None
    rows = ObservedPartition.objects.filter(topic__name=name).order_by()
    sums = rows.aggregate(
        partitions=Count("pk"),
        known=Count("size_bytes"),
        tiered=Count("remote_size"),
        local=Sum("size_bytes"),
        local_without_tier=Sum("size_bytes", filter=Q(remote_size__isnull=True)),
        remote=Sum("remote_size__remote_bytes"),
        local_only=Sum("remote_size__local_only_bytes"),
        copying=Sum("remote_size__copying_bytes"),
        read=Sum("remote_size__read_bytes_per_s"),
    )
    on_replicas = ObservedReplica.objects.filter(partition__topic__name=name).aggregate(total=Sum("size_bytes"))[
        "total"
    ]
    remote = sums["remote"] or 0
    return TopicStorage(
        topic=name,
        tiered=sums["tiered"] > 0,
        unknown=sums["partitions"] - sums["known"],
        local_bytes=sums["local"] or 0,
        replica_bytes=on_replicas or 0,
        remote_bytes=remote,
        total_bytes=remote + (sums["local_only"] or 0) + (sums["local_without_tier"] or 0),
        copying_bytes=sums["copying"] or 0,
        read_bytes_per_s=sums["read"] or 0.0,
        cost=monthly_cost(on_replicas, remote, prices()),
    )


def partition_storage(topic: str, index: int) -> PartitionStorage | None:
    """Return None for an unknown partition."""
    row = ObservedPartition.objects.filter(topic__name=topic, index=index).select_related("remote_size").first()
    if row is None:
        return None
    on_replicas = ObservedReplica.objects.filter(partition=row).aggregate(total=Sum("size_bytes"))["total"]
    return _partition(row, on_replicas)


def _partition(row: ObservedPartition, on_replicas: int | None) -> PartitionStorage:
    remote = getattr(row, "remote_size", None)
    remote_bytes = None if remote is None else remote.remote_bytes
    return PartitionStorage(
        index=row.index,
        local_bytes=row.size_bytes,
        replica_bytes=on_replicas,
        remote_bytes=remote_bytes,
        total_bytes=row.size_bytes if remote is None else remote.remote_bytes + remote.local_only_bytes,
        copying_bytes=None if remote is None else remote.copying_bytes,
        read_bytes_per_s=None if remote is None else remote.read_bytes_per_s,
        age_s=age_s(row.sampled_at if remote is None else remote.sampled_at),
        cost=monthly_cost(on_replicas, remote_bytes or 0, prices()),
    )
