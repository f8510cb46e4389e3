"""Search for anomalies in the history of metrics, which the monitor runs, and the operation that turns their alerts on and off.

Invariants: the start time of an anomaly does not change while it lasts. A metric whose alerts are off is still compared and listed. Does not contain: the rule
(`controlplane.domain.anomaly`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.utils import timezone

from controlplane.domain.alert_thresholds import AlertThresholds, ThresholdName
from controlplane.domain.anomaly import (
    DAYS_MAX,
    HOURS_MAX,
    WATCHED,
    WATCHED_MAX,
    WATCHED_OF,
    WINDOW_S,
    Judgement,
    WatchedMetric,
    judge,
)
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.errors import not_one_of
from controlplane.domain.history import HistorySubject, object_of
from controlplane.models import Anomaly, AnomalySwitch, Broker, ConsumerGroup, ObservedTopic
from controlplane.models.change import Outcome
from controlplane.selectors import alert_thresholds, anomalies, history
from controlplane.services.common import audited, record

SeriesKey = tuple[str, str]

VALUES_LEAST = 0.5
"""Share of the values of a window that must be known."""


def evaluate(thresholds: AlertThresholds | None = None, now: datetime | None = None) -> dict[SeriesKey, Judgement]:
    """Compare the watched metrics with their history and store the unusual ones. Raises DatabaseError."""
    limits, at = thresholds or alert_thresholds.current_thresholds(), now or timezone.now()
    found = judge_series(_watched_series(), at, limits[ThresholdName.ANOMALY_DISTANCE])
    _store({key: j for key, j in found.items() if j.unusual}, at)
    return found


def judge_series(keys: dict[SeriesKey, WatchedMetric], now: datetime, limit: float) -> dict[SeriesKey, Judgement]:
    """Compare the average of the last ten minutes of each series with its history."""
    series = list(keys)
    present = _averages(series, now)
    # Read one window at a time, because a window has few rows: the hours of the last day, and the same time on earlier days.
    hours = [_averages(series, now - timedelta(hours=h)) for h in range(1, HOURS_MAX + 1)]
    days = [hours[HOURS_MAX - 1], *(_averages(series, now - timedelta(days=d)) for d in range(2, DAYS_MAX + 1))]
    return {
        key: judge(watched, present[key], _known_values(days, key), _known_values(hours, key), limit)
        for key, watched in keys.items()
    }


def _known_values(windows: Iterable[dict[SeriesKey, float | None]], key: SeriesKey) -> list[float]:
    return [v for w in windows if (v := w[key]) is not None]


def _averages(series: list[SeriesKey], until: datetime) -> dict[SeriesKey, float | None]:
    """The average of the ten minutes before a time; None if most of them is not recorded."""
    lines = history.lines(series, until - timedelta(seconds=WINDOW_S), until)
    found: dict[SeriesKey, float | None] = {}
    for key, line in lines.items():
        values = [s.value for s in line.steps if s.value is not None]
        enough = len(values) >= VALUES_LEAST * WINDOW_S / line.step_s
        found[key] = sum(values) / len(values) if enough else None
    return found


def _watched_series() -> dict[SeriesKey, WatchedMetric]:
    """The series to compare in this round: the series with the highest values of each kind of object, and the series that are already unusual."""
    subjects: dict[HistorySubject, list[str]] = {
        HistorySubject.CLUSTER: ["cluster"],
        HistorySubject.TOPIC: [
            f"topic:{name}"
            for name in ObservedTopic.objects.filter(internal=False, records_per_s__isnull=False)
            .order_by("-records_per_s", "name")
            .values_list("name", flat=True)[:WATCHED_MAX]
        ],
        HistorySubject.GROUP: [
            f"group:{name}"
            for name in ConsumerGroup.objects.filter(lag_ms_max__isnull=False)
            .order_by("-lag_ms_max", "group_id")
            .values_list("group_id", flat=True)[:WATCHED_MAX]
        ],
        HistorySubject.SHARE_GROUP: [f"share_group:{name}" for name in _greatest_share_groups()],
        HistorySubject.BROKER: [
            f"broker:{i}" for i in Broker.objects.filter(alive=True).values_list("broker_id", flat=True)[:WATCHED_MAX]
        ],
    }
    found = {(subject, w.metric): w for w in WATCHED for subject in subjects[w.subject]}
    for subject, metric in Anomaly.objects.values_list("subject", "metric"):
        watched = WATCHED_OF.get(f"{object_of(subject)[0]}.{metric}")
        if watched is not None:
            found[subject, metric] = watched
    return found


def _greatest_share_groups() -> list[str]:
    lags = history.newest_values(HistorySubject.SHARE_GROUP, "lag_records")
    return sorted(lags, key=lambda name: (-lags[name], name))[:WATCHED_MAX]


def _store(unusual: dict[SeriesKey, Judgement], now: datetime) -> None:
    with transaction.atomic():
        rows = {(a.subject, a.metric): a for a in Anomaly.objects.all()}
        over = [a.pk for key, a in rows.items() if key not in unusual]
        Anomaly.objects.filter(pk__in=over).delete()
        for key, judgement in unusual.items():
            row = rows.get(key)
            since = row.since if row is not None and row.state == judgement.state else now.astimezone(UTC)
            values: dict[str, object] = {
                "state": judgement.state,
                "value": judgement.value,
                "usual": judgement.usual,
                "distance": judgement.distance,
                "baseline": judgement.baseline,
                "values": judgement.values,
                "since": since,
                "checked_at": now,
            }
            Anomaly.objects.update_or_create(subject=key[0], metric=key[1], defaults=values)


@audited(AuditOperation.ANOMALY_SWITCH, "{name}", after=lambda given: {"alerts": given["alerts"]})
def switch_alerts(name: str, alerts: bool, *, actor: str, comment: str = "") -> None:
    """Turn the alerts about anomalies of a metric on or off. Raises Rejected."""
    if name not in WATCHED_OF:
        raise not_one_of("There is no watched metric {value}. The metrics are: {allowed}.", name, WATCHED_OF, "name")
    with transaction.atomic():
        before = anomalies.alerting_metrics()
        if alerts == WATCHED_OF[name].alerts:
            AnomalySwitch.objects.filter(name=name).delete()
        else:
            AnomalySwitch.objects.update_or_create(name=name, defaults={"alerts": alerts, "changed_by": actor})
        record(
            actor,
            AuditOperation.ANOMALY_SWITCH,
            "anomaly",
            name,
            comment=comment,
            before={"alerts": name in before},
            after={"alerts": alerts},
            outcome=Outcome.CONFIRMED,
        )
