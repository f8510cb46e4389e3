"""Produce latencies are counted in the buckets that the control plane reads."""

from __future__ import annotations

import pytest

from brokerd.cluster.latency_buckets import BOUNDS_MS
from brokerd.replication.produce_latency import ProduceLatency
from controlplane.domain.throttle import p99


@pytest.mark.parametrize(
    ("ms", "bucket"), [(0, 0), (1, 0), (2, 1), (6, 4), (10_000, len(BOUNDS_MS) - 1), (10_001, len(BOUNDS_MS))]
)
def test_a_bucket_includes_its_bound(ms: int, bucket: int) -> None:
    latency = ProduceLatency()
    latency.add(ms)
    assert latency.counts == [int(i == bucket) for i in range(len(BOUNDS_MS) + 1)]


def test_the_control_plane_reads_a_p99_not_below_what_the_broker_counted() -> None:
    latency = ProduceLatency()
    for ms in range(1, 101):
        latency.add(ms)
    found = p99([0] * len(latency.counts), latency.counts)
    assert found is not None and 99 <= found <= 150
