"""The difference of two states is the sum of what the records between them change, if none of them is reversed."""

from __future__ import annotations

from copy import deepcopy
from typing import Any
from uuid import uuid4

import pytest

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import (
    AccessChanged,
    BrokerConfigChanged,
    BrokerDown,
    BrokerUp,
    FeatureFinalised,
    MetadataRecord,
    PartitionChanged,
    PartitionsGrown,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
    TopicReady,
)
from brokerd.cluster.model import PartitionState, ReplicaIncarnation
from controlplane.domain.cluster_difference import DifferenceKind, differences, record_differences

TOPIC, OTHER = uuid4(), uuid4()


def state(leader: int, isr: tuple[int, ...], **more: Any) -> PartitionState:
    members = tuple(ReplicaIncarnation(b, 100 + b) for b in isr)
    return PartitionState(**{"replicas": (1, 2), "isr": members, "leader": leader, "leader_broker_epoch": 100} | more)


def base() -> Image:
    image = Image(cluster_id="c")
    for record in (
        BrokerUp(1, 101, "u1", "host", 9001),
        BrokerUp(2, 102, "u2", "host", 9002),
        TopicCreated(TOPIC, "t", 1, {"retention.ms": "1"}, 2),
        PartitionChanged(TOPIC, 0, state(1, (1, 2))),
        PartitionChanged(TOPIC, 1, state(2, (1, 2))),
        BrokerConfigChanged(1, 1, {"a": "1"}),
        AccessChanged("quota", "q", 1, {"rate": 1}),
        FeatureFinalised("f", 1),
    ):
        image.apply(record)
    return image


@pytest.mark.parametrize(
    ("record", "found"),
    [
        (BrokerDown(2, 102), [("broker", "broker 2", "alive, host:9002", "down, host:9002")]),
        (BrokerDown(2, 99), []),
        (BrokerUp(3, 103, "u3", "host", 9003), [("broker", "broker 3", None, "alive, host:9003")]),
        (PartitionChanged(TOPIC, 0, state(2, (2,))), [("leader", "t-0", "1", "2"), ("isr_shrink", "t-0", "1, 2", "2")]),
        (PartitionChanged(TOPIC, 0, state(-1, (1, 2))), [("leader", "t-0", "1", "none")]),
        (
            PartitionChanged(TOPIC, 0, state(1, (1, 3), replicas=(1, 2, 3), adding=(3,), removing=(2,))),
            [
                ("isr_shrink", "t-0", "1, 2", "1, 3"),
                ("isr_expand", "t-0", "1, 2", "1, 3"),
                ("placement", "t-0", "1, 2", "1, 2-, 3+"),
            ],
        ),
        (
            PartitionChanged(TOPIC, 0, state(1, (1, 2), observers=(4,))),
            [("placement", "t-0", "1, 2", "1, 2 observers 4")],
        ),
        (TopicCreated(OTHER, "new", 1, {}, 1), [("topic", "new", None, "1 partition")]),
        (TopicReady(TOPIC), []),
        (TopicDeleted(TOPIC, "t", 2), [("topic", "t", "2 partitions", None)]),
        (PartitionsGrown(TOPIC, 2, 3), [("topic", "t", "2 partitions", "3 partitions")]),
        (
            TopicConfigChanged(TOPIC, 2, {"retention.ms": "2", "x": "y"}),
            [("topic_config", "t: retention.ms", "1", "2"), ("topic_config", "t: x", None, "y")],
        ),
        (BrokerConfigChanged(1, 2, {}), [("broker_config", "broker 1: a", "1", None)]),
        (AccessChanged("quota", "q", 2, None), [("access", "quota q", '{"rate": 1}', None)]),
        (AccessChanged("scram", "alice", 2, {}), [("access", "scram alice", None, "version 2")]),
        (FeatureFinalised("f", 2), [("feature", "f", "1", "2")]),
        (FeatureFinalised("f", 1), []),
    ],
)
def test_each_record_is_a_difference_of_the_states_around_it(
    record: MetadataRecord, found: list[tuple[str, str, str | None, str | None]]
) -> None:
    before = base()
    after = deepcopy(before)
    after.apply(record)
    for rows in (record_differences(before, record), differences(before, after)):
        assert [(d.kind, d.subject, d.before, d.after) for d in rows] == found
    assert list(differences(before, before)) == []


def test_a_restart_and_a_config_of_all_brokers_are_in_words() -> None:
    (restart,) = record_differences(base(), BrokerUp(1, 201, "u1", "host", 9001))
    assert (restart.kind, restart.before, restart.after) == (
        DifferenceKind.BROKER,
        "broker epoch 101",
        "restarted, broker epoch 201",
    )
    (config,) = record_differences(base(), BrokerConfigChanged(-1, 1, {"b": "2"}))
    assert (config.kind, config.subject, config.after) == (DifferenceKind.BROKER_CONFIG, "all brokers: b", "2")


def test_partitions_name_all_brokers_that_had_a_replica() -> None:
    (row,) = record_differences(base(), PartitionChanged(TOPIC, 0, state(1, (1, 2), replicas=(1, 2, 3))))
    assert (row.kind, row.brokers, row.topic, row.partition) == (DifferenceKind.PLACEMENT, {1, 2, 3}, "t", 0)
