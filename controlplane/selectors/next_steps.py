"""The operation that an alert calls for, on the object itself. Does not contain: addresses of pages (`console.next_steps`)."""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings
from django.db.models import F, Sum

from brokerd.cluster.configs import expired_topic_name, half_topic_name
from brokerd.cluster.cordons import leadership_disabled
from controlplane.clients import supervisor
from controlplane.domain.alert_client_cases import rejected_client_name
from controlplane.domain.alert_types import NAMES_MAX, AlertKind
from controlplane.domain.alert_worker_cases import connector_subject
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.history import HistorySubject
from controlplane.domain.lag import LagStatus
from controlplane.domain.move_states import MoveState
from controlplane.domain.next_step import NextStep, StepKind
from controlplane.models import (
    Broker,
    Change,
    ConnectCluster,
    DocumentPlan,
    GroupPartition,
    HangingTransaction,
    Move,
    MovePartition,
    ObservedPartition,
    ObservedReplica,
    ObservedTopic,
    ReplicaDamageReport,
    ShareGroupPartition,
)
from controlplane.models.change import Outcome
from controlplane.selectors.alerts import AlertRow
from controlplane.selectors.disk_relief import relief
from controlplane.selectors.move_steps import plan_again
from controlplane.selectors.moves import ROLLED_BACK_PARTS
from controlplane.selectors.partitions import electable
from controlplane.selectors.topics import drift_list
from controlplane.selectors.users import user_detail
from controlplane.selectors.visibility import visible

PARTS_EXAMINED_MAX = 1000
"""Maximum number of partitions of running moves that are examined for a broker: the overview searches them at each request."""

TROUBLE_EXAMINED_MAX = 1000
"""Maximum number of partitions with problems among which one with too few in-sync replicas is searched."""
USER_PREFIX = "User:"
TOPICS_EXAMINED_MAX = 20
"""Largest topics of the cluster among which the one that fills a broker's disk is searched."""


def next_steps(a: AlertRow) -> list[NextStep]:
    """The most useful first; empty for an alert that is resolved or has no operation."""
    if a.ended_at is not None or a.kind not in _STEPS:
        return []
    return _STEPS[AlertKind(a.kind)](a)


START_LABELS = {
    "zookeeper": "Start ZooKeeper",
    "worker": "Start the worker",
    "broker": "Start broker {0}",
    "controller": "Start controller {0}",
}
"""Label of the start of a process, by its name without its number."""


def _start(name: str) -> NextStep:
    kind, _, number = name.partition("-")
    return NextStep(StepKind.START_PROCESS, START_LABELS[kind].format(number), [name])


def _process(name: str) -> list[NextStep]:
    return [_start(name)] if supervisor.is_kept_stopped(settings.WEIR.data_dir, name) else []


def start_broker(broker_id: int) -> list[NextStep]:
    """The start of the broker's process; empty if it runs, or if another service manager than `weir up` starts it."""
    return _process(f"broker-{broker_id}")


def start_replicas(electable: Sequence[int], replicas: Sequence[int]) -> list[NextStep]:
    """The starts of the brokers that can give a partition a leader: of those that can lead it without loss, or else of all that have a replica."""
    return [step for b in electable or replicas for step in start_broker(b)]


def step_to_cause(cause: AlertRow) -> NextStep:
    """The first step of the alert that explains another one, or its page if it has no step."""
    steps = next_steps(cause)
    return steps[0] if steps else NextStep(StepKind.OPEN_CAUSE, "Open the cause", [str(cause.id)])


def _no_controller(_: AlertRow) -> list[NextStep]:
    return [_start(name) for name in supervisor.stopped_names(settings.WEIR.data_dir, "controller-")]


def _broker_down(a: AlertRow) -> list[NextStep]:
    """A drain is the last step, because it copies all replicas, and most brokers start again."""
    drain = NextStep(StepKind.DRAIN_BROKER, f"Drain broker {a.subject}", [a.subject])
    return [*start_broker(int(a.subject)), *_broker(a), drain]


def _broker(a: AlertRow) -> list[NextStep]:
    return [NextStep(StepKind.OPEN_BROKER, f"Open broker {a.subject}", [a.subject])]


def _disk_failed(a: AlertRow) -> list[NextStep]:
    """The page of the broker says whether a restart is safe. A drain copies all replicas."""
    return [*_broker(a), NextStep(StepKind.DRAIN_BROKER, f"Drain broker {a.subject}", [a.subject])]


