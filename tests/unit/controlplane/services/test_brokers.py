"""Operations on a broker, their effect, and the progress of a drain."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from brokerd.cluster.cordons import CORDONED
from brokerd.cluster.requests import AlterConfigOp, OpType
from controlplane.models import AccessEntry, Broker, Change, Move
from controlplane.selectors import brokers as selectors
from controlplane.services import Rejected, access, brokers, moves, topics
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_a_cordon_is_in_the_log_and_prevents_new_replicas_until_it_is_removed(world: World) -> None:
    world.topic("flights", (1, 2))
    brokers.cordon(3, actor="alice", comment="disk is old")
    world.apply_rows()
    assert world.image.broker_configs[3][1] == {CORDONED: "*"}
    row = selectors.broker(3)
    assert row is not None and row.cordoned and "uncordon" in row.can and "fill" not in row.can
    to_3 = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [1, 3]}]}
    with pytest.raises(Rejected, match="which is cordoned; uncordon it first"):
        moves.plan_move(parse_scope(to_3), actor="alice")
    with pytest.raises(Rejected, match="3 is cordoned; uncordon a broker, or lower"):
        topics.create_topic("wide", partitions=1, replication_factor=3, actor="alice")
    brokers.uncordon(3, actor="alice")
    world.apply_rows()
    assert moves.plan_move(parse_scope(to_3), actor="alice").state == "planned"
    verbs = list(Change.objects.filter(object_kind="broker").order_by("id").values_list("verb", "comment"))
    assert verbs == [("broker.cordon", "disk is old"), ("broker.uncordon", "")]


def test_a_move_whose_target_was_cordoned_since_does_not_start(world: World) -> None:
    world.topic("flights", (1, 2))
    scope = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [1, 3]}]}
    move = moves.plan_move(parse_scope(scope), actor="alice")
    brokers.cordon(3, actor="bob")
    world.apply_rows()
    with pytest.raises(Rejected, match="broker 3, which has been cordoned since"):
        moves.start_move(move.pk, actor="alice")
    brokers.uncordon(3, actor="bob")
    world.apply_rows()
    assert moves.start_move(move.pk, actor="alice").state == "running"


def test_other_configs_of_a_broker_are_kept_after_its_cordon(world: World) -> None:
    access.put_settings("3", [AlterConfigOp("num.partitions", OpType.SET, "7")], {}, actor="bob")
    brokers.cordon(3, actor="alice")
    brokers.uncordon(3, actor="alice")
    assert AccessEntry.objects.get(kind="broker", key="3").value == {"num.partitions": "7"}


def test_the_last_broker_is_not_cordoned(world: World) -> None:
    for b in (1, 2):
        brokers.cordon(b, actor="alice")
        world.apply_rows()
    with pytest.raises(Rejected, match="the last live broker"):
        brokers.cordon(3, actor="alice")
    assert Change.objects.filter(verb="broker.cordon", outcome="refused").count() == 1


def test_a_drain_is_a_cordon_a_demotion_and_a_move_and_ends_with_an_empty_broker(world: World) -> None:
    world.topic("flights", (1, 2))
    move = brokers.drain(1, actor="alice", comment="to the junkyard")
    assert move is not None and move.state == "running" and move.parts.get().replicas_to == [3, 2]
    world.apply_rows()
    state = selectors.drain_state(1)
    assert state is not None and not state.empty and state.move_id == move.pk
    assert [s.done for s in state.steps] == [True, False, False, False]
    world.begin_move("flights", 0, (3, 2))
    world.end_move("flights", 0)
    Broker.objects.filter(pk=1).update(replicas_on_disk=1, sampled_at=timezone.now())
    state = selectors.drain_state(1)
    assert state is not None and [s.done for s in state.steps] == [True, True, True, False], "it says that it holds one"
    Broker.objects.filter(pk=1).update(replicas_on_disk=0)
    state = selectors.drain_state(1)
    assert state is not None and state.empty


def test_an_impossible_drain_changes_nothing_and_has_a_reason(world: World) -> None:
    world.topic("flights", (1, 2, 3))
    with pytest.raises(Rejected, match="no other live broker that is not cordoned can take the replica on broker 1"):
        brokers.drain(1, actor="alice")
    assert not Move.objects.exists() and not AccessEntry.objects.exists()
    assert list(Change.objects.values_list("verb", "outcome")) == [("broker.drain", "refused")]


def test_the_same_by_rest(world: World, operator: APIClient, viewer_client: APIClient) -> None:
    world.topic("flights", (1, 2))
    assert viewer_client.post("/api/v1/brokers/3/cordon", {}, format="json").status_code == 403
    assert operator.post("/api/v1/brokers/9/cordon", {}, format="json").status_code == 404
    assert operator.post("/api/v1/brokers/3/sing", {}, format="json").status_code == 404
    assert operator.post("/api/v1/brokers/3/demote", {"comment": "x"}, format="json").status_code == 200
    world.apply_rows()
    assert operator.get("/api/v1/brokers/3").json()["leads"] is False
    response = operator.post(
        "/api/v1/brokers/1/drain", {"throttle_bytes_per_s": 5_000_000, "comment": "x"}, format="json"
    )
    assert response.status_code == 200 and response.json()["move_id"] == Move.objects.get().pk
    assert operator.get("/api/v1/brokers/1/drain").json()["empty"] is False


@pytest.mark.parametrize("end", [moves.cancel_move, moves.roll_back_move])
def test_ending_a_drain_leaves_its_broker_cordoned_unless_it_is_restored_with_it(world: World, end: Any) -> None:
    """Before the fix, a broker had its replicas back after the end of a drain, but led no partition: 68, 38, 0 and 0 leaders, status “healthy”."""
    world.topic("flights", (1, 2))
    for uncordon in (False, True):
        move = brokers.drain(1, actor="alice", comment="new disk")
        assert move is not None
        if not uncordon:
            world.apply_rows()  # in the other case the cordon is not in the metadata log yet
        brokers.end_drain(end, move.pk, actor="alice", comment="not today", uncordon=uncordon)
        world.apply_rows()
        row = selectors.broker(1)
        assert row is not None and (row.cordoned, row.leads) == (not uncordon, uncordon)
        assert [b.broker_id for b in selectors.out_of_service(move.scope)] == ([] if uncordon else [1])
        if not uncordon:
            assert "restore" in row.can
            brokers.restore(1, actor="alice")
            world.apply_rows()
        for m in Move.objects.exclude(state="cancelled"):
            m.parts.update(active=False)
            Move.objects.filter(pk=m.pk).update(state="rolled_back")
    assert set(Change.objects.values_list("verb", flat=True)) >= {"broker.restore"}


def test_only_a_drain_restores_a_broker(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(
        parse_scope({"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [3, 2]}]}),
        actor="alice",
    )
    moves.start_move(move.pk, actor="alice")
    with pytest.raises(Rejected, match="is not a drain"):
        brokers.end_drain(moves.cancel_move, move.pk, actor="alice", comment="x", uncordon=True)
    move.refresh_from_db()
    assert move.state == "running"
    assert Change.objects.filter(verb="move.end_drain", outcome="refused").count() == 1


def test_a_drain_is_ended_and_its_broker_restored_by_rest(world: World, operator: APIClient) -> None:
    world.topic("flights", (1, 2))
    made = operator.post("/api/v1/brokers/1/drain", {"comment": "new disk"}, format="json").json()
    world.apply_rows()
    response = operator.post(
        f"/api/v1/moves/{made['move_id']}/roll_back", {"comment": "not today", "uncordon": True}, format="json"
    )
    assert response.status_code == 200
    world.apply_rows()
    row = operator.get("/api/v1/brokers/1").json()
    assert (row["cordoned"], row["leads"]) == (False, True)
