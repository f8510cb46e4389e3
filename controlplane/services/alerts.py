"""Alerts, kept: the facts out of the rows, what `controlplane.alerts` makes of them, and the rows of that. Laws: asks no broker; costs sums and a few
names, whatever the cluster's size; ended alerts are kept a week. Called by the observer."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.db.models import Count, F, Q, QuerySet, Sum
from django.utils import timezone

from controlplane import alerts as core
from controlplane.models import (
    Alert,
    ArchiveJob,
    Broker,
    Change,
    Cluster,
    ConsumerGroup,
    Move,
    MovePartition,
    ObservedTopic,
    Partition,
    ReplicaFinding,
)
from controlplane.models.change import Outcome
from controlplane.models.move import WORKING_STATES, MoveState
from controlplane.pace import WILL_NOT_FINISH
from controlplane.services.topic_configs import min_insync

KEPT = timedelta(days=7)
"""How long an ended alert is kept: what happened in the nights of a week on call."""

LOOKED_AT_MAX = 1_000
"""Partitions of one topic among which a name for a sentence is looked for: an ISR is no column that can be asked for its length."""

LATELY = timedelta(days=1)
"""Failed moves and jobs, and changes of unknown outcome, are told this long: nobody ends them, a person has looked by then."""


def look() -> bool:
    """One look: rows begin, change, end. Returns whether any did. Raises DatabaseError."""
    now = timezone.now()
    found = core.alerts(facts())
    rows = Alert.objects.filter(Q(ended_at__isnull=True) | Q(ended_at__gt=now - timedelta(seconds=core.FLAP_SECONDS)))
    known = [
        core.Known(
            r.pk, r.kind, r.subject, r.severity, r.text, r.do, r.ended_at.timestamp() if r.ended_at is not None else None
        )
        for r in rows.order_by("ended_at", "pk")
    ]  # fmt: skip
    turn = core.turn(known, found, now.timestamp())
    if not (turn.begins or turn.goes_on or turn.ends):
        return False  # without the database's one lock for writing
    with transaction.atomic():
        for a in turn.begins:
            Alert.objects.create(
                kind=a.kind, subject=a.subject, severity=a.severity, text=a.text, do=a.do, since=now, ended_at=None
            )
        for pk, a in turn.goes_on:
            Alert.objects.filter(pk=pk).update(severity=a.severity, text=a.text, do=a.do, ended_at=None)
        Alert.objects.filter(pk__in=turn.ends).update(ended_at=now)
        Alert.objects.filter(ended_at__lt=now - KEPT).delete()
    return True


def facts() -> core.Facts:
    since = timezone.now() - LATELY
    cluster = Cluster.objects.filter(pk=1).first()
    sums = ObservedTopic.objects.aggregate(
        offline=Sum("offline"), under_min_isr=Sum("under_min_isr"), under_replicated=Sum("under_replicated")
    )
    findings = ReplicaFinding.objects.filter(ended_at__isnull=True, recovery__isnull=True)
    return core.Facts(
        zookeeper=cluster.zookeeper_connected if cluster is not None else None,
        controller=cluster.controller_id if cluster is not None else None,
        brokers=tuple(
            core.BrokerFacts(
                b.broker_id, b.alive, b.answered, b.replicas, b.total_bytes, b.free_bytes, tuple(b.dirs_failed)
            )
            for b in Broker.objects.all()
        ),
        offline=_named(sums["offline"], ObservedTopic.objects.filter(offline__gt=0), leaderless=True),
        under_min_isr=(sums["under_min_isr"] or 0, _below_min_isr() if sums["under_min_isr"] else ()),
        under_replicated=_named(
            (sums["under_replicated"] or 0) - (sums["offline"] or 0),
            ObservedTopic.objects.filter(under_replicated__gt=F("offline")),
            leaderless=False,
        ),
        damaged=(
            findings.order_by().values("topic_id", "partition", "broker_id").distinct().count(),
            tuple(
                f"{name}-{index} on broker {broker}"
                for name, index, broker in findings.order_by("topic_name", "partition", "broker_id")
                .values_list("topic_name", "partition", "broker_id")
                .distinct()[: core.NAMES_MAX]
            ),
        ),
        drift=(cluster.drift or 0) if cluster is not None else 0,
        verdicts=_verdicts(),
        moves=_moves(since),
        changes_unknown=Change.objects.filter(at__gt=since, outcome=Outcome.UNKNOWN).count(),
        archives=tuple(
            ArchiveJob.objects.filter(state="failed", finished_at__gt=since).values_list("pk", "note")[: core.NAMES_MAX]
        ),
    )


def _named(count: int | None, topics: QuerySet[ObservedTopic], *, leaderless: bool) -> tuple[int, tuple[str, ...]]:
    """The count with the first partitions of it, looked for in the first topics that have any."""
    if not count:
        return 0, ()
    ids = [t.pk for t in topics.order_by("name")[: core.NAMES_MAX]]
    rows = Partition.objects.filter(topic_id__in=ids, in_trouble=True, leader__isnull=leaderless)
    found = rows.order_by("topic__name", "index").values_list("topic__name", "index")[: core.NAMES_MAX]
    return count, tuple(f"{name}-{index}" for name, index in found)


def _below_min_isr() -> tuple[str, ...]:
    """The first of them, looked for among the first partitions of the first topics that have any."""
    names: list[str] = []
    for topic in ObservedTopic.objects.filter(under_min_isr__gt=0).order_by("name")[: core.NAMES_MAX]:
        least = min_insync(topic.configs)
        rows = topic.partitions.filter(leader__isnull=False).order_by("index").values_list("index", "isr")
        names += [f"{topic.name}-{index}" for index, isr in rows[:LOOKED_AT_MAX] if len(isr) < least]
    return tuple(names[: core.NAMES_MAX])


def _verdicts() -> dict[str, tuple[int, tuple[str, ...]]]:
    grave = ConsumerGroup.objects.filter(verdict__in=core.GRAVE_VERDICTS)
    counts = dict(grave.order_by().values_list("verdict").annotate(n=Count("pk")))
    return {
        verdict: (
            count,
            tuple(
                grave.filter(verdict=verdict)
                .order_by(F("lag_records").desc(nulls_last=True), "pk")
                .values_list("pk", flat=True)[: core.NAMES_MAX]
            ),
        )
        for verdict, count in counts.items()
    }


def _moves(since: object) -> tuple[core.MoveFacts, ...]:
    """Moves that work, and those that failed lately, with parts that are refused or stand still with a cause. That one will not finish is told apart."""
    rows = Move.objects.filter(Q(state__in=WORKING_STATES) | Q(state=MoveState.FAILED, finished_at__gt=since))
    counted = (
        MovePartition.objects.filter(Q(state="stuck") | ~Q(cause__in=("", WILL_NOT_FINISH)), move__in=rows)
        .order_by()
        .values_list("move_id", "cause")
        .annotate(n=Count("pk"))
    )
    stuck: dict[int, dict[str, int]] = {}
    for move_id, cause, count in counted:
        stuck.setdefault(move_id, {})[cause] = count
    return tuple(
        core.MoveFacts(m.pk, m.state, sum(why.values()), m.needs_bytes_per_s, tuple(sorted(c for c in why if c)))
        for m in rows.order_by("pk")
        if (why := stuck.get(m.pk, {})) or m.needs_bytes_per_s is not None or m.state == MoveState.FAILED
    )
