"""A route with a principal on real processes with an authorizer: ACLs are added and removed while it runs and a leader is killed, and a quota delays it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaConsumer
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from brokerd.cluster.metadata import AccessKind
from brokerd.cluster.quota_entities import PRODUCE, USER, entity_key
from brokerd.cluster.routes import route_group
from tests.cluster.local import LocalCluster, wait_for
from tests.cluster.test_routes import PARTITIONS, Target, create, declare, producer

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
READ, WRITE = AclOperation.READ, AclOperation.WRITE


@pytest.fixture
def states_of(cluster: LocalCluster) -> Iterator[Callable[[str, str], RouteStates]]:
    """Makes the reader of a route and its source; it is closed at the end."""
    with ExitStack() as stack:
        yield lambda route, source: stack.enter_context(closing(RouteStates(cluster, route, source)))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("permissions"), 3, settings=SETTINGS) as running:
        yield running


def admin(cluster: LocalCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})


def acl(user: str, operation: AclOperation, topic: str, kind: Any = AclBinding) -> Any:
    place = ResourceType.TOPIC, topic, ResourcePatternType.LITERAL
    return kind(*place, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


def allow(cluster: LocalCluster, user: str, operation: AclOperation, topic: str) -> None:
    client = admin(cluster)  # it must outlive its futures
    for future in client.create_acls([acl(user, operation, topic)]).values():
        future.result(60)


def deny(cluster: LocalCluster, user: str, operation: AclOperation, topic: str) -> None:
    client = admin(cluster)
    for future in client.delete_acls([acl(user, operation, topic, AclBindingFilter)]).values():
        future.result(60)


class RouteStates:
    """The states that the brokers commit with the positions. confluent-kafka 2.16 reads beyond the end of the metadata."""

    def __init__(self, cluster: LocalCluster, route: str, source: str) -> None:
        addresses, group = cluster.bootstrap.split(","), route_group(route)
        self._consumer = KafkaConsumer(bootstrap_servers=addresses, group_id=group, enable_auto_commit=False)
        self._partitions = [TopicPartition(source, p) for p in range(PARTITIONS)]

    def close(self) -> None:
        self._consumer.close()

    def read(self) -> list[dict[str, Any]]:
        try:
            found = [self._consumer.committed(p, metadata=True) for p in self._partitions]
        except KafkaError:  # a coordinator that was killed
            return []
        return [json.loads(c.metadata) for c in found if c is not None and c.metadata]

    def wait(self, condition: Callable[[dict[str, Any]], bool], what: str) -> None:
        wait_for(lambda: any(condition(s) for s in self.read()), what, 90)


def problem(topic: str, code: str) -> Callable[[dict[str, Any]], bool]:
    denied = [topic, code, "TOPIC_AUTHORIZATION_FAILED"]
    return lambda state: state["state"] == "blocked" and denied in state["problems"]


def test_a_route_waits_for_its_permissions_and_loses_no_record(
    cluster: LocalCluster, states_of: Callable[[str, str], RouteStates]
) -> None:
    create(cluster, "orders", "paid", "copies")
    bindings = (
        {"target": "paid", "match": {"kind": "pattern", "value": "paid.#"}},
        {"target": "copies", "match": {"kind": "all"}},
    )
    declare(cluster, "r", "orders", *bindings, principal="User:router")
    writer, states = producer(cluster), states_of("r", "orders")
    written = 0

    def write(count: int) -> None:
        nonlocal written
        for _ in range(count):
            writer.produce("orders", str(written), key=f"{('paid', 'open')[written % 2]}.{written % 7}")
            written += 1
        assert writer.flush(60) == 0

    copies = Target(cluster, "copies")
    write(100)
    states.wait(problem("orders", "source_not_authorized"), "the missing permission of the source")
    allow(cluster, "router", READ, "orders")
    states.wait(problem("paid", "target_not_authorized"), "the missing permission of a target")
    allow(cluster, "router", WRITE, "copies")
    copies.check({str(n) for n in range(written)})

    deny(cluster, "router", WRITE, "copies")
    write(100)
    states.wait(problem("copies", "target_not_authorized"), "the removed permission")
    topic = cluster.image.topic_named("orders")
    assert topic is not None
    victim = topic.partitions[0].leader
    cluster.kill(f"broker-{victim}")
    write(100)
    cluster.start_broker(victim)
    until = time.monotonic() + 5
    while time.monotonic() < until:
        copies.poll()
    assert len(copies.values) == 100, "nothing is written without permission, before and after an election"

    allow(cluster, "router", WRITE, "paid")
    Target(cluster, "paid").check({str(n) for n in range(0, written, 2)})
    allow(cluster, "router", WRITE, "copies")
    copies.check({str(n) for n in range(written)})
    states.wait(lambda state: state["state"] == "running" and not state["problems"], "the route without problems")


def test_a_route_waits_for_the_quota_of_its_principal(
    cluster: LocalCluster, states_of: Callable[[str, str], RouteStates]
) -> None:
    create(cluster, "events", "archive")
    for operation, topic in ((READ, "events"), (WRITE, "archive")):
        allow(cluster, "slow", operation, topic)
    cluster.rows.declare(AccessKind.QUOTA, entity_key({USER: "slow"}), {PRODUCE: 100_000.0})
    wait_for(lambda: cluster.image.access_to(AccessKind.QUOTA, entity_key({USER: "slow"}))[1], "the quota")
    declare(cluster, "q", "events", {"target": "archive", "match": {"kind": "all"}}, principal="User:slow")
    writer, states = producer(cluster), states_of("q", "events")
    for n in range(250):
        writer.produce("events", str(n), key="k", headers=[("content", os.urandom(10_000))])
    assert writer.flush(60) == 0
    began = time.monotonic()
    states.wait(lambda state: state["state"] == "throttled", "the throttled state")
    Target(cluster, "archive").check({str(n) for n in range(250)})
    # 2.5 MB: the rate is measured over ten seconds, so that the first MB is written at once.
    assert time.monotonic() - began > 8