def _disk_slow(a: AlertRow) -> list[NextStep]:
    broker = Broker.objects.filter(pk=a.subject).first()
    if broker is None or leadership_disabled(broker.configs):
        return _broker(a)  # the page of the broker restores leadership
    leaders = str(ObservedPartition.objects.filter(leader=broker.pk).count())
    label = f"Move leadership off broker {a.subject} (partitions: {leaders})"
    return [NextStep(StepKind.DEMOTE_BROKER, label, [a.subject, leaders]), *_broker(a)]


def _disk_low(alert: AlertRow) -> list[NextStep]:
    """First the running moves that copy to the broker."""
    steps = _steps_to_filling_moves(alert.subject)
    if (topic := _largest_topic(alert.subject)) is not None:
        if placements := relief(alert.subject, topic):
            label = f"Move replicas of {topic} to brokers with more space"
            steps.append(NextStep(StepKind.MOVE_OFF_BROKER, label, [alert.subject, topic, *placements]))
        steps.append(NextStep(StepKind.RAISE_RETENTION, f"Edit retention of {topic}", [topic]))
    return [*steps, *_broker(alert)]


def _steps_to_filling_moves(broker_id: str) -> list[NextStep]:
    """One step: the running move that copies to the broker, or the list of running moves if there are several."""
    moves = _filling_moves(int(broker_id))
    if len(moves) > 1:
        label = f"Open the {len(moves)} moves that write to this disk"
        return [NextStep(StepKind.OPEN_FILLING_MOVES, label, [str(len(moves))])]
    return [
        NextStep(
            StepKind.OPEN_FILLING_MOVE,
            f"Open move {move}, which writes to this disk",
            [str(move), broker_id, "" if left_bytes is None else str(left_bytes)],
        )
        for move, left_bytes in moves.items()
    ]


def _filling_moves(broker_id: int) -> dict[int, int | None]:
    """{running move that copies to the broker: bytes that are left to copy to it}. None = unknown. The bytes of a partition are divided evenly among its new
    replicas, as on the page of the move."""
    running = visible(Move.objects.filter(state=MoveState.RUNNING)).order_by().values("pk")
    parts = MovePartition.objects.filter(active=True, move__in=running).order_by("move_id", "pk")
    columns = ("move_id", "replicas_from", "replicas_to", "bytes_total", "bytes_done")
    rows = list(parts.values_list(*columns)[:PARTS_EXAMINED_MAX])
    left: dict[int, float | None] = {}
    for move, old, new, total, done in rows:
        receivers = set(new) - set(old)
        if broker_id not in receivers:
            continue
        before = left.get(move, 0.0)
        known = before is not None and total is not None and len(rows) < PARTS_EXAMINED_MAX
        left[move] = before + max(0, total - (done or 0)) / len(receivers) if known else None
    return {move: None if value is None else round(value) for move, value in left.items()}


def _largest_topic(broker_id: str) -> str | None:
    """The topic with the most bytes on the broker, among the largest topics of the cluster."""
    largest = ObservedTopic.objects.filter(internal=False, size_bytes__gt=0).order_by("-size_bytes", "pk")
    names = list(visible(largest).values_list("name", flat=True)[:TOPICS_EXAMINED_MAX])
    here = ObservedReplica.objects.filter(broker_id=broker_id, topic_name__in=names).order_by().values("topic_name")
    found = here.annotate(here_bytes=Sum("size_bytes")).filter(here_bytes__gt=0).order_by("-here_bytes", "topic_name")
    return found.values_list("topic_name", flat=True).first()


def _partition(alert: AlertRow) -> list[NextStep]:
    if alert.kind == AlertKind.PARTITIONS_OFFLINE:
        return _offline()
    rows = ObservedPartition.objects.filter(in_trouble=True, leader__isnull=False)
    if alert.kind == AlertKind.PARTITIONS_UNDER_MIN_ISR:
        rows = rows.filter(topic__under_min_isr__gt=0)
    places = rows.order_by("topic__name", "index").values_list("topic__name", "index", "isr")
    # SQL cannot compare the length of an ISR. Of the topics with partitions under min ISR, the smallest ISR is one of them.
    fewest = alert.kind == AlertKind.PARTITIONS_UNDER_MIN_ISR
    found = min(places[: TROUBLE_EXAMINED_MAX if fewest else 1], key=lambda row: len(row[2]), default=None)
    if found is None:
        return []
    return [_open_partition(found[0], found[1])]


def _open_partition(topic: str, index: int) -> NextStep:
    return NextStep(StepKind.OPEN_PARTITION, f"Open partition {topic}-{index}", [topic, str(index)])


