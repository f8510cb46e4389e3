"""An operator's acts upon a broker, what they leave, and how far a drain is."""

from __future__ import annotations

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from brokerd.cluster.cordons import CORDONED
from controlplane.models import AccessEntry, Broker, Change, Move
from controlplane.selectors import brokers as selectors
from controlplane.services import Refused, access, brokers, moves, topics
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_a_cordon_stands_in_the_log_and_keeps_replicas_away_until_it_is_lifted(world: World) -> None:
    world.topic("flights", (1, 2))
    brokers.cordon(3, who="alice", why="disk is old")
    world.apply_rows()
    assert world.image.broker_configs[3][1] == {CORDONED: "*"}
    row = selectors.broker(3)
    assert row is not None and row.cordoned and "uncordon" in row.can and "fill" not in row.can
    to_3 = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [1, 3]}]}
    with pytest.raises(Refused, match="which is cordoned; uncordon it first"):
        moves.plan_move(to_3, who="alice")
    with pytest.raises(Refused, match="3 is cordoned; uncordon one or lower it"):
        topics.create_topic("wide", partitions=1, replication_factor=3, who="alice")
    brokers.uncordon(3, who="alice")
    world.apply_rows()
    assert moves.plan_move(to_3, who="alice").state == "planned"
    verbs = list(Change.objects.filter(object_kind="broker").order_by("id").values_list("verb", "why"))
    assert verbs == [("broker.cordon", "disk is old"), ("broker.uncordon", "")]


def test_a_move_whose_target_was_cordoned_since_does_not_start(world: World) -> None:
    world.topic("flights", (1, 2))
    scope = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [1, 3]}]}
    move = moves.plan_move(scope, who="alice")
    brokers.cordon(3, who="bob")
    world.apply_rows()
    with pytest.raises(Refused, match="broker 3, which was cordoned since"):
        moves.start_move(move.pk, who="alice")
    brokers.uncordon(3, who="bob")
    world.apply_rows()
    assert moves.start_move(move.pk, who="alice").state == "running"


def test_other_settings_of_a_broker_outlive_its_cordon(world: World) -> None:
    access.put_settings("3", [{"op": "set", "name": "num.partitions", "value": "7"}], {}, who="bob")
    brokers.cordon(3, who="alice")
    brokers.uncordon(3, who="alice")
    assert AccessEntry.objects.get(kind="broker", key="3").value == {"num.partitions": "7"}


def test_the_last_broker_is_not_cordoned(world: World) -> None:
    for b in (1, 2):
        brokers.cordon(b, who="alice")
        world.apply_rows()
    with pytest.raises(Refused, match="the last living one"):
        brokers.cordon(3, who="alice")
    assert Change.objects.filter(verb="broker.cordon", outcome="refused").count() == 1


def test_a_drain_is_a_cordon_and_leaders_off_and_a_move_and_ends_in_a_proof(world: World) -> None:
    world.topic("flights", (1, 2))
    move = brokers.drain(1, who="alice", why="to the junkyard")
    assert move is not None and move.state == "running" and move.parts.get().replicas_to == [3, 2]
    world.apply_rows()
    state = selectors.drain_state(1)
    assert state is not None and not state.empty and state.move_id == move.pk
    assert [s.done for s in state.steps] == [True, False, False, False]
    world.begin_move("flights", 0, (3, 2))
    world.end_move("flights", 0)
    Broker.objects.filter(pk=1).update(held=1, sampled_at=timezone.now())
    state = selectors.drain_state(1)
    assert state is not None and [s.done for s in state.steps] == [True, True, True, False], "it says that it holds one"
    Broker.objects.filter(pk=1).update(held=0)
    state = selectors.drain_state(1)
    assert state is not None and state.empty


def test_a_drain_that_cannot_be_changes_nothing_and_says_so(world: World) -> None:
    world.topic("flights", (1, 2, 3))
    with pytest.raises(Refused, match="no other living broker that is not cordoned can take the one on 1"):
        brokers.drain(1, who="alice")
    assert not Move.objects.exists() and not AccessEntry.objects.exists()
    assert list(Change.objects.values_list("verb", "outcome")) == [("broker.drain", "refused")]


def test_the_same_by_rest(world: World, operator: APIClient, onlooker: APIClient) -> None:
    world.topic("flights", (1, 2))
    assert onlooker.post("/api/v1/brokers/3/cordon", {}, format="json").status_code == 403
    assert operator.post("/api/v1/brokers/9/cordon", {}, format="json").status_code == 404
    assert operator.post("/api/v1/brokers/3/sing", {}, format="json").status_code == 404
    assert operator.post("/api/v1/brokers/3/leaders_off", {"why": "x"}, format="json").status_code == 200
    world.apply_rows()
    assert operator.get("/api/v1/brokers/3").json()["leads"] is False
    answer = operator.post("/api/v1/brokers/1/drain", {"throttle_bytes_per_s": 5_000_000, "why": "x"}, format="json")
    assert answer.status_code == 200 and answer.json()["move_id"] == Move.objects.get().pk
    assert operator.get("/api/v1/brokers/1/drain").json()["empty"] is False
