"""The facts that alerts are computed from, read from the rows.

Invariants: no request to a broker, and no row is written. The cost is some sums and a few names, independent of the size of the cluster. Does not contain:
the evaluation of the facts and the rows of alerts (`alerts`); which facts are a problem (`controlplane.domain.alert_cases`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, F, Q, QuerySet, Sum
from django.utils import timezone

from brokerd.cluster.majority_config import has_majority_acks
from brokerd.cluster.model import effective_min_insync
from controlplane.clients import supervisor
from controlplane.domain import alert_types as types
from controlplane.domain.alert_message_cases import MESSAGE_ALERTS_MAX
from controlplane.domain.alert_phrases import METRIC_OBJECTS, AlertPhrase
from controlplane.domain.alert_thresholds import AlertThresholds, ThresholdName
from controlplane.domain.anomaly import AnomalyState, Baseline
from controlplane.domain.connect import ConnectorFailure
from controlplane.domain.document_values import ResourceKind
from controlplane.domain.history import object_of
from controlplane.domain.lag import Block, LagStatus
from controlplane.domain.progress import StallCause
from controlplane.domain.text import coarse_count
from controlplane.models import (
    ArchiveJob,
    Broker,
    Change,
    Cluster,
    ConnectCluster,
    ConsumerGroup,
    DocumentPlan,
    GroupPartition,
    HangingTransaction,
    Move,
    MovePartition,
    ObservedPartition,
    ObservedTopic,
    ReplicaDamageReport,
    ShareGroupLetters,
    TopicMessages,
)
from controlplane.models.change import Outcome
from controlplane.models.job import ArchiveState
from controlplane.models.move import WORKING_STATES, MoveState, PartState
from controlplane.selectors.anomalies import AnomalyRow, anomaly_list
from controlplane.selectors.forecasts import DISK_METRIC, forecasts
from controlplane.selectors.moves import parts_to_roll_back
from controlplane.selectors.routes import stopped_groups
from controlplane.selectors.topic_configs import cluster_defaults, min_insync
from controlplane.services.rejected_clients import rejected_clients
from controlplane.services.share_group_alerts import stopped_share_groups
from controlplane.services.spark_alerts import spark_worker_facts
from controlplane.services.unclean_elections import unclean_elections
from weir_common.phrases import Phrase, Value

FORECAST_AGE_MAX = timedelta(days=1)
"""Maximum age of a forecast that causes an alert. After that time its job has stopped, and the disk may have changed."""
STUCK_MAX = 1_000
"""Maximum number of stuck partitions whose brokers are read."""

DOCUMENT_ALERTS_MAX = 50
"""Maximum number of alerts about drift, one per owner: as many as the page of documents shows."""

PARTITIONS_EXAMINED_MAX = 1_000
"""Maximum number of partitions of one topic that are searched for names. SQL cannot compare the length of an ISR, which is not a column of its own."""


def _worker_silent_s(cluster: Cluster | None, monitored_since: datetime | None) -> float | None:
    if cluster is None or cluster.worker_polled_at is None:
        return None
    polled_at = cluster.worker_polled_at
    return (timezone.now() - max(polled_at, monitored_since or polled_at)).total_seconds()


def facts(thresholds: AlertThresholds, monitored_since: datetime | None = None) -> types.AlertFacts:
    """All facts. `monitored_since`: the start of the monitor; a worker that was silent before is no problem. Raises DatabaseError."""
    since = timezone.now() - timedelta(seconds=thresholds[ThresholdName.FAILURES_KEPT])
    cluster = Cluster.objects.filter(pk=1).first()
    sums = ObservedTopic.objects.aggregate(
        offline=Sum("offline"), under_min_isr=Sum("under_min_isr"), under_replicated=Sum("under_replicated")
    )
    ends = supervisor.process_ends(settings.WEIR.data_dir)
    damage_reports = ReplicaDamageReport.objects.filter(ended_at__isnull=True, recovery__isnull=True)
    groups, counts, soon = _groups(thresholds)
    share_groups, share_group_count = stopped_share_groups(thresholds)
    hanging, hanging_groups = _hanging(thresholds)
    spark_polled_at = cluster.spark_worker_polled_at if cluster is not None else None
    spark_silent_s, spark_jobs_waiting = spark_worker_facts(spark_polled_at, monitored_since)
    return types.AlertFacts(
        zookeeper=cluster.zookeeper_connected if cluster is not None else None,
        controller=cluster.controller_id if cluster is not None else None,
        worker_silent_s=_worker_silent_s(cluster, monitored_since),
        spark_worker_silent_s=spark_silent_s,
        spark_jobs_waiting=spark_jobs_waiting,
        brokers=tuple(
            types.BrokerFacts(
                b.broker_id,
                b.alive,
                b.answered,
                b.replicas,
                b.total_bytes,
                b.free_bytes,
                dirs_failed=tuple(b.dirs_failed),
                dirs_hung=tuple(b.dirs_hung),
                dirs_slow=tuple(b.dirs_slow),
                dir_probe_ms=b.dir_probe_ms,
                process_end=None if b.alive else ends.get(f"broker-{b.broker_id}"),
            )
            for b in Broker.objects.all()
        ),
        offline=_first_names(sums["offline"], ObservedTopic.objects.filter(offline__gt=0), leaderless=True),
        under_min_isr=(sums["under_min_isr"] or 0, _below_min_isr() if sums["under_min_isr"] else ()),
        under_replicated=_first_names(
            (sums["under_replicated"] or 0) - (sums["offline"] or 0),
            ObservedTopic.objects.filter(under_replicated__gt=F("offline")),
            leaderless=False,
        ),
        unclean_elections=unclean_elections(since),
        damaged=(
            damage_reports.order_by().values("topic_id", "partition", "broker_id").distinct().count(),
            tuple(
                Phrase(AlertPhrase.REPLICA, {"partition": f"{name}-{index}", "broker": str(broker)})
                for name, index, broker in damage_reports.order_by("topic_name", "partition", "broker_id")
                .values_list("topic_name", "partition", "broker_id")
                .distinct()[: types.NAMES_MAX]
            ),
        ),
        hanging=hanging,
        hanging_groups=hanging_groups,
        anomalies=tuple(
            types.AnomalyFacts(types.AlertMetric(a.metric, *object_of(a.subject)), anomaly_text(a))
            for a in anomaly_list()
            if a.alerts
        ),
        disk_forecasts=_disk_forecasts(),
        drift=(cluster.drift or 0) if cluster is not None else 0,
        documents=_documents(),
        groups=groups,
        group_counts=counts,
        retention_count=soon,
        share_groups=share_groups,
        share_group_count=share_group_count,
        moves=_moves(since),
        changes_unknown=Change.objects.filter(at__gt=since, outcome=Outcome.UNKNOWN).count(),
        archives=tuple(
            ArchiveJob.objects.filter(state=ArchiveState.FAILED, finished_at__gt=since).values_list("pk", "note")[
                : types.NAMES_MAX
            ]
        ),
        messages=_messages(thresholds),
        letters_missing=tuple(
            types.MissingDeadLetterFacts(x.group_id, x.topic, x.unwritten, x.reason)
            for x in ShareGroupLetters.objects.filter(unwritten_at__gt=since).order_by("-unwritten_at", "pk")[
                :MESSAGE_ALERTS_MAX
            ]
        ),
        rejected=rejected_clients(thresholds),
        connect=_connect(),
        thresholds=thresholds,
    )


def _connect() -> tuple[types.ConnectFacts, ...]:
    return tuple(
        types.ConnectFacts(
            c.name,
            tuple(ConnectorFailure(**f) for f in c.failures),
            None if c.silent_since is None else (c.tried_at - c.silent_since).total_seconds(),
            c.problem,
        )
        for c in ConnectCluster.objects.all()
        if c.failures or c.silent_since is not None
    )


def _documents() -> tuple[types.DocumentFacts, ...]:
    """The documents with drift, as `services.document_drift` stored it, and who changed the first topic since the document was applied."""
    found = []
    rows = DocumentPlan.objects.filter(drift_count__gt=0).defer("document", "steps").order_by("owner")
    for row in rows[:DOCUMENT_ALERTS_MAX]:
        kind, _, name = (row.drift_names[0] if row.drift_names else "").partition(" ")
        changes = Change.objects.filter(object_kind="topic", object_name=name, at__gt=row.applied_at)
        actor = changes.order_by("-pk").values_list("actor", flat=True).first() if kind == ResourceKind.TOPIC else None
        found.append(
            types.DocumentFacts(row.owner, row.pk, (row.drift_count or 0, tuple(row.drift_names)), actor or "")
        )
    return tuple(found)


def _disk_forecasts() -> tuple[types.DiskForecastFacts, ...]:
    """Recent forecasts of the disks of live brokers that are full within the horizon."""
    now, found = timezone.now(), forecasts()
    accuracy = next((a for a in found.accuracy if a.metric == DISK_METRIC), None)
    of_disks = {r.subject: r for r in found.rows if r.metric == DISK_METRIC and now - r.made_at <= FORECAST_AGE_MAX}
    if not of_disks:
        return ()
    out = []
    for broker in Broker.objects.filter(alive=True).values_list("broker_id", flat=True):
        row = of_disks.get(f"broker:{broker}")
        if row is None or row.median is None or row.low is None:
            continue
        median_s, low_s = ((at - now).total_seconds() for at in (row.median, row.low))
        out.append(
            types.DiskForecastFacts(
                broker,
                median_s,
                low_s,
                None if row.high is None else (row.high - now).total_seconds(),
                row.value,
                row.level,
                *((accuracy.stated_pct, accuracy.decided, accuracy.inside_pct) if accuracy is not None else ()),
            )
        )
    return tuple(out)


def _messages(thresholds: AlertThresholds) -> tuple[types.TopicMessageFacts, ...]:
    """Topics with a metric beyond its threshold: for each metric the MESSAGE_ALERTS_MAX worst ones."""
    now = timezone.now()

    def before(seconds: float) -> datetime:
        return now - timedelta(seconds=seconds)

    late = {"half_oldest_at": ThresholdName.HALF_UNDECIDED, "delayed_next_at": ThresholdName.DELAYED_OVERDUE}
    many = {"half_expired": ThresholdName.HALF_EXPIRED, "dead_letters_grown": ThresholdName.DEAD_LETTERS_GROWN}
    rows: dict[str, TopicMessages] = {}
    for name, threshold in late.items():
        found = TopicMessages.objects.filter(_rows_beyond(thresholds, threshold, "topic", f"{name}__lte", before))
        rows |= {r.topic: r for r in found.order_by(name)[:MESSAGE_ALERTS_MAX]}
    for name, threshold in many.items():
        found = TopicMessages.objects.filter(_rows_beyond(thresholds, threshold, "topic", f"{name}__gte", float))
        rows |= {r.topic: r for r in found.order_by(f"-{name}")[:MESSAGE_ALERTS_MAX]}

    def age_s(r: TopicMessages, name: str) -> float | None:
        """The age at the time of the sample: since then a message may have been decided or delivered."""
        at: datetime | None = getattr(r, name)
        age = None if at is None else (r.sampled_at - at).total_seconds()
        return age if age is not None and age >= thresholds.value_for(late[name], r.topic) else None

    def count(r: TopicMessages, name: str) -> int | None:
        value: int | None = getattr(r, name)
        return value if value is not None and value >= thresholds.value_for(many[name], r.topic) else None

    return tuple(
        types.TopicMessageFacts(
            r.topic,
            half_undecided=r.half_undecided or 0,
            half_oldest_s=age_s(r, "half_oldest_at"),
            half_expired=count(r, "half_expired"),
            delayed_overdue_s=age_s(r, "delayed_next_at"),
            dead_letters_grown=count(r, "dead_letters_grown"),
        )
        for r in rows.values()
    )


def _rows_beyond(
    thresholds: AlertThresholds, name: ThresholdName, column: str, lookup: str, limit: Callable[[float], object]
) -> Q:
    """The rows beyond their threshold. `column`: has the name of the object. `lookup`: compares with the limit of a value."""
    own = thresholds.overrides.get(name, {})
    found = Q(**{lookup: limit(thresholds[name])}) & ~Q(**{f"{column}__in": list(own)})
    for subject, value in own.items():
        found |= Q(**{column: subject, lookup: limit(value)})
    return found


def anomaly_text(anomaly: AnomalyRow) -> Phrase:
    """The unusual value with two digits. If the text changed with every reading, it would be written each time."""
    kind, name = object_of(anomaly.subject)
    values: dict[str, Value] = {
        "metric": Phrase(anomaly.label),
        "subject": Phrase(METRIC_OBJECTS[kind], {"name": name} if name else {}),
        "value": coarse_count(anomaly.value),
        "usual": coarse_count(anomaly.usual),
    }
    days = anomaly.baseline == Baseline.DAYS
    if anomaly.state == AnomalyState.HIGH:
        return Phrase(AlertPhrase.HIGHER_DAYS if days else AlertPhrase.HIGHER, values)
    return Phrase(AlertPhrase.LOWER_DAYS if days else AlertPhrase.LOWER, values)


def _first_names(
    count: int | None, topics: QuerySet[ObservedTopic], *, leaderless: bool
) -> tuple[int, tuple[str, ...]]:
    """The count, and the names of the first partitions. The search covers the first topics that have any."""
    if not count:
        return 0, ()
    ids = [t.pk for t in topics.order_by("name")[: types.NAMES_MAX]]
    rows = ObservedPartition.objects.filter(topic_id__in=ids, in_trouble=True, leader__isnull=leaderless)
    found = rows.order_by("topic__name", "index").values_list("topic__name", "index")[: types.NAMES_MAX]
    return count, tuple(f"{name}-{index}" for name, index in found)


def _below_min_isr() -> tuple[str, ...]:
    """Names of the first partitions below min.insync.replicas. The search covers the first partitions of the first topics that have any."""
    names: list[str] = []
    defaults = cluster_defaults()
    for topic in ObservedTopic.objects.filter(under_min_isr__gt=0).order_by("name")[: types.NAMES_MAX]:
        least, majority = min_insync(topic.configs, defaults), has_majority_acks(topic.configs)
        columns = ("index", "isr", "replicas", "adding", "removing")
        rows = topic.partitions.filter(leader__isnull=False).order_by("index").values_list(*columns)
        names += [
            f"{topic.name}-{index}"
            for index, isr, *placed in rows[:PARTITIONS_EXAMINED_MAX]
            if len(isr) < effective_min_insync(least, *placed, majority=majority)
        ]
    return tuple(names[: types.NAMES_MAX])


def _hanging(thresholds: AlertThresholds) -> tuple[tuple[int, tuple[str, ...]], int]:
    """(partitions in which transactions have hung for long, groups that wait there). The search that writes the rows limits their number."""
    since = timezone.now() - timedelta(seconds=thresholds[ThresholdName.TRANSACTION_HANGING])
    rows = HangingTransaction.objects.filter(found_at__lte=since).order_by("topic", "partition")
    spots = list(dict.fromkeys(rows.values_list("topic", "partition")))
    if not spots:
        return (0, ()), 0
    blocked = GroupPartition.objects.filter(block=Block.OPEN_TRANSACTION, topic__in={topic for topic, _ in spots})
    groups = {g for g, topic, i in blocked.values_list("group_id", "topic", "index") if (topic, i) in set(spots)}
    return (len(spots), tuple(f"{topic}-{i}" for topic, i in spots[: types.NAMES_MAX])), len(groups)


def _groups(thresholds: AlertThresholds) -> tuple[tuple[types.GroupFacts, ...], dict[LagStatus, int], int]:
    """(groups that are alerts, number of groups by status, number of groups that retention will soon overtake). At most as many groups are returned
    as get single alerts."""
    grave = ConsumerGroup.objects.filter(status__in=[s.value for s in types.GROUP_STATUSES])
    # An operator has stopped these routes, so their lag is expected. The deletion of unread records by retention is not.
    grave = grave.exclude(~Q(status=LagStatus.DATA_LOST), pk__in=stopped_groups())
    counts = {LagStatus(s): n for s, n in grave.order_by().values_list("status").annotate(n=Count("pk"))}
    ahead = _rows_beyond(thresholds, ThresholdName.RETENTION_AHEAD, "pk", "retention_in_s__lte", float)
    soon = ConsumerGroup.objects.filter(ahead)
    most = int(thresholds[ThresholdName.GROUP_ALERTS_MAX])
    rows: dict[str, ConsumerGroup] = {}
    for status in counts:
        of_status = grave.filter(status=status.value).order_by(F("lag_records").desc(nulls_last=True), "pk")
        rows |= {g.pk: g for g in of_status[:most]}
    rows |= {g.pk: g for g in soon.order_by("retention_in_s", "pk")[:most]}
    return tuple(_group_facts(g) for g in rows.values()), counts, soon.count()


def _group_facts(group: ConsumerGroup) -> types.GroupFacts:
    worst = (
        group.partitions.filter(status=group.status)
        .order_by(F("lag_ms").desc(nulls_last=True), "topic", "index")
        .first()
    )
    return types.GroupFacts(
        group.pk,
        LagStatus(group.status),
        f"{worst.topic}-{worst.index}" if worst is not None else "",
        group.lag_records,
        group.lag_ms_max,
        group.lag_at_least,
        group.consumed_per_s,
        group.produced_per_s,
        group.lost_records,
        group.retention_partition,
        group.retention_in_s,
        group.retention_limit,
        group.retention_at_most,
    )


def _moves(since: object) -> tuple[types.MoveFacts, ...]:
    """Running moves and recently failed moves, with their partitions that are rejected or blocked with a cause. The
    cause `will_not_finish` is reported separately."""
    rows = Move.objects.filter(Q(state__in=WORKING_STATES) | Q(state=MoveState.FAILED, finished_at__gt=since))
    counted = (
        MovePartition.objects.filter(
            Q(state=PartState.REJECTED) | ~Q(cause__in=("", StallCause.WILL_NOT_FINISH)), move__in=rows
        )
        .order_by()
        .values_list("move_id", "cause")
        .annotate(n=Count("pk"))
    )
    stalled: dict[int, dict[str, int]] = {}
    for move_id, cause, count in counted:
        stalled.setdefault(move_id, {})[cause] = count
    down = _down_brokers(list(stalled))
    return tuple(
        types.MoveFacts(
            m.pk,
            MoveState(m.state),
            sum(causes.values()),
            m.needs_bytes_per_s,
            tuple(sorted(c for c in causes if c)),
            down.get(m.pk, {}),
            m.state != MoveState.FAILED or parts_to_roll_back(m.pk) > 0,
        )
        for m in rows.order_by("pk")
        if (causes := stalled.get(m.pk, {})) or m.needs_bytes_per_s is not None or m.state == MoveState.FAILED
    )


def _down_brokers(moves: Sequence[int]) -> dict[int, dict[str, tuple[int, ...]]]:
    """{move: {cause: the brokers that are down}}: new brokers of a partition that waits for its target, old ones of a partition that waits for its source."""
    if not moves:
        return {}
    down = set(Broker.objects.filter(alive=False).values_list("broker_id", flat=True))
    causes = (StallCause.TARGET_DOWN, StallCause.SOURCE_DOWN)
    parts = MovePartition.objects.filter(move__in=moves, cause__in=causes).order_by("pk")
    found: dict[int, dict[str, set[int]]] = {}
    for move, cause, old, new in parts.values_list("move_id", "cause", "replicas_from", "replicas_to")[:STUCK_MAX]:
        waits = set(new) - set(old) if cause == StallCause.TARGET_DOWN else set(old)
        found.setdefault(move, {}).setdefault(cause, set()).update(waits & down)
    return {move: {cause: tuple(sorted(b)) for cause, b in by.items()} for move, by in found.items()}
