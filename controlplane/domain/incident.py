"""Groups of open alerts by cause: an alert that another open alert explains is an effect of it. Pure.

Invariants: every alert is in exactly one incident. A cause is never explained by its own effects, because the rules form no cycle. Does not
contain: how the objects of an alert are found (`selectors.incidents`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from controlplane.domain.alert import KINDS_IN_ORDER
from controlplane.domain.alert_types import AlertKind, Severity

CAUSE_LATE_S = 60.0
"""A cause may be detected up to this number of seconds after its effect. An alert that started earlier has another cause."""

LAG_CAUSE_LATE_S = 10.0
"""CAUSE_LATE_S for lag that a failed broker or disk causes. The failure is detected within seconds, and lag becomes an alert only later. So an alert about lag
that started before the failure has another cause."""


LAG_EFFECT_S = 1200.0
"""Maximum seconds between the failure of a broker or disk and an alert about lag that it causes. Leaders move within seconds, and a trend is found within 15 minutes (`lag.WINDOW_MS`).
Partitions without a leader have no limit: their alert is the cause then."""


@dataclass(frozen=True, slots=True)
class GroupRead:
    """A partition that a group reads. `unread`: its unread records, None = unknown. `failed`: the brokers whose failure stopped it; `offline`: it has no
    leader."""

    unread: int | None
    failed: frozenset[str] = frozenset()
    offline: bool = False


@dataclass(frozen=True, slots=True)
class OpenAlert:
    """`objects`: what the alert is about or depends on, such as `broker:2`, `group:billing`, `move:7`. `since_s`: seconds since the epoch.
    `own_cause`: the recorded cause is the object itself, such as a broker or a disk. So a cause that affects the whole cluster does not explain the alert."""

    id: int
    kind: AlertKind
    severity: Severity
    since_s: float
    objects: frozenset[str] = frozenset()
    own_cause: bool = False


@dataclass(frozen=True, slots=True)
class CauseRule:
    """`shared`: the effect must have an object in common with the cause. Otherwise the cause affects the whole cluster. `of`: how the common object must begin.
    A group depends on brokers, but does not explain the loss of another group that depends on the same broker."""

    cause: AlertKind
    effects: frozenset[AlertKind]
    shared: bool = True
    of: str = ""


@dataclass(frozen=True, slots=True)
class Incident:
    """`cause` is the id of the alert that no other open alert explains. `effects` are the ids of the alerts that the cause explains, most severe and oldest
    first. `severity` is the highest severity of all."""

    cause: int
    effects: tuple[int, ...]
    severity: Severity


BROKERS = frozenset(
    {
        AlertKind.BROKER_DOWN,
        AlertKind.BROKER_SILENT,
        AlertKind.DISK_FAILED,
        AlertKind.DISK_LOW,
        AlertKind.DISK_FILLING,
        AlertKind.DISK_SLOW,
    }
)
"""Kinds of alerts whose subject is the number of a broker."""
PARTITIONS = frozenset(
    {AlertKind.PARTITIONS_OFFLINE, AlertKind.PARTITIONS_UNDER_MIN_ISR, AlertKind.PARTITIONS_UNDER_REPLICATED}
)
GROUPS = frozenset(
    {
        AlertKind.GROUP_FALLING_BEHIND,
        AlertKind.GROUP_STALLED,
        AlertKind.GROUP_STOPPED,
        AlertKind.SHARE_GROUP_STOPPED,
    }
)
RETENTION = frozenset({AlertKind.GROUP_RETENTION, AlertKind.GROUP_DATA_LOST})
MOVES = frozenset({AlertKind.MOVE_STUCK, AlertKind.MOVE_FAILED, AlertKind.MOVE_WILL_NOT_FINISH})

OF_GROUP = "group:"
"""`of` of the rules in which cause and effect are about the same group."""

RULES: tuple[CauseRule, ...] = (
    CauseRule(AlertKind.BROKER_DOWN, PARTITIONS | GROUPS | RETENTION | MOVES),
    CauseRule(
        AlertKind.DISK_FAILED,
        PARTITIONS | GROUPS | RETENTION | MOVES | {AlertKind.COPIES_DAMAGED},
    ),
    CauseRule(AlertKind.BROKER_SILENT, PARTITIONS | GROUPS | RETENTION | MOVES),
    CauseRule(AlertKind.DISK_SLOW, frozenset({AlertKind.PARTITIONS_UNDER_REPLICATED, *GROUPS, *MOVES})),
    CauseRule(AlertKind.DISK_LOW, MOVES),
    CauseRule(AlertKind.PARTITIONS_OFFLINE, GROUPS | RETENTION),
    CauseRule(AlertKind.GROUP_STOPPED, RETENTION, of=OF_GROUP),
    CauseRule(AlertKind.GROUP_STALLED, RETENTION, of=OF_GROUP),
    CauseRule(AlertKind.GROUP_FALLING_BEHIND, RETENTION, of=OF_GROUP),
    CauseRule(AlertKind.MOVE_WILL_NOT_FINISH, frozenset({AlertKind.MOVE_STUCK, AlertKind.MOVE_FAILED}), of="move:"),
    CauseRule(
        AlertKind.ZOOKEEPER_AWAY,
        frozenset(
            {
                AlertKind.MONITOR_SILENT,
                AlertKind.NO_CONTROLLER,
                AlertKind.CHANGES_UNKNOWN,
                *PARTITIONS,
                AlertKind.MOVE_STUCK,
            }
        ),
        shared=False,
    ),
    CauseRule(
        AlertKind.NO_CONTROLLER,
        frozenset({AlertKind.PARTITIONS_OFFLINE, AlertKind.CHANGES_UNKNOWN, AlertKind.MOVE_STUCK}),
        shared=False,
    ),
    CauseRule(
        AlertKind.WORKER_SILENT,
        frozenset({AlertKind.SPARK_WORKER_SILENT, AlertKind.CHANGES_UNKNOWN, AlertKind.MOVE_STUCK}),
        shared=False,
    ),
)
"""The first rule that applies names the cause. A common object is a stronger reason than a cause that affects the whole cluster, so these are last. Within
both parts the causes are in the order in which one causes the next. A move that was rejected, or that producers outrun, has that cause itself."""

ENDED_SERVICE = frozenset({AlertKind.BROKER_DOWN, AlertKind.DISK_FAILED})
"""Failures after which other brokers lead. A broker that is silent or has a slow disk may still lead, so its lag may begin at any time."""

FAILURES = frozenset(
    {AlertKind.BROKER_DOWN, AlertKind.BROKER_SILENT, AlertKind.DISK_FAILED, AlertKind.PARTITIONS_OFFLINE}
)


def explains(rule: CauseRule, cause: OpenAlert, effect: OpenAlert) -> bool:
    lag = cause.kind in FAILURES and effect.kind in GROUPS | RETENTION
    if lag and cause.kind in ENDED_SERVICE and effect.since_s - cause.since_s > LAG_EFFECT_S:
        return False
    return (
        cause.kind is rule.cause
        and effect.kind in rule.effects
        and (
            # A kind of lag may follow another: a group that fell behind and then stopped still loses its records because it does not read them.
            rule.of == OF_GROUP or cause.since_s <= effect.since_s + (LAG_CAUSE_LATE_S if lag else CAUSE_LATE_S)
        )
        and (
            not effect.own_cause
            if not rule.shared
            else any(name.startswith(rule.of) for name in cause.objects & effect.objects)
        )
    )


def brokers_that_delay(reads: Iterable[GroupRead]) -> set[str]:
    """The brokers whose failure explains the lag of a group: all those of a partition without a leader, and those whose partitions have at least half of the unread
    records of the group. A consumer that is too slow has its lag on all partitions, whichever broker failed."""
    total, found, unread = 0, set[str](), dict[str, int]()
    for read in reads:
        total += read.unread or 0
        if read.offline:
            found |= read.failed
        for broker in read.failed:
            unread[broker] = unread.get(broker, 0) + (read.unread or 0)
    return found | {broker for broker, records in unread.items() if 2 * records >= total}


def causes(alerts: Sequence[OpenAlert]) -> dict[int, int]:
    """Id of each explained alert -> id of the alert that explains it, which may itself be explained."""
    found: dict[int, int] = {}
    oldest_first = sorted(alerts, key=lambda a: (a.since_s, a.id))
    for effect in alerts:
        for rule in RULES:
            cause = next((c for c in oldest_first if c.id != effect.id and explains(rule, c, effect)), None)
            if cause is not None:
                found[effect.id] = cause.id
                break
    return found


def incidents(alerts: Sequence[OpenAlert]) -> list[Incident]:
    """The open incidents, most severe first, then in the order of the kinds of their causes, as in the list of alerts, then oldest first. So a broker
    that is down is above a group that fell behind an hour ago."""
    by_id = {a.id: a for a in alerts}
    explained = causes(alerts)
    effects: dict[int, list[OpenAlert]] = {a.id: [] for a in alerts if a.id not in explained}
    for alert_id in explained:
        effects[root(alert_id, explained)].append(by_id[alert_id])
    found = []
    for cause, others in effects.items():
        others.sort(key=_order)
        severity = min((by_id[cause], *others), key=_order).severity
        found.append(Incident(cause, tuple(a.id for a in others), severity))
    return sorted(
        found, key=lambda i: (i.severity is not Severity.AT_RISK, _rank(by_id[i.cause]), _order(by_id[i.cause]))
    )


@cache
def effects_of(kind: AlertKind) -> frozenset[AlertKind]:
    """The kinds that an alert of this kind explains, directly or through its effects."""
    direct = {effect for rule in RULES if rule.cause is kind for effect in rule.effects}
    return frozenset(direct.union(*(effects_of(effect) for effect in direct)))


def explains_own_subject_only(kind: AlertKind) -> bool:
    """Return whether each effect of an alert of this kind has its subject, as the lost data of a group has that of the group."""
    return all(rule.of and not any(effects_of(e) for e in rule.effects) for rule in RULES if rule.cause is kind)


def with_causes(kinds: Iterable[AlertKind]) -> frozenset[AlertKind]:
    """These kinds and those that explain them, directly or through their effects. Without alerts of other kinds, alerts of these kinds have the same causes."""
    return frozenset(kinds).union(cause for cause in AlertKind if effects_of(cause) & frozenset(kinds))


def root(alert_id: int, explained: dict[int, int]) -> int:
    """The alert at the start of the chain of causes."""
    while alert_id in explained:
        alert_id = explained[alert_id]
    return alert_id


def _rank(a: OpenAlert) -> int:
    """Place of the kind in the list of alerts. A silent monitor is above all others."""
    return KINDS_IN_ORDER.index(a.kind) if a.kind in KINDS_IN_ORDER else -1


def _order(a: OpenAlert) -> tuple[bool, float, int]:
    return a.severity is not Severity.AT_RISK, a.since_s, a.id
