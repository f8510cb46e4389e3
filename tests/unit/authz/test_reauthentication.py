"""Inter-broker connections whose authentication expires (KIP-368). They authenticate again in time, and no request is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brokerd.cluster.model import Now
from brokerd.net.loop import Loop
from tests.unit.net.sasl_server import KEPT, SaslServer

REAUTH_MS, RESPONSE_MS = 200, 30
"""Milliseconds until a request is answered, as for a follower's fetch that waits for records."""
TURNS_MAX = 20_000


class CountingLoop(Loop):
    """Its clock counts iterations of the loop, a millisecond each. The load of the machine does not matter."""

    def wake(self, now: Now) -> Now:
        return super().wake(Now(self.now.mono_ms + 1, self.now.wall_ms + 1))


class ReauthenticationHarness:
    def __init__(self, mechanism: str) -> None:
        self.server = SaslServer(CountingLoop(), reauth_ms=REAUTH_MS, response_ms=RESPONSE_MS)
        self.peer = self.server.peer(mechanism, "BROKERS")
        self.requested = self.lost = self.completed = 0

    def send_request(self) -> None:
        self.requested += 1
        self.server.send_request(self.peer, self._on_response)

    def _on_response(self, frame: memoryview | None) -> None:
        self.lost += frame is None
        self.completed += frame is not None

    @property
    def under_way(self) -> int:
        return self.requested - self.completed - self.lost

    def finish(self) -> None:
        self.server.run_until(lambda: not self.under_way, TURNS_MAX, "the last response")


@pytest.fixture(params=[KEPT, "PLAIN"])
def requester(request: pytest.FixtureRequest) -> Iterator[ReauthenticationHarness]:
    made = ReauthenticationHarness(request.param)
    yield made
    made.server.close()


@pytest.mark.parametrize("under_way", [1, 5])
def test_requests_are_answered_over_one_connection_while_its_authentication_ends_and_is_renewed(
    requester: ReauthenticationHarness, under_way: int
) -> None:
    def is_renewed() -> bool:
        while requester.under_way < under_way:
            requester.send_request()
        return requester.server.authenticator.succeeded >= 4

    requester.server.run_until(is_renewed, TURNS_MAX, "the third renewal")
    requester.finish()
    assert requester.lost == 0, f"{requester.lost} of {requester.requested} requests were lost with their connection"
    assert len(requester.server.accepted) == 1


def test_a_connection_that_was_idle_for_longer_is_renewed_before_its_next_request(
    requester: ReauthenticationHarness,
) -> None:
    requester.send_request()
    requester.finish()
    ended: list[bool] = []
    requester.server.loop.call_later(2 * REAUTH_MS, lambda now: ended.append(True))
    requester.server.run_until(lambda: bool(ended), TURNS_MAX, "the end of the authentication")
    requester.send_request()
    requester.send_request()
    requester.finish()
    server = requester.server
    assert (requester.lost, server.authenticator.succeeded, len(server.accepted)) == (0, 2, 1)
