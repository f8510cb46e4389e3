"""Anomalies for pages, REST and alerts, and the watched metrics with their switches."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from controlplane.domain.anomaly import CONFIRMED_S, WATCHED, WATCHED_OF, AnomalyState
from controlplane.domain.history import METRICS, HistorySubject, object_of
from controlplane.models import Anomaly, AnomalySwitch


@dataclass(frozen=True, slots=True)
class AnomalyRow:
    """A metric that is unusual now. `state`: high or low. `usual`: the median of `values` earlier values, of the same ten minutes on other days
    (`baseline` days) or of the same minutes of other hours (hours). `distance`: in median absolute deviations. `alerts`: whether the metric has alerts."""

    subject: str
    metric: str
    label: str
    unit: str
    state: str
    value: float
    usual: float
    distance: float
    baseline: str
    values: int
    since: datetime
    checked_at: datetime
    alerts: bool

    @property
    def is_low(self) -> bool:
        return self.state == AnomalyState.LOW

    @property
    def object_kind(self) -> HistorySubject:
        return object_of(self.subject)[0]

    @property
    def object_name(self) -> str:
        return object_of(self.subject)[1]


@dataclass(frozen=True, slots=True)
class WatchedMetricRow:
    """A metric that is compared with its history. `low`: small values count, too. `alerts`: whether its anomalies have alerts."""

    name: str
    label: str
    low: bool
    alerts: bool
    default: bool
    changed_at: datetime | None
    changed_by: str


def alerting_metrics() -> set[str]:
    """Names of the watched metrics whose anomalies have alerts."""
    changed = dict(AnomalySwitch.objects.values_list("name", "alerts"))
    return {w.name for w in WATCHED if changed.get(w.name, w.alerts)}


def watched_metrics() -> list[WatchedMetricRow]:
    rows = {r.name: r for r in AnomalySwitch.objects.all()}
    return [
        WatchedMetricRow(
            name=w.name,
            label=w.label,
            low=w.low,
            alerts=rows[w.name].alerts if w.name in rows else w.alerts,
            default=w.alerts,
            changed_at=rows[w.name].changed_at if w.name in rows else None,
            changed_by=rows[w.name].changed_by if w.name in rows else "",
        )
        for w in WATCHED
    ]


def anomaly_list() -> list[AnomalyRow]:
    """Metrics that have been unusual for long enough, the most distant first."""
    on = alerting_metrics()
    found = []
    for anomaly in Anomaly.objects.all():
        if (anomaly.checked_at - anomaly.since).total_seconds() < CONFIRMED_S:
            continue
        kind, _ = object_of(anomaly.subject)
        name = f"{kind}.{anomaly.metric}"
        if name not in WATCHED_OF:
            continue
        metric = next(f for f in METRICS[WATCHED_OF[name].subject] if f.name == anomaly.metric)
        found.append(
            AnomalyRow(
                subject=anomaly.subject,
                metric=anomaly.metric,
                label=metric.label,
                unit=metric.unit,
                state=anomaly.state,
                value=anomaly.value,
                usual=anomaly.usual,
                distance=anomaly.distance,
                baseline=anomaly.baseline,
                values=anomaly.values,
                since=anomaly.since,
                checked_at=anomaly.checked_at,
                alerts=name in on,
            )
        )
    return sorted(found, key=lambda a: (-abs(a.distance), a.subject, a.metric))
