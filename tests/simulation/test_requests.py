"""What a broker asks the controller for a client outlives a lost connection, a lost session, and a controller that is not there."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.cluster.metadata import RequestAnswered
from tests.simulation.scene import Scene

pytestmark = pytest.mark.parametrize("seed", range(1, 7))

ASKED: dict[str, Any] = {
    "topics": [{"name": "asked", "partitions": 1, "replication_factor": 2, "configs": {}}],
    "validate_only": True,
}


class Asking:
    def __init__(self, seed: int) -> None:
        self.scene = Scene(seed)
        self.node = self.scene.cluster.brokers[1]
        self.heard: list[RequestAnswered | None] = []

    def ask(self) -> None:
        membership = self.node.broker.membership
        self.node.enter(lambda: membership.request("create_topics", ASKED, 60_000, self.heard.append))

    def answered(self) -> None:
        self.scene.cluster.until(lambda: bool(self.heard), 50, "the answer")
        (answer,) = self.heard
        assert answer is not None, "given up while there was time"
        assert [(r["name"], r["error"]) for r in answer.result["results"]] == [("asked", 0)]
        self.scene.pass_ms(5_000)
        assert len(self.heard) == 1, "answered twice"


def test_asked_while_the_connection_is_down(seed: int) -> None:
    asking = Asking(seed)
    asking.node.store.cut()
    asking.scene.pass_ms(300)
    asking.ask()
    asking.scene.pass_ms(200)
    asking.node.store.heal()
    asking.answered()


def test_asked_after_the_session_was_lost(seed: int) -> None:
    asking = Asking(seed)
    asking.node.store.cut()
    asking.scene.pass_ms(6_000)
    asking.ask()
    asking.node.store.heal()
    asking.answered()


def test_the_connection_goes_with_the_question_under_way(seed: int) -> None:
    asking = Asking(seed)
    asking.ask()
    asking.node.store.cut()
    asking.scene.pass_ms(500)
    asking.node.store.heal()
    asking.answered()


def test_the_session_goes_with_the_question_unanswered(seed: int) -> None:
    asking = Asking(seed)
    (controller,) = asking.scene.cluster.controllers
    controller.die()
    asking.ask()
    asking.scene.pass_ms(500)
    asking.scene.cluster.ensemble.expire(asking.node.store.zk_session)
    asking.scene.pass_ms(500)
    controller.start()
    asking.answered()


def test_asked_of_a_broker_that_has_just_started_and_has_no_seat_yet(seed: int) -> None:
    asking = Asking(seed)
    asking.node.die()
    asking.scene.pass_ms(8_000)
    asking.node.start()
    assert asking.node.broker.membership.incarnation is None
    asking.ask()
    asking.answered()
