"""Which share groups changed since the last round."""

from __future__ import annotations

from controlplane.clients.broker_samples import BrokerSample
from controlplane.clients.share_groups import DescribedShareGroup, SharePartitionOffset
from controlplane.monitoring.share_group_samples import ShareGroupSamples


def group(name: str, epoch: int = 1, lag: int = 0) -> DescribedShareGroup:
    return DescribedShareGroup(name, "Empty", epoch, "simple", (), (SharePartitionOffset("t", 0, 1, lag),))


def sample(broker: int, *groups: DescribedShareGroup, silent: bool = False) -> BrokerSample:
    return BrokerSample(broker, 1, share_groups=None if silent else groups)


def test_only_changes_are_reported() -> None:
    samples = ShareGroupSamples()
    assert samples.apply([sample(1, group("a"), group("b"))], complete=True, now_ms=1) == ({"a", "b"}, set())
    assert samples.apply([sample(1, group("a"), group("b", lag=3))], complete=True, now_ms=1) == ({"b"}, set())


def test_a_group_is_gone_when_every_broker_answered() -> None:
    samples = ShareGroupSamples()
    samples.apply([sample(1, group("a")), sample(2)], complete=True, now_ms=1)
    assert samples.apply([sample(2)], complete=False, now_ms=1) == (set(), set())
    assert samples.apply([sample(1, silent=True), sample(2)], complete=True, now_ms=1) == (set(), set())
    assert samples.apply([sample(1), sample(2)], complete=True, now_ms=1) == (set(), {"a"}) and not samples.latest


def test_the_newer_state_counts_while_the_coordinator_moves() -> None:
    samples = ShareGroupSamples()
    samples.apply([sample(1, group("a", 5)), sample(2, group("a", 4))], complete=True, now_ms=1)
    assert samples.latest["a"].epoch == 5
