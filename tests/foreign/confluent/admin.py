"""Administration and security."""

from __future__ import annotations

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.foreign.confluent.kit import (
    PLAIN,
    Member,
    Settings,
    bearer,
    certificate_settings,
    group_consumer,
    numbers,
    read,
    read_records,
    rejection,
    result_of,
    secured_settings,
    send,
    values,
)
from tests.foreign.stage import FIRST_MS, PREFIX, equal, wait_until


# -- administration --------------------------------------------------------------------------------------------------------
def topics(name: str) -> None:
    admin = AdminClient(PLAIN)
    new = NewTopic(name, 2, 3, config={"retention.ms": "3600000"})
    result_of(admin.create_topics([new]))
    equal(rejection(lambda: result_of(admin.create_topics([new]))), KafkaError.TOPIC_ALREADY_EXISTS)
    found = lambda: admin.list_topics(timeout=30).topics  # noqa: E731
    wait_until(lambda: name in found(), "the topic to be listed")
    equal([len(p.replicas) for p in found()[name].partitions.values()], [3, 3])
    result_of(admin.create_partitions([NewPartitions(name, 5)]))
    wait_until(lambda: len(found()[name].partitions) == 5, "five partitions")
    result_of(admin.delete_topics([name]))
    wait_until(lambda: name not in found(), "the topic to go")


def configs(name: str) -> None:
    admin = AdminClient(PLAIN)
    described = lambda: result_of(admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]))["retention.ms"]  # noqa: E731
    equal(described().source, ConfigSource.DEFAULT_CONFIG.value)

    def alter(how: AlterConfigOpType, value: str | None) -> None:
        entry = ConfigEntry("retention.ms", value, incremental_operation=how)
        result_of(
            admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])])
        )

    alter(AlterConfigOpType.SET, "1234567")
    wait_until(
        lambda: (described().value, described().source) == ("1234567", ConfigSource.DYNAMIC_TOPIC_CONFIG.value),
        "the setting",
    )
    alter(AlterConfigOpType.DELETE, None)
    wait_until(lambda: described().source == ConfigSource.DEFAULT_CONFIG.value, "the default")
    equal("log.dirs" in result_of(admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")])), True)


def groups(name: str) -> None:
    admin = AdminClient(PLAIN)
    member = Member(name, name)
    wait_until(lambda: member.owned_partitions() == [0], "the member to own its partition")
    listed = lambda: {g.group_id for g in admin.list_consumer_groups().result(60).valid}  # noqa: E731
    equal(name in listed(), True)
    described = result_of(admin.describe_consumer_groups([name]))
    equal((described.state, len(described.members)), (ConsumerGroupState.STABLE, 1))
    equal([p.topic for p in described.members[0].assignment.topic_partitions], [name])
    equal(rejection(lambda: result_of(admin.delete_consumer_groups([name]))), KafkaError.NON_EMPTY_GROUP)
    member.consumer.close()
    result_of(admin.delete_consumer_groups([name]))
    equal(name in listed(), False)


def group_offsets(name: str) -> None:
    admin = AdminClient(PLAIN)
    reader = group_consumer(name)
    reader.commit(offsets=[TopicPartition(name, 0, 40)], asynchronous=False)
    reader.close()
    asked = ConsumerGroupTopicPartitions(name, [TopicPartition(name, 0)])
    offset = lambda: result_of(admin.list_consumer_group_offsets([asked])).topic_partitions[0].offset  # noqa: E731
    equal(offset(), 40)
    result_of(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(name, [TopicPartition(name, 0, 10)])]))
    equal(offset(), 10)
    result_of(admin.delete_consumer_groups([name]))
    equal(offset(), -1001)


def list_offsets(name: str) -> None:
    admin = AdminClient(PLAIN)
    partition = TopicPartition(name, 0)
    kinds = (
        OffsetSpec.earliest(),
        OffsetSpec.latest(),
        OffsetSpec.for_timestamp(FIRST_MS + 50_000),
        OffsetSpec.max_timestamp(),
    )
    found = [
        result_of(admin.list_offsets({partition: kind}, isolation_level=IsolationLevel.READ_UNCOMMITTED)).offset
        for kind in kinds
    ]
    equal(found, [0, 100, 50, 99])


