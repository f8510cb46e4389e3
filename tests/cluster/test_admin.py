"""The admin APIs with foreign clients: the AdminClient of confluent-kafka and of kafka-python, on one cluster.

Checks: elections, descriptions, dynamic settings, quotas, features, offsets of every kind, rejected requests. Does not check rows
(test_control_plane.py) or dead brokers: all brokers stay alive, so that the tests can run in any order.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import (
    ElectionType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonPartition
from kafka.admin import ConfigResource as PythonResource
from kafka.errors import UnsupportedVersionError

from brokerd.wire import framing
from brokerd.wire.apis import APIS, ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import AlterClientQuotasRequest, ApiVersionsRequest, IncrementalAlterConfigsRequest
from tests.cluster.local import LocalCluster, wait_for
from tests.faults.raw import RawConnection

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})


@pytest.fixture(scope="module")
def python_admin(cluster: LocalCluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    yield client
    client.close()


def create_topic(admin: AdminClient, name: str, assignment: list[list[int]], **config: str) -> str:
    topic = NewTopic(
        name, len(assignment), replica_assignment=assignment, config={k.replace("_", "."): v for k, v in config.items()}
    )
    admin.create_topics([topic])[name].result(60)
    return name


def leaders(cluster: LocalCluster, topic: str) -> list[int]:
    state = cluster.image.topic_named(topic)
    return [] if state is None else [p.leader for _, p in sorted(state.partitions.items())]


def error_of(call: Any) -> int:
    with pytest.raises(KafkaException) as raised:
        call()
    return int(raised.value.args[0].code())


def entries(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    resource = ConfigResource(kind, name)
    return dict(admin.describe_configs([resource])[resource].result(60))


def alter(admin: AdminClient, kind: ResourceType, name: str, **values: str | None) -> None:
    changes = [
        ConfigEntry(
            k.replace("_", "."),
            v,
            incremental_operation=AlterConfigOpType.SET if v is not None else AlterConfigOpType.DELETE,
        )
        for k, v in values.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=changes)
    admin.incremental_alter_configs([resource])[resource].result(60)


def alter_all(cluster: LocalCluster, **values: str | None) -> int:
    """Sets the cluster-wide default of brokers and returns Kafka's error code. confluent-kafka does not send the empty resource name."""
    r = IncrementalAlterConfigsRequest
    changes = [r.AlterableConfig(k.replace("_", "."), 0 if v is not None else 1, v) for k, v in values.items()]
    raw = RawConnection(cluster, 1)
    raw.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, r([r.AlterConfigsResource(ResourceType.BROKER.value, "", changes)]))
    (response,) = raw.receive(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1).responses
    raw.close()
    return int(response.error_code)


# -- elections -------------------------------------------------------------------------------------------------------------
def test_leaders_are_elected_preferred_and_only_where_needed(cluster: LocalCluster, admin: AdminClient) -> None:
    topic = create_topic(admin, "elected", [[1, 2, 3], [2, 3, 1]])
    response = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0), TopicPartition(topic, 9)]).result(
        60
    )
    assert {tp.partition: (e.code() if e else None) for tp, e in response.items()} == {
        0: KafkaError.ELECTION_NOT_NEEDED,
        9: KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
    response = admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition(topic, 1)]).result(60)
    assert [e.code() for e in response.values()] == [KafkaError.ELECTION_NOT_NEEDED]
    wait_for(lambda: leaders(cluster, topic) == [1, 2], "the preferred leaders")


# -- descriptions ---------------------------------------------------------------------------------------------------------
def test_describe_topics_and_cluster(cluster: LocalCluster, admin: AdminClient) -> None:
    topic = create_topic(admin, "described", [[1, 2], [3, 1]])
    described_now = admin.describe_topics(TopicCollection([topic, "no-such-topic"]), request_timeout=60)
    shown = described_now[topic].result(60)
    assert [(p.leader.id, [n.id for n in p.replicas], [n.id for n in p.isr]) for p in shown.partitions] == [
        (1, [1, 2], [1, 2]),
        (3, [3, 1], [3, 1]),
    ]
    assert error_of(lambda: described_now["no-such-topic"].result(60)) == KafkaError.UNKNOWN_TOPIC_OR_PART
    found = admin.describe_cluster(request_timeout=60).result(60)
    assert found.cluster_id == cluster.image.cluster_id
    assert sorted(n.id for n in found.nodes) == [1, 2, 3]


def test_offsets_of_every_kind(cluster: LocalCluster, admin: AdminClient) -> None:
    topic = create_topic(admin, "offsets", [[1]])
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for value, timestamp in ((b"a", 5_000), (b"b", 9_000), (b"c", 7_000)):
        producer.produce(topic, value, timestamp=timestamp, partition=0)
        producer.flush(60)
    tp = TopicPartition(topic, 0)

    def send_request(spec: OffsetSpec) -> tuple[int, int]:
        response = admin.list_offsets({tp: spec}, isolation_level=IsolationLevel.READ_COMMITTED)[tp].result(60)
        return response.offset, response.timestamp

    assert send_request(OffsetSpec.earliest())[0] == 0
    assert send_request(OffsetSpec.latest())[0] == 3
    assert send_request(OffsetSpec.max_timestamp()) == (1, 9_000)
    assert send_request(OffsetSpec.for_timestamp(6_000)) == (1, 9_000)
    assert send_request(OffsetSpec.for_timestamp(10_000))[0] == -1


