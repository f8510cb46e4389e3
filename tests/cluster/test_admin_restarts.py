"""Admin changes that need a moved leader or a restarted broker, on their own cluster.

Checks: a preferred leader election with an effect, broker settings that survive a restart. Does not check rows (test_control_plane.py) or what else
survives a kill (test_failover.py).
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigSource, ResourceType
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonPartition

from brokerd.cluster.model import PartitionState
from controlplane.controller import core
from tests.cluster.local import LocalCluster, wait_for
from tests.cluster.test_admin import alter, alter_all, create_topic, entries

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Its controller does not restore preferred leaders automatically."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "PREFERRED_EVERY_MS", 3_600_000)
        with LocalCluster(tmp_path_factory.mktemp("cluster")) as running:
            yield running


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> AdminClient:
    client = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    all_in_metadata(client)
    return client


def all_in_metadata(client: AdminClient) -> None:
    """Wait until a response with all metadata names every broker: librdkafka drops a broker that a metadata response did not name, and refreshes all metadata
    every five minutes only. Until then a request for that broker times out (the same with Apache Kafka: docs/clients.md)."""
    wait_for(lambda: set(client.list_topics(timeout=10).brokers) == {1, 2, 3}, "all brokers to be in the metadata")


def partition(cluster: LocalCluster, topic: str) -> PartitionState:
    state = cluster.image.topic_named(topic)
    assert state is not None
    return state.partitions[0]


def test_a_client_reassigns_a_partition_and_elects_its_preferred_leader(
    cluster: LocalCluster, admin: AdminClient
) -> None:
    topic = create_topic(admin, "elected", [[1, 2]])
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    client.alter_partition_reassignments({PythonPartition(topic, 0): [3, 1]})
    wait_for(
        lambda: set(partition(cluster, topic).isr_ids) == {1, 3} and not partition(cluster, topic).reassigning,
        "the move",
    )
    assert (partition(cluster, topic).replicas, partition(cluster, topic).leader) == ((3, 1), 1)
    client.close()
    before = partition(cluster, topic).leader_epoch
    requested = [TopicPartition(topic, 0)]
    assert list(admin.elect_leaders(ElectionType.PREFERRED, requested).result(60).values()) == [None]
    after = wait_for(
        lambda: state if (state := partition(cluster, topic)).leader == 3 else None, "the image to have the new leader"
    )
    assert after.leader_epoch == before + 1
    wait_for(
        lambda: admin.list_topics(topic, timeout=30).topics[topic].partitions[0].leader == 3,
        "clients to see the new leader",
    )


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_broker_settings_survive_a_restart(cluster: LocalCluster, admin: AdminClient, how: signal.Signals) -> None:
    alter(admin, ResourceType.BROKER, "2", num_partitions="7")
    assert alter_all(cluster, message_max_bytes="900000") == 0
    cluster.kill("broker-2", how)
    cluster.start_broker(2)
    wait_for(lambda: cluster.listening(2), "broker 2 to be back")
    all_in_metadata(admin)
    shown = entries(admin, ResourceType.BROKER, "2")
    assert {n: (shown[n].value, shown[n].source) for n in ("num.partitions", "message.max.bytes")} == {
        "num.partitions": ("7", ConfigSource.DYNAMIC_BROKER_CONFIG.value),
        "message.max.bytes": ("900000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value),
    }
