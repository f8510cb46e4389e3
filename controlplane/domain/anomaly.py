"""Anomalies: metrics that are far from their usual value at this time. Pure.

The value is compared with the median of earlier values, in median absolute deviations (MAD, scaled to a standard deviation). Median and MAD of most
days are the same if one of the days was unusual itself. The earlier values are of the same ten minutes on the days before, else of the same
minutes of the hours before. Invariant: an anomaly is reported only if there are enough earlier values and if it has lasted for CONFIRMED_S.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from controlplane.domain.history import HistorySubject

WINDOW_S = 600
"""Length in seconds of the window whose average is compared. Shorter windows show bursts that are not anomalies."""

DAYS_MAX = 14
"""Maximum number of earlier days that are compared: two weeks, so that a change of traffic counts as usual after a week."""

DAYS_LEAST = 5
"""Days with a value at this time from which days are compared."""

HOURS_MAX = 24
"""Maximum number of earlier hours that are compared: a whole day, which contains day and night."""

HOURS_LEAST = 12
"""Hours with a value at these minutes from which hours are compared, if there are too few days."""

MAD_SCALE = 1.4826
"""Factor from the MAD of a normal distribution to its standard deviation."""

SPREAD_SHARE = 0.1
"""Least spread, as a share of the median, and of the median of the last day. Without it, any change of a constant metric would be an anomaly, and so would a
small change of a metric that is near 0 at night."""

CONFIRMED_S = WINDOW_S
"""Seconds for which a metric must stay unusual: after them, the last comparison shares no value with the first one. Without this delay there are thirty times
as many anomalies in a year of daily traffic. Nearly all of them are at the times when the traffic of a day begins and ends (`make bench-anomalies`)."""

WATCHED_MAX = 50
"""Maximum number of series of each metric that are compared in one round: those with the highest values."""


class AnomalyState(StrEnum):
    NORMAL = "normal"
    HIGH = "high"
    LOW = "low"
    TOO_FEW_VALUES = "too_few_values"
    NO_VALUE = "no_value"


class AlertSwitch(StrEnum):
    """Switch of the alerts about the anomalies of a metric."""

    ON = "on"
    OFF = "off"


class Baseline(StrEnum):
    DAYS = "days"
    HOURS = "hours"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class WatchedMetric:
    """If `low`, a small value is an anomaly too. `floor` is the minimum spread, in the unit of the metric. `alerts`: whether the metric has alerts by
    default."""

    subject: HistorySubject
    metric: str
    label: str
    low: bool
    floor: float
    alerts: bool

    @property
    def name(self) -> str:
        return f"{self.subject}.{self.metric}"


WATCHED: tuple[WatchedMetric, ...] = (
    WatchedMetric(HistorySubject.CLUSTER, "records_per_s", "Records in per second of the cluster", True, 10, True),
    WatchedMetric(HistorySubject.TOPIC, "records_per_s", "Records in per second of a topic", True, 10, False),
    WatchedMetric(HistorySubject.GROUP, "lag_s", "Longest lag of a group", False, 30, True),
    WatchedMetric(HistorySubject.SHARE_GROUP, "lag_records", "Lag of a share group", False, 1_000, True),
    WatchedMetric(HistorySubject.BROKER, "disk_used_bytes", "Disk used by a broker", False, 1e9, False),
)
WATCHED_OF: dict[str, WatchedMetric] = {w.name: w for w in WATCHED}


@dataclass(frozen=True, slots=True)
class Judgement:
    """`usual`: the median, `spread`: one deviation, `distance`: of the value from the median in deviations. None: not known."""

    state: AnomalyState
    value: float | None
    usual: float | None = None
    spread: float | None = None
    distance: float | None = None
    baseline: Baseline = Baseline.NONE
    values: int = 0

    @property
    def unusual(self) -> bool:
        return self.state in (AnomalyState.HIGH, AnomalyState.LOW)


def judge(
    watched: WatchedMetric, value: float | None, days: Sequence[float], hours: Sequence[float], limit: float
) -> Judgement:
    """`limit`: deviations from which a value is unusual. `days`, `hours`: the known earlier values."""
    if value is None:
        return Judgement(AnomalyState.NO_VALUE, None)
    if len(days) >= DAYS_LEAST:
        baseline, earlier = Baseline.DAYS, days
    elif len(hours) >= HOURS_LEAST:
        baseline, earlier = Baseline.HOURS, hours
    else:
        return Judgement(AnomalyState.TOO_FEW_VALUES, value, values=max(len(days), len(hours)))
    usual = median(earlier)
    mad = MAD_SCALE * median(abs(v - usual) for v in earlier)
    level = median(hours) if hours else 0.0
    spread = max(mad, SPREAD_SHARE * abs(usual), SPREAD_SHARE * abs(level), watched.floor)
    distance = (value - usual) / spread
    state = AnomalyState.NORMAL
    if distance > limit:
        state = AnomalyState.HIGH
    elif watched.low and -distance > min(limit, _lowest(usual, spread)):
        state = AnomalyState.LOW
    return Judgement(state, value, usual, spread, distance, baseline, len(earlier))


def _lowest(usual: float, spread: float) -> float:
    """Deviations of a value of a tenth of the median. A metric cannot be below zero, so a limit beyond that would never find missing traffic."""
    return 0.9 * usual / spread if usual >= 3 * spread else float("inf")