# -- settings --------------------------------------------------------------------------------------------------------------
def test_broker_settings_are_described_and_changed_dynamically_for_one_broker_and_for_all(
    cluster: LocalCluster, admin: AdminClient
) -> None:
    shown = entries(admin, ResourceType.BROKER, "1")
    setting = shown["num.partitions"]
    assert (setting.value, setting.source, setting.is_read_only) == (
        "3",
        ConfigSource.STATIC_BROKER_CONFIG.value,
        False,
    )
    assert list(setting.synonyms) == ["num.partitions"]
    assert shown["broker.id"].is_read_only
    alter(admin, ResourceType.BROKER, "1", num_partitions="7")
    assert alter_all(cluster, num_partitions="5") == 0

    def described_now(name: str) -> tuple[str | None, int]:
        setting = entries(admin, ResourceType.BROKER, name)["num.partitions"]
        return setting.value, setting.source

    wait_for(lambda: described_now("1") == ("7", ConfigSource.DYNAMIC_BROKER_CONFIG.value), "broker 1's own value")
    wait_for(
        lambda: described_now("2") == ("5", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value),
        "the cluster-wide default",
    )
    assert alter_all(cluster, num_partitions=None) == 0
    alter(admin, ResourceType.BROKER, "1", num_partitions=None)
    wait_for(
        lambda: described_now("1") == ("3", ConfigSource.STATIC_BROKER_CONFIG.value), "the value of the file again"
    )


def test_a_cluster_wide_topic_default_applies_at_once_to_topics_without_an_override(
    cluster: LocalCluster, admin: AdminClient
) -> None:
    plain, own = create_topic(admin, "plain", [[1]]), create_topic(admin, "own", [[1]], max_message_bytes="2000000")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": "none", "linger.ms": 0})

    def is_rejected(topic: str) -> bool:
        verdicts: list[Any] = []
        producer.produce(topic, bytes(50_000), partition=0, on_delivery=lambda e, m: verdicts.append(e))
        producer.flush(60)
        return verdicts[0] is not None and verdicts[0].code() == KafkaError.MSG_SIZE_TOO_LARGE

    assert not is_rejected(plain)
    assert alter_all(cluster, message_max_bytes="10000") == 0
    wait_for(lambda: is_rejected(plain), "the new default")
    assert not is_rejected(own)

    def described_now() -> tuple[str | None, int]:
        entry = entries(admin, ResourceType.TOPIC, plain)["max.message.bytes"]
        return entry.value, entry.source

    # Any broker may answer: the leader has applied the change, the others apply it soon.
    wait_for(
        lambda: described_now() == ("10000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value),
        "the new default on every broker",
    )
    assert alter_all(cluster, message_max_bytes=None) == 0
    wait_for(lambda: not is_rejected(plain), "the old default")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("1", {"log_dirs": "/x"}),
        ("1", {"no_such_setting": "1"}),
        ("1", {"num_partitions": "none"}),
        ("1", {"log_retention_ms": "5"}),
    ],
)
def test_settings_that_are_not_dynamic_are_rejected_with_the_reason(
    admin: AdminClient, name: str, change: dict[str, str]
) -> None:
    with pytest.raises(KafkaException) as raised:
        alter(admin, ResourceType.BROKER, name, **change)
    assert raised.value.args[0].code() == KafkaError.INVALID_REQUEST
    assert len(raised.value.args[0].str()) > 20


def test_a_cluster_wide_default_of_unclean_leader_election_is_rejected(cluster: LocalCluster) -> None:
    assert alter_all(cluster, unclean_leader_election_enable="true") == ErrorCode.INVALID_REQUEST


def test_the_default_of_min_insync_replicas_is_set_for_all_brokers_and_never_for_one(
    cluster: LocalCluster, admin: AdminClient
) -> None:
    """The controller, the brokers and the console must use the same default (decision 038)."""
    topic = create_topic(admin, "default-min-insync", [[1, 2, 3]])

    def min_insync_config() -> tuple[str | None, int]:
        entry = entries(admin, ResourceType.TOPIC, topic)["min.insync.replicas"]
        return entry.value, entry.source

    before = min_insync_config()
    with pytest.raises(KafkaException) as raised:
        alter(admin, ResourceType.BROKER, "1", min_insync_replicas="2")
    assert raised.value.args[0].code() == KafkaError.INVALID_REQUEST
    assert alter_all(cluster, min_insync_replicas="3") == 0
    expected = ("3", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value)
    wait_for(lambda: min_insync_config() == expected, "the new default")
    assert alter_all(cluster, min_insync_replicas=None) == 0
    wait_for(lambda: min_insync_config() == before, "the old default")


