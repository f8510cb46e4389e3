"""Buckets of the histograms of request times. Brokers count requests in these buckets; the control plane and Prometheus read them."""

from __future__ import annotations

from collections.abc import Sequence

BOUNDS_S = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
)
"""Upper bounds in seconds. One more bucket is above the last bound. A value that is read from the buckets is at most 2.5 times too high (3 times above
10 s)."""


def percentile(counts: Sequence[int], share: float) -> float | None:
    """The upper bound, in seconds, of the bucket with this share of the requests (0.5 = the median); the last bound for requests above it. None: no
    requests."""
    total = sum(counts)
    if total <= 0:
        return None
    rank, seen = share * total, 0
    for i, count in enumerate(counts):
        seen += count
        if count and seen >= rank:
            return BOUNDS_S[min(i, len(BOUNDS_S) - 1)]
    return BOUNDS_S[-1]
