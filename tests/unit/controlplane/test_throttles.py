"""A move's throttle: laid over what others wanted, for what copies now, and gone with it to the last byte."""

from __future__ import annotations

import pytest

from controlplane.models import AccessEntry, Change, Move, MovePartition, Topic
from controlplane.services import Refused, access, advancing, moves, throttles, topics
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
TO_23 = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3]}]}
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


def started(world: World, rate: int | None = 50_000, **configs: str) -> Move:
    world.topic("flights", (1, 2), configs={**configs})
    move = moves.plan_move(TO_23, who="alice", throttle_bytes_per_s=rate)
    moves.start_move(move.pk, who="alice")
    advancing.advance_move(move.pk)
    world.apply_rows()
    return Move.objects.get(pk=move.pk)


def in_log(world: World) -> dict[str, dict[str, str]]:
    configs = dict(world.image.topics[world.image.topic_ids["flights"]].configs)
    return {"flights": configs} | {str(b): dict(c) for b, (_, c) in world.image.broker_configs.items()}


def test_an_order_comes_with_its_throttle_on_topic_and_brokers(world: World) -> None:
    started(world, **{"retention.ms": "1000"})
    held = in_log(world)
    assert held["flights"] == {"retention.ms": "1000", LEADERS: "0:1,0:2,0:3", FOLLOWERS: "0:1,0:3"}
    assert held["1"] == held["2"] == held["3"] == dict.fromkeys(RATES, "50000")
    # Nobody's own wish was touched.
    assert Topic.objects.get().configs == {"retention.ms": "1000"}
    assert [b.value for b in AccessEntry.objects.filter(kind="broker")] == [{}, {}, {}]


def test_the_end_waits_until_the_log_holds_what_it_held_before(world: World) -> None:
    before = {LEADERS: "7:1", "retention.ms": "5"}
    world.topic("flights", (1, 2), configs=before)
    access.put_settings("1", [{"name": RATES[0], "op": "set", "value": "123456"}], {}, who="bob")
    world.apply_rows()
    move = moves.plan_move(TO_23, who="alice", throttle_bytes_per_s=50_000)
    moves.start_move(move.pk, who="alice")
    assert Move.objects.get(pk=move.pk).throttles_before == {
        "topics": {"flights": {LEADERS: "7:1"}}, "brokers": {"1": {RATES[0]: "123456"}},
    }  # fmt: skip
    advancing.advance_move(move.pk)
    world.apply_rows()
    assert in_log(world)["flights"][LEADERS] == "0:1,0:2,0:3,7:1"
    assert in_log(world)["1"] == dict.fromkeys(RATES, "50000")
    world.begin_move("flights", 0, (2, 3))
    advancing.advance_move(move.pk)
    world.end_move("flights", 0)
    assert advancing.advance_move(move.pk) == "verifying"
    assert "throttle" in Move.objects.get(pk=move.pk).note
    assert advancing.advance_move(move.pk) == "verifying"
    world.apply_rows()
    assert advancing.advance_move(move.pk) == "done"
    assert in_log(world)["flights"] == before
    assert in_log(world)["1"] == {RATES[0]: "123456"}
    assert in_log(world)["3"] == {}
    assert throttles.left(move) == ""


def test_slower_and_faster_are_heard_while_it_copies(world: World) -> None:
    move = started(world)
    moves.throttle_move(move.pk, 20_000, who="bob", why="producers suffer")
    world.apply_rows()
    assert in_log(world)["2"] == dict.fromkeys(RATES, "20000")
    moves.throttle_move(move.pk, None, who="bob")
    world.apply_rows()
    assert (in_log(world)["2"], in_log(world)["flights"]) == ({}, {})
    change = Change.objects.filter(verb="move.throttle").last()
    assert change is not None and (change.before, change.after, change.why) == (50_000, 20_000, "producers suffer")


def test_a_move_may_be_throttled_after_it_began(world: World) -> None:
    move = started(world, rate=None)
    assert in_log(world) == {"flights": {}}
    moves.throttle_move(move.pk, 20_000, who="bob")
    world.apply_rows()
    assert in_log(world)["1"] == dict.fromkeys(RATES, "20000")


def test_where_two_moves_meet_the_slower_counts_and_the_other_keeps_its_own(world: World) -> None:
    first = started(world)
    world.topic("delays", (1, 2))
    other = moves.plan_move(
        {"kind": "partitions", "partitions": [{"topic": "delays", "partition": 0, "replicas": [2]}]}, who="bob",
        throttle_bytes_per_s=10_000,
    )  # fmt: skip
    moves.start_move(other.pk, who="bob")
    advancing.advance_move(other.pk)
    world.apply_rows()
    assert in_log(world)["1"] == dict.fromkeys(RATES, "10000")
    assert in_log(world)["3"] == dict.fromkeys(RATES, "50000")
    # The first one's cancel clears nothing of the other: Kafka's own tool would.
    moves.cancel_move(first.pk, who="alice")
    MovePartition.objects.filter(move=first).update(state="put_back", active=False)
    advancing.advance_move(first.pk)
    world.apply_rows()
    assert in_log(world)["flights"] == {}
    assert in_log(world)["1"] == dict.fromkeys(RATES, "10000")
    assert in_log(world)["3"] == {}
    assert advancing.advance_move(first.pk) == "cancelled"


def test_a_change_of_the_topic_meanwhile_is_kept(world: World) -> None:
    move = started(world)
    topics.alter_topic("flights", set_configs={"retention.ms": "99"}, who="carol")
    world.apply_rows()
    assert in_log(world)["flights"][FOLLOWERS] == "0:1,0:3"
    moves.throttle_move(move.pk, None, who="alice")
    world.apply_rows()
    assert in_log(world)["flights"] == {"retention.ms": "99"}


def test_a_row_younger_than_the_log_still_reaches_it(world: World) -> None:
    world.image.broker_configs[3] = (41, {RATES[1]: "7"})
    world.look()
    started(world)
    assert world.image.broker_configs[3][0] == 42


def test_nonsense_is_refused(world: World) -> None:
    move = started(world)
    with pytest.raises(Refused, match="too low"):
        moves.throttle_move(move.pk, 3, who="bob")
    Topic.objects.all().delete()
    with pytest.raises(Refused, match="drift"):
        moves.throttle_move(move.pk, 30_000, who="bob")


def test_a_list_too_long_for_a_topic_is_all_of_it() -> None:
    many = ",".join(f"{i}:{i}" for i in range(2_000))
    assert throttles.effective({}, {LEADERS: many})[LEADERS] == "*"
    assert throttles.effective({LEADERS: "*"}, {LEADERS: "0:1"})[LEADERS] == "*"