def _offline() -> list[NextStep]:
    """Return the steps for the first partition without a leader. An election needs a replica on a live broker."""
    rows = ObservedPartition.objects.filter(in_trouble=True, leader__isnull=True).select_related("topic")
    found = rows.order_by("topic__name", "index").first()
    if found is None:
        return []
    topic, index = found.topic.name, found.index
    steps = [*start_replicas([] if found.voters else electable(found), found.replicas), _open_partition(topic, index)]
    if Broker.objects.filter(alive=True, broker_id__in=found.replicas).exists():
        label = f"Request unclean leader election of {topic}-{index}"
        steps.append(NextStep(StepKind.PROPOSE_ELECTION, label, [topic, str(index)]))
    return steps


def _unclean_election(alert: AlertRow) -> list[NextStep]:
    """The partition of the newest election, and the config that allows these elections."""
    verb = AuditOperation.TOPIC_ELECT_UNCLEAN_AUTOMATICALLY
    newest = Change.objects.filter(object_kind="topic", object_name=alert.subject, verb=verb).order_by("-pk").first()
    index = min((int(i) for i in newest.after or {}), default=None) if newest is not None else None
    configs = NextStep(StepKind.EDIT_CONFIGS, f"Edit configs of {alert.subject}", [alert.subject])
    if index is None:
        return [configs]
    return [_open_partition(alert.subject, index), configs]


def _steps_for_damage(a: AlertRow) -> list[NextStep]:
    rows = ReplicaDamageReport.objects.filter(ended_at__isnull=True, recovery__isnull=True)
    found = rows.order_by("topic_name", "partition", "broker_id").first()
    if found is None:
        return []
    if ObservedPartition.objects.filter(topic__name=found.topic_name, index=found.partition, leader=None).exists():
        return [_open_partition(found.topic_name, found.partition)]  # there is no replica to copy from
    label = f"Re-replicate {found.topic_name}-{found.partition} on broker {found.broker_id}"
    target = [found.topic_name, str(found.partition), str(found.broker_id)]
    return [NextStep(StepKind.RECOVER_REPLICA, label, target)]


def _hanging(a: AlertRow) -> list[NextStep]:
    rows = list(HangingTransaction.objects.order_by("found_at", "pk")[:NAMES_MAX])
    steps = [
        NextStep(StepKind.PROPOSE_ABORT, f"Request abort in {row.topic}-{row.partition}", [str(row)]) for row in rows
    ]
    return [*steps, NextStep(StepKind.SEARCH_HANGING, "Search all topics", [])]


def _move_failed(a: AlertRow) -> list[NextStep]:
    """The roll back of a move of which the controller rejected all partitions would change none. Partitions of different replicas block a new move."""
    move = visible(Move.objects.filter(pk=a.subject)).first()
    if move is None:
        return []
    if move.parts.filter(ROLLED_BACK_PARTS).exists():
        return [NextStep(StepKind.ROLL_BACK_MOVE, f"Roll back move {move.pk}", [a.subject]), *_move_stuck(a)]
    return [*_move_stuck(a), *plan_again(move)]


def _move_stuck(a: AlertRow) -> list[NextStep]:
    return [NextStep(StepKind.OPEN_MOVE, f"Open move {a.subject}", [a.subject])]


def _move_slow(a: AlertRow) -> list[NextStep]:
    return [NextStep(StepKind.THROTTLE_MOVE, f"Edit the throttle of move {a.subject}", [a.subject])]


def _group(alert: AlertRow) -> list[NextStep]:
    if not alert.subject:
        return []
    group = [NextStep(StepKind.OPEN_GROUP, f"Open group {alert.subject}", [alert.subject])]
    rows = visible(GroupPartition.objects.filter(group_id=alert.subject))
    if alert.kind in (AlertKind.GROUP_RETENTION, AlertKind.GROUP_DATA_LOST):
        worst = rows.order_by(F("retention_in_s").asc(nulls_last=True), F("lag_ms").desc(nulls_last=True)).first()
        if worst is None:
            return group
        return [*raise_retention(worst.topic), *group]
    worst = rows.filter(committed__isnull=False).order_by(F("lag_ms").desc(nulls_last=True), "topic", "index").first()
    if alert.kind != AlertKind.GROUP_STALLED or worst is None:
        return group
    label = f"Read {worst.topic}-{worst.index} at offset {worst.committed}"
    target = [worst.topic, str(worst.index), str(worst.committed)]
    return [NextStep(StepKind.READ_RECORD, label, target), *group]


