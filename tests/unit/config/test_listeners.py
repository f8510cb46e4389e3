"""Several listeners: metadata responses contain the endpoints of the client's listener, registrations contain all endpoints."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest

from brokerd.apis.metadata import MetadataApi
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import BrokerUp, record_from_json, record_to_json
from brokerd.cluster.model import Endpoint, PartitionState, ReplicaIncarnation, TopicState
from brokerd.cluster.znodes import Registration
from brokerd.config.broker import BrokerConfig
from brokerd.config.listeners import parse_listeners
from tests.unit.apis.test_metadata import request_metadata

INSIDE, OUTSIDE = Endpoint("INSIDE", "10.0.0.1", 9092), Endpoint("OUTSIDE", "broker.example.org", 19092, "SASL_SSL")
GIVEN = {
    "broker.id": "1",
    "log.dirs": "/tmp/x",
    "listeners": "INSIDE://10.0.0.1:9092, OUTSIDE://[::]:19092",
    "advertised.listeners": "INSIDE://10.0.0.1:9092,OUTSIDE://broker.example.org:19092",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SASL_SSL",
    "inter.broker.listener.name": "inside",
}


def test_each_listener_has_a_name_a_protocol_and_an_advertised_address() -> None:
    config = BrokerConfig.parse(GIVEN)
    inside, outside = config.listeners
    assert (inside.endpoint(9092), outside.endpoint(19092)) == (INSIDE, OUTSIDE)
    assert (inside.tls, inside.sasl, outside.tls, outside.sasl) == (False, False, True, True)
    assert config.inter_broker is inside
    assert outside.host == "::"


def test_an_ephemeral_port_is_advertised_as_bound() -> None:
    (listener,) = BrokerConfig.parse({"broker.id": "1", "log.dirs": "/x", "listeners": "127.0.0.1:0"}).listeners
    assert listener.endpoint(41234) == Endpoint("PLAINTEXT", "127.0.0.1", 41234)


@pytest.mark.parametrize(
    ("text", "listeners"),
    [
        ("PLAINTEXT://127.0.0.1:9092", (("PLAINTEXT", "127.0.0.1", 9092),)),
        ("A://[::1]:1,B://host:2", (("A", "::1", 1), ("B", "host", 2))),
    ],
)
def test_listeners_are_parsed(text: str, listeners: tuple[tuple[str, str, int], ...]) -> None:
    assert parse_listeners(text) == listeners


def broker_up(broker_id: int, *endpoints: Endpoint) -> BrokerUp:
    return BrokerUp(broker_id, 1, "uuid", f"10.0.0.{broker_id}", 9092, endpoints=endpoints)


def test_a_metadata_response_contains_endpoints_of_the_clients_listener() -> None:
    image = Image()
    image.apply(broker_up(1, INSIDE, OUTSIDE))
    image.apply(broker_up(2, INSIDE._replace(host="10.0.0.2")))
    image.apply(broker_up(3))  # an older broker: one listener without a name
    outside, inside = (request_metadata(image, listener, cluster=False).brokers for listener in ("OUTSIDE", "INSIDE"))
    assert [(b.node_id, b.host, b.port) for b in outside] == [(1, "broker.example.org", 19092), (3, "10.0.0.3", 9092)]
    assert [b.host for b in inside] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]


@pytest.mark.parametrize(("version", "error"), [(5, 5), (6, 72)])
def test_a_leader_without_the_clients_listener_is_not_returned(version: int, error: int) -> None:
    image = Image()
    image.apply(broker_up(2, INSIDE))
    topic = TopicState(UUID(int=1), "t", 1, {}, 1, True, {0: PartitionState((2,), (ReplicaIncarnation(2, 1),), 2, 1)})
    shown = MetadataApi._topic(image, topic, version, "OUTSIDE").partitions[0]
    assert (shown.error_code, shown.leader_id) == (error, -1)
    assert MetadataApi._topic(image, topic, version, "INSIDE").partitions[0].leader_id == 2


def test_registrations_and_records_contain_all_endpoints_and_are_readable_without_them() -> None:
    me = Registration(1, "uuid", "10.0.0.1", 9092, None, None, True, endpoints=(INSIDE, OUTSIDE))
    assert Registration.decode(me.encode(), -1) == me
    record = broker_up(1, INSIDE, OUTSIDE)
    assert record_from_json(cast("dict[str, Any]", record_to_json(record))) == record
    older = {k: v for k, v in record_to_json(record).items() if k != "endpoints"}
    assert record_from_json(older) == broker_up(1)
    image = Image()
    image.apply(record)
    again = Image.from_records(image.records(), 1, "", 1)
    assert again.brokers[1].endpoints == (INSIDE, OUTSIDE)


class FakeSockets:
    """Fake sockets: return the requested port."""

    loop = type("Loop", (), {"every": lambda *a: None})()

    def listen(self, host: str, port: int, on_frame: Any, **limits: Any) -> Any:
        return type("Listening", (), {"port": port})()
