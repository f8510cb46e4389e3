"""Rows of brokers: skew, possible acts, the conditions of a drain, and whether a restart is safe."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.domain.scope import DrainScope, FillScope
from controlplane.models import Broker, Cluster
from controlplane.selectors import brokers
from controlplane.services import brokers as services
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def row(broker_id: int) -> brokers.BrokerRow:
    found = brokers.broker(broker_id)
    assert found is not None
    return found


def test_skews_are_deviations_from_the_mean_of_live_brokers(world: World) -> None:
    world.topic("flights", (1, 2), (1, 2), (1, 2), (2, 1))
    world.down(3)
    assert [(b.broker_id, b.leaders, b.leaders_skew_pct) for b in brokers.broker_list()] == [
        (1, 3, 50.0),
        (2, 1, -50.0),
        (3, 0, None),
    ]
    assert brokers.broker(9) is None


def test_the_acts_of_a_broker_follow_its_state(world: World) -> None:
    assert row(1).can == ["cordon", "demote", "fill"]
    world.topic("flights", (1, 2))
    assert row(1).can == ["cordon", "demote", "drain", "fill"]
    services.cordon(1, actor="alice")
    services.demote(1, actor="alice")
    world.apply_rows()
    assert row(1).can == ["uncordon", "restore_leadership", "restore", "drain"]
    assert (row(1).cordoned, row(1).leads) == (True, False)
    assert [b.broker_id for b in brokers.out_of_service(DrainScope(broker=1))] == [1]
    assert brokers.out_of_service(FillScope(broker=1)) == []


def test_replicas_of_a_broker_have_a_role(world: World) -> None:
    world.topic("flights", (1, 2, 3), (2, 1, 3), (2, 1, 3))
    world.put("flights", 2, isr=(2, 3))
    assert [(r.index, r.role) for r in brokers.broker_replicas(1).rows] == [
        (0, "leader"),
        (1, "follower"),
        (2, "out_of_sync"),
    ]
    assert brokers.broker_replicas(1, query="none").total == 0


def test_a_restart_is_safe_when_no_partition_needs_the_broker(world: World) -> None:
    world.topic("flights", (1, 2), configs={"min.insync.replicas": "2"})
    verdict = brokers.safe_to_restart(1)
    assert not verdict.safe and "flights-0" in verdict.blockers[0] and verdict.leaders == 1
    assert brokers.safe_to_restart(3).safe
    world.age_observation(60)
    old = brokers.safe_to_restart(3)
    assert not old.safe and "older than 15 s" in old.blockers[0]


def test_a_restart_is_not_safe_without_a_controller_or_a_response_of_the_broker(world: World) -> None:
    Cluster.objects.update(controller_id=None)
    assert brokers.safe_to_restart(3).blockers == ["No controller is active: leaders cannot move."]
    Cluster.objects.update(controller_id=1)
    Broker.objects.filter(pk=3).update(answered=False, sampled_at=timezone.now() - timedelta(minutes=11))
    verdict = brokers.safe_to_restart(3)
    assert not verdict.safe and verdict.blockers == ["The broker does not respond: its values are 11 min old."]


def test_the_values_of_a_broker_that_does_not_respond_have_an_age(world: World) -> None:
    Broker.objects.update(answered=True, sampled_at=timezone.now() - timedelta(minutes=5))
    assert row(1).stale_age_s is None
    Broker.objects.filter(pk=1).update(answered=False)
    assert 299 < (row(1).stale_age_s or 0) < 310
    world.down(2)
    assert row(2).stale_age_s is not None


def test_a_broker_is_empty_when_every_condition_is_met(world: World) -> None:
    assert brokers.drain_state(9) is None
    world.topic("flights", (1, 2))
    first = brokers.drain_state(1)
    assert first is not None and not first.empty and [s.done for s in first.steps] == [False] * 4
    services.cordon(3, actor="alice")
    services.demote(3, actor="alice")
    world.apply_rows()
    Broker.objects.update(replicas_on_disk=0, sampled_at=timezone.now())
    empty = brokers.drain_state(3)
    assert empty is not None and empty.empty and empty.move_id is None
    Broker.objects.update(sampled_at=timezone.now() - timedelta(minutes=5))
    late = brokers.drain_state(3)
    assert late is not None and not late.empty, "its report about its directories is too old"


def test_requests_by_api_have_the_names_of_their_errors(world: World) -> None:
    produce = {
        "name": "Produce",
        "requests_per_s": 12.5,
        "p50_ms": 1.0,
        "p99_ms": 25.0,
        "greatest_ms": 1_234.0,
        "errors": {"6": 0.5, "31999": 2.0},
    }
    fetch = {**produce, "name": "FetchConsumer", "requests_per_s": 90.0, "p99_ms": None, "errors": {}}
    Broker.objects.filter(broker_id=1).update(requests=[fetch, produce])
    first, second = brokers.broker_requests(1)
    assert (first.name, first.p99_ms, first.errors_per_s, first.errors) == ("FetchConsumer", None, 0, [])
    assert [(e.code, e.per_s) for e in second.errors] == [("31999", 2.0), ("NOT_LEADER_OR_FOLLOWER", 0.5)]
    assert second.errors_per_s == 2.5 and brokers.broker_requests(2) == brokers.broker_requests(9) == []


def test_the_list_is_sorted_by_the_server_with_unknown_values_last() -> None:
    World()
    Broker.objects.filter(pk=1).update(rack="b", size_bytes=10, leaders=3)
    Broker.objects.filter(pk=2).update(rack="a", size_bytes=None, leaders=9)
    Broker.objects.filter(pk=3).update(rack=None, size_bytes=30, leaders=1)

    def ids(sort: str) -> list[int]:
        return [b.broker_id for b in brokers.broker_page(sort=sort).rows]

    assert ids("-leaders") == [2, 1, 3] and ids("leaders") == [3, 1, 2]
    assert ids("-size_bytes") == [3, 1, 2] and ids("size_bytes") == [1, 3, 2]
    assert ids("rack") == [2, 1, 3]
    assert ids("nonsense") == [1, 2, 3] and brokers.broker_page(sort="nonsense").sort == "broker_id"
    second = brokers.broker_page(sort="-leaders", page=2, per_page=2)
    assert ([b.broker_id for b in second.rows], second.total, second.pages) == ([3], 3, 2)
