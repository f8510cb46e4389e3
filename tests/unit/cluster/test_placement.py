"""Placement of new partitions: distinct brokers, failure domains, racks, load, and the reasons of rejections."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.cluster.model import BrokerState
from brokerd.cluster.placement import PlacementError, place

TOPIC = UUID(int=7)


def broker(broker_id: int, rack: str | None = None, domain: str | None = None) -> BrokerState:
    return BrokerState(broker_id, 100 + broker_id, f"uuid-{broker_id}", "h", 9092, rack, domain)


def test_more_replicas_than_brokers_are_rejected() -> None:
    with pytest.raises(PlacementError, match="replication factor 3 is larger than the number of available brokers, 2"):
        place(TOPIC, 0, 1, 3, [broker(1), broker(2)], {})


def test_replicas_are_in_different_failure_domains_if_enough_domains_are_alive() -> None:
    brokers = [broker(1, domain="a"), broker(2, domain="a"), broker(3, domain="b")]
    placed = place(TOPIC, 0, 20, 2, brokers, {})
    assert len(placed) == 20 and all(3 in replicas for replicas in placed)


def test_with_too_few_failure_domains_a_partition_still_gets_its_replicas() -> None:
    brokers = [broker(1, domain="a"), broker(2, domain="a")]
    assert [set(r) for r in place(TOPIC, 0, 3, 2, brokers, {})] == [{1, 2}] * 3


def test_racks_are_preferred_over_load() -> None:
    brokers = [broker(1, rack="r1"), broker(2, rack="r1"), broker(3, rack="r2")]
    placed = place(TOPIC, 0, 10, 2, brokers, {3: 1_000})
    assert len(placed) == 10 and all(3 in replicas for replicas in placed)


def test_a_broker_with_fewer_replicas_is_preferred() -> None:
    (replicas,) = place(TOPIC, 0, 1, 2, [broker(1), broker(2), broker(3)], {1: 9, 2: 9})
    assert 3 in replicas


@given(
    topic=st.uuids(),
    count=st.integers(1, 40),
    factor=st.integers(1, 3),
    domains=st.lists(st.sampled_from([None, "a", "b"]), min_size=3, max_size=8),
)
def test_a_placement_is_deterministic_complete_and_balanced(
    topic: UUID, count: int, factor: int, domains: list[str | None]
) -> None:
    brokers = [broker(i, domain=domain) for i, domain in enumerate(domains)]
    placed = place(topic, 0, count, factor, brokers, {})
    assert placed == place(topic, 0, count, factor, list(reversed(brokers)), {})
    assert len(placed) == count and all(len(set(r)) == len(r) == factor for r in placed)
    leaders = Counter(r[0] for r in placed)
    assert max(leaders.values()) - min(leaders.get(b.broker_id, 0) for b in brokers) <= 1
