"""The request handlers of a broker with an authorizer, without sockets: for tests of authorization."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from brokerd.apis.fetch_sessions import Sessions
from brokerd.apis.produce import ProduceApi
from brokerd.authz.acls import AclEntry, Operation, PatternType, Permission, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.authz.authorizer import Authorizer
from brokerd.cluster.metadata import AccessChanged
from brokerd.cluster.model import Endpoint
from brokerd.cluster.requests import AnyPayload
from brokerd.config.broker import BrokerConfig
from brokerd.net.client_traffic import ClientTraffic
from brokerd.net.request import Request, Session
from brokerd.replication.purgatory import WaitingFetches
from brokerd.replication.throttles import Throttles
from brokerd.runtime.handlers import BrokerParts, build_handler_registry
from brokerd.server.dispatch import Dispatch
from brokerd.wire import framing
from tests.simulation.disk import SimDisk
from tests.unit.apis.requests import immediate_background_work
from tests.unit.replication.test_relocations import Harness

SETTINGS = {"authorizer.class.name": "x", "super.users": ("User:root",), "allow.everyone.if.no.acl.found": False}


def parse(text: str) -> AclEntry:
    """An ACL from `permission principal host operation resource name`; a name that ends with * is a prefix."""
    permission, principal, host, operation, resource, name = text.split()
    prefixed = name.endswith("*") and name != "*"
    return AclEntry(
        Resource[resource.upper()],
        PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        name[:-1] if prefixed else name,
        principal,
        host,
        Operation[operation.upper()],
        Permission[permission.upper()],
    )


class Connection:
    """Records the response."""

    address = "10.0.0.1"

    def __init__(self) -> None:
        self.peer, self.owner = "10.0.0.1:5", "alice"
        self.closed = self.blocked = False
        self.traffic = ClientTraffic(0)
        self.parts: Any = None

    def respond(self, slot: Any, parts: Any) -> None:
        assert self.parts is None, "a request is answered exactly once"
        self.parts = parts

    def close(self) -> None:
        self.closed = True

    def block(self, slot: Any, **more: Any) -> None:
        self.blocked = True


class ComponentUsed(AssertionError):
    """A handler uses a part of the broker, so the request is authorized."""


class UnusedComponent:
    """A part of the broker that no request of the test may use, except its attributes `used`."""

    def __init__(self, name: str, **used: Any) -> None:
        self._name = name
        self.__dict__ |= used

    def __getattr__(self, attribute: str) -> Any:
        raise ComponentUsed(f"{self._name}.{attribute}")


class Broker:
    """The partitions of a broker with the topic `t`, the authorizer, and every request handler."""

    def __init__(self, *, groups: Any = None, transactions: Any = None, **settings: Any) -> None:
        self.harness = Harness(SimDisk())
        self.image, self.log = self.harness.image, self.harness.replica.log
        self.authorizer = Authorizer({**SETTINGS, **settings}, lambda: self.image)
        self.auth, self.forwarded = AuthHelper(self.authorizer), list[AnyPayload]()
        config = BrokerConfig.parse({"broker.id": "1", "log.dirs": "/disk-a"}, lambda name: False)
        replica_manager, loop = self.harness.replica_manager, SimpleNamespace(now=self.harness.now)
        verification: Any = SimpleNamespace(needed=lambda *_, add: False, is_pending=lambda *_: False)
        work = immediate_background_work()
        parts: dict[str, Any] = {
            "config": config,
            "loop": loop,
            "replica_manager": replica_manager,
            "fetch_sessions": Sessions(replica_manager.purgatory, lambda: 7, slots=10),
            "throttles": Throttles(1, lambda name: 0),
            "background_work": work,
            "waiting_fetches": WaitingFetches(lambda: 1_000, lambda: 1_000),
            "history_reads": None,
            "remote_logs": SimpleNamespace(
                request_start=UnusedComponent("remote_logs"), sizes=UnusedComponent("remote_logs"), key_lookups=None
            ),
            "read_ahead": None,
            "listeners": SimpleNamespace(endpoints=(Endpoint("PLAINTEXT", "here", 9092),)),
            "dispatch": Dispatch(config, lambda: self.harness.now),
            "relocations": UnusedComponent("relocations"),
            "produce": ProduceApi(loop, replica_manager, verification, work, self.auth),  # type: ignore[arg-type]
            "delayed_fronts": UnusedComponent("delayed_fronts"),
            "coordinators": SimpleNamespace(
                find=lambda topic, key, listener: (1, "here", 9092),
                groups=groups or UnusedComponent("groups"),
                transactions=transactions or UnusedComponent("transactions"),
                share_dead_letters=SimpleNamespace(counts={}),
                share_observer=None,
                **{
                    name: UnusedComponent(name)
                    for name in (
                        "endpoint",
                        "persister",
                        "share_config",
                        "share_partitions",
                        "share_send",
                        "share_states",
                    )
                },
            ),
            "authorizer": self.authorizer,
            "auth": self.auth,
            "send_to_controller": self.controller,
            "draw_producer_id": lambda: 7,
        }
        self.handlers = build_handler_registry(BrokerParts(**parts))

    def controller(self, payload: Any, timeout_ms: int, done: Any) -> None:
        """Records what is forwarded to the controller, and does not respond."""
        self.forwarded.append(payload)

    def set_acl(self, key: str, rule: str | None) -> None:
        self.image.apply(AccessChanged("acl", key, 1, parse(rule).to_json() if rule else None))
        self.authorizer.on_acls_changed()

    def allow(self, *rules: str) -> None:
        for rule in rules:
            self.set_acl(rule, f"allow User:alice * {rule}")

    def send(self, key: int, version: int, body: Any, principal: str = "User:alice") -> Connection:
        """As the dispatcher: the handler gets the body that the client sent, and does not change it."""
        connection = Connection()
        header = framing.RequestHeader(key, version, 7, "c")
        request = Request(connection, None, header, body, Session("PLAINTEXT", principal))  # type: ignore[arg-type]
        before = repr(body)
        self.authorizer.require(request)
        self.handlers[key](request)
        assert request.body is body and repr(body) == before
        return connection

    def send_request(self, key: int, version: int, body: Any, principal: str = "User:alice") -> Any:
        """The decoded response."""
        return respond(self.send(key, version, body, principal), key, version)


def respond(connection: Connection, key: int, version: int) -> Any:
    assert connection.parts is not None and not connection.closed
    parts = [bytes(p.length) if isinstance(p, framing.FileRegion) else p for p in connection.parts]
    return framing.decode_response(key, version, memoryview(b"".join(map(bytes, parts)))[4:])[1]
