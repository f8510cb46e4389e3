"""Asks other brokers what only they can answer: a coordinator about a transaction, leaders to write its markers.

Laws: every question is answered exactly once, later, by a body or by None; what is asked of this broker itself takes the same doors,
without a socket. Called by the verification and the senders of markers. Must not come in: what is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from brokerd.net.loop import Loop
from brokerd.net.peers import Peer
from brokerd.wire import framing

log = logging.getLogger(__name__)

Done = Callable[[Any], None]


class OwnRequest:
    """What a door sees of a question that this broker asks itself (`dispatch.Request`)."""

    abandoned = False
    client_host = "localhost"

    def __init__(self, header: framing.RequestHeader, body: Any, answered: Done) -> None:
        self.header, self.body, self._answered = header, body, answered
        self.client_id = header.client_id or ""
        self.principal = "User:ANONYMOUS"

    def reply(self, body: Any) -> None:
        self._answered(body)

    def close(self) -> None:
        self._answered(None)


class Colleagues:
    """One connection to each other broker; several of these for questions that must not wait for each other."""

    def __init__(
        self,
        loop: Loop,
        broker_id: int,
        serve: Callable[[int, OwnRequest], None],
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

    def ask(self, broker_id: int, key: int, version: int, body: Any, done: Done) -> None:
        name = f"broker-{self._broker_id}"
        if broker_id == self._broker_id:
            request = OwnRequest(
                framing.RequestHeader(key, version, 0, name), body, lambda answer: self._later(done, answer)
            )
            self._loop.call_later(0, lambda now: self._serve(key, request))
            return
        address = self._address_of(broker_id)
        if address is None:
            self._later(done, None)
            return
        known = self._peers.get(broker_id)
        if known is None or known[0] != address:
            if known is not None:
                known[1].close()
            # A marker that arrives late could end the producer's next transaction, whose epoch is the same (the first kind).
            peer = self._connect(
                *address, timeout_ms=self._timeout_ms, frame_bytes_max=self._frame_bytes_max, abortive=True
            )
            known = self._peers[broker_id] = (address, peer)

        def answered(frame: memoryview | None) -> None:
            answer = None
            if frame is not None:
                try:
                    _, answer = framing.decode_response(key, version, frame)
                except framing.WireError as e:
                    log.warning("broker %d answered API %d with nonsense: %s", broker_id, key, e)
            done(answer)

        known[1].ask(framing.encode_request(key, version, 0, name, body), answered)

    def _later(self, done: Done, answer: Any) -> None:
        self._loop.call_later(0, lambda now: done(answer))

    def close(self) -> None:
        for _, peer in self._peers.values():
            peer.close()
