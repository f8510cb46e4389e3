"""The overview of the cluster. Invariants: it costs a few indexed sums, over what the user may see. The health state always has a reason."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypedDict, cast

from django.conf import settings
from django.db.models import Count, Max, Min, Q, Sum

from brokerd.cluster.rejection_reasons import RejectionReason
from controlplane.domain.alert import brief
from controlplane.domain.alert_types import AlertMetric, AlertParts, ClientRejection, Severity
from controlplane.domain.cluster_health import HealthReason, HealthStatus, reason_phrase
from controlplane.domain.history import HistorySubject
from controlplane.domain.incident import GROUPS, RETENTION
from controlplane.models import ArchiveJob, Broker, Change, ConsumerGroup, Move, ObservedTopic, ReplicaRecovery
from controlplane.models.change import Outcome
from controlplane.models.move import WORKING_STATES
from controlplane.selectors.alerts import AlertRow, most_severe
from controlplane.selectors.alerts import counts as alert_counts
from controlplane.selectors.common import age_s, as_dict, cluster_row
from controlplane.selectors.shared_rows import read_shared
from controlplane.selectors.topics import drift_count
from controlplane.selectors.visibility import limited, visible

STALE_AGE_S = 15.0
LOST_AGE_S = 60.0


@dataclass(frozen=True, slots=True)
class Health:
    """`word`: healthy, degraded (amber), at_risk (red) or unknown (grey); never better than the most severe open alert. `reason` is a sentence,
    `reason_code` identifies it, and `reason_values` has its numbers. `alert_kind`, `alert_subject`: of the alert that is the reason; "" if the current state
    is. `alert_metric`: of an anomaly. `alert_client`: of a rejected client."""

    word: HealthStatus
    reason: str
    reason_code: HealthReason
    reason_values: dict[str, int] = field(default_factory=dict)
    alert_kind: str = ""
    alert_subject: str = ""
    alert_metric: AlertMetric | None = None
    alert_client: ClientRejection | None = None

    @property
    def is_unknown(self) -> bool:
        return self.word is HealthStatus.UNKNOWN


@dataclass(frozen=True, slots=True)
class Overview:
    """`age_s`: seconds since the monitor had read the metadata log to its end, `sample_age_s`: seconds since brokers answered; None = never.
    `size_bytes`: over all topics, with the last known sizes where a broker does not respond. Then `brokers_sized` is below `brokers_total`, and
    `size_as_of` is the time of the oldest of these sizes. `lag_at_least`: `lag_ms_max` is a lower bound. Partition counts are over all topics,
    including internal ones. `not_preferred`: partitions whose leader is not their preferred replica. `drift`: the monitor's last count; None = not yet. `alerts`: open ones; `alert_newest`: number of the newest timeline
    entry, by which a page sees that an alert changed."""

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
    not_preferred: int
    size_bytes: int | None
    size_as_of: datetime | None
    brokers_sized: int
    records: int | None
    records_per_s: float | None
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None
    replication_bytes_in_per_s: float | None
    groups: int
    lag_records: int | None
    lag_ms_max: int | None
    lag_at_least: bool
    moves_working: int
    recoveries_working: int
    archives_working: int
    changes_pending: int
    drift: int | None
    alerts: int
    alerts_at_risk: int
    alert_newest: int


class MetricShape(TypedDict):
    name: str
    object_kind: str
    object_name: str


class ClientShape(TypedDict):
    client: str
    reason: str


class HealthShape(TypedDict):
    word: str
    reason: str
    reason_code: str
    reason_values: dict[str, int]
    alert_kind: str
    alert_subject: str
    alert_metric: MetricShape | None
    alert_client: ClientShape | None


class OverviewShape(TypedDict):
    """`Overview` as JSON: the data of a live update and of the cells. Times are ISO 8601."""

    cluster_name: str
    cluster_id: str
    bootstrap: str
    controller_id: int | None
    controller_epoch: int | None
    metadata_seq: int
    zookeeper_connected: bool | None
    age_s: float | None
    sample_age_s: float | None
    observed_at: str | None
    sample_note: str
    health: HealthShape
    brokers_alive: int
    brokers_total: int
    topics: int
    partitions: int
    under_replicated: int
    under_min_isr: int
    offline: int
    reassigning: int
    not_preferred: int
    size_bytes: int | None
    size_as_of: str | None
    brokers_sized: int
    records: int | None
    records_per_s: float | None
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None
    replication_bytes_in_per_s: float | None
    groups: int
    lag_records: int | None
    lag_ms_max: int | None
    lag_at_least: bool
    moves_working: int
    recoveries_working: int
    archives_working: int
    changes_pending: int
    drift: int | None
    alerts: int
    alerts_at_risk: int
    alert_newest: int


def overview_shape(row: Overview) -> OverviewShape:
    return cast(OverviewShape, as_dict(row))


def alert_parts(shape: HealthShape) -> AlertParts | None:
    """The parts of the subject of the alert that is the reason."""
    metric, client = shape["alert_metric"], shape["alert_client"]
    if metric is not None:
        return AlertMetric(metric["name"], HistorySubject(metric["object_kind"]), metric["object_name"])
    if client is not None:
        return ClientRejection(client["client"], RejectionReason(client["reason"]))
    return None


def overview() -> Overview:
    cluster = cluster_row()
    brokers = Broker.objects.aggregate(
        total=Count("pk"),
        sized=Count("pk", filter=Q(alive=True) & ~Q(answered=False)),  # before an aggregate uses the name `alive`
        alive=Count("pk", filter=Q(alive=True)),
    )
    topics = visible(ObservedTopic.objects.all()).aggregate(
        topics=Count("pk"),
        partitions=Sum("partition_count"),
        under_replicated=Sum("under_replicated"),
        under_min_isr=Sum("under_min_isr"),
        offline=Sum("offline"),
        reassigning=Sum("reassigning"),
        not_preferred=Sum("not_preferred"),
        size_bytes=Sum("size_bytes"),
        size_as_of=Min("size_as_of"),
        records=Sum("records"),
        records_per_s=Sum("records_per_s"),
        bytes_in_per_s=Sum("bytes_in_per_s"),
        bytes_out_per_s=Sum("bytes_out_per_s"),
        replication_bytes_in_per_s=Sum("replication_bytes_in_per_s"),
    )
    groups = visible(ConsumerGroup.objects.all()).aggregate(
        total=Count("pk"),
        records=Sum("lag_records"),
        ms=Max("lag_ms_max"),
        bounds=Count("pk", filter=Q(lag_at_least=True)),
    )
    age = age_s(cluster.observed_at)
    alerts, grave, newest = alert_counts()
    drift = drift_count() if limited() else cluster.drift
    counts = {
        k: topics[k] or 0 for k in ("under_replicated", "under_min_isr", "offline", "reassigning", "not_preferred")
    }
    return Overview(
        cluster_name=settings.LOCAL_CLUSTER.cluster_name,
        cluster_id=cluster.cluster_id,
        bootstrap=settings.WEIR.bootstrap,
        controller_id=cluster.controller_id,
        controller_epoch=cluster.controller_epoch,
        metadata_seq=cluster.metadata_seq,
        zookeeper_connected=cluster.zookeeper_connected,
        age_s=age,
        sample_age_s=age_s(cluster.sampled_at),
        observed_at=cluster.observed_at,
        sample_note=cluster.sample_note,
        health=_health(
            age,
            age_s(cluster.heartbeat_at),
            brokers["alive"],
            brokers["total"],
            counts,
            drift or 0,
            cluster.zookeeper_connected,
            most_severe() if alerts else None,
        ),
        brokers_alive=brokers["alive"],
        brokers_total=brokers["total"],
        topics=topics["topics"],
        partitions=topics["partitions"] or 0,
        size_bytes=topics["size_bytes"],
        size_as_of=topics["size_as_of"],
        brokers_sized=brokers["sized"],
        records=topics["records"],
        records_per_s=topics["records_per_s"],
        bytes_in_per_s=topics["bytes_in_per_s"],
        bytes_out_per_s=topics["bytes_out_per_s"],
        replication_bytes_in_per_s=topics["replication_bytes_in_per_s"],
        groups=groups["total"],
        lag_records=groups["records"],
        lag_ms_max=groups["ms"],
        lag_at_least=bool(groups["bounds"]),
        moves_working=visible(Move.objects.filter(state__in=WORKING_STATES)).count(),
        recoveries_working=visible(ReplicaRecovery.objects.filter(state__in=["requested", "reset", "copying"])).count(),
        archives_working=visible(ArchiveJob.objects.filter(state__in=["requested", "running", "stopping"])).count(),
        changes_pending=visible(Change.objects.filter(outcome=Outcome.PENDING)).count(),
        drift=drift,
        alerts=alerts,
        alerts_at_risk=grave,
        alert_newest=newest,
        **counts,
    )


def shared_overview() -> Overview:
    """The overview for the frame of a page. Pages that are requested within one second share its rows. The age is current."""
    row = read_shared("overview", overview)
    return replace(row, age_s=age_s(row.observed_at))


def _health(
    age: float | None,
    heartbeat_age: float | None,
    alive: int,
    total: int,
    counts: dict[str, int],
    drift: int,
    zookeeper: bool | None,
    alert: AlertRow | None,
) -> Health:
    """The current state comes first, because alerts are some seconds late; then the most severe alert."""
    if age is None:
        return _health_by(HealthStatus.UNKNOWN, HealthReason.NEVER_READ)
    away = zookeeper is False and heartbeat_age is not None and heartbeat_age <= STALE_AGE_S
    if age > LOST_AGE_S and not away:
        return _health_by(HealthStatus.UNKNOWN, HealthReason.NOT_CURRENT, seconds=int(age))
    if offline := counts["offline"]:
        return _health_by(HealthStatus.AT_RISK, HealthReason.PARTITIONS_OFFLINE, count=offline)
    if under_min_isr := counts["under_min_isr"]:
        return _health_by(HealthStatus.AT_RISK, HealthReason.PARTITIONS_UNDER_MIN_ISR, count=under_min_isr)
    grave = alert is not None and alert.severity == Severity.AT_RISK
    lacking, down = counts["under_replicated"], total - alive
    # A group that loses records is more severe, but a dead broker is the first thing to repair, and the lag may be its effect.
    if grave and alert is not None and not (down and not away and alert.kind in GROUPS | RETENTION):
        return _health_of(HealthStatus.AT_RISK, alert)
    if away:
        return _health_by(HealthStatus.DEGRADED, HealthReason.ZOOKEEPER_AWAY)
    if down:
        status = HealthStatus.AT_RISK if grave else HealthStatus.DEGRADED
        return _health_by(status, HealthReason.BROKERS_DOWN, count=down, total=total, lacking=lacking)
    if lacking:
        return _health_by(HealthStatus.DEGRADED, HealthReason.PARTITIONS_UNDER_REPLICATED, count=lacking)
    if age > STALE_AGE_S:
        return _health_by(HealthStatus.DEGRADED, HealthReason.NOT_CURRENT, seconds=int(age))
    if drift:
        return _health_by(HealthStatus.DEGRADED, HealthReason.DRIFT, count=drift)
    if alert is not None:
        return _health_of(HealthStatus.DEGRADED, alert)
    return _health_by(HealthStatus.HEALTHY, HealthReason.ALL_IN_SYNC)


def _health_by(status: HealthStatus, reason: HealthReason, **values: int) -> Health:
    return Health(status, str(reason_phrase(reason, values)), reason, values)


def _health_of(status: HealthStatus, alert: AlertRow) -> Health:
    return Health(
        status,
        brief(alert.kind, alert.subject, alert.text),
        HealthReason.ALERT,
        alert_kind=alert.kind,
        alert_subject=alert.subject,
        alert_metric=alert.metric,
        alert_client=alert.client,
    )
