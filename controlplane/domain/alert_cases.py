"""The problems of brokers, disks, partitions, moves, documents and archives, by kind of alert, with the values for the placeholders of its texts. Pure.

Contains the helpers of all cases: counts with names, subjects. Does not contain: the texts, and the severity of a kind (`alert`); the problems of groups
(`alert_group_cases`), messages (`alert_message_cases`), clients (`alert_client_cases`), workers and connectors (`alert_worker_cases`).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from controlplane.domain.alert_phrases import NO_FORECASTS, AlertPhrase
from controlplane.domain.alert_thresholds import DAY_S, AlertThresholds, ThresholdName
from controlplane.domain.alert_types import AlertCase, AlertFacts, AlertMetric, DiskForecastFacts, Severity
from controlplane.domain.move_states import MoveState
from controlplane.domain.progress import StallCause
from controlplane.domain.restart import ProcessEnd
from controlplane.domain.text import coarse_count, coarse_duration, size_text
from weir_common.phrases import Phrase, Value, number_of

SIGNAL_NAMES = {int(s): s.name for s in signal.Signals}

SUBJECT_CHARS_MAX = 300
"""Maximum number of characters of a subject: the database column has as many."""


def anomalies(facts: AlertFacts) -> list[AlertCase]:
    """One case for each of the anomalies that are most distant, up to the threshold. The page of anomalies has all of them."""
    most = int(facts.thresholds[ThresholdName.ANOMALY_ALERTS_MAX])
    return [AlertCase(anomaly_subject(a.metric), {"text": a.text}, parts=a.metric) for a in facts.anomalies[:most]]


def anomaly_subject(metric: AlertMetric) -> str:
    """Identifies the alert in silences and for receivers of notifications. The row has the parts in columns."""
    name = f":{metric.object_name}" if metric.object_name else ""
    return f"{metric.name} of {metric.object_kind}{name}"


def single_case(wrong: object, **words: Value) -> list[AlertCase]:
    return [AlertCase("", words)] if wrong else []


def counted_case(counted: tuple[int, Sequence[Value]], noun: tuple[str, str], subject: str = "") -> list[AlertCase]:
    """`what` is `2 partitions (orders-1, orders-2)`: at most a few names, the full count. The other placeholders are singular or plural forms for the count."""
    count, names = counted
    if not count:
        return []
    what: Value = number_of(count, *noun)
    if names:
        what = Phrase(AlertPhrase.NAMED, {"what": what, "names": names_of(names, count)})
    single = ("has", "is", "was", "it", "its", "s")
    plural = ("have", "are", "were", "they", "their", "")
    words = dict(zip(single, single if count == 1 else plural, strict=True))
    return [AlertCase(subject, {"what": what, **words})]


def about(
    count: float, noun: tuple[str, str], rounded: Callable[[float], str] = coarse_count, **values: Value
) -> Phrase:
    """`noun` with the count in so few digits that neither the text nor its stored form changes every second."""
    one, many = noun
    shown = rounded(count)
    return Phrase(one, {"count": shown, **values}, many, 1 if shown == "1" else 2)


def names_of(names: Sequence[Value], count: int) -> Value:
    """The first names of `count` objects, and the number of the others."""
    rest = count - len(names)
    return Phrase(AlertPhrase.AND_MORE, {"names": list(names), "rest": f"{rest:,}"}) if rest > 0 else list(names)


def lagging_replicas(facts: AlertFacts) -> list[AlertCase]:
    """No cases while a broker is down: the alert about the broker already explains the missing replicas."""
    if any(not b.alive for b in facts.brokers):
        return []
    return counted_case(facts.under_replicated, AlertPhrase.PARTITIONS)


def brokers_down(facts: AlertFacts) -> list[AlertCase]:
    return [
        AlertCase(
            str(b.broker_id),
            {
                "id": str(b.broker_id),
                "replicas": number_of(b.replicas, *AlertPhrase.REPLICAS),
                "end": "" if b.process_end is None else _end_of(b.process_end),
            },
        )
        for b in facts.brokers
        if not b.alive and b.replicas
    ]


def _end_of(end: ProcessEnd) -> Phrase:
    at = f"{datetime.fromtimestamp(end.at, UTC):%m-%d %H:%M:%S}"
    if end.code >= 0:
        return Phrase(AlertPhrase.EXITED, {"status": str(end.code), "at": at})
    name = SIGNAL_NAMES.get(-end.code, "?")
    return Phrase(AlertPhrase.KILLED, {"number": str(-end.code), "name": name, "at": at})


def brokers_silent(facts: AlertFacts) -> list[AlertCase]:
    return [
        AlertCase(str(b.broker_id), {"id": str(b.broker_id)}) for b in facts.brokers if b.alive and b.answered is False
    ]


def disks_failed(facts: AlertFacts) -> list[AlertCase]:
    return [
        _dirs_case(
            b.broker_id,
            AlertPhrase.FAILED_DIRS,
            [Phrase(AlertPhrase.HUNG_DIR, {"directory": d}) if d in b.dirs_hung else d for d in b.dirs_failed],
        )
        for b in facts.brokers
        if b.alive and b.dirs_failed
    ]


def disks_slow(facts: AlertFacts) -> list[AlertCase]:
    return [
        _dirs_case(b.broker_id, AlertPhrase.SLOW_DIRS, [_slow_dir(d, b.dir_probe_ms) for d in b.dirs_slow])
        for b in facts.brokers
        if b.alive and b.dirs_slow
    ]


def _dirs_case(broker_id: int, noun: tuple[str, str], dirs: Sequence[Value]) -> AlertCase:
    one, many = noun
    text = Phrase(one, {"count": f"{len(dirs):,}", "dirs": dirs}, many, len(dirs))
    return AlertCase(str(broker_id), {"id": str(broker_id), "dirs": text})


def _slow_dir(directory: str, probe_ms: Mapping[str, int]) -> Value:
    ms = probe_ms.get(directory)
    if ms is None:
        return directory
    return Phrase(AlertPhrase.SLOW_DIR, {"directory": directory, "seconds": f"{ms / 1000:.1f}"})


def hanging_case(facts: AlertFacts) -> list[AlertCase]:
    """Return the case of hanging transactions. It is at risk if groups wait: retention deletes the records that they cannot read."""
    found = counted_case(facts.hanging, AlertPhrase.PARTITIONS)
    waits = number_of(facts.hanging_groups, *AlertPhrase.GROUPS_WAIT) if facts.hanging_groups else ""
    severity = Severity.AT_RISK if waits else None
    return [AlertCase(case.subject, {**case.words, "waits": waits}, severity) for case in found]


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


def disks_low(facts: AlertFacts) -> list[AlertCase]:
    out = []
    for b in facts.brokers:
        severity = disk_severity(b.total_bytes, b.free_bytes, facts.thresholds, b.broker_id) if b.alive else None
        if severity is not None and b.total_bytes and b.free_bytes is not None:
            free, total = f"{100 * b.free_bytes / b.total_bytes:.0f}", size_text(b.total_bytes)
            out.append(AlertCase(str(b.broker_id), {"id": str(b.broker_id), "free": free, "total": total}, severity))
    return out


def disks_filling(facts: AlertFacts) -> list[AlertCase]:
    """The forecasts whose median is below the threshold, the earliest first."""

    def is_below_threshold(f: DiskForecastFacts, name: ThresholdName) -> bool:
        return max(0.0, f.median_s) < facts.thresholds.value_for(name, str(f.broker_id)) * DAY_S

    ahead = (f for f in facts.disk_forecasts if is_below_threshold(f, ThresholdName.DISK_FULL_AHEAD))
    found = sorted(ahead, key=lambda f: f.median_s)
    return [
        AlertCase(
            str(f.broker_id),
            {
                "id": str(f.broker_id),
                "when": Phrase(AlertPhrase.IN_ABOUT, {"time": coarse_duration(f.median_s)})
                if f.median_s >= 1
                else Phrase(AlertPhrase.ABOUT_NOW),
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


def _interval(f: DiskForecastFacts) -> Phrase:
    low = coarse_duration(max(0.0, f.low_s))
    if f.high_s is None:
        return Phrase(AlertPhrase.OR_LATER, {"low": low})
    return Phrase(AlertPhrase.TO, {"low": low, "high": coarse_duration(max(0.0, f.high_s))})


def _accuracy(f: DiskForecastFacts) -> Phrase:
    if not f.decided or f.inside_pct is None:
        return Phrase(NO_FORECASTS)
    one, many = AlertPhrase.ACCURACY
    right = round(f.decided * f.inside_pct / 100)
    return Phrase(one, {"count": f"{f.decided:,}", "right": f"{right:,}"}, many, f.decided)


def moves(facts: AlertFacts, *, failed: bool) -> list[AlertCase]:
    return [
        AlertCase(
            str(m.move_id),
            {
                "id": str(m.move_id),
                "parts": number_of(m.stalled, *AlertPhrase.PARTITIONS),
                "is": "is" if m.stalled == 1 else "are",
                "was": "was" if m.stalled == 1 else "were",
                "advice": Phrase(AlertPhrase.ROLL_BACK if m.moved else AlertPhrase.PLAN_AGAIN) if failed else "",
                "why": Phrase(AlertPhrase.CAUSES, {"causes": [_stall(c, m.down.get(c, ())) for c in m.causes]})
                if m.causes
                else "",
            },
        )
        for m in facts.moves
        if (m.state == MoveState.FAILED) == failed and (m.stalled or failed)
    ]


DOWN = {StallCause.TARGET_DOWN: AlertPhrase.TARGETS_DOWN, StallCause.SOURCE_DOWN: AlertPhrase.SOURCES_DOWN}


def _stall(cause: str, down: Sequence[int]) -> Phrase:
    if cause not in DOWN or not down:
        return Phrase(cause.replace("_", " "))
    one, many = DOWN[StallCause(cause)]
    return Phrase(one, {"brokers": [str(b) for b in down]}, many, len(down))


def moves_outrun(facts: AlertFacts) -> list[AlertCase]:
    return [
        AlertCase(str(m.move_id), {"id": str(m.move_id), "needs": size_text(m.needs_bytes_per_s)})
        for m in facts.moves
        if m.needs_bytes_per_s is not None
    ]


def archives_failed(facts: AlertFacts) -> list[AlertCase]:
    return [
        AlertCase(str(job), {"id": str(job), "note": with_full_stop(note) or Phrase(AlertPhrase.SEE_JOB)})
        for job, note in facts.archives
    ]


def with_full_stop(text: str) -> str:
    """A text of another program with a full stop at its end: the advice follows it."""
    return f"{text}." if text and text[-1] not in ".!?。" else text


def documents_drifted(facts: AlertFacts) -> list[AlertCase]:
    found = []
    for d in facts.documents:
        by: Value = Phrase(AlertPhrase.CHANGED_BY, {"user": d.changed_by}) if d.changed_by else ""
        words: dict[str, Value] = {"owner": d.owner, "plan": str(d.plan_id), "by": by}
        cases = counted_case(d.differences, AlertPhrase.RESOURCES, subject=d.owner)
        found += [AlertCase(c.subject, {**c.words, **words}) for c in cases]
    return found
