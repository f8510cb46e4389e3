"""Metrics of requests by broker and API, from the histograms of the brokers.

Invariants: metrics are of the requests between two samples of one broker. A broker that did not respond has none. Counters that became smaller have
started again at zero. Does not contain rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from brokerd.cluster.request_buckets import percentile
from controlplane.clients.broker_samples import ApiSample, BrokerSample
from controlplane.monitoring.sample_window import SampleWindow, compare_sample

WINDOW_MS = 10_000
"""Minimum milliseconds between the two samples. The metrics describe the last 10 to 23 seconds."""

NO_REQUESTS = ApiSample((), 0.0, {})


@dataclass(frozen=True, slots=True)
class ApiStatistics:
    """`p50_ms`, `p99_ms`: of the total time; None without requests. `greatest_ms`: of the last one to two minutes. `errors`: {code: per second}."""

    name: str
    requests_per_s: float
    p50_ms: float | None
    p99_ms: float | None
    greatest_ms: float
    errors: dict[int, float]

    @property
    def errors_per_s(self) -> float:
        return round(sum(self.errors.values()), 3)

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(slots=True)
class RequestStatistics:
    """`by_broker`: of each broker that answered twice, the metrics of its APIs by name."""

    by_broker: dict[int, dict[str, ApiStatistics]] = field(default_factory=dict)
    _windows: dict[int, SampleWindow[Mapping[str, ApiSample]]] = field(default_factory=dict)

    def apply(self, sample: BrokerSample) -> None:
        """Apply the sample of one broker. A sample without metrics of requests changes nothing."""
        if not sample.requests:
            return
        earlier = compare_sample(self._windows, WINDOW_MS, sample.broker_id, sample.at_ms, sample.requests)
        if earlier is not None:
            seconds, before = earlier
            self.by_broker[sample.broker_id] = {
                name: _metrics(name, before.get(name, NO_REQUESTS), now, seconds)
                for name, now in sorted(sample.requests.items())
            }

    def forget(self, broker_id: int) -> None:
        """The broker did not respond."""
        self._windows.pop(broker_id, None)
        self.by_broker.pop(broker_id, None)


def _metrics(name: str, before: ApiSample, now: ApiSample, seconds: float) -> ApiStatistics:
    counts = _growth(before.counts, now.counts)
    p50, p99 = (_milliseconds(percentile(counts, share), now.greatest_s) for share in (0.5, 0.99))
    errors = {
        code: round(grown / seconds, 3)
        for code, count in now.errors.items()
        if (grown := count - before.errors.get(code, 0) if count >= before.errors.get(code, 0) else count)
    }
    return ApiStatistics(
        name,
        round(sum(counts) / seconds, 3),
        p50,
        p99,
        round(now.greatest_s * 1000, 3),
        errors,
    )


def _milliseconds(bound_s: float | None, greatest_s: float) -> float | None:
    """A percentile is the upper bound of a bucket. No request of the window was longer than the greatest one, which is of a longer time; 0 = not measured."""
    if bound_s is None:
        return None
    return round(1000 * (min(bound_s, greatest_s) if greatest_s > 0 else bound_s), 3)


def _growth(before: Iterable[int], now: tuple[int, ...]) -> list[int]:
    grown = [n - b for b, n in zip(before, now, strict=False)]
    return grown if len(grown) == len(now) and min(grown, default=0) >= 0 else list(now)
