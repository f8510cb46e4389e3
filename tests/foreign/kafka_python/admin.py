"""Administration and security."""

from __future__ import annotations

import logging
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.errors import (
    ElectionNotNeededError,
    GroupAuthorizationFailedError,
    KafkaTimeoutError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.foreign.kafka_python.kit import (
    PLAIN,
    Member,
    Settings,
    bearer,
    certificate_settings,
    consumer,
    expect_rejection,
    numbers,
    producer,
    read,
    read_records,
    secured_settings,
    send,
    values,
)
from tests.foreign.stage import FIRST_MS, FORGED, equal, wait_until


def admin(**settings: Any) -> KafkaAdminClient:
    return KafkaAdminClient(**{**PLAIN, **settings})


def topics(name: str) -> None:
    client = admin()
    wanted = {name: {"num_partitions": 2, "replication_factor": 3, "configs": {"retention.ms": "3600000"}}}
    client.create_topics(wanted)
    expect_rejection(TopicAlreadyExistsError, lambda: client.create_topics(wanted))
    wait_until(lambda: name in client.list_topics(), "the topic to be listed")
    partitions = lambda: client.describe_topics([name])[0]["partitions"]  # noqa: E731
    equal([len(p["replica_nodes"]) for p in partitions()], [3, 3])
    client.create_partitions({name: 5})
    wait_until(lambda: len(partitions()) == 5, "five partitions")
    client.delete_topics([name])
    wait_until(lambda: name not in client.list_topics(), "the topic to go")


def configs(name: str) -> None:
    client = admin()
    asked = [ConfigResource("TOPIC", name)]
    described = lambda: client.describe_configs(asked, config_filter="all")["topic"][name]["retention.ms"]  # noqa: E731
    source = lambda: str(described()["config_source"])  # noqa: E731
    equal("DEFAULT" in source(), True)
    client.alter_configs([ConfigResource("TOPIC", name, {"retention.ms": "1234567"})])
    wait_until(lambda: str(described()["value"]) == "1234567" and "DYNAMIC_TOPIC" in source(), "the setting")
    client.reset_configs([ConfigResource("TOPIC", name, ["retention.ms"])])
    wait_until(lambda: "DEFAULT" in source(), "the default")
    equal(
        "log.dirs" in client.describe_configs([ConfigResource("BROKER", "1")], config_filter="all")["broker"]["1"], True
    )


def groups(name: str) -> None:
    client = admin()
    member = Member(name, name)
    wait_until(lambda: member.owned_partitions() == [0], "the member to own its partition")
    listed = lambda: {g["group_id"] for g in client.list_groups()}  # noqa: E731
    equal(name in listed(), True)
    described = client.describe_groups([name])[name]
    equal((str(described["group_state"]), len(described["members"])), ("Stable", 1))
    equal(client.delete_groups([name])[name], "NonEmptyGroupError")
    member.consumer.close()
    client.delete_groups([name])
    equal(name in listed(), False)


def group_offsets(name: str) -> None:
    client, partition = admin(), TopicPartition(name, 0)
    reader = consumer(group_id=name)
    reader.assign([partition])
    reader.commit({partition: OffsetAndMetadata(40, "", -1)})
    reader.close()
    equal(client.list_group_offsets({name: None})[name][partition].offset, 40)
    client.alter_group_offsets(name, {partition: OffsetAndMetadata(10, "", -1)})
    equal(client.list_group_offsets({name: None})[name][partition].offset, 10)
    client.delete_group_offsets(name, [partition])
    equal(client.list_group_offsets({name: None})[name], {})


def list_offsets(name: str) -> None:
    client, partition = admin(), TopicPartition(name, 0)
    kinds = (-2, -1, FIRST_MS + 50_000, -3)
    equal([client.list_partition_offsets({partition: kind})[partition].offset for kind in kinds], [0, 100, 50, 99])


def delete_records(name: str) -> None:
    admin().delete_records({TopicPartition(name, 0): 30})
    equal(values(read(name, 70, offset=30)), numbers(100)[30:])
    reader = consumer(group_id=None)
    equal(reader.beginning_offsets([TopicPartition(name, 0)])[TopicPartition(name, 0)], 30)


def cluster(_: str) -> None:
    found = admin().describe_cluster()
    equal(sorted(b.get("broker_id", b.get("node_id")) for b in found["brokers"]), [1, 2, 3])
    equal(found["controller_id"] in (1, 2, 3) and bool(found["cluster_id"]), True)


def log_dirs(name: str) -> None:
    found = admin().describe_log_dirs({name: [0]})
    equal(len(found), 3)
    for broker in found:
        sizes = [p["partition_size"] for d in broker["log_dirs"] for t in d["topics"] for p in t["partitions"]]
        equal(len(sizes) == 1 and sizes[0] > 0, True)


def transactions_admin(name: str) -> None:
    client, partition = admin(), TopicPartition(name, 0)
    made = producer(transactional_id=name)
    made.init_transactions()
    made.begin_transaction()
    send(made, name, ["open"])
    equal(name in {t.transactional_id for reported in client.list_transactions().values() for t in reported}, True)
    found = client.describe_transactions([name])[name]
    equal((str(getattr(found.state, "value", found.state)), found.topic_partitions), ("Ongoing", {partition}))
    producers = client.describe_producers([partition])[partition].active_producers
    equal([p.producer_id for p in producers if p.current_transaction_start_offset >= 0], [found.producer_id])
    made.abort_transaction()


def reassign(name: str) -> None:
    client, partition = admin(), TopicPartition(name, 0)
    replicas = lambda: client.describe_topics([name])[0]["partitions"][0]["replica_nodes"]  # noqa: E731
    wanted = list(replicas())[1:]
    equal(client.alter_partition_reassignments({partition: wanted}).get(partition), None)
    client.list_partition_reassignments()
    wait_until(lambda: list(replicas()) == wanted, "the move")
    equal(values(read(name, 100)), numbers(100))


def elect(name: str) -> None:
    try:
        admin().elect_leaders(0, {name: [0]})
    except ElectionNotNeededError:
        pass


def scram(name: str) -> None:
    client = admin()
    described = lambda: client.describe_user_scram_credentials([name])[name]["credential_infos"]  # noqa: E731
    equal(
        client.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(name, ScramMechanism.SCRAM_SHA_512, b"x", iterations=4096)]
        )[name],
        None,
    )
    wait_until(lambda: [c["mechanism"] for c in described()] == [ScramMechanism.SCRAM_SHA_512], "the credential")
    equal(
        client.alter_user_scram_credentials([UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_512)])[name],
        None,
    )
    wait_until(lambda: described() == [], "the credential to go")