def raise_retention(topic: str) -> list[NextStep]:
    return [NextStep(StepKind.RAISE_RETENTION, f"Edit retention of {topic}", [topic])]


def _share_group(a: AlertRow) -> list[NextStep]:
    """The record at the start offset, if members have the partition and do not finish it."""
    if not a.subject:
        return []
    group = [NextStep(StepKind.OPEN_SHARE_GROUP, f"Open share group {a.subject}", [a.subject])]
    rows = visible(ShareGroupPartition.objects.filter(group_id=a.subject, status=LagStatus.STALLED, member_count__gt=0))
    worst = rows.order_by(F("lag_ms").desc(nulls_last=True), "topic", "index").first()
    if worst is None or worst.start_offset is None:
        return group
    label = f"Read {worst.topic}-{worst.index} at offset {worst.start_offset}"
    return [NextStep(StepKind.READ_RECORD, label, [worst.topic, str(worst.index), str(worst.start_offset)]), *group]


def _archive(a: AlertRow) -> list[NextStep]:
    """First the page with the cause: a job that is resumed before its cause is corrected fails again."""
    page = NextStep(StepKind.OPEN_JOB, f"Open job {a.subject}", [a.subject])
    return [page, NextStep(StepKind.RESUME_ARCHIVE, f"Resume archive {a.subject}", [a.subject])]


def _drift(a: AlertRow) -> list[NextStep]:
    rows = drift_list()
    return [NextStep(StepKind.OPEN_TOPIC, f"Compare topic {rows[0].name}", [rows[0].name])] if rows else []


def _anomaly(a: AlertRow) -> list[NextStep]:
    """The charts of the object, which have marks of changes and elections."""
    page = NextStep(StepKind.OPEN_ANOMALIES, "Open anomalies", [])
    if a.metric is None:
        return [page]
    kind, name = a.metric.object_kind, a.metric.object_name
    steps = {
        HistorySubject.TOPIC: (StepKind.OPEN_CHARTS, f"Open charts of {name}"),
        HistorySubject.GROUP: (StepKind.OPEN_GROUP, f"Open group {name}"),
        HistorySubject.SHARE_GROUP: (StepKind.OPEN_SHARE_GROUP, f"Open share group {name}"),
        HistorySubject.BROKER: (StepKind.OPEN_BROKER, f"Open broker {name}"),
    }
    found = [NextStep(*steps[kind], [name])] if kind in steps else []
    return [*found, page]


def _document(a: AlertRow) -> list[NextStep]:
    row = DocumentPlan.objects.filter(owner=a.subject, drift_count__gt=0).values_list("pk", flat=True).first()
    if row is None:
        return []
    return [NextStep(StepKind.OPEN_DOCUMENT_DRIFT, f"Compare the document of {a.subject}", [str(row), a.subject])]


def _unknown(a: AlertRow) -> list[NextStep]:
    newest = Change.objects.filter(outcome=Outcome.UNKNOWN).order_by("-pk").first()
    if newest is None:
        return []
    return [NextStep(StepKind.OPEN_CHANGE, f"Open change {newest.pk}", [str(newest.pk)])]


def _half(a: AlertRow) -> list[NextStep]:
    page = NextStep(StepKind.OPEN_HALF_MESSAGES, f"Open half messages of {a.subject}", [a.subject])
    if a.kind == AlertKind.HALF_UNDECIDED:
        return [page]
    expired = expired_topic_name(half_topic_name(a.subject))
    return [NextStep(StepKind.READ_TOPIC, f"Read {expired}", [expired]), page]


def _steps_for_delayed(a: AlertRow) -> list[NextStep]:
    return [NextStep(StepKind.OPEN_DELAYED_MESSAGES, f"Open delayed messages of {a.subject}", [a.subject])]


def _dead_letters(a: AlertRow) -> list[NextStep]:
    return [NextStep(StepKind.OPEN_DEAD_LETTERS, f"Open dead letters of {a.subject}", [a.subject])]


def _letters_missing(a: AlertRow) -> list[NextStep]:
    if a.share_group is None:
        return []
    group = a.share_group.group_id
    return [NextStep(StepKind.OPEN_SHARE_GROUP, f"Open share group {group}", [group])]


