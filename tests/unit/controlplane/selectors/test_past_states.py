"""States of the cluster at earlier times: brokers, partitions, configs."""

from __future__ import annotations

import pytest

from brokerd.cluster.metadata import BrokerConfigChanged, TopicConfigChanged
from controlplane.selectors.cluster_history import moment
from controlplane.selectors.past_states import past_cluster, past_configs, past_partitions
from tests.unit.controlplane.metadata_log import KeptLog, flights, time_at
from tests.unit.controlplane.selectors.test_cluster_history import leaders

pytestmark = pytest.mark.django_db


def test_each_minute_has_its_leaders_and_isr() -> None:
    flights(KeptLog())
    assert leaders(0.5) == []
    assert leaders(9.9) == [(1, [1, 2]), (2, [2, 3])]
    assert leaders(10) == [(1, [1]), (3, [3])]
    assert leaders(25) == [(1, [1, 2]), (3, [3])]
    cluster = past_cluster(moment(time_at(12)))
    assert [(b.broker_id, b.alive, b.leaders, b.out_of_sync) for b in cluster.brokers] == [
        (1, True, 1, 0),
        (2, False, 0, 2),
        (3, True, 1, 0),
    ]
    assert (cluster.under_replicated, cluster.offline, cluster.entry_at) == (2, 0, time_at(10))


def test_filters_by_topic_broker_and_problem() -> None:
    log = KeptLog()
    flights(log)
    log.topic(31, "orders", (3,))
    log.state(32, "orders", 0, -1, (), elr=(3,))
    log.keep(33)
    found = moment(time_at(32))
    rows = past_partitions(found, broker=3).rows
    assert [(p.topic, p.index, p.offline) for p in rows] == [("flights", 1, False), ("orders", 0, True)]
    assert [(p.topic, p.index) for p in past_partitions(found, state="problems").rows] == [
        ("flights", 1),
        ("orders", 0),
    ]
    page = past_partitions(found, topic="FLI", per_page=1, page=2)
    assert (page.total, page.pages, page.rows[0].index) == (2, 2, 1)


def test_configs_of_topics_and_brokers() -> None:
    log = KeptLog()
    flights(log)
    log.write(
        40,
        TopicConfigChanged(log.topics["flights"], 2, {"retention.ms": "90000"}),
        BrokerConfigChanged(-1, 1, {"log.retention.ms": "5"}),
        BrokerConfigChanged(2, 1, {"x": "y"}),
    )
    log.keep()
    rows = [(c.subject, c.name, c.value) for c in past_configs(moment(time_at(40))).rows]
    assert rows == [
        ("broker:default", "log.retention.ms", "5"),
        ("broker:2", "x", "y"),
        ("topic:flights", "retention.ms", "90000"),
    ]
    assert [c.value for c in past_configs(moment(time_at(30)), topic="flights").rows] == ["60000"]
    assert [c.subject for c in past_configs(moment(time_at(40)), broker=2).rows] == ["broker:2"]
