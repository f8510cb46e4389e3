"""A request that a broker forwards to the controller for a client survives a lost connection, a lost session and a missing controller."""

from __future__ import annotations

import pytest

from brokerd.cluster.metadata import RequestCompleted
from brokerd.cluster.requests import CreateTopics, NewTopic
from tests.simulation.scene import Scene

pytestmark = pytest.mark.parametrize("seed", range(1, 7))

ASKED = CreateTopics(items=(NewTopic("asked", 1, 2),), validate_only=True)


class Requester:
    def __init__(self, seed: int) -> None:
        self.scene = Scene(seed)
        self.node = self.scene.cluster.brokers[1]
        self.received: list[RequestCompleted | None] = []

    def send_request(self) -> None:
        membership = self.node.broker.membership
        self.node.enter(lambda: membership.request(ASKED, 60_000, self.received.append))

    def wait_for_response(self) -> None:
        self.scene.cluster.run_until(lambda: bool(self.received), 50, "the response")
        (response,) = self.received
        assert response is not None, "the request failed before its time-out"
        assert [(r["name"], r["error"]) for r in response.result["results"]] == [("asked", 0)]
        self.scene.pass_ms(5_000)
        assert len(self.received) == 1, "answered twice"


def test_a_request_while_the_connection_is_down(seed: int) -> None:
    asking = Requester(seed)
    asking.node.store.cut()
    asking.scene.pass_ms(300)
    asking.send_request()
    asking.scene.pass_ms(200)
    asking.node.store.heal()
    asking.wait_for_response()


def test_a_request_after_the_session_was_lost(seed: int) -> None:
    asking = Requester(seed)
    asking.node.store.cut()
    asking.scene.pass_ms(6_000)
    asking.send_request()
    asking.node.store.heal()
    asking.wait_for_response()


def test_the_connection_is_lost_with_a_request_in_flight(seed: int) -> None:
    asking = Requester(seed)
    asking.send_request()
    asking.node.store.cut()
    asking.scene.pass_ms(500)
    asking.node.store.heal()
    asking.wait_for_response()


def test_the_session_is_lost_with_an_unanswered_request(seed: int) -> None:
    asking = Requester(seed)
    (controller,) = asking.scene.cluster.controllers
    controller.crash()
    asking.send_request()
    asking.scene.pass_ms(500)
    asking.scene.cluster.ensemble.expire(asking.node.store.zk_session)
    asking.scene.pass_ms(500)
    controller.start()
    asking.wait_for_response()


def test_a_request_to_a_broker_that_has_not_registered_yet(seed: int) -> None:
    asking = Requester(seed)
    asking.node.crash()
    asking.scene.pass_ms(8_000)
    asking.node.start()
    assert asking.node.broker.membership.broker_epoch is None
    asking.send_request()
    asking.wait_for_response()
