"""Sends one request to the leaders of a front topic's partitions, because only they know its waiting messages.

Invariant: a read waits at most a few seconds, and a partition without a response has its reason. Does not contain: the content of the requests
(`half_messages`, `delayed_messages`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from controlplane.clients.all_brokers import BrokerAddress, call_brokers
from controlplane.clients.connection import Declined, KafkaConnection
from controlplane.models import Broker, ObservedPartition, Topic
from weir_common.phrases import sentence

T = TypeVar("T")
K = TypeVar("K", int, tuple[str, int])
"""A partition: its index, or (topic, index)."""


@dataclass(frozen=True, slots=True)
class MissingPartition:
    """A partition whose messages are unknown now, and the reason."""

    partition: int
    problem: str


@dataclass(frozen=True, slots=True)
class LeaderProblem:
    """The leader of a partition gave no response."""

    problem: str


def front_of(topic: str, name: str, marker: str) -> str | None:
    """The front topic `name` of this topic, if it has one. `marker`: the config that names its topic."""
    row = Topic.objects.filter(name=name, deleted_at__isnull=True).first()
    return row.name if row is not None and row.configs.get(marker) == topic else None


def topic_with_front(topic: str, name_of: Callable[[str], str], marker: str) -> str | None:
    """The topic itself if it has a front topic, or the topic of which it is the front topic. `name_of`: the name of a topic's front topic."""
    rows = {t.name: t for t in Topic.objects.filter(name__in=(topic, name_of(topic)), deleted_at__isnull=True)}
    front = rows.get(name_of(topic))
    if front is not None and front.configs.get(marker) == topic:
        return topic
    source = str(rows[topic].configs.get(marker) or "") if topic in rows else ""
    return source if source and name_of(source) == topic else None


def leaders_of(front: str, partition: int | None = None) -> dict[int, int | None]:
    """{partition: broker, or None without a leader} of all partitions, or of this one."""
    rows = ObservedPartition.objects.filter(topic__name=front).order_by("index")
    if partition is not None:
        rows = rows.filter(index=partition)
    return dict(rows.values_list("index", "leader"))


def leader_responses(
    leaders: Mapping[K, int | None], call: Callable[[KafkaConnection, K], T]
) -> dict[K, T | LeaderProblem]:
    """The response of each partition's leader. `leaders`: {partition: broker, or None without a leader}. `call` gets a connection to the leader and the
    partition, and must not use the database."""
    responses: dict[K, T | LeaderProblem] = dict.fromkeys(
        sorted(leaders), LeaderProblem("The partition has no leader.")
    )
    brokers = Broker.objects.filter(broker_id__in={b for b in leaders.values() if b is not None})
    addresses = [BrokerAddress(b.broker_id, b.host, b.port) for b in brokers]
    own = {(a.host, a.port): [i for i, leader in leaders.items() if leader == a.broker_id] for a in addresses}

    def call_each(connection: KafkaConnection) -> dict[K, T | LeaderProblem]:
        found: dict[K, T | LeaderProblem] = {}
        for index in own[connection.host, connection.port]:
            try:
                found[index] = call(connection, index)
            except Declined as e:
                found[index] = LeaderProblem(sentence("Its leader rejected the request: {error}.", error=e))
        return found

    for address, response in zip(addresses, call_brokers(addresses, call_each), strict=True):
        if response.value is not None:
            responses |= response.value
        else:
            responses |= dict.fromkeys(own[address.host, address.port], LeaderProblem(response.problem))
    return responses
