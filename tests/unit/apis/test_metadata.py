"""Metadata and DescribeCluster: the listed brokers, also in responses of a broker that is not in the metadata log yet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.apis.metadata import MetadataApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.cluster.image import Image
from brokerd.cluster.model import BrokerState, Endpoint
from brokerd.wire import framing
from brokerd.wire.apis import ApiKey
from brokerd.wire.messages import DescribeClusterRequest, MetadataRequest

OWN = (Endpoint("CLIENTS", "here", 9093), Endpoint("BROKERS", "inside", 9094))


class Config(dict[str, Any]):
    broker_id = 2


def broker_state(broker_id: int, *, alive: bool = True) -> BrokerState:
    return BrokerState(broker_id, 10 + broker_id, "u", "there", 9092, alive=alive)


def request_metadata(image: Image, listener: str, *, cluster: bool) -> Any:
    responses: list[Any] = []
    api = MetadataApi(SimpleNamespace(), Config({"broker.rack": "r1"}), OWN, lambda: image, lambda *_: None, ALLOW_ALL)  # type: ignore[arg-type]
    version = 1 if cluster else 9
    body = DescribeClusterRequest(endpoint_type=1) if cluster else MetadataRequest(topics=[])
    request: Any = SimpleNamespace(
        body=body, listener=listener, header=SimpleNamespace(api_version=version), reply=responses.append
    )
    (api.describe_cluster if cluster else api.metadata)(request)
    return responses[0]


@pytest.mark.parametrize("cluster", [True, False])
@pytest.mark.parametrize(
    "others", [[], [broker_state(1), broker_state(3)], [broker_state(1), broker_state(2, alive=False), broker_state(3)]]
)
def test_the_responding_broker_is_in_the_broker_list_and_is_the_controller(
    cluster: bool, others: list[BrokerState]
) -> None:
    """A broker's listener is open before the broker is registered. librdkafka waits five minutes if the controller is
    not among the listed brokers."""
    image = Image(cluster_id="c", brokers={b.broker_id: b for b in others})
    for listener, address in (("CLIENTS", ("here", 9093)), ("BROKERS", ("inside", 9094))):
        response = request_metadata(image, listener, cluster=cluster)
        named = {b.broker_id if cluster else b.node_id: (b.host, b.port, b.rack) for b in response.brokers}
        assert named.pop(response.controller_id) == (*address, "r1")
        assert named == {b.broker_id: ("there", 9092, None) for b in others if b.alive}


@pytest.mark.parametrize("cluster", [True, False])
def test_a_registered_broker_is_listed_once_as_in_the_metadata_log(cluster: bool) -> None:
    image = Image(cluster_id="c", brokers={2: broker_state(2), 1: broker_state(1)})
    response = request_metadata(image, "CLIENTS", cluster=cluster)
    assert [(b.broker_id if cluster else b.node_id, b.host) for b in response.brokers] == [(1, "there"), (2, "there")]


def fenced_brokers(image: Image, version: int, include: bool) -> dict[int, bool]:
    """Whether each broker of the response of this version is fenced, as a client decodes it."""
    responses: list[Any] = []
    api = MetadataApi(SimpleNamespace(), Config({"broker.rack": "r1"}), OWN, lambda: image, lambda *_: None, ALLOW_ALL)  # type: ignore[arg-type]
    sent = DescribeClusterRequest(endpoint_type=1, include_fenced_brokers=include and version >= 2)
    frame = framing.encode_request(ApiKey.DESCRIBE_CLUSTER, version, 1, None, sent)
    _, body = framing.decode_request(memoryview(frame)[4:])
    request: Any = SimpleNamespace(
        body=body, listener="CLIENTS", header=SimpleNamespace(api_version=version), reply=responses.append
    )
    api.describe_cluster(request)
    parts = framing.encode_response(ApiKey.DESCRIBE_CLUSTER, version, 1, responses[0])
    _, found = framing.decode_response(ApiKey.DESCRIBE_CLUSTER, version, memoryview(b"".join(map(bytes, parts)))[4:])  # type: ignore[arg-type]
    return {b.broker_id: b.is_fenced for b in found.brokers}


def test_brokers_that_are_down_are_listed_as_fenced_where_they_are_requested() -> None:
    """KIP-1073. The broker that answers is never fenced, also before its registration is in the log."""
    image = Image(
        cluster_id="c", brokers={1: broker_state(1), 2: broker_state(2, alive=False), 3: broker_state(3, alive=False)}
    )
    assert fenced_brokers(image, 2, include=True) == {1: False, 2: False, 3: True}
    for version in (0, 1, 2):
        assert fenced_brokers(image, version, include=False) == {1: False, 2: False}
