"""What an administrator set and elected, where it takes a moved leader or a broker that starts again: on a cluster of its own.

Checks: a preferred election where it is needed, settings of brokers that outlive a restart. Does not check rows (test_control_plane.py) nor what else
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
from tests.cluster.test_admin import alter, alter_all, entries, made

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Its controller puts no leader back by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "PREFERRED_EVERY_MS", 3_600_000)
        with LocalCluster(tmp_path_factory.mktemp("cluster")) as running:
            yield running


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})


def partition(cluster: LocalCluster, topic: str) -> PartitionState:
    state = cluster.image.topic_named(topic)
    assert state is not None
    return state.partitions[0]


def test_a_client_reassigns_and_the_preferred_leader_leads_once_it_is_elected(
    cluster: LocalCluster, admin: AdminClient
) -> None:
    topic = made(admin, "elected", [[1, 2]])
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    client.alter_partition_reassignments({PythonPartition(topic, 0): [3, 1]})
    wait_for(
        lambda: set(partition(cluster, topic).isr_ids) == {1, 3} and not partition(cluster, topic).reassigning,
        "the move",
    )
    assert (partition(cluster, topic).replicas, partition(cluster, topic).leader) == ((3, 1), 1)
    client.close()
    before = partition(cluster, topic).leader_epoch
    asked = [TopicPartition(topic, 0)]
    assert list(admin.elect_leaders(ElectionType.PREFERRED, asked).result(60).values()) == [None]
    after = partition(cluster, topic)
    assert (after.leader, after.leader_epoch) == (3, before + 1)
    wait_for(
        lambda: admin.list_topics(topic, timeout=30).topics[topic].partitions[0].leader == 3, "clients to hear of it"
    )


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_settings_of_brokers_outlive_a_restart(cluster: LocalCluster, admin: AdminClient, how: signal.Signals) -> None:
    alter(admin, ResourceType.BROKER, "2", num_partitions="7")
    assert alter_all(cluster, message_max_bytes="900000") == 0
    cluster.kill("broker-2", how)
    cluster.start_broker(2)
    wait_for(lambda: cluster.listening(2), "broker 2 to be back")
    # Read here, not left to chance: librdkafka drops a broker that metadata did not name and reads metadata anew every five minutes only, so that what it is
    # asked to ask of that broker waits in vain (beside Apache Kafka as well: docs/clients.md).
    wait_for(lambda: 2 in admin.list_topics(timeout=10).brokers, "broker 2 to be known again")
    shown = entries(admin, ResourceType.BROKER, "2")
    assert {n: (shown[n].value, shown[n].source) for n in ("num.partitions", "message.max.bytes")} == {
        "num.partitions": ("7", ConfigSource.DYNAMIC_BROKER_CONFIG.value),
        "message.max.bytes": ("900000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value),
    }
