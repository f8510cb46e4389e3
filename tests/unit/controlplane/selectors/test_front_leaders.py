"""One query to the leaders of a front topic, and the partitions without a response."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import translation

from console import vocabulary
from controlplane.clients.all_brokers import BrokerResponse
from controlplane.clients.connection import Declined
from controlplane.selectors import front_leaders
from controlplane.selectors.front_leaders import LeaderProblem, front_of, leader_responses, leaders_of
from tests.unit.controlplane.delayed_responses import DelayedResponses
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_a_front_topic_names_its_topic(world: World) -> None:
    world.topic("orders.delay", (1, 2), configs={"weir.delay.topic": "orders"})
    assert front_of("orders", "orders.delay", "weir.delay.topic") == "orders.delay"
    assert front_of("other", "orders.delay", "weir.delay.topic") is None
    assert front_of("orders", "missing", "weir.delay.topic") is None


def test_each_leader_is_asked_for_its_partitions(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.topic("t", (1, 2), (2, 3), (1, 3), (3, 1))
    assert leaders_of("t") == {0: 1, 1: 2, 2: 1, 3: 3} and leaders_of("t", 2) == {2: 1}
    monkeypatch.setattr(front_leaders, "call_brokers", DelayedResponses(silent={2}).ask)

    def describe_partition(connection: Any, partition: int) -> str:
        if partition == 2:
            raise Declined("NOT_LEADER_OR_FOLLOWER")
        return f"{connection.port}/{partition}"

    found = leader_responses({**leaders_of("t"), 4: None}, describe_partition)
    with translation.override("zh-hans"):
        problems = [vocabulary.translated(a.problem) for a in found.values() if isinstance(a, LeaderProblem)]
    assert problems == ["it is frozen", "其 Leader 拒绝了该请求：NOT_LEADER_OR_FOLLOWER。", "该分区没有 Leader。"]
    assert found == {
        0: "9001/0",
        1: LeaderProblem("it is frozen"),
        2: LeaderProblem("Its leader rejected the request: NOT_LEADER_OR_FOLLOWER."),
        3: "9003/3",
        4: LeaderProblem("The partition has no leader."),
    }


def test_a_broker_that_is_down_has_its_reason(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def respond_down(brokers: Any, call: Any) -> list[BrokerResponse[Any]]:
        return [BrokerResponse(b.broker_id, None, "down") for b in brokers]

    world.topic("t", (1, 2))
    monkeypatch.setattr(front_leaders, "call_brokers", respond_down)
    assert leader_responses(leaders_of("t"), lambda connection, partition: 0) == {0: LeaderProblem("down")}
