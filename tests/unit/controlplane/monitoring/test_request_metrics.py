"""Values of requests by API from the histograms of brokers."""

from __future__ import annotations

from brokerd.cluster.request_buckets import BOUNDS_S
from controlplane.clients.broker_samples import ApiSample, BrokerSample
from controlplane.monitoring.request_metrics import ApiStatistics, RequestStatistics


def api(greatest_s: float = 0.0, errors: dict[int, int] | None = None, **counts: int) -> ApiSample:
    histogram = [0] * (len(BOUNDS_S) + 1)
    for name, count in counts.items():
        histogram[int(name[1:])] = count
    return ApiSample(tuple(histogram), greatest_s, errors or {})


def take(metrics: RequestStatistics, at_ms: int, **apis: ApiSample) -> None:
    metrics.apply(BrokerSample(1, at_ms, requests=apis))


def test_metrics_are_of_the_requests_between_two_samples() -> None:
    metrics = RequestStatistics()
    take(metrics, 0, Produce=api(b0=1_000, b9=1_000))
    assert metrics.by_broker == {}, "counts since the start of the broker are no metric"
    take(metrics, 10_000, Produce=api(2.5, {6: 30}, b0=1_000, b3=97, b5=3, b9=1_000), Metadata=api(b0=10))
    assert metrics.by_broker[1] == {
        "Metadata": ApiStatistics("Metadata", 1.0, BOUNDS_S[0] * 1000, BOUNDS_S[0] * 1000, 0.0, {}),
        "Produce": ApiStatistics("Produce", 10.0, 1.0, 5.0, 2_500.0, {6: 3.0}),
    }
    assert metrics.by_broker[1]["Produce"].errors_per_s == 3.0


def test_a_percentile_is_not_above_the_greatest_value() -> None:
    """The page of a broker showed a p99 of 1,000 ms with a maximum of 615 ms: the bound of the bucket."""
    metrics = RequestStatistics()
    take(metrics, 0, Produce=api())
    last = len(BOUNDS_S) - 1
    greatest_s = (BOUNDS_S[last - 1] + BOUNDS_S[last]) / 2
    take(metrics, 10_000, Produce=api(greatest_s, None, b0=50, **{f"b{last}": 50}))
    found = metrics.by_broker[1]["Produce"]
    assert (found.p50_ms, found.p99_ms, found.greatest_ms) == (BOUNDS_S[0] * 1000, greatest_s * 1000, greatest_s * 1000)


def test_without_requests_there_is_no_latency() -> None:
    metrics = RequestStatistics()
    for at_ms in (0, 10_000):
        take(metrics, at_ms, Produce=api(errors={6: 4}, b0=5))
    assert metrics.by_broker[1]["Produce"] == ApiStatistics("Produce", 0.0, None, None, 0.0, {})


def test_smaller_counters_have_started_again() -> None:
    metrics = RequestStatistics()
    take(metrics, 0, Produce=api(errors={6: 90}, b0=5_000, b4=1))
    take(metrics, 10_000, Produce=api(errors={6: 10}, b0=20, b4=7))
    found = metrics.by_broker[1]["Produce"]
    assert (found.requests_per_s, found.errors) == (2.7, {6: 1.0})


def test_a_broker_without_a_response_has_no_metrics() -> None:
    metrics = RequestStatistics()
    for at_ms in (0, 10_000):
        take(metrics, at_ms, Produce=api(b0=at_ms))
    metrics.apply(BrokerSample(1, 11_000))
    assert metrics.by_broker, "a sample without metrics changes nothing"
    metrics.forget(1)
    take(metrics, 20_000, Produce=api(b0=30_000))
    assert metrics.by_broker == {}