def delete_records(name: str) -> None:
    admin = AdminClient(PLAIN)
    equal(result_of(admin.delete_records([TopicPartition(name, 0, 30)])).low_watermark, 30)
    equal(values(read(name, 70, offset=30)), numbers(100)[30:])


def cluster(_: str) -> None:
    admin = AdminClient(PLAIN)  # it must outlive its futures
    found = admin.describe_cluster().result(60)
    equal(sorted(n.id for n in found.nodes), [1, 2, 3])
    equal(found.controller.id in (1, 2, 3) and bool(found.cluster_id), True)


def elect(name: str) -> None:
    from confluent_kafka import ElectionType

    admin = AdminClient(PLAIN)
    found = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(name, 0)]).result(60)
    equal([e is None or e.code() == KafkaError.ELECTION_NOT_NEEDED for e in found.values()], [True])


def scram(_: str) -> None:
    admin = AdminClient(PLAIN)
    user = PREFIX + "user"
    result_of(
        admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"x")]
        )
    )
    described = lambda: result_of(admin.describe_user_scram_credentials([user])).scram_credential_infos  # noqa: E731
    equal(
        [(i.mechanism, i.iterations) for i in wait_until(described, "the credential")],
        [(ScramMechanism.SCRAM_SHA_512, 4096)],
    )
    result_of(admin.alter_user_scram_credentials([UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512)]))
    wait_until(lambda: rejection(described) == KafkaError.RESOURCE_NOT_FOUND, "the credential to go")


# -- security --------------------------------------------------------------------------------------------------------------
def apply_registrations(name: str, client_options: Settings) -> None:
    send(Producer(client_options), name, numbers(100))
    reader = Consumer({**client_options, "group.id": name, "auto.offset.reset": "earliest"})
    reader.subscribe([name])
    equal(values(read_records(reader, 100)), numbers(100))
    reader.close()


def is_rejected(client_options: Settings) -> None:
    reported: list[KafkaError] = []
    producer = Producer({**client_options, "error_cb": reported.append})
    wait_until(
        lambda: producer.poll(0.1) or any(e.code() == KafkaError._AUTHENTICATION for e in reported),
        "an authentication error",
    )


def scram_tls(name: str) -> None:
    apply_registrations(name, secured_settings("alice"))


def wrong_password(_: str) -> None:
    is_rejected(secured_settings("alice", "wrong"))


def oauth(name: str) -> None:
    apply_registrations(name, bearer())
    is_rejected(bearer("/forged"))


def mutual_tls(name: str) -> None:
    apply_registrations(name, certificate_settings("alice"))
    equal(
        rejection(lambda: send(Producer(certificate_settings("bob")), name, ["no"])),
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    )


def acls(name: str) -> None:
    admin = AdminClient(PLAIN)
    asked = Producer(secured_settings("bob"))
    equal(rejection(lambda: send(asked, name, ["no"])), KafkaError.TOPIC_AUTHORIZATION_FAILED)
    acl = (
        ResourceType.TOPIC,
        name,
        ResourcePatternType.LITERAL,
        "User:bob",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    result_of(admin.create_acls([AclBinding(*acl)]))

    def is_allowed() -> bool:
        try:
            send(Producer(secured_settings("bob")), name, ["yes"])
        except KafkaException:
            return False
        return True

    wait_until(is_allowed, "bob to be allowed")
    equal(values(read(name, 1)), ["yes"])
    equal(admin.describe_acls(AclBindingFilter(*acl)).result(60), [AclBinding(*acl)])
    result_of(admin.delete_acls([AclBindingFilter(*acl)]))
    wait_until(lambda: admin.describe_acls(AclBindingFilter(*acl)).result(60) == [], "the ACL to go")
