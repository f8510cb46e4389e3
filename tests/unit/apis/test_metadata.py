"""Metadata and DescribeCluster: who is named, above all by a broker that nobody has heard of yet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.apis.metadata import MetadataApi
from brokerd.cluster.image import Image
from brokerd.cluster.model import BrokerState, Endpoint
from brokerd.wire.messages import DescribeClusterRequest, MetadataRequest

OWN = (Endpoint("CLIENTS", "here", 9093), Endpoint("BROKERS", "inside", 9094))


class Config(dict[str, Any]):
    broker_id = 2


def seated(broker_id: int, *, alive: bool = True) -> BrokerState:
    return BrokerState(broker_id, 10 + broker_id, "u", "there", 9092, alive=alive)


def told(image: Image, listener: str, *, cluster: bool) -> Any:
    answers: list[Any] = []
    api = MetadataApi(SimpleNamespace(), Config({"broker.rack": "r1"}), OWN, lambda: image, lambda *_: None)  # type: ignore[arg-type]
    version = 1 if cluster else 9
    body = DescribeClusterRequest(endpoint_type=1) if cluster else MetadataRequest(topics=[])
    request: Any = SimpleNamespace(
        body=body, listener=listener, header=SimpleNamespace(api_version=version), reply=answers.append
    )
    (api.describe_cluster if cluster else api.metadata)(request)
    return answers[0]


@pytest.mark.parametrize("cluster", [True, False])
@pytest.mark.parametrize("others", [[], [seated(1), seated(3)], [seated(1), seated(2, alive=False), seated(3)]])
def test_whoever_answers_is_named_among_the_brokers_and_as_the_controller(
    cluster: bool, others: list[BrokerState]
) -> None:
    """Its door is open before it has a seat. A controller that is not among the brokers keeps librdkafka waiting for five minutes."""
    image = Image(cluster_id="c", brokers={b.broker_id: b for b in others})
    for listener, address in (("CLIENTS", ("here", 9093)), ("BROKERS", ("inside", 9094))):
        answer = told(image, listener, cluster=cluster)
        named = {b.broker_id if cluster else b.node_id: (b.host, b.port, b.rack) for b in answer.brokers}
        assert named.pop(answer.controller_id) == (*address, "r1")
        assert named == {b.broker_id: ("there", 9092, None) for b in others if b.alive}


@pytest.mark.parametrize("cluster", [True, False])
def test_once_it_has_a_seat_it_is_named_once_as_the_log_knows_it(cluster: bool) -> None:
    image = Image(cluster_id="c", brokers={2: seated(2), 1: seated(1)})
    answer = told(image, "CLIENTS", cluster=cluster)
    assert [(b.broker_id if cluster else b.node_id, b.host) for b in answer.brokers] == [(1, "there"), (2, "there")]
