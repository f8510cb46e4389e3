"""First use: topics are created through a broker that has just started, in a cluster with an empty ZooKeeper. 200 starts."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

from brokerd.cluster.requests import CreateTopics, ForwardedRequest
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from controlplane.controller.events import DesiredRead, DesiredTopic
from tests.simulation.clients import Client
from tests.simulation.cluster import Cluster
from tests.simulation.world import World

SEEDS = range(1, 201)


class Rows:
    """The database's part of CreateTopics: one row per topic, read again by the controller."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def write(self, request: ForwardedRequest) -> None:
        assert isinstance(request.payload, CreateTopics) and self._cluster.acting is not None
        rows = tuple(
            DesiredTopic(
                UUID(int=self._cluster.world.rng.getrandbits(128)),
                t.name,
                1,
                False,
                t.partitions,
                t.replication_factor,
                {k: v for k, v in t.configs.items() if v is not None},
                request_id=request.request_id,
            )
            for t in request.payload.items
        )
        self._cluster.acting.deliver(DesiredRead(rows))


TIMEOUT_MS = 30_000


def create_first_topic(seed: int) -> str:
    """The error and message of the response to the first CreateTopics; empty if the topic was created."""
    world = World(seed)
    cluster = Cluster(world, brokers=1, controllers=1)
    cluster.controllers[0].database.write = Rows(cluster).write  # type: ignore[method-assign]
    client = Client(cluster, "client")
    topic = m.CreateTopicsRequest.CreatableTopic(name="first", num_partitions=1, replication_factor=1)
    body = m.CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
    responses: list[Any] = []

    def send_request() -> None:
        """Retries until a broker accepts connections, like a client that bootstraps."""
        client.send_request(1, ApiKey.CREATE_TOPICS, 7, body, on_response)

    def on_response(response: Any) -> None:
        if response is None:
            client.call_later(send_request, world.between(0, 5))
        else:
            responses.append(response.topics[0])

    client.enter(send_request)
    cluster.run_until(lambda: bool(responses), 60, "a response")
    if not responses[0].error_code:
        cluster.run_until(lambda: cluster.image.topic_named("first") is not None, 10, "the topic")
    return f"{responses[0].error_code} {responses[0].error_message}" if responses[0].error_code else ""


def test_the_first_request_of_a_new_cluster_is_carried_out() -> None:
    rejected = Counter(filter(None, map(create_first_topic, SEEDS)))
    assert not rejected, f"of {len(SEEDS)} first requests {rejected.total()} were rejected: {rejected}"
