"""Open alerts as incidents: each cause with the alerts that it explains, what changed before, and the timeline.

Invariant: the cost is bounded. Of many partitions with problems the first are read. Which alert explains which: `controlplane.domain.incident`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from django.db.models import Q

from controlplane.domain import incident
from controlplane.domain.alert_types import AlertKind, Severity
from controlplane.domain.audit_operation import operation_label
from controlplane.domain.changed_values import ChangedValue, first_values
from controlplane.domain.next_step import NextStep
from controlplane.domain.page_phrases import STATE_ARROW, STATE_CHANGE
from controlplane.domain.progress import StallCause
from controlplane.models import (
    Alert,
    AlertEntry,
    Change,
    ClusterEvent,
    ConsumerGroup,
    GroupPartition,
    MovePartition,
    MoveTransition,
    ObservedPartition,
    ReplicaDamageReport,
    ShareGroupPartition,
)
from controlplane.models.change import Outcome
from controlplane.models.move import PartState
from controlplane.selectors.alert_thresholds import (
    AppliedThreshold,
    ThresholdChange,
    applied_thresholds,
    threshold_changes,
)
from controlplane.selectors.alerts import AlertRow, alert_row, open_alerts, raise_severity
from controlplane.selectors.changes import WITHOUT_EFFECT
from controlplane.selectors.next_steps import next_steps, step_to_cause
from controlplane.selectors.visibility import limited, visible
from weir_common.phrases import Phrase, sentence, with_phrase

PartitionName = tuple[str, int]
"""Topic and index of a partition."""

TARGET_CAUSES = (StallCause.TARGET_DOWN, StallCause.NO_SPACE)
"""Causes of a stuck partition for which its new brokers are the reason."""
BROKER_CAUSES = (*TARGET_CAUSES, StallCause.SOURCE_DOWN, StallCause.FETCH_ERROR)
"""Causes of a stuck partition for which its brokers are the reason."""
CLUSTER_CAUSES = ("", StallCause.CONTROLLER, StallCause.WILL_NOT_FINISH)
"""Causes of a partition without a reason of its own to be stuck. WILL_NOT_FINISH has its own alert."""

TROUBLED_MAX = 1_000
"""Maximum number of partitions with problems that are read to find the brokers that alerts depend on."""

BEFORE = timedelta(minutes=15)
"""The page of an alert lists the changes in this time before it."""
AFTER = timedelta(minutes=1)
"""The monitor may observe an election some seconds after the alert that the election causes."""
CONTEXT_MAX = 100
"""Maximum number of rows of each source. A rolling change of many topics must not hide the elections."""


class ContextSource(StrEnum):
    CHANGE = "change"
    CLUSTER = "cluster"
    MOVE = "move"


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """`severity`: the most severe of the cause and its effects. `effects`: open alerts that the cause explains."""

    cause: AlertRow
    severity: str
    effects: list[AlertRow]


@dataclass(frozen=True, slots=True)
class ContextRow:
    """`change_id` and `verb`: of the audit log, null and empty for other sources. `actor` empty: observed by the monitor. `values`: the first changed values of
    a change, `values_more`: the number of the others; none for a user who sees only some resources, because the audit log is of the whole cluster. `reason`: the
    comment of the user."""

    at: datetime
    source: str
    text: str
    actor: str
    object_kind: str
    object_name: str
    outcome: str
    change_id: int | None
    verb: str = ""
    values: list[ChangedValue] = field(default_factory=list)
    values_more: int = 0
    reason: str = ""

    @property
    def is_change(self) -> bool:
        return self.source == ContextSource.CHANGE

    @property
    def is_succeeded(self) -> bool:
        return self.outcome == Outcome.CONFIRMED


@dataclass(frozen=True, slots=True)
class EntryRow:
    """An entry in the timeline of an alert. `actor` empty: the cluster monitor."""

    at: datetime
    kind: str
    actor: str
    text: str


@dataclass(frozen=True, slots=True)
class IncidentDetail:
    """An alert with its context. `severity`: the most severe of the alert and its effects. `caused_by`: the open alert that explains this one.
    `before`: changes and events of the 15 minutes before and the minute after, newest first."""

    alert: AlertRow
    severity: str
    caused_by: AlertRow | None
    effects: list[AlertRow]
    next_steps: list[NextStep]
    before: list[ContextRow]
    timeline: list[EntryRow]
    thresholds: list[AppliedThreshold]
    """Those that decide about this alert, with the values that apply to its object."""
    threshold_changes: list[ThresholdChange]
    """Changes of these thresholds while the alert was open."""

    @property
    def is_at_risk(self) -> bool:
        return self.severity == Severity.AT_RISK


def incident_list() -> list[IncidentRow]:
    """The open incidents, most severe first; silenced ones last."""
    return _group(open_alerts())


def raised() -> set[int]:
    """Ids of the open alerts with a less severe kind than one of their effects: lists show the severity of the incident, as its own page does."""
    return _causes_to_raise(open_alerts())


def with_incident_severity(rows: list[AlertRow]) -> list[AlertRow]:
    """Open alerts with the severity of their incidents, the most severe first. Of the other open alerts, only those are read that can belong to their
    incidents."""
    return sorted(raise_severity(rows, _ids_to_raise(rows)), key=lambda a: a.severity != Severity.AT_RISK)


def _ids_to_raise(rows: Iterable[AlertRow]) -> set[int]:
    """Return those ids of `raised` that belong to these open alerts, and perhaps others."""
    kinds: set[AlertKind] = set()
    more_severe = Q()
    for a in rows:
        kind = AlertKind(a.kind)
        if a.severity != Severity.AT_RISK and (effects := incident.effects_of(kind)):
            kinds |= {kind, *effects}
            own = {"subject": a.subject} if incident.explains_own_subject_only(kind) else {}
            more_severe |= Q(kind__in=effects, **own)
    if not kinds:
        return set()
    at_risk = Alert.objects.filter(more_severe, ended_at__isnull=True, severity=Severity.AT_RISK)
    if AlertKind.MONITOR_SILENT not in kinds and not visible(at_risk).exists():
        return set()
    return _causes_to_raise(open_alerts(incident.with_causes(kinds)))


def _causes_to_raise(rows: Sequence[AlertRow]) -> set[int]:
    return {i.cause.id for i in _group(rows) if i.severity != i.cause.severity}


def incident_detail(alert_id: int) -> IncidentDetail | None:
    """An alert, open or ended. Number 0 is the alert of a silent monitor."""
    row = alert_row(alert_id)
    if row is None:
        return None
    caused_by: AlertRow | None = None
    effects: list[AlertRow] = []
    severity = row.severity
    if row.ended_at is None:
        own = next(i for i in incident_list() if row.id in (i.cause.id, *(e.id for e in i.effects)))
        if own.cause.id == row.id:
            effects, severity = own.effects, own.severity
        else:
            caused_by = own.cause
    entries = AlertEntry.objects.filter(alert_id=row.id)
    # The texts of the monitor may contain topics that the user must not see.
    timeline = [
        EntryRow(e.at, e.kind, e.actor, with_phrase(e.text, e.phrase) if e.actor or not limited() else "")
        for e in entries
    ]
    return IncidentDetail(
        row,
        severity,
        caused_by,
        effects,
        _steps(row, caused_by),
        changes_before(row.since),
        timeline,
        applied_thresholds(row.kind, row.subject),
        threshold_changes(row.kind, row.subject, row.since, row.ended_at),
    )


def _steps(row: AlertRow, caused_by: AlertRow | None) -> list[NextStep]:
    """First the step of the cause: an effect ends with it, and its own operation may not work before."""
    own = next_steps(row)
    if caused_by is None:
        return own
    first = step_to_cause(caused_by)
    return [first, *(s for s in own if (s.kind, s.target) != (first.kind, first.target))]


def changes_before(since: datetime) -> list[ContextRow]:
    """The changes by operators, moves and the cluster itself in the 15 minutes before and the minute after, newest first."""
    window = (since - BEFORE, since + AFTER)
    changes = visible(Change.objects.filter(at__range=window).exclude(object_kind__in=(*WITHOUT_EFFECT, "alert")))
    rows = [_change_row(c) for c in changes.order_by("-pk")[:CONTEXT_MAX]]
    for event in visible(ClusterEvent.objects.filter(at__range=window))[:CONTEXT_MAX]:
        rows.append(
            ContextRow(event.at, ContextSource.CLUSTER, with_phrase(event.text, event.phrase), "", "", "", "", None)
        )
    for t in visible(MoveTransition.objects.filter(at__range=window)).order_by("-pk")[:CONTEXT_MAX]:
        rows.append(ContextRow(t.at, ContextSource.MOVE, _transition(t), t.actor, "move", str(t.move_id), "", None))
    return sorted(rows, key=lambda r: r.at, reverse=True)


def _change_row(change: Change) -> ContextRow:
    values, more = ([], 0) if limited() else first_values(change.before, change.after)
    return ContextRow(
        change.at,
        ContextSource.CHANGE,
        sentence(operation_label(change.verb)),
        change.actor,
        change.object_kind,
        change.object_name,
        change.outcome,
        change.pk,
        change.verb,
        values,
        more,
        change.comment,
    )


def _transition(t: MoveTransition) -> str:
    words = {name: Phrase(state.replace("_", " ")) for name, state in (("before", t.state_from), ("after", t.state_to))}
    return sentence(STATE_CHANGE if t.comment else STATE_ARROW, text=with_phrase(t.comment, t.comment_phrase), **words)


def _group(rows: Sequence[AlertRow]) -> list[IncidentRow]:
    by_id = {a.id: a for a in rows}
    objects = _objects(rows) if len(rows) > 1 else {}
    own = _with_own_cause(rows) if len(rows) > 1 else set()
    found = incident.incidents(
        [
            incident.OpenAlert(
                a.id,
                AlertKind(a.kind),
                Severity(a.severity),
                a.since.timestamp(),
                frozenset(objects.get(a.id, ())),
                a.id in own,
            )
            for a in rows
        ]
    )
    incidents = [IncidentRow(by_id[i.cause], i.severity, [by_id[e] for e in i.effects]) for i in found]
    return sorted(incidents, key=lambda i: i.cause.silenced_until is not None)


@dataclass(frozen=True, slots=True)
class Dependencies:
    """`missing`: partition with problems -> brokers whose replica is missing. `offline`: those of them without a leader. `led`: the
    brokers that led partitions with problems. `delays`: group -> brokers whose failure explains its lag. `moves`: move -> brokers of its stuck partitions. `damaged`: brokers with damaged replicas."""

    missing: dict[PartitionName, set[str]]
    offline: set[PartitionName]
    led: set[str]
    delays: dict[str, set[str]]
    moves: dict[str, set[str]]
    damaged: set[str]


def _objects(rows: Sequence[AlertRow]) -> dict[int, set[str]]:
    """Alert id -> the objects that the alert is about or depends on."""
    known = _dependencies(rows)
    return {a.id: _objects_of(AlertKind(a.kind), a.subject, known) for a in rows}


def _objects_of(kind: AlertKind, subject: str, dependencies: Dependencies) -> set[str]:
    if kind in incident.BROKERS:
        return {f"broker:{subject}"}
    if kind is AlertKind.PARTITIONS_OFFLINE:
        return _brokers(dependencies, dependencies.offline)
    if kind in incident.PARTITIONS:
        return _brokers(dependencies, dependencies.missing.keys() - dependencies.offline)
    if kind in incident.MOVES:
        return {f"move:{subject}"} | dependencies.moves.get(subject, set())
    if kind in incident.GROUPS | incident.RETENTION:
        # An alert about many groups has no subject: it depends on all partitions with problems.
        return {f"group:{subject}"} | (dependencies.delays.get(subject, set()) if subject else dependencies.led)
    if kind is AlertKind.COPIES_DAMAGED:
        return dependencies.damaged
    return set()


def _brokers(dependencies: Dependencies, spots: AbstractSet[PartitionName]) -> set[str]:
    return {broker for spot in spots for broker in dependencies.missing[spot]}


MOVE_COLUMNS = ("move_id", "cause", "replicas_from", "replicas_to")


def _brokers_of_cause(cause: str, old: Sequence[int], new: Sequence[int]) -> set[int]:
    if cause in TARGET_CAUSES:
        return set(new) - set(old)
    return set(old) if cause == StallCause.SOURCE_DOWN else {*old, *new}


def _with_own_cause(rows: Sequence[AlertRow]) -> set[int]:
    """Ids of the alerts about stuck moves that no missing controller, ZooKeeper or worker explains: a partition is rejected or has another cause."""
    stuck = {int(a.subject): a.id for a in rows if a.kind == AlertKind.MOVE_STUCK}
    parts = MovePartition.objects.filter(move_id__in=stuck).order_by()
    own = parts.filter(Q(state=PartState.REJECTED) | ~Q(cause__in=CLUSTER_CAUSES)).values_list("move_id", flat=True)
    waiting = parts.filter(cause=StallCause.CONTROLLER).values_list("move_id", flat=True)
    return {stuck[m] for m in {*own.distinct()} - {*waiting.distinct()}} if stuck else set()


def _dependencies(rows: Sequence[AlertRow]) -> Dependencies:
    columns = ("topic__name", "index", "replicas", "isr", "leader")
    troubled = list(ObservedPartition.objects.filter(in_trouble=True).values_list(*columns)[:TROUBLED_MAX])
    missing = {
        (topic, index): {f"broker:{b}" for b in replicas if leader is None or b not in isr}
        for topic, index, replicas, isr, leader in troubled
    }
    kinds = {a.kind for a in rows}
    led = {(t, i): _failed_leaders(replicas, isr, leader) for t, i, replicas, isr, leader in troubled}
    offline = {(topic, index) for topic, index, _, _, leader in troubled if leader is None}
    delays = _delays(rows, led, offline) if kinds & (incident.GROUPS | incident.RETENTION) else {}
    moves: dict[str, set[str]] = {}
    if kinds & incident.MOVES:
        ids = [int(a.subject) for a in rows if a.kind in incident.MOVES]
        parts = MovePartition.objects.filter(move_id__in=ids, cause__in=BROKER_CAUSES)
        for move_id, cause, old, new in parts.values_list(*MOVE_COLUMNS)[:TROUBLED_MAX]:
            moves.setdefault(str(move_id), set()).update(f"broker:{b}" for b in _brokers_of_cause(cause, old, new))
    damaged: set[str] = set()
    if AlertKind.COPIES_DAMAGED in kinds:
        reports = ReplicaDamageReport.objects.filter(ended_at__isnull=True, recovery__isnull=True)
        damaged = {f"broker:{b}" for b in reports.order_by().values_list("broker_id", flat=True).distinct()}
    return Dependencies(missing, offline, set[str]().union(*led.values()), delays, moves, damaged)


def _failed_leaders(replicas: Sequence[int], isr: Sequence[int], leader: int | None) -> frozenset[str]:
    """The brokers whose failure stopped the readers of a partition: all without a leader, else the preferred leader, if it is out of sync. A partition lacks only
    a copy if another replica is missing."""
    stopped = replicas if leader is None else [b for b in replicas[:1] if b not in isr]
    return frozenset(f"broker:{b}" for b in stopped)


def _delays(
    rows: Sequence[AlertRow], led: Mapping[PartitionName, frozenset[str]], offline: AbstractSet[PartitionName]
) -> dict[str, set[str]]:
    """Group -> the brokers whose failure explains its lag: those of its partitions, and its coordinator."""
    groups = {a.subject for a in rows if a.kind in incident.GROUPS | incident.RETENTION and a.subject}
    coordinators = ConsumerGroup.objects.filter(pk__in=groups, coordinator__isnull=False)
    delays = {group: {f"broker:{broker}"} for group, broker in coordinators.values_list("pk", "coordinator")}
    if not led:
        return delays
    reads: dict[str, list[incident.GroupRead]] = {}
    for model in (GroupPartition, ShareGroupPartition):
        read = model._default_manager.filter(group_id__in=groups)
        for group, topic, index, unread in read.values_list("group_id", "topic", "index", "lag_records"):
            spot = (topic, index)
            found = incident.GroupRead(unread, led.get(spot, frozenset()), spot in offline)
            reads.setdefault(group, []).append(found)
    return {g: delays.get(g, set()) | incident.brokers_that_delay(reads.get(g, ())) for g in groups}