# -- kafka-python ------------------------------------------------------------------------------------------------------------
def test_kafka_pythons_admin_describes_topics(admin: AdminClient, python_admin: KafkaAdminClient) -> None:
    topic = create_topic(admin, "for-python", [[2, 3], [3, 1]])

    def pages() -> list[list[tuple[int, list[int]]]]:
        pages, cursor = [], None
        while not pages or cursor is not None:
            page = python_admin.describe_topic_partitions([topic], response_partition_limit=1, cursor=cursor)
            cursor = page["next_cursor"]
            pages.append([(p["leader_id"], p["replica_nodes"]) for t in page["topics"] for p in t["partitions"]])
        return pages

    # Any broker may answer: the broker that created the topics has applied the records, the others apply them soon.
    wait_for(lambda: pages() == [[(2, [2, 3])], [(3, [3, 1])]], "one partition per page")
    assert {b["broker_id"] for b in python_admin.describe_cluster()["brokers"]} == {1, 2, 3}
    listed = {kind.upper(): names for kind, names in python_admin.list_config_resources(["TOPIC", "BROKER"]).items()}
    assert topic in listed["TOPIC"]
    assert sorted(listed["BROKER"]) == ["1", "2", "3"]
    described_now = python_admin.describe_configs([PythonResource("BROKER", "2")], config_filter="all")
    assert "num.partitions" in repr(described_now)


def test_producers_are_described_by_the_leader_and_by_a_follower(
    cluster: LocalCluster, admin: AdminClient, python_admin: KafkaAdminClient
) -> None:
    topic = create_topic(admin, "producers", [[1, 2]])
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "acks": "all"})
    producer.produce(topic, b"x", partition=0)
    producer.flush(60)
    tp = PythonPartition(topic, 0)

    def last_sequences(broker_id: int | None) -> list[int]:
        state = python_admin.describe_producers([tp], broker_id=broker_id)[tp]
        return [p.last_sequence for p in state.active_producers]

    assert last_sequences(None) == [0]
    wait_for(lambda: last_sequences(2) == [0], "the follower to know the producer")
    with pytest.raises(Exception, match="NotLeader"):
        last_sequences(3)


def test_a_feature_is_finalised_for_all_brokers(cluster: LocalCluster, python_admin: KafkaAdminClient) -> None:
    def finalised_version(broker_id: int) -> Any:
        client = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{cluster.ports[broker_id]}")
        try:
            return client.describe_features()["transaction.version"].get("finalized")
        finally:
            client.close()

    assert [finalised_version(b) for b in (1, 2, 3)] == [None] * 3
    python_admin.update_features({"transaction.version": ("UPGRADE", 2)})
    for broker_id in (1, 2, 3):
        wait_for(lambda b=broker_id: finalised_version(b) == (2, 2), f"broker {broker_id} to offer it")  # type: ignore[misc]
    with pytest.raises(Exception, match="InvalidUpdateVersion"):
        python_admin.update_features({"transaction.version": ("UPGRADE", 3)})


def test_an_unsupported_api_is_not_advertised_and_clients_report_it(python_admin: KafkaAdminClient) -> None:
    with pytest.raises(UnsupportedVersionError):
        python_admin.describe_metadata_quorum()


# -- requests that neither client sends -------------------------------------------------------------------------------------------------
def test_delegation_tokens_are_rejected_as_kafka_rejects_them(cluster: LocalCluster) -> None:
    raw = RawConnection(cluster, 1)
    for api in (
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ):
        for version in range(1, APIS[api].max_version + 1):
            raw.send(api, version, APIS[api].request())
            assert raw.receive(api, version).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    raw.close()


def test_an_address_over_its_connection_rate_is_rejected_and_accepted_again_later(cluster: LocalCluster) -> None:
    raw = RawConnection(cluster, 1)

    def quota(rate: float | None) -> None:
        r = AlterClientQuotasRequest
        op = r.OpData(key="connection_creation_rate", value=rate or 0.0, remove=rate is None)
        entry = r.EntryData(entity=[r.EntityData(entity_type="ip", entity_name="127.0.0.1")], ops=[op])
        raw.send(ApiKey.ALTER_CLIENT_QUOTAS, 1, r(entries=[entry]))
        assert [e.error_code for e in raw.receive(ApiKey.ALTER_CLIENT_QUOTAS, 1).entries] == [0]

    def connects() -> bool:
        with socket.create_connection(("127.0.0.1", cluster.ports[2]), timeout=30) as sock:
            sock.sendall(framing.encode_request(ApiKey.API_VERSIONS, 0, 1, "me", ApiVersionsRequest()))
            try:
                return sock.recv(1) != b""
            except ConnectionResetError:
                return False

    quota(1.0)
    try:
        wait_for(lambda: not all(connects() for _ in range(3)), "connections from the address to be rejected")
        wait_for(connects, "a connection from the same address to be accepted later")
    finally:
        quota(None)
    wait_for(lambda: all(connects() for _ in range(5)), "connections without a limit")
    raw.close()
