"""The problems in the observed facts, by kind of alert, with the values for the placeholders of its texts. Pure.

Does not contain: the texts, and the severity of a kind (`alert`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from brokerd.cluster.refusal_reasons import RefusalReason
from controlplane.domain.alert_thresholds import DAY_S, AlertThresholds, ThresholdName
from controlplane.domain.alert_types import NAMES_MAX, Case, DiskForecastFacts, Facts, GroupFacts, Severity
from controlplane.domain.connect import ConnectorFailure
from controlplane.domain.lag import LagStatus
from controlplane.domain.move_types import MoveState
from controlplane.domain.text import coarse_count, coarse_duration, count_text, leading_digit, needed_count, size_text


def anomalies(facts: Facts) -> list[Case]:
    """One case for each of the anomalies that are most distant, up to the threshold. The page of anomalies has all of them."""
    most = int(facts.thresholds[ThresholdName.ANOMALY_ALERTS_MAX])
    return [Case(a.subject, {"text": a.text}) for a in facts.anomalies[:most]]


CATCH_UP_S = 3_600.0
"""The text of the alert contains the consume rate that a group needs to catch up within these seconds."""


def once(wrong: object, **words: str) -> list[Case]:
    return [Case("", words)] if wrong else []


def counted(counted: tuple[int, Sequence[str]], one: str, many: str, subject: str = "") -> list[Case]:
    """`what` is `2 partitions (orders-1, orders-2)`: at most a few names, the full count. The other placeholders are singular or plural forms for the count."""
    count, names = counted
    if not count:
        return []
    rest = count - len(names)
    listed = f" ({', '.join(names)}{f' and {rest:,} more' if rest > 0 else ''})" if names else ""
    single = ("has", "is", "was", "it", "its", "s")
    plural = ("have", "are", "were", "they", "their", "")
    words = dict(zip(single, single if count == 1 else plural, strict=True))
    return [Case(subject, {"what": count_text(count, one, many) + listed, **words})]


_ONE, _MANY = {"is": "is", "has": "has"}, {"is": "are", "has": "have"}


def groups(facts: Facts, status: LagStatus) -> list[Case]:
    """One case per group, or one for all if they are more than the threshold: the groups are then not the cause. `who` is `Group a` or
    `25 groups (a, b, c and 22 more)`."""
    found = [g for g in facts.groups if g.status is status]
    count = max(len(found), facts.group_counts.get(status, 0))
    if count <= facts.thresholds[ThresholdName.GROUP_ALERTS_MAX]:
        return [
            Case(
                g.group_id,
                {"who": f"Group {g.group_id}", **_ONE, "lag": _lag(g), "detail": _detail(g), "needs": _needs(g)},
            )
            for g in found
        ]
    names = [g.group_id for g in found[:NAMES_MAX]]
    who = f"{count:,} groups ({', '.join(names)} and {count - len(names):,} more)"
    detail = " records" if status is LagStatus.DATA_LOST else ""
    return [Case("", {"who": who, **_MANY, "lag": "", "detail": detail, "needs": ""})]


def _lag(g: GroupFacts) -> str:
    if g.lag_records is None:
        return ""
    age = "" if g.lag_ms is None else f", {'more than ' if g.lag_at_least else ''}{coarse_duration(g.lag_ms / 1000)}"
    return f"; lag {coarse_count(g.lag_records)} records{age}"


def _detail(g: GroupFacts) -> str:
    if g.status is LagStatus.DATA_LOST:
        return f" {coarse_count(g.lost_records)} records" if g.lost_records else " records"
    if g.status is LagStatus.STALLED:
        return f" of {g.worst}" if g.worst else ""
    if g.consumed_per_s is None or g.produced_per_s is None:
        return ""
    return f": it reads {coarse_count(g.consumed_per_s)} records/s, producers write {coarse_count(g.produced_per_s)}/s"


def _needs(g: GroupFacts) -> str:
    if g.lag_records is None or g.produced_per_s is None:
        return ""
    speed = needed_count(g.produced_per_s + g.lag_records / CATCH_UP_S)
    return f" It needs {speed} records/s to catch up within an hour."


def retention(facts: Facts) -> list[Case]:
    """One case per group, the earliest deletion first. If there are more groups than the threshold, one case for all groups."""
    value_of = facts.thresholds.value_for
    soon = [(g.retention_in_s, g) for g in facts.groups if g.retention_in_s is not None]
    ahead = ((at, g) for at, g in soon if at <= value_of(ThresholdName.RETENTION_AHEAD, g.group_id))
    found = sorted(ahead, key=lambda f: f[0])
    grave_groups = {g.group_id for at, g in found if at <= value_of(ThresholdName.RETENTION_GRAVE, g.group_id)}
    count = max(len(found), facts.retention_count)
    grave = Severity.AT_RISK if grave_groups else None
    if count > facts.thresholds[ThresholdName.GROUP_ALERTS_MAX]:
        soonest = coarse_duration(found[0][0])
        names = ", ".join(g.group_id for _, g in found[:NAMES_MAX])
        where = f"{count:,} groups ({names} and {count - min(NAMES_MAX, len(found)):,} more)"
        return [
            Case(
                "",
                {
                    "where": f"that {where} have not consumed",
                    "when": f"In {soonest} and later",
                    "limit": "retention.ms or retention.bytes",
                },
                grave,
            )
        ]
    return [
        Case(
            g.group_id,
            {
                "where": f"of {g.retention_partition} that group {g.group_id} has not consumed",
                "when": f"{'Within' if g.retention_at_most else 'In'} {coarse_duration(in_s)}",
                "limit": g.retention_limit,
            },
            Severity.AT_RISK if g.group_id in grave_groups else None,
        )
        for in_s, g in found
    ]


def lagging_replicas(facts: Facts) -> list[Case]:
    """No cases while a broker is down: the alert about the broker already explains the missing replicas."""
    if any(not b.alive for b in facts.brokers):
        return []
    return counted(facts.under_replicated, "partition", "partitions")


def brokers_down(facts: Facts) -> list[Case]:
    return [
        Case(str(b.broker_id), {"id": str(b.broker_id), "replicas": count_text(b.replicas, "replica")})
        for b in facts.brokers
        if not b.alive and b.replicas
    ]


def brokers_silent(facts: Facts) -> list[Case]:
    return [Case(str(b.broker_id), {"id": str(b.broker_id)}) for b in facts.brokers if b.alive and b.answered is False]


def disks_failed(facts: Facts) -> list[Case]:
    return [
        Case(
            str(b.broker_id),
            {
                "id": str(b.broker_id),
                "dirs": f"{count_text(len(b.dirs_failed), 'failed log directory', 'failed log directories')}: "
                + ", ".join(f"{d} (the disk does not answer)" if d in b.dirs_hung else d for d in b.dirs_failed),
            },
        )
        for b in facts.brokers
        if b.alive and b.dirs_failed
    ]


def disks_slow(facts: Facts) -> list[Case]:
    return [
        Case(
            str(b.broker_id),
            {
                "id": str(b.broker_id),
                "dirs": f"{count_text(len(b.dirs_slow), 'slow log directory', 'slow log directories')}: "
                + ", ".join(_slow_dir(d, b.dir_probe_ms) for d in b.dirs_slow),
            },
        )
        for b in facts.brokers
        if b.alive and b.dirs_slow
    ]


def _slow_dir(directory: str, probe_ms: Mapping[str, int]) -> str:
    ms = probe_ms.get(directory)
    return directory if ms is None else f"{directory} (a small write takes {ms / 1000:.1f} s)"


def hanging(facts: Facts) -> list[Case]:
    """Return the case of hanging transactions. It is at risk if groups wait: retention deletes the records that they cannot read."""
    found = counted(facts.hanging, "partition", "partitions")
    waits = f"; {count_text(facts.hanging_groups, 'group waits', 'groups wait')} there" if facts.hanging_groups else ""
    severity = Severity.AT_RISK if waits else None
    return [Case(case.subject, {**case.words, "waits": waits}, severity) for case in found]


def disk_severity(total: int | None, free: int | None, thresholds: AlertThresholds, broker_id: int) -> Severity | None:
    """The severity of an alert about this much free space of a broker; None: no alert, or unknown."""
    if not total or free is None:
        return None
    for name, severity in (
        (ThresholdName.DISK_FREE_LEAST, Severity.AT_RISK),
        (ThresholdName.DISK_FREE_LOW, Severity.DEGRADED),
    ):
        if free * 100 < total * thresholds.value_for(name, str(broker_id)):
            return severity
    return None


def disks_low(facts: Facts) -> list[Case]:
    out = []
    for b in facts.brokers:
        severity = disk_severity(b.total_bytes, b.free_bytes, facts.thresholds, b.broker_id) if b.alive else None
        if severity is not None and b.total_bytes and b.free_bytes is not None:
            free, total = f"{100 * b.free_bytes / b.total_bytes:.0f}", size_text(b.total_bytes)
            out.append(Case(str(b.broker_id), {"id": str(b.broker_id), "free": free, "total": total}, severity))
    return out


def disks_filling(facts: Facts) -> list[Case]:
    """The forecasts whose median is below the threshold, the earliest first."""

    def is_below_threshold(f: DiskForecastFacts, name: ThresholdName) -> bool:
        return max(0.0, f.median_s) < facts.thresholds.value_for(name, str(f.broker_id)) * DAY_S

    ahead = (f for f in facts.disk_forecasts if is_below_threshold(f, ThresholdName.DISK_FULL_AHEAD))
    found = sorted(ahead, key=lambda f: f.median_s)
    return [
        Case(
            str(f.broker_id),
            {
                "id": str(f.broker_id),
                "when": f"in about {coarse_duration(f.median_s)}" if f.median_s >= 1 else "about now",
                "stated": str(f.stated_pct),
                "interval": _interval(f),
                "used": size_text(f.used_bytes),
                "total": size_text(f.total_bytes),
                "accuracy": _accuracy(f),
            },
            Severity.AT_RISK if is_below_threshold(f, ThresholdName.DISK_FULL_GRAVE) else None,
        )
        for f in found
    ]


def _interval(f: DiskForecastFacts) -> str:
    low = coarse_duration(max(0.0, f.low_s))
    return f"{low} or later" if f.high_s is None else f"{low} to {coarse_duration(max(0.0, f.high_s))}"


def _accuracy(f: DiskForecastFacts) -> str:
    if not f.decided or f.inside_pct is None:
        return "No earlier forecast of a disk has an outcome yet."
    return f"The interval of {count_text(f.decided, 'earlier forecast')} of disks had the true time in {f.inside_pct:g} % of the cases."


def moves(facts: Facts, *, failed: bool) -> list[Case]:
    return [
        Case(
            str(m.move_id),
            {
                "id": str(m.move_id),
                "parts": count_text(m.stalled, "partition"),
                "is": "is" if m.stalled == 1 else "are",
                "was": "was" if m.stalled == 1 else "were",
                "why": f" ({', '.join(m.causes).replace('_', ' ')})" if m.causes else "",
            },
        )
        for m in facts.moves
        if (m.state == MoveState.FAILED) == failed and (m.stalled or failed)
    ]


def moves_outrun(facts: Facts) -> list[Case]:
    return [
        Case(str(m.move_id), {"id": str(m.move_id), "needs": f"{m.needs_bytes_per_s:,}"})
        for m in facts.moves
        if m.needs_bytes_per_s is not None
    ]


def archives_failed(facts: Facts) -> list[Case]:
    return [Case(str(job), {"id": str(job), "note": note or "see the job page."}) for job, note in facts.archives]


MESSAGE_ALERTS_MAX = 20
"""Maximum number of topics with an alert of one kind. The metrics contain all topics."""


def documents_drifted(facts: Facts) -> list[Case]:
    found = []
    for d in facts.documents:
        by = f" Last changed by {d.changed_by}." if d.changed_by else ""
        words = {"owner": d.owner, "plan": str(d.plan_id), "by": by}
        found += [
            Case(c.subject, {**c.words, **words})
            for c in counted(d.differences, "resource", "resources", subject=d.owner)
        ]
    return found


def half_undecided(facts: Facts) -> list[Case]:
    """The oldest first."""
    found = sorted(
        ((f.half_oldest_s, f) for f in facts.messages if f.half_oldest_s is not None), key=lambda x: (-x[0], x[1].topic)
    )
    return [
        Case(
            f.topic,
            {
                "topic": f.topic,
                "age": coarse_duration(age),
                "messages": f"about {coarse_count(f.half_undecided)} undecided half messages"
                if f.half_undecided > 1
                else "an undecided half message",
            },
        )
        for age, f in found[:MESSAGE_ALERTS_MAX]
    ]


def half_expired(facts: Facts) -> list[Case]:
    found = sorted(((f.half_expired, f.topic) for f in facts.messages if f.half_expired is not None), reverse=True)
    return [
        Case(
            topic,
            {"topic": topic, "messages": count_text(count, "half message"), "has": "has" if count == 1 else "have"},
        )
        for count, topic in found[:MESSAGE_ALERTS_MAX]
    ]


def delayed_overdue(facts: Facts) -> list[Case]:
    found = sorted(
        ((f.delayed_overdue_s, f.topic) for f in facts.messages if f.delayed_overdue_s is not None), reverse=True
    )
    return [Case(topic, {"topic": topic, "late": coarse_duration(late)}) for late, topic in found[:MESSAGE_ALERTS_MAX]]


def dead_letters_growing(facts: Facts) -> list[Case]:
    found = sorted(
        ((f.dead_letters_grown, f.topic) for f in facts.messages if f.dead_letters_grown is not None), reverse=True
    )
    return [
        Case(topic, {"topic": topic, "letters": coarse_count(count)}) for count, topic in found[:MESSAGE_ALERTS_MAX]
    ]


def dead_letters_missing(facts: Facts) -> list[Case]:
    return [
        Case(
            f"{x.group_id}: {x.topic}",
            {"group": x.group_id, "topic": x.topic, "records": coarse_count(x.records), "reason": x.reason},
        )
        for x in facts.letters_missing
    ]


REFUSED = {
    RefusalReason.AUTHENTICATION_FAILED: "its authentication fails",
    RefusalReason.NOT_AUTHENTICATED: "it sends requests before its authentication",
    RefusalReason.CERTIFICATE_NOT_MAPPED: "no rule of ssl.principal.mapping.rules matches its certificate",
    RefusalReason.TLS_FAILED: "its TLS handshake fails",
    RefusalReason.UNSUPPORTED_VERSION: "it sends a version of a request that the brokers do not support",
    RefusalReason.UNSUPPORTED_API: "it sends a request that the brokers do not support",
    RefusalReason.MALFORMED: "its requests are malformed",
    RefusalReason.TOO_LARGE: "its requests are larger than socket.request.max.bytes",
    RefusalReason.UNAUTHORIZED: "it is not authorized",
    RefusalReason.CONNECTION_LIMIT: "it exceeds a limit of connections",
}
"""Text of each reason for which a client is refused. A throttled client is no alert: its quota demands it."""


ANONYMOUS = "User:ANONYMOUS"


def refused_who(principal: str, host: str) -> str:
    """The name of a refused client: its principal, or its address if it is not authenticated."""
    return principal if principal not in ("", ANONYMOUS) else host


WHO_CHARS_MAX = 250
"""Maximum number of characters of a principal in the subject of an alert: a certificate may have a longer name."""


def refused_subject(who: str, reason: str) -> str:
    return f"{who[:WHO_CHARS_MAX]} ({reason.replace('_', ' ')})"


def refused_client(subject: str) -> str:
    """The principal or address in the subject of an alert."""
    return subject.rpartition(" (")[0]


def clients_refused(facts: Facts) -> list[Case]:
    return [
        Case(
            refused_subject(f.client, f.reason),
            {
                "who": f.client,
                "rate": f"about {leading_digit(f.per_min)} times per minute",
                "since": f"{f.since:%H:%M} UTC on {f.since:%Y-%m-%d}",
                "why": REFUSED[f.reason],
                "operation": f" to {f.operation.replace('_', ' ')} {f.resource_type.replace('_', ' ')} {f.resource_name}"
                if f.operation
                else "",
                "client": f"client ID {f.client_id}, address {f.host}" if f.client_id else f"address {f.host}",
            },
        )
        for f in facts.refused
        if f.reason in REFUSED
    ]


CONNECT_SILENT_S = 25.0
"""A Connect cluster without an answer for this time, which are three requests, has an alert. One missed answer may be a restart of its workers."""

CONNECTOR_ALERTS_MAX = 50
"""Maximum number of alerts about connectors, over all clusters."""


SUBJECT_CHARS_MAX = 300
"""Maximum number of characters of the subject of an alert about a connector: the database column has as many."""


def connector_subject(cluster: str, connector: str) -> str:
    return f"{cluster}: {connector}"[:SUBJECT_CHARS_MAX]


def connectors_failed(facts: Facts) -> list[Case]:
    """Failed connectors. For a cluster that does not answer, those of its last answer: a worker that stops does not repair a task."""
    failures = [(c.cluster, f) for c in facts.connect for f in c.failures][:CONNECTOR_ALERTS_MAX]
    return [
        Case(
            connector_subject(cluster, f.name),
            {"connector": f.name, "cluster": cluster, "what": _failed_parts(f)},
        )
        for cluster, f in failures
    ]


def _failed_parts(f: ConnectorFailure) -> str:
    if not f.failed_tasks:
        return "has failed"
    ids = ", ".join(map(str, f.failed_tasks[:NAMES_MAX]))
    more = f" and {len(f.failed_tasks) - NAMES_MAX:,} more" if len(f.failed_tasks) > NAMES_MAX else ""
    tasks = f"{len(f.failed_tasks):,} of {count_text(f.tasks, 'task')} failed ({ids}{more})"
    return f"has failed, and {tasks}" if f.has_failed else f"has {tasks}"


def connect_silent(facts: Facts) -> list[Case]:
    return [
        Case(c.cluster, {"cluster": c.cluster, "problem": c.problem})
        for c in facts.connect
        if c.silent_s is not None and c.silent_s >= CONNECT_SILENT_S
    ]
