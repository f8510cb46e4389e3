"""The quotas of the helper."""

from __future__ import annotations

from brokerd.remote.rate import RateLimit


def test_over_a_long_time_the_rate_is_not_exceeded() -> None:
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    rate = RateLimit(1_000, lambda: now, sleep)
    for _ in range(100):
        rate.spend(300)
    assert 28 <= now <= 30, "30,000 bytes at 1,000 per second, with a burst of one second"
    rate.bytes_per_s = 100_000
    before = now
    for _ in range(100):
        rate.spend(300)
    assert now - before < 1
