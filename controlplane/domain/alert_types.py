"""Values of alerts: the kinds, the severities, and the observed facts from which alerts are computed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from brokerd.cluster.rejection_reasons import RejectionReason
from controlplane.domain.alert_thresholds import AlertThresholds
from controlplane.domain.connect import ConnectorFailure
from controlplane.domain.history import HistorySubject
from controlplane.domain.lag import LagStatus
from controlplane.domain.move_states import MoveState
from controlplane.domain.restart import ProcessEnd
from controlplane.domain.share_lag import ShareStall
from weir_common.phrases import Value

NAMES_MAX = 3
"""Maximum number of partitions or groups that a sentence names. The others are only counted."""

GROUP_STATUSES = (LagStatus.DATA_LOST, LagStatus.FALLING_BEHIND, LagStatus.STOPPED, LagStatus.STALLED)
"""Statuses of a group that cause an alert. A blocked group causes no alert, because the cause of the block has its own alert."""


class Severity(StrEnum):
    """Severity of an alert, and of the health line. At risk: data is at risk or writes are rejected. Degraded: something is missing, and no client notices it
    yet."""

    AT_RISK = "at_risk"
    DEGRADED = "degraded"


class EntryKind(StrEnum):
    """Entries of an alert's timeline."""

    OPENED = "opened"
    REOPENED = "reopened"
    CHANGED = "changed"
    """The severity has changed."""
    RESOLVED = "resolved"
    ACKNOWLEDGED = "acknowledged"
    WITHDRAWN = "withdrawn"
    """The acknowledgement was withdrawn."""
    NOTE = "note"
    SILENCED = "silenced"
    SILENCE_ENDED = "silence_ended"


class AlertKind(StrEnum):
    PARTITIONS_OFFLINE = "partitions_offline"
    PARTITIONS_UNDER_MIN_ISR = "partitions_under_min_isr"
    NO_CONTROLLER = "no_controller"
    ZOOKEEPER_AWAY = "zookeeper_away"
    WORKER_SILENT = "worker_silent"
    SPARK_WORKER_SILENT = "spark_worker_silent"
    BROKER_DOWN = "broker_down"
    BROKER_SILENT = "broker_silent"
    DISK_FAILED = "disk_failed"
    DISK_LOW = "disk_low"
    DISK_FILLING = "disk_filling"
    DISK_SLOW = "disk_slow"
    PARTITIONS_UNDER_REPLICATED = "partitions_under_replicated"
    UNCLEAN_ELECTION = "unclean_election"
    COPIES_DAMAGED = "copies_damaged"
    TRANSACTION_HANGING = "transaction_hanging"
    MOVE_FAILED = "move_failed"
    MOVE_STUCK = "move_stuck"
    MOVE_WILL_NOT_FINISH = "move_will_not_finish"
    GROUP_DATA_LOST = "group_data_lost"
    GROUP_RETENTION = "group_retention"
    GROUP_FALLING_BEHIND = "group_falling_behind"
    GROUP_STOPPED = "group_stopped"
    GROUP_STALLED = "group_stalled"
    SHARE_GROUP_STOPPED = "share_group_stopped"
    ARCHIVE_FAILED = "archive_failed"
    DRIFT = "drift"
    DOCUMENT_DRIFT = "document_drift"
    CHANGES_UNKNOWN = "changes_unknown"
    ANOMALY = "anomaly"
    HALF_UNDECIDED = "half_undecided"
    HALF_EXPIRED = "half_expired"
    DELAYED_OVERDUE = "delayed_overdue"
    DEAD_LETTERS_GROWING = "dead_letters_growing"
    DEAD_LETTERS_MISSING = "dead_letters_missing"
    CLIENT_REJECTED = "client_refused"
    CONNECTOR_FAILED = "connector_failed"
    CONNECT_SILENT = "connect_silent"
    MONITOR_SILENT = "monitor_silent"
    """Computed by `selectors.alerts`, because a monitor that does not write rows cannot store this alert."""


