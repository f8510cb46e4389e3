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
    certified,
    done,
    grouped,
    numbers,
    read,
    rejection,
    secured,
    send,
    some,
    values,
)
from tests.foreign.stage import FIRST_MS, PREFIX, equal, until


# -- administration --------------------------------------------------------------------------------------------------------
def topics(name: str) -> None:
    admin = AdminClient(PLAIN)
    new = NewTopic(name, 2, 3, config={"retention.ms": "3600000"})
    done(admin.create_topics([new]))
    equal(rejection(lambda: done(admin.create_topics([new]))), KafkaError.TOPIC_ALREADY_EXISTS)
    found = lambda: admin.list_topics(timeout=30).topics  # noqa: E731
    until(lambda: name in found(), "the topic to be listed")
    equal([len(p.replicas) for p in found()[name].partitions.values()], [3, 3])
    done(admin.create_partitions([NewPartitions(name, 5)]))
    until(lambda: len(found()[name].partitions) == 5, "five partitions")
    done(admin.delete_topics([name]))
    until(lambda: name not in found(), "the topic to go")


def configs(name: str) -> None:
    admin = AdminClient(PLAIN)
    described = lambda: done(admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]))["retention.ms"]  # noqa: E731
    equal(described().source, ConfigSource.DEFAULT_CONFIG.value)

    def alter(how: AlterConfigOpType, value: str | None) -> None:
        entry = ConfigEntry("retention.ms", value, incremental_operation=how)
        done(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])]))

    alter(AlterConfigOpType.SET, "1234567")
    until(
        lambda: (described().value, described().source) == ("1234567", ConfigSource.DYNAMIC_TOPIC_CONFIG.value),
        "the setting",
    )
    alter(AlterConfigOpType.DELETE, None)
    until(lambda: described().source == ConfigSource.DEFAULT_CONFIG.value, "the default")
    equal("log.dirs" in done(admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")])), True)


def groups(name: str) -> None:
    admin = AdminClient(PLAIN)
    member = Member(name, name)
    until(lambda: member.owned() == [0], "the member to own its partition")
    listed = lambda: {g.group_id for g in admin.list_consumer_groups().result(60).valid}  # noqa: E731
    equal(name in listed(), True)
    described = done(admin.describe_consumer_groups([name]))
    equal((described.state, len(described.members)), (ConsumerGroupState.STABLE, 1))
    equal([p.topic for p in described.members[0].assignment.topic_partitions], [name])
    equal(rejection(lambda: done(admin.delete_consumer_groups([name]))), KafkaError.NON_EMPTY_GROUP)
    member.consumer.close()
    done(admin.delete_consumer_groups([name]))
    equal(name in listed(), False)


def group_offsets(name: str) -> None:
    admin = AdminClient(PLAIN)
    reader = grouped(name)
    reader.commit(offsets=[TopicPartition(name, 0, 40)], asynchronous=False)
    reader.close()
    asked = ConsumerGroupTopicPartitions(name, [TopicPartition(name, 0)])
    offset = lambda: done(admin.list_consumer_group_offsets([asked])).topic_partitions[0].offset  # noqa: E731
    equal(offset(), 40)
    done(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(name, [TopicPartition(name, 0, 10)])]))
    equal(offset(), 10)
    done(admin.delete_consumer_groups([name]))
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
        done(admin.list_offsets({partition: kind}, isolation_level=IsolationLevel.READ_UNCOMMITTED)).offset
        for kind in kinds
    ]
    equal(found, [0, 100, 50, 99])


def delete_records(name: str) -> None:
    admin = AdminClient(PLAIN)
    equal(done(admin.delete_records([TopicPartition(name, 0, 30)])).low_watermark, 30)
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
    done(
        admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"x")]
        )
    )
    described = lambda: done(admin.describe_user_scram_credentials([user])).scram_credential_infos  # noqa: E731
    equal(
        [(i.mechanism, i.iterations) for i in until(described, "the credential")],
        [(ScramMechanism.SCRAM_SHA_512, 4096)],
    )
    done(admin.alter_user_scram_credentials([UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512)]))
    until(lambda: rejection(described) == KafkaError.RESOURCE_NOT_FOUND, "the credential to go")


# -- security --------------------------------------------------------------------------------------------------------------
def apply_registrations(name: str, client_options: Settings) -> None:
    send(Producer(client_options), name, numbers(100))
    reader = Consumer({**client_options, "group.id": name, "auto.offset.reset": "earliest"})
    reader.subscribe([name])
    equal(values(some(reader, 100)), numbers(100))
    reader.close()


def is_rejected(client_options: Settings) -> None:
    reported: list[KafkaError] = []
    producer = Producer({**client_options, "error_cb": reported.append})
    until(
        lambda: producer.poll(0.1) or any(e.code() == KafkaError._AUTHENTICATION for e in reported),
        "an authentication error",
    )


def scram_tls(name: str) -> None:
    apply_registrations(name, secured("alice"))


def wrong_password(_: str) -> None:
    is_rejected(secured("alice", "wrong"))


def oauth(name: str) -> None:
    apply_registrations(name, bearer())
    is_rejected(bearer("/forged"))


def mutual_tls(name: str) -> None:
    apply_registrations(name, certified("alice"))
    equal(rejection(lambda: send(Producer(certified("bob")), name, ["no"])), KafkaError.TOPIC_AUTHORIZATION_FAILED)


def acls(name: str) -> None:
    admin = AdminClient(PLAIN)
    asked = Producer(secured("bob"))
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
    done(admin.create_acls([AclBinding(*acl)]))

    def allowed() -> bool:
        try:
            send(Producer(secured("bob")), name, ["yes"])
        except KafkaException:
            return False
        return True

    until(allowed, "bob to be allowed")
    equal(values(read(name, 1)), ["yes"])
    equal(admin.describe_acls(AclBindingFilter(*acl)).result(60), [AclBinding(*acl)])
    done(admin.delete_acls([AclBindingFilter(*acl)]))
    until(lambda: admin.describe_acls(AclBindingFilter(*acl)).result(60) == [], "the ACL to go")