def apply_registrations(name: str, client_options: Settings) -> None:
    send(producer(**client_options), name, numbers(100))
    reader = consumer(name, group_id=name, **client_options)
    equal(values(read_records(reader, 100)), numbers(100))
    reader.close()


def is_rejected(client_options: Settings) -> None:
    """It tries until its time is up; the reason is in its log alone."""
    reported: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: reported.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("kafka").addHandler(handler)
    expect_rejection(KafkaTimeoutError, lambda: admin(bootstrap_timeout_ms=5_000, **client_options))
    equal(any("SaslAuthenticationFailed" in line for line in reported), True)


def scram_tls(name: str) -> None:
    apply_registrations(name, secured_settings("alice"))


def wrong_password(_: str) -> None:
    is_rejected(secured_settings("alice", "wrong"))


def oauth(name: str) -> None:
    apply_registrations(name, bearer())
    is_rejected(bearer(FORGED))


def mutual_tls(name: str) -> None:
    apply_registrations(name, certificate_settings("alice"))
    bob = producer(**certificate_settings("bob"))
    expect_rejection((TopicAuthorizationFailedError, GroupAuthorizationFailedError), lambda: send(bob, name, ["no"]))


def acls(name: str) -> None:
    client = admin()
    bob = producer(**secured_settings("bob"))
    expect_rejection((TopicAuthorizationFailedError, GroupAuthorizationFailedError), lambda: send(bob, name, ["no"]))
    pattern = ResourcePattern(ResourceType.TOPIC, name, ACLResourcePatternType.LITERAL)
    acl = ACL("User:bob", "*", ACLOperation.WRITE, ACLPermissionType.ALLOW, pattern)
    equal(client.create_acls([acl])["failed"], [])

    def is_allowed() -> bool:
        try:
            send(producer(**secured_settings("bob")), name, ["yes"])
        except TopicAuthorizationFailedError:
            return False
        return True

    wait_until(is_allowed, "bob to be allowed")
    equal(values(read(name, 1)), ["yes"])
    wanted = ACLFilter("User:bob", "*", ACLOperation.WRITE, ACLPermissionType.ALLOW, pattern)
    equal(client.describe_acls(wanted)[0], [acl])
    client.delete_acls([wanted])
    wait_until(lambda: client.describe_acls(wanted)[0] == [], "the ACL to go")