def _rejected_client_steps(alert: AlertRow) -> list[NextStep]:
    if alert.client is None:
        return []
    who = alert.client.client
    steps = [NextStep(StepKind.OPEN_REJECTED, f"Open rejected requests of {who}", [who])]
    user = who.removeprefix(USER_PREFIX)
    if user != who and user_detail(user) is not None:
        steps.append(NextStep(StepKind.OPEN_USER, f"Open user {user}", [user]))
    rows = (r for found in Broker.objects.values_list("refused_clients", flat=True) for r in found)
    denied = [
        r
        for r in rows
        if r["operation"]
        and (rejected_client_name(r["principal"], r["host"]), r["reason"]) == (who, alert.client.reason)
    ]
    if denied:
        first = min(denied, key=lambda r: (r["since_ms"], r["host"], r["client_id"]))
        target = [first[n] for n in ("principal", "host", "resource_type", "resource_name", "operation")]
        steps.insert(0, NextStep(StepKind.CHECK_PERMISSION, f"Check the permission of {who}", target))
    return steps


def _connector(a: AlertRow) -> list[NextStep]:
    """First the page with the trace of the failure. A single failed task is restarted immediately, by a button. More have a form."""
    rows = ((row.name, f) for row in ConnectCluster.objects.all() for f in row.failures)
    found = next(((c, f) for c, f in rows if connector_subject(c, f["name"]) == a.subject), None)
    if found is None:
        return []
    cluster, failure = found
    name, failed = failure["name"], failure["failed_tasks"]
    page = NextStep(StepKind.OPEN_CONNECTOR, f"Open connector {name}", [cluster, name])
    if len(failed) == 1 and not failure["has_failed"]:
        task = str(failed[0])
        return [page, NextStep(StepKind.RESTART_TASK, f"Restart task {task} of {name}", [cluster, name, task])]
    return [page, NextStep(StepKind.RESTART_FAILED, f"Restart what has failed of {name}", [cluster, name])]


def _connect_silent(a: AlertRow) -> list[NextStep]:
    return [NextStep(StepKind.OPEN_CONNECT, f"Open Connect cluster {a.subject}", [a.subject])]


_STEPS = {
    AlertKind.HALF_UNDECIDED: _half,
    AlertKind.HALF_EXPIRED: _half,
    AlertKind.DELAYED_OVERDUE: _steps_for_delayed,
    AlertKind.DEAD_LETTERS_GROWING: _dead_letters,
    AlertKind.DEAD_LETTERS_MISSING: _letters_missing,
    AlertKind.CLIENT_REJECTED: _rejected_client_steps,
    AlertKind.CONNECTOR_FAILED: _connector,
    AlertKind.CONNECT_SILENT: _connect_silent,
    AlertKind.PARTITIONS_OFFLINE: _partition,
    AlertKind.PARTITIONS_UNDER_MIN_ISR: _partition,
    AlertKind.PARTITIONS_UNDER_REPLICATED: _partition,
    AlertKind.UNCLEAN_ELECTION: _unclean_election,
    AlertKind.NO_CONTROLLER: _no_controller,
    AlertKind.ZOOKEEPER_AWAY: lambda a: _process("zookeeper"),
    AlertKind.WORKER_SILENT: lambda a: _process("worker"),
    AlertKind.SPARK_WORKER_SILENT: lambda a: _process("worker"),
    AlertKind.BROKER_DOWN: _broker_down,
    AlertKind.BROKER_SILENT: _broker,
    AlertKind.DISK_FAILED: _disk_failed,
    AlertKind.DISK_LOW: _disk_low,
    AlertKind.DISK_FILLING: _disk_low,
    AlertKind.DISK_SLOW: _disk_slow,
    AlertKind.COPIES_DAMAGED: _steps_for_damage,
    AlertKind.TRANSACTION_HANGING: _hanging,
    AlertKind.MOVE_FAILED: _move_failed,
    AlertKind.MOVE_STUCK: _move_stuck,
    AlertKind.MOVE_WILL_NOT_FINISH: _move_slow,
    AlertKind.GROUP_DATA_LOST: _group,
    AlertKind.GROUP_RETENTION: _group,
    AlertKind.GROUP_FALLING_BEHIND: _group,
    AlertKind.GROUP_STOPPED: _group,
    AlertKind.GROUP_STALLED: _group,
    AlertKind.SHARE_GROUP_STOPPED: _share_group,
    AlertKind.ARCHIVE_FAILED: _archive,
    AlertKind.DRIFT: _drift,
    AlertKind.ANOMALY: _anomaly,
    AlertKind.DOCUMENT_DRIFT: _document,
    AlertKind.CHANGES_UNKNOWN: _unknown,
}
