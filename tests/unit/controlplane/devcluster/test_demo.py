"""When the demo's topic is created, and its replication factor."""

from __future__ import annotations

from controlplane.devcluster.demo import BROKERS_SECONDS_MAX, REPLICAS, replicas_for


def test_the_topic_waits_for_every_broker() -> None:
    assert replicas_for(4, 1, 0.0) is None
    assert replicas_for(4, 3, BROKERS_SECONDS_MAX) is None
    assert replicas_for(4, 4, 0.0) == REPLICAS == 3


def test_a_missing_broker_delays_the_topic_but_not_its_replication_factor() -> None:
    assert replicas_for(4, 3, BROKERS_SECONDS_MAX + 1) == 3
    assert replicas_for(4, 2, 10 * BROKERS_SECONDS_MAX) is None


def test_a_small_cluster_gets_as_many_replicas_as_it_has_brokers() -> None:
    assert replicas_for(1, 0, 0.0) is None
    assert (replicas_for(1, 1, 0.0), replicas_for(2, 2, 0.0)) == (1, 2)
