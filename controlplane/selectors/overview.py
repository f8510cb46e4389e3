"""The cluster at a glance. Law: a handful of indexed sums; the health word always comes with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models import Count, Max, Q, Sum

from controlplane.models import ArchiveJob, Broker, Change, ConsumerGroup, Move, ObservedTopic, ReplicaRecovery
from controlplane.models.change import Outcome
from controlplane.models.move import WORKING_STATES
from controlplane.selectors.alerts import counts as alert_counts
from controlplane.selectors.common import age_s, cluster_row
from controlplane.words import some

STALE_AGE_S = 15.0
LOST_AGE_S = 60.0


@dataclass(frozen=True, slots=True)
class Health:
    """`word`: healthy, degraded (amber), at_risk (red) or unknown (grey); `reason` is a sentence."""

    word: str
    reason: str


@dataclass(frozen=True, slots=True)
class Overview:
    """`age_s` is how long ago the observer had read the metadata log to its head, `sample_age_s` how long ago brokers answered.
    None = never. Partition counts are over all topics, internal ones included. `drift` is as the observer counted it last; None = not yet. `alerts`: open ones,
    `alert_newest` their newest number: with it a page sees that the list is another."""

    cluster_name: str
    cluster_id: str
    bootstrap: str
    controller_id: int | None
    controller_epoch: int | None
    metadata_seq: int
    zookeeper_connected: bool | None
    age_s: float | None
    sample_age_s: float | None
    observed_at: datetime | None
    sample_note: str
    health: Health
    brokers_alive: int
    brokers_total: int
    topics: int
    partitions: int
    under_replicated: int
    under_min_isr: int
    offline: int
    reassigning: int
    size_bytes: int | None
    records: int | None
    records_per_s: float | None
    groups: int
    lag_records: int | None
    lag_ms_max: int | None
    moves_working: int
    recoveries_working: int
    archives_working: int
    changes_pending: int
    drift: int | None
    alerts: int
    alerts_at_risk: int
    alert_newest: int


def overview() -> Overview:
    cluster = cluster_row()
    brokers = Broker.objects.aggregate(total=Count("pk"), alive=Count("pk", filter=Q(alive=True)))
    topics = ObservedTopic.objects.aggregate(
        topics=Count("pk"),
        partitions=Sum("partition_count"),
        under_replicated=Sum("under_replicated"),
        under_min_isr=Sum("under_min_isr"),
        offline=Sum("offline"),
        reassigning=Sum("reassigning"),
        size_bytes=Sum("size_bytes"),
        records=Sum("records"),
        records_per_s=Sum("records_per_s"),
    )
    groups = ConsumerGroup.objects.aggregate(total=Count("pk"), records=Sum("lag_records"), ms=Max("lag_ms_max"))
    age = age_s(cluster.observed_at)
    alerts, grave, newest = alert_counts()
    counts = {k: topics[k] or 0 for k in ("under_replicated", "under_min_isr", "offline", "reassigning")}
    return Overview(
        cluster_name=settings.HOUSE.cluster_name,
        cluster_id=cluster.cluster_id,
        bootstrap=settings.HOUSE.bootstrap,
        controller_id=cluster.controller_id,
        controller_epoch=cluster.controller_epoch,
        metadata_seq=cluster.metadata_seq,
        zookeeper_connected=cluster.zookeeper_connected,
        age_s=age,
        sample_age_s=age_s(cluster.sampled_at),
        observed_at=cluster.observed_at,
        sample_note=cluster.sample_note,
        health=_health(
            age, brokers["alive"], brokers["total"], counts, cluster.drift or 0, cluster.zookeeper_connected
        ),
        brokers_alive=brokers["alive"],
        brokers_total=brokers["total"],
        topics=topics["topics"],
        partitions=topics["partitions"] or 0,
        size_bytes=topics["size_bytes"],
        records=topics["records"],
        records_per_s=topics["records_per_s"],
        groups=groups["total"],
        lag_records=groups["records"],
        lag_ms_max=groups["ms"],
        moves_working=Move.objects.filter(state__in=WORKING_STATES).count(),
        recoveries_working=ReplicaRecovery.objects.filter(state__in=["asked", "reset", "copying"]).count(),
        archives_working=ArchiveJob.objects.filter(state__in=["asked", "running", "stopping"]).count(),
        changes_pending=Change.objects.filter(outcome=Outcome.PENDING).count(),
        drift=cluster.drift,
        alerts=alerts,
        alerts_at_risk=grave,
        alert_newest=newest,
        **counts,
    )


def health() -> Health:
    """The health word alone, for the top bar."""
    return overview().health


def _health(
    age: float | None, alive: int, total: int, counts: dict[str, int], drift: int, zookeeper: bool | None
) -> Health:
    if age is None:
        return Health("unknown", "The observer has not read the cluster yet.")
    if age > LOST_AGE_S:
        return Health("unknown", f"Nothing was read from the cluster for {int(age)} s.")
    if counts["offline"]:
        return Health("at_risk", f"{some(counts['offline'], 'partition has', 'partitions have')} no leader.")
    if counts["under_min_isr"]:
        return Health(
            "at_risk",
            f"{some(counts['under_min_isr'], 'partition has', 'partitions have')} fewer replicas in sync than min.insync.replicas.",
        )
    if alive < total:
        return Health(
            "degraded",
            f"{total - alive} of {some(total, 'broker', 'brokers')} {'is' if total - alive == 1 else 'are'} down; "
            f"{some(counts['under_replicated'], 'partition lacks', 'partitions lack')} a replica.",
        )
    if counts["under_replicated"]:
        return Health(
            "degraded",
            f"{some(counts['under_replicated'], 'partition has', 'partitions have')} a replica out of sync.",
        )
    if zookeeper is False:
        return Health("degraded", "ZooKeeper does not answer: no elections until it is back.")
    if age > STALE_AGE_S:
        return Health("degraded", f"Nothing was read from the cluster for {int(age)} s.")
    if drift:
        return Health(
            "degraded", f"{some(drift, 'topic differs', 'topics differ')} between database and cluster (drift)."
        )
    return Health("healthy", "Every partition has its leader and all replicas in sync.")
