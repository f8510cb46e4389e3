"""The data model: addresses of brokers, replica counts during reassignments, topic names."""

from __future__ import annotations

import pytest

from brokerd.cluster.model import (
    BrokerState,
    Endpoint,
    PartitionState,
    ReplicaIncarnation,
    effective_min_insync,
    topic_name_problem,
    topic_names_collide,
)

IN_SYNC = tuple(ReplicaIncarnation(b, 100 + b) for b in (1, 2, 3))


def test_an_older_broker_without_endpoints_has_one_address_for_every_listener() -> None:
    older = BrokerState(1, 101, "u", "host", 9092)
    assert older.address("INTERNAL") == older.address("anything") == ("host", 9092)


def test_a_listener_that_a_broker_does_not_have_has_no_address() -> None:
    state = BrokerState(1, 101, "u", "host", 9092, endpoints=(Endpoint("TLS", "public", 9093, "SSL"),))
    assert state.address("TLS") == ("public", 9093)
    assert state.address("PLAINTEXT") is None


def test_observers_and_history_replicas_store_a_partition_without_being_replicas() -> None:
    state = PartitionState((1, 2), IN_SYNC[:2], observers=(3,), history_replicas=(2, 4))
    assert state.hosts == (1, 2, 3, 4)
    assert state.isr_ids == (1, 2)


@pytest.mark.parametrize(
    ("isr", "adding", "removing", "target", "under_replicated"),
    [
        (3, (), (), (1, 2, 3), False),
        (2, (), (), (1, 2, 3), True),
        (2, (3,), (), (1, 2, 3), False),  # joining replicas are not expected in the ISR (KIP-455)
        (2, (3,), (1,), (2, 3), False),
        (1, (3,), (1,), (2, 3), True),
    ],
)
def test_a_reassignment_is_under_replicated_only_if_it_loses_a_replica(
    isr: int, adding: tuple[int, ...], removing: tuple[int, ...], target: tuple[int, ...], under_replicated: bool
) -> None:
    state = PartitionState((1, 2, 3), IN_SYNC[:isr], adding=adding, removing=removing)
    assert (state.target, state.under_replicated) == (target, under_replicated)
    assert state.reassigning is bool(adding or removing)


@pytest.mark.parametrize(
    ("configured", "replicas", "adding", "removing", "effective"),
    [(2, 3, 0, 0, 2), (2, 1, 0, 0, 1), (2, 2, 1, 1, 1), (5, 3, 0, 0, 3), (1, 3, 2, 0, 1), (0, 3, 0, 0, 1)],
)
def test_min_insync_replicas_is_limited_by_the_number_of_expected_replicas(
    configured: int, replicas: int, adding: int, removing: int, effective: int
) -> None:
    ids = range(replicas)
    assert effective_min_insync(configured, ids, ids[:adding], ids[:removing]) == effective


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "a\n", "x" * 250])
def test_an_invalid_topic_name_is_rejected_with_a_reason(name: str) -> None:
    assert topic_name_problem(name)


@pytest.mark.parametrize("name", ["a", "...", "a.b_c-D9", "x" * 249])
def test_a_valid_topic_name_has_no_problem(name: str) -> None:
    assert topic_name_problem(name) is None


def test_names_that_differ_in_dots_and_underscores_only_collide() -> None:
    assert topic_names_collide("a.b", "a_b")
    assert not topic_names_collide("a.b", "a-b")
