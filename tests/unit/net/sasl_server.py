"""A broker's listener with SASL: real sockets, real threads, one event loop. It answers the heartbeats of authenticated clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from brokerd.apis.security import SecurityApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.authz.sasl_server import Authenticator
from brokerd.cluster.image import Image
from brokerd.config.broker import BrokerConfig
from brokerd.net.admission import Admission
from brokerd.net.listener import Listener
from brokerd.net.loop import READ, Loop
from brokerd.net.peers import Peer
from brokerd.net.request import Request
from brokerd.security import scram
from brokerd.security.sasl_client import Login, SaslClientExchange
from brokerd.server.dispatch import Dispatch
from brokerd.storage.jobs import Jobs
from brokerd.wire import framing
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey

SALT, KEPT = b"salt", "SCRAM-SHA-256"
USER, PASSWORD = "u", "pw"


class SaslServer:
    """Listeners CLIENTS and BROKERS (the inter-broker listener). `response_ms`: delay of each response."""

    def __init__(
        self,
        loop: Loop,
        *,
        reauth_ms: int = 0,
        response_ms: int = 0,
        iterations: int = 4096,
        connections_max: int = 10_000,
    ) -> None:
        self.loop, self.jobs, self.response_ms = loop, Jobs(), response_ms
        loop.register(self.jobs.fileno(), READ, lambda events: self.jobs.pump())
        config = BrokerConfig.parse(
            {
                "broker.id": "1",
                "log.dirs": "/x",
                "listeners": "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0",
                "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,BROKERS:SASL_PLAINTEXT",
                "inter.broker.listener.name": "BROKERS",
                "sasl.enabled.mechanisms": f"PLAIN,{KEPT}",
                "sasl.mechanism.inter.broker.protocol": KEPT,
                "connections.max.reauth.ms": str(reauth_ms),
            }
        )
        known = scram.credential(KEPT, scram.salt_password(KEPT, PASSWORD, SALT, iterations), SALT, iterations)
        self.authenticator = Authenticator(
            config.values,
            frozenset({"PLAIN", KEPT}),
            lambda name, user: known if (name, user) == (KEPT, USER) else None,
            self.jobs.lane,
            lambda: loop.now,
            loop.call_later,
            "BROKERS",
        )
        dispatch = Dispatch(config, lambda: loop.now, authenticator=self.authenticator)
        api = SecurityApi(Image, lambda *a: None, None, ALLOW_ALL)  # type: ignore[arg-type]
        dispatch.handlers = {
            ApiKey.SASL_HANDSHAKE: api.handshake,
            ApiKey.SASL_AUTHENTICATE: api.authenticate,
            ApiKey.HEARTBEAT: self._heartbeat,
        }
        self.accepted: set[str] = set()
        admission = Admission(connections_max, connections_max, {}, 0)
        self.listeners: dict[str, Listener] = {}
        for configured in config.listeners:
            received = self._record_accepted(dispatch.frame_handler(configured))
            listener = Listener(
                loop, "127.0.0.1", 0, received, frame_bytes_max=1 << 20, admission=admission, proves=True
            )
            listener.open()
            self.listeners[configured.name] = listener
        self.peers: list[Peer] = []

    def _record_accepted(self, received: Callable[[Any, memoryview], None]) -> Callable[[Any, memoryview], None]:
        def note_and_receive(connection: Any, frame: memoryview) -> None:
            self.accepted.add(connection.peer)
            received(connection, frame)

        return note_and_receive

    def _heartbeat(self, request: Request) -> None:
        self.loop.call_later(self.response_ms, lambda now: request.reply(m.HeartbeatResponse(error_code=0)))

    def peer(self, mechanism: str, listener: str = "CLIENTS", password: str = PASSWORD) -> Peer:
        made = Peer(
            self.loop,
            "127.0.0.1",
            self.listeners[listener].port,
            timeout_ms=600_000,
            frame_bytes_max=1 << 20,
            new_sasl_exchange=lambda: SaslClientExchange(mechanism, Login(USER, password)),
        )
        self.peers.append(made)
        return made

    @staticmethod
    def send_request(peer: Peer, done: Callable[[memoryview | None], None]) -> None:
        body = m.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        peer.send_request(framing.encode_request(ApiKey.HEARTBEAT, 3, 0, "client", body), done)

    def run_iteration(self) -> None:
        self.loop.call_later(1, lambda now: None)  # no iteration waits for an event that may not occur
        self.loop.run_iteration()

    def run_until(self, condition: Callable[[], bool], turns_max: int, what: str) -> None:
        for _ in range(turns_max):
            if condition():
                return
            self.run_iteration()
        raise AssertionError(f"nothing for {turns_max} turns: {what}")

    def close(self) -> None:
        for peer in self.peers:
            peer.close()
        for listener in self.listeners.values():
            listener.close()
            listener.stop_accepting()
        self.loop.unregister(self.jobs.fileno())
        self.jobs.close()
