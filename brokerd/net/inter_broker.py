"""Client for requests to other brokers, such as transaction verification and transaction markers.

Every request completes exactly once, asynchronously, with a response or None. Requests to this broker itself use the same handlers without a
socket. Does not interpret requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from brokerd.net.client_traffic import ClientTraffic
from brokerd.net.loop import Loop
from brokerd.net.peers import Peer
from brokerd.net.request import Request, Session
from brokerd.wire import framing
from brokerd.wire.schema import Struct

log = logging.getLogger(__name__)

Done = Callable[[Any], None]
T = TypeVar("T")


class LoopbackRequest(Request):
    """A request of this broker to itself, for API handlers. It has no connection."""

    __slots__ = ("_done",)

    from_privileged_listener = True

    def __init__(self, header: framing.RequestHeader, body: Struct, done: Done) -> None:
        # Without the constructor of the base class, which needs a connection.
        self.header, self.body, self._done = header, body, done
        self.session = Session(listener="")
        self.metrics, self.amends, self.authorization_pending = None, None, False

    @property
    def client_host(self) -> str:
        return "localhost"

    @property
    def owner(self) -> Hashable:
        return "localhost"

    @property
    def traffic(self) -> ClientTraffic | None:
        return None

    @property
    def abandoned(self) -> bool:
        return False

    def reply(self, body: Struct | None) -> None:
        self._done(body)

    def close(self) -> None:
        self._done(None)

    def from_broker(self) -> None:
        pass

    def attempt(self, work: Callable[[], T]) -> T | None:
        return work()


class InterBrokerClient:
    """One connection to each other broker. Use several clients for requests that must not wait for each other."""

    def __init__(
        self,
        loop: Loop,
        broker_id: int,
        serve: Callable[[int, LoopbackRequest], None],
        address_of: Callable[[int], tuple[str, int] | None],
        connect: Callable[..., Peer],
        *,
        timeout_ms: int,
        frame_bytes_max: int,
    ) -> None:
        self._loop, self._broker_id, self._serve = loop, broker_id, serve
        self._address_of, self._connect = address_of, connect
        self._timeout_ms, self._frame_bytes_max = timeout_ms, frame_bytes_max
        self._peers: dict[int, tuple[tuple[str, int], Peer]] = {}

    def send_request(self, broker_id: int, key: int, version: int, body: Struct, done: Done) -> None:
        name = f"broker-{self._broker_id}"
        if broker_id == self._broker_id:
            request = LoopbackRequest(
                framing.RequestHeader(key, version, 0, name),
                body,
                lambda response: self._complete_later(done, response),
            )
            self._loop.call_later(0, lambda now: self._serve(key, request))
            return
        address = self._address_of(broker_id)
        if address is None:
            self._complete_later(done, None)
            return
        address_and_peer = self._peers.get(broker_id)
        if address_and_peer is None or address_and_peer[0] != address:
            if address_and_peer is not None:
                address_and_peer[1].close()
            # A late marker could end the next transaction of the producer, which has the same epoch (transaction.version 0 and 1).
            peer = self._connect(
                *address, timeout_ms=self._timeout_ms, frame_bytes_max=self._frame_bytes_max, abortive=True
            )
            address_and_peer = self._peers[broker_id] = (address, peer)

        def on_response(frame: memoryview | None) -> None:
            response = None
            if frame is not None:
                try:
                    _, response = framing.decode_response(key, version, frame)
                except framing.WireError as e:
                    log.warning("malformed response: broker=%d api=%d error=%s", broker_id, key, e)
            done(response)

        address_and_peer[1].send_request(framing.encode_request(key, version, 0, name, body), on_response)

    def _complete_later(self, done: Done, response: Struct | None) -> None:
        self._loop.call_later(0, lambda now: done(response))

    def close(self) -> None:
        for _, peer in self._peers.values():
            peer.close()