@dataclass(frozen=True, slots=True)
class UncleanElectionFacts:
    """Partitions of a topic that had an automatic unclean leader election: their number, and the first names."""

    topic: str
    partitions: tuple[int, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """`process_end`: of a broker that is down, if the supervisor of a local cluster observed it. Other clusters have no source for it."""

    broker_id: int
    alive: bool
    answered: bool | None
    replicas: int
    total_bytes: int | None = None
    free_bytes: int | None = None
    dirs_failed: tuple[str, ...] = ()
    dirs_hung: tuple[str, ...] = ()
    dirs_slow: tuple[str, ...] = ()
    dir_probe_ms: Mapping[str, int] = field(default_factory=dict)
    process_end: ProcessEnd | None = None


@dataclass(frozen=True, slots=True)
class DiskForecastFacts:
    """Forecast for the disk of a live broker: seconds from now until the disk is full. The median, and the limits of the interval that has the true time in
    `stated_pct` % of the cases. `high_s` None: after the horizon of the forecast. `inside_pct` of `decided` earlier forecasts of disks had the true time in
    their interval; None if no forecast can be verified yet."""

    broker_id: int
    median_s: float
    low_s: float
    high_s: float | None
    used_bytes: float
    total_bytes: float
    stated_pct: int = 80
    decided: int = 0
    inside_pct: float | None = None


@dataclass(frozen=True, slots=True)
class MoveFacts:
    """A move that is in progress, or that failed and was not rolled back. `needs_bytes_per_s`: the move cannot finish below this rate.
    `causes`: why the stuck partitions make no progress, of `progress.StallCause`. `down`: cause -> the brokers that are down for it, where known.
    `moved`: a roll back would change partitions of the failed move."""

    move_id: int
    state: MoveState
    stalled: int
    needs_bytes_per_s: int | None = None
    causes: tuple[str, ...] = ()
    down: Mapping[str, Sequence[int]] = field(default_factory=dict)
    moved: bool = True


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A group with one of GROUP_STATUSES, or a group whose unread records retention will delete. `worst`: its worst partition."""

    group_id: str
    status: LagStatus
    worst: str = ""
    lag_records: int | None = None
    lag_ms: int | None = None
    lag_at_least: bool = False
    consumed_per_s: float | None = None
    produced_per_s: float | None = None
    lost_records: int = 0
    retention_partition: str = ""
    retention_in_s: float | None = None
    retention_limit: str = ""
    retention_at_most: bool = False


@dataclass(frozen=True, slots=True)
class ShareGroupFacts:
    """A share group that makes no progress. `stall`: why, in `partition`, the one with the oldest record. The lag is of all such partitions."""

    group_id: str
    stall: ShareStall
    partition: str
    lag_records: int | None = None
    lag_ms: int | None = None
    lag_at_least: bool = False


@dataclass(frozen=True, slots=True)
class AlertMetric:
    """The metric that an alert is about, and its object, as in the history of metrics. `object_name`: "" for the cluster."""

    name: str
    object_kind: HistorySubject
    object_name: str


@dataclass(frozen=True, slots=True)
class ClientRejection:
    """The client that an alert is about: its principal, or its address if it is not authenticated, and why it is rejected."""

    client: str
    reason: RejectionReason


@dataclass(frozen=True, slots=True)
class GroupTopic:
    """The share group that an alert is about, and the topic of its records."""

    group_id: str
    topic: str


AlertParts: TypeAlias = AlertMetric | ClientRejection | GroupTopic


@dataclass(frozen=True, slots=True)
class AnomalyFacts:
    """A metric that is far from its usual value and has alerts enabled. `text` contains its value and the usual value."""

    metric: AlertMetric
    text: Value


@dataclass(frozen=True, slots=True)
class TopicMessageFacts:
    """Metrics of a topic that exceed a threshold; None: they do not. `half_oldest_s`, `delayed_overdue_s`: seconds. `dead_letters_grown`: in the last ten
    minutes."""

    topic: str
    half_undecided: int = 0
    half_oldest_s: float | None = None
    half_expired: int | None = None
    delayed_overdue_s: float | None = None
    dead_letters_grown: int | None = None


@dataclass(frozen=True, slots=True)
class MissingDeadLetterFacts:
    """Records of a topic that a share group has archived without a dead letter. `reason`: `brokerd.sharing.dead_letters.UnwritableReason`."""

    group_id: str
    topic: str
    records: int
    reason: str


@dataclass(frozen=True, slots=True)
class FailedLoginFacts:
    """`user` and `mechanism`: as the client sent them, or "". `failure`: `brokerd.cluster.sasl_failures`, or a reason of a newer broker."""

    user: str
    mechanism: str
    failure: str


@dataclass(frozen=True, slots=True)
class RejectedClientFacts:
    """A client that brokers reject continuously, for one reason. `client`: its principal, or its address if it is not authenticated. `per_min`:
    rejected requests per minute. `logins`: its failed logins, the most frequent first. The other fields: one of its
    connections, and an operation without authorization, or ""."""

    client: str
    reason: RejectionReason
    per_min: float
    host: str
    client_id: str = ""
    operation: str = ""
    resource_type: str = ""
    resource_name: str = ""
    logins: tuple[FailedLoginFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class ConnectFacts:
    """A Kafka Connect cluster. `silent_s`: seconds since the first request without a response; None: it answers. `problem`: why it does not."""

    cluster: str
    failures: tuple[ConnectorFailure, ...] = ()
    silent_s: float | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """The last applied document of an owner that differs from the cluster. `changed_by`: who last changed the first named topic since, or ""."""

    owner: str
    plan_id: int
    differences: tuple[int, tuple[str, ...]]
    changed_by: str = ""


@dataclass(frozen=True, slots=True)
class AlertFacts:
    """Counts, each with the first names of the counted objects. `under_replicated` excludes offline partitions. `zookeeper` None = unknown. `worker_silent_s`: seconds
    since the last poll of a worker, None = no worker has polled yet. `spark_worker_silent_s`: seconds for which unfinished Spark jobs have had no poll, None = no job needs one. `archives`: jobs that failed recently, with their notes."""

    zookeeper: bool | None = None
    controller: int | None = None
    worker_silent_s: float | None = None
    spark_worker_silent_s: float | None = None
    spark_jobs_waiting: tuple[int, tuple[str | int, ...]] = (0, ())
    """Jobs that need the worker of Spark jobs, the longest first: names of Spark jobs, ids of archives."""
    brokers: tuple[BrokerFacts, ...] = ()
    offline: tuple[int, tuple[str, ...]] = (0, ())
    under_min_isr: tuple[int, tuple[str, ...]] = (0, ())
    under_replicated: tuple[int, tuple[str, ...]] = (0, ())
    unclean_elections: tuple[UncleanElectionFacts, ...] = ()
    damaged: tuple[int, tuple[Value, ...]] = (0, ())
    hanging: tuple[int, tuple[str, ...]] = (0, ())
    hanging_groups: int = 0
    """Groups that cannot read further because of these transactions."""
    anomalies: tuple[AnomalyFacts, ...] = ()
    disk_forecasts: tuple[DiskForecastFacts, ...] = ()
    drift: int = 0
    documents: tuple[DocumentFacts, ...] = ()
    groups: tuple[GroupFacts, ...] = ()
    group_counts: Mapping[LagStatus, int] = field(default_factory=dict)
    """Number of groups with each status. `groups` may omit some of them."""
    retention_count: int = 0
    share_groups: tuple[ShareGroupFacts, ...] = ()
    share_group_count: int = 0
    """Number of share groups that make no progress. `share_groups` may omit some of them."""
    moves: tuple[MoveFacts, ...] = ()
    changes_unknown: int = 0
    archives: tuple[tuple[int, str], ...] = ()
    messages: tuple[TopicMessageFacts, ...] = ()
    letters_missing: tuple[MissingDeadLetterFacts, ...] = ()
    rejected: tuple[RejectedClientFacts, ...] = ()
    connect: tuple[ConnectFacts, ...] = ()
    thresholds: AlertThresholds = field(default_factory=AlertThresholds)


@dataclass(frozen=True, slots=True)
class AlertCase:
    """One problem of a kind: the subject, the words of its text, the severity if it differs from that of the kind, and the parts of a subject that has several."""

    subject: str = ""
    words: Mapping[str, Value] = field(default_factory=dict)
    severity: Severity | None = None
    parts: AlertParts | None = None


@dataclass(frozen=True, slots=True)
class ComputedAlert:
    """`subject` is the id of a broker, move or job, or the name of a group. It is "" for a kind with one alert at most. `words`: the values in `text` and
    `do`. `parts`: of a subject that has several; such a subject only identifies the alert."""

    kind: AlertKind
    subject: str
    severity: Severity
    text: str
    do: str
    words: Mapping[str, Value] = field(default_factory=dict)
    parts: AlertParts | None = None
