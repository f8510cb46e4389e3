"""A move's throttle: applied over the throttles of others, only for the partitions that copy now, and removed completely afterwards."""

from __future__ import annotations

import pytest

from brokerd.cluster.requests import AlterConfigOp, OpType
from controlplane.domain.config_overlay import apply_overlay
from controlplane.domain.throttle import ThrottlesBefore
from controlplane.models import AccessEntry, Change, Move, MovePartition, Topic
from controlplane.services import Rejected, access, move_worker, moves, throttles, topics
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
TO_23 = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3]}]}
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


def start_throttled_move(world: World, rate: int | None = 50_000, **configs: str) -> Move:
    world.topic("flights", (1, 2), configs={**configs})
    move = moves.plan_move(parse_scope(TO_23), actor="alice", throttle_bytes_per_s=rate)
    moves.start_move(move.pk, actor="alice")
    move_worker.advance_move(move.pk)
    world.apply_rows()
    return Move.objects.get(pk=move.pk)


def in_log(world: World) -> dict[str, dict[str, str]]:
    configs = dict(world.image.topics[world.image.topic_ids["flights"]].configs)
    return {"flights": configs} | {str(b): dict(c) for b, (_, c) in world.image.broker_configs.items()}


def test_an_order_is_written_together_with_its_throttle(world: World) -> None:
    start_throttled_move(world, **{"retention.ms": "1000"})
    held = in_log(world)
    assert held["flights"] == {"retention.ms": "1000", LEADERS: "0:1,0:2,0:3", FOLLOWERS: "0:1,0:3"}
    assert held["1"] == held["2"] == held["3"] == dict.fromkeys(RATES, "50000")
    # Throttles that others configured are unchanged.
    assert Topic.objects.get().configs == {"retention.ms": "1000"}
    assert [b.value for b in AccessEntry.objects.filter(kind="broker")] == [{}, {}, {}]


def test_a_move_ends_when_the_log_has_the_previous_configs(world: World) -> None:
    before = {LEADERS: "7:1", "retention.ms": "5"}
    world.topic("flights", (1, 2), configs=before)
    access.put_settings("1", [AlterConfigOp(RATES[0], OpType.SET, "123456")], {}, actor="bob")
    world.apply_rows()
    move = moves.plan_move(parse_scope(TO_23), actor="alice", throttle_bytes_per_s=50_000)
    moves.start_move(move.pk, actor="alice")
    assert Move.objects.get(pk=move.pk).throttles_before == ThrottlesBefore(
        topics={"flights": {LEADERS: "7:1"}}, brokers={"1": {RATES[0]: "123456"}}
    )
    move_worker.advance_move(move.pk)
    world.apply_rows()
    assert in_log(world)["flights"][LEADERS] == "0:1,0:2,0:3,7:1"
    assert in_log(world)["1"] == dict.fromkeys(RATES, "50000")
    world.begin_move("flights", 0, (2, 3))
    move_worker.advance_move(move.pk)
    world.end_move("flights", 0)
    assert move_worker.advance_move(move.pk) == "verifying"
    assert "throttle" in Move.objects.get(pk=move.pk).note
    assert move_worker.advance_move(move.pk) == "verifying"
    world.apply_rows()
    assert move_worker.advance_move(move.pk) == "done"
    assert in_log(world)["flights"] == before
    assert in_log(world)["1"] == {RATES[0]: "123456"}
    assert in_log(world)["3"] == {}
    assert throttles.remaining_throttles(move) == ""


def test_a_changed_throttle_applies_during_the_copy(world: World) -> None:
    move = start_throttled_move(world)
    moves.throttle_move(move.pk, 20_000, actor="bob", comment="producers suffer")
    world.apply_rows()
    assert in_log(world)["2"] == dict.fromkeys(RATES, "20000")
    moves.throttle_move(move.pk, None, actor="bob")
    world.apply_rows()
    assert (in_log(world)["2"], in_log(world)["flights"]) == ({}, {})
    change = Change.objects.filter(verb="move.throttle").last()
    assert change is not None and (change.before, change.after, change.comment) == (50_000, 20_000, "producers suffer")


def test_a_move_can_be_throttled_after_its_start(world: World) -> None:
    move = start_throttled_move(world, rate=None)
    assert in_log(world) == {"flights": {}}
    moves.throttle_move(move.pk, 20_000, actor="bob")
    world.apply_rows()
    assert in_log(world)["1"] == dict.fromkeys(RATES, "20000")


def test_of_two_throttles_on_one_broker_the_lower_applies(world: World) -> None:
    first = start_throttled_move(world)
    world.topic("delays", (1, 2))
    other = moves.plan_move(
        parse_scope({"kind": "partitions", "partitions": [{"topic": "delays", "partition": 0, "replicas": [2]}]}),
        actor="bob",
        throttle_bytes_per_s=10_000,
    )
    moves.start_move(other.pk, actor="bob")
    move_worker.advance_move(other.pk)
    world.apply_rows()
    assert in_log(world)["1"] == dict.fromkeys(RATES, "10000")
    assert in_log(world)["3"] == dict.fromkeys(RATES, "50000")
    # Cancelling the first move removes nothing of the other one. Kafka's own tool would.
    moves.cancel_move(first.pk, actor="alice")
    MovePartition.objects.filter(move=first).update(state="reverted", active=False)
    move_worker.advance_move(first.pk)
    world.apply_rows()
    assert in_log(world)["flights"] == {}
    assert in_log(world)["1"] == dict.fromkeys(RATES, "10000")
    assert in_log(world)["3"] == {}
    assert move_worker.advance_move(first.pk) == "cancelled"


def test_a_config_change_of_the_topic_during_the_move_is_kept(world: World) -> None:
    move = start_throttled_move(world)
    topics.alter_topic("flights", set_configs={"retention.ms": "99"}, actor="carol")
    world.apply_rows()
    assert in_log(world)["flights"][FOLLOWERS] == "0:1,0:3"
    moves.throttle_move(move.pk, None, actor="alice")
    world.apply_rows()
    assert in_log(world)["flights"] == {"retention.ms": "99"}


def test_a_row_below_the_logs_generation_gets_a_generation_above_it(world: World) -> None:
    world.image.broker_configs[3] = (41, {RATES[1]: "7"})
    world.project()
    start_throttled_move(world)
    assert world.image.broker_configs[3][0] == 42


def test_an_invalid_throttle_is_rejected(world: World) -> None:
    move = start_throttled_move(world)
    with pytest.raises(Rejected, match="too low"):
        moves.throttle_move(move.pk, 3, actor="bob")
    Topic.objects.all().delete()
    with pytest.raises(Rejected, match="drift"):
        moves.throttle_move(move.pk, 30_000, actor="bob")


def test_a_replica_list_above_the_limit_becomes_a_wildcard() -> None:
    many = ",".join(f"{i}:{i}" for i in range(2_000))
    assert apply_overlay({}, {LEADERS: many})[LEADERS] == "*"
    assert apply_overlay({LEADERS: "*"}, {LEADERS: "0:1"})[LEADERS] == "*"
