"""Coordinators of a broker: changes of leadership, records of the metadata log, the address of a key's coordinator."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, call
from uuid import UUID

import pytest

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import (
    AccessChanged,
    AccessKind,
    BrokerUp,
    ClusterCreated,
    PartitionChanged,
    TopicCreated,
    TopicDeleted,
    TopicReady,
)
from brokerd.cluster.model import (
    GROUP_OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    Endpoint,
    Now,
    PartitionState,
    ReplicaIncarnation,
)
from brokerd.config.broker import BrokerConfig
from brokerd.runtime.coordinators import Coordinators

NOW, OFFSETS = Now(5, 5), UUID(int=9)


def image() -> Image:
    built = Image()
    for record in (
        ClusterCreated("c"),
        BrokerUp(3, 33, "u", "host", 9092, endpoints=(Endpoint("CLIENTS", "host", 9092, "PLAINTEXT"),)),
        TopicCreated(OFFSETS, GROUP_OFFSETS_TOPIC, 1, {}, 1),
        PartitionChanged(OFFSETS, 0, PartitionState((3,), (ReplicaIncarnation(3, 33),), 3, 33)),
        TopicReady(OFFSETS),
    ):
        built.apply(record)
    return built


@pytest.fixture
def coordinators(tmp_path: Path) -> Coordinators:
    config = BrokerConfig.parse({"broker.id": "3", "log.dirs": str(tmp_path), "listeners": "127.0.0.1:0"})
    other: Any = SimpleNamespace(image=image(), topic_config=None)
    nothing: Any = SimpleNamespace()
    peer: Any = SimpleNamespace(send_request=None)
    return Coordinators(config, other, nothing, lambda: NOW, nothing, nothing, peer, nothing, lambda: "id", nothing)


def test_each_coordinator_gets_its_own_topic(coordinators: Coordinators) -> None:
    groups, transactions, share_states = Mock(), Mock(), Mock()
    coordinators.groups, coordinators.transactions, coordinators.share_states = groups, transactions, share_states
    for topic in (GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC, "orders"):
        coordinators.on_election(topic, 7, 4, NOW)
        coordinators.on_resignation(topic, 7, NOW)
    for one in (groups, transactions, share_states):
        assert one.mock_calls == [call.on_election(7, 4, NOW), call.on_resignation(7, NOW)]


def test_groups_receive_changed_configs_and_deleted_topics(coordinators: Coordinators) -> None:
    groups = Mock()
    coordinators.groups, version = groups, coordinators.topics.version
    coordinators.entry_applied(
        [
            AccessChanged(AccessKind.GROUP, "readers", 1, {}),
            AccessChanged(AccessKind.ACL, "rule", 1, {}),
            TopicDeleted(UUID(int=2), "orders", 1),
        ]
    )
    assert groups.mock_calls == [call.group_config_changed("readers"), call.topic_deleted("orders")]
    assert coordinators.topics.version == version + 1
    coordinators.image_loaded()
    assert coordinators.topics.version == version + 2


def test_the_coordinator_of_a_key_is_a_leader_that_is_alive(coordinators: Coordinators) -> None:
    assert coordinators.find(GROUP_OFFSETS_TOPIC, "readers", "CLIENTS") == (3, "host", 9092)
    assert coordinators.find(TRANSACTION_STATE_TOPIC, "readers", "CLIENTS") is None, "the topic does not exist"
    assert coordinators._leader_of(GROUP_OFFSETS_TOPIC, 0) == 3
    assert coordinators.endpoint(3, "CLIENTS") == ("host", 9092, None)
    assert coordinators.endpoint(3, "OTHER") is None is coordinators.endpoint(4, "CLIENTS")
    assert coordinators._leader_of(GROUP_OFFSETS_TOPIC, 1) is None
