"""Bytes per second from the counters of brokers."""

from __future__ import annotations

from controlplane.clients.broker_samples import BrokerSample, TrafficCounters
from controlplane.monitoring.traffic import WINDOW_MS, Traffic, TrafficCache

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
LEADERS = {T0: 1, T1: 2, U0: 1}


def take(cache: TrafficCache, broker_id: int, at_ms: int, **counters: tuple[int, ...]) -> None:
    keys = {"t0": T0, "t1": T1, "u0": U0}
    traffic = {keys[name]: TrafficCounters(*values) for name, values in counters.items()}
    cache.apply(BrokerSample(broker_id, at_ms, traffic=traffic))


def test_a_rate_is_the_growth_between_two_samples() -> None:
    cache = TrafficCache()
    take(cache, 1, 0, t0=(1_000, 10))
    take(cache, 2, 0, t0=(0, 0, 1_000))
    assert cache.sum_up(LEADERS) == set() and cache.topics == {}, "one sample is no rate"
    take(cache, 1, 2_000, t0=(3_000, 10, 0, 2_000))
    take(cache, 2, 4_000, t0=(0, 400, 3_000))
    assert cache.sum_up(LEADERS) == {T0, T1, U0}
    assert cache.partitions == {T0: Traffic(1_000, 100, 500, 1_000), T1: Traffic(), U0: Traffic()}
    assert cache.topics == {"t": Traffic(1_000, 100, 500, 1_000), "u": Traffic()}
    assert cache.broker(1) == Traffic(1_000, 0, 0, 1_000) and cache.broker(2) == Traffic(0, 100, 500, 0)
    assert cache.cluster() == Traffic(1_000, 100, 500, 1_000) and cache.cluster({"t"}) == Traffic()


def test_a_rate_covers_one_to_two_windows() -> None:
    cache = TrafficCache()
    for second in range(0, 30, 3):
        take(cache, 1, second * 1_000, u0=(max(0, second - 15) * 1_000, 0))
    cache.sum_up(LEADERS)
    # The last sample is of second 27. Those that were kept are 6 s apart: 18 and 24.
    assert cache.partitions[U0] == Traffic(1_000.0) and WINDOW_MS <= 6_000
    for second in (30, 33, 36, 39):
        take(cache, 1, second * 1_000, u0=(12_000, 0))
    cache.sum_up(LEADERS)
    assert cache.partitions[U0] == Traffic(), "the traffic has ended for two windows"


def test_a_counter_that_became_smaller_started_again() -> None:
    cache = TrafficCache()
    take(cache, 1, 0, u0=(9_000_000, 0))
    take(cache, 1, 10_000, u0=(5_000, 0))
    cache.sum_up(LEADERS)
    assert cache.partitions[U0] == Traffic(500.0)


def test_the_topics_of_a_broker_without_a_response_are_unknown() -> None:
    cache = TrafficCache()
    for at_ms in (0, 10_000):
        take(cache, 1, at_ms, u0=(at_ms, 0))
        take(cache, 2, at_ms, t1=(at_ms, 0))
    cache.sum_up(LEADERS)
    assert cache.cluster() == Traffic(2_000.0)
    cache.forget(2)
    assert cache.sum_up(LEADERS) == {T1}
    assert cache.topics == {"u": Traffic(1_000.0)} and cache.broker(2) is None
    take(cache, 2, 20_000, t1=(30_000, 0))
    cache.sum_up(LEADERS)
    assert "t" not in cache.topics, "the first sample after the pause"


def test_deleted_partitions_are_left_out() -> None:
    cache = TrafficCache()
    for at_ms in (0, 10_000):
        take(cache, 1, at_ms, u0=(at_ms, 0))
        take(cache, 2, at_ms)
    cache.sum_up(LEADERS)
    assert cache.sum_up({T0: 1}) == set() and cache.partitions == {T0: Traffic()}


def test_rates_have_three_significant_digits() -> None:
    assert Traffic(1_234_567.0, 0.012345).rounded() == Traffic(1_230_000.0, 0.0123)
