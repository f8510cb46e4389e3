"""Share partitions at their limit, as their leaders report them."""

from __future__ import annotations

from controlplane.clients.broker_samples import BrokerSample
from controlplane.monitoring.share_limits import ShareLimits

F0, F1 = ("flights", 0), ("flights", 1)


def test_a_limit_is_that_of_the_last_report_of_the_leader() -> None:
    limits = ShareLimits()
    assert limits.is_full("workers", F0, 1) is None
    limits.apply(BrokerSample(1, 0, share_full=frozenset({("workers", F0)})))
    limits.apply(BrokerSample(1, 2_000))
    assert [limits.is_full("workers", key, 1) for key in (F0, F1)] == [True, False], "kept until the next report"
    assert limits.is_full("others", F0, 1) is False
    assert [limits.is_full("workers", F0, leader) for leader in (2, None)] == [None, None]
    limits.forget(1)
    assert limits.is_full("workers", F0, 1) is None
