"""Metrics of requests by API."""

from __future__ import annotations

from brokerd.net.request_metrics import FETCH_CONSUMER, FETCH_FOLLOWER, RequestMetrics
from brokerd.wire.apis import ApiKey


def test_the_fetch_of_followers_is_apart() -> None:
    metrics = RequestMetrics((ApiKey.PRODUCE, ApiKey.FETCH))
    assert [m.name for m in metrics.all()] == [FETCH_CONSUMER, FETCH_FOLLOWER, "Produce"]
    assert metrics.by_key[ApiKey.PRODUCE].of_followers is None


def test_the_greatest_time_is_of_the_last_two_windows() -> None:
    metrics = RequestMetrics((ApiKey.PRODUCE,))
    produce = metrics.by_key[ApiKey.PRODUCE]
    produce.max_s = 3.0
    metrics.rotate()
    produce.max_s = 1.0
    assert produce.greatest_s == 3.0
    metrics.rotate()
    assert produce.greatest_s == 1.0
    metrics.rotate()
    assert produce.greatest_s == 0.0
