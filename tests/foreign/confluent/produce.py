"""Producing and transactions."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import (
    AcknowledgeType,
    Consumer,
    KafkaError,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from tests.foreign.confluent.kit import PLAIN, numbers, read, rejection, send, values
from tests.foreign.stage import (
    DECIDED,
    DELAYED,
    ROUTED,
    delayed_records,
    equal,
    half_records,
    print_acked,
    routed_records,
    wait_until,
)


# -- produce ---------------------------------------------------------------------------------------------------------------
def acks(wanted: str) -> Callable[[str], None]:
    def feature(name: str) -> None:
        send(Producer({**PLAIN, "acks": wanted}), name, numbers(100))
        equal(values(read(name, 100)), numbers(100))

    return feature


def codec(kind: str) -> Callable[[str], None]:
    def feature(name: str) -> None:
        wanted = [str(i) * 20 for i in range(500)]
        send(Producer({**PLAIN, "compression.type": kind, "linger.ms": 50}), name, wanted)
        equal(values(read(name, 500)), wanted)

    return feature


acks_0, acks_1, acks_all = acks("0"), acks("1"), acks("all")
gzip, snappy, lz4, zstd = codec("gzip"), codec("snappy"), codec("lz4"), codec("zstd")


def headers(name: str) -> None:
    wanted = [("a", b"1"), ("a", b"2"), ("empty", b"")]
    producer = Producer(PLAIN)
    producer.produce(name, b"v", headers=wanted)
    equal(producer.flush(60), 0)
    equal(read(name, 1)[0].headers(), wanted)


def send_one_by_one(front: str, written: list[tuple[bytes, bytes | None, list[tuple[str, bytes]]]]) -> None:
    """Each record is acknowledged before the next one is sent: a decision needs a message that is stored."""
    producer = Producer({**PLAIN, "acks": "all"})
    errors: list[KafkaError] = []
    for key, value, headers in written:
        producer.produce(
            front, value, key, 0, headers=headers, on_delivery=lambda error, m: errors.append(error) if error else None
        )
        equal(producer.flush(60), 0)
    equal(errors, [])


def delayed(name: str) -> None:
    began = time.time()
    send_one_by_one(f"{name}.delay", delayed_records(int(began * 1000)))
    equal(values(read(name, 3)), DELAYED)
    equal(time.time() - began >= 6, True)


def half(name: str) -> None:
    send_one_by_one(f"{name}.half", half_records())
    equal(values(read(name, 2)), DECIDED)


def routes(name: str) -> None:
    written = routed_records()
    send_one_by_one(name, written)
    for suffix, matching in ROUTED.items():
        found = [(m.key(), m.value(), m.headers()) for m in read(name + suffix, len(matching))]
        equal(found, [written[n] for n in matching])


def decision(number: int) -> AcknowledgeType:
    """Odd records are rejected, one is released until its deliveries are used up, the others are accepted."""
    if number % 2:
        return AcknowledgeType.REJECT
    return AcknowledgeType.RELEASE if number == 4 else AcknowledgeType.ACCEPT


def share_letters(name: str) -> None:
    letters = f"dlq.{name}"
    admin = AdminClient(PLAIN)
    made = NewTopic(letters, 1, 3, config={"errors.deadletterqueue.group.enable": "true"})
    admin.create_topics([made])[letters].result(60)
    set_group_configs(
        admin,
        name,
        {
            "share.auto.offset.reset": "earliest",
            "errors.deadletterqueue.topic.name": letters,
            "errors.deadletterqueue.copy.record.enable": "true",
        },
    )
    send(Producer(PLAIN), name, numbers(6))
    deliveries: Counter[int] = Counter()
    with ShareConsumer({**PLAIN, "group.id": name, "share.acknowledgement.mode": "explicit"}) as consumer:
        consumer.subscribe([name])

        def all_delivered() -> bool:
            for message in consumer.poll(0.2):
                equal(message.error(), None)
                number = int(message.value())
                deliveries[number] += 1
                consumer.acknowledge(message, decision(number))
            equal([e for e in consumer.commit_sync(30.0).values() if e], [])
            return len(deliveries) == 6 and deliveries[4] == 5

        wait_until(all_delivered, "the last delivery")
        end = time.monotonic() + 2
        while time.monotonic() < end:  # dead letters are written while a member fetches
            equal(len(consumer.poll(0.2)), 0)
    equal(deliveries, Counter({0: 1, 1: 1, 2: 1, 3: 1, 4: 5, 5: 1}))
    found: dict[str, str] = {}
    for message in read(letters, 4):
        headers = {k.removeprefix("__dlq.errors."): v.decode() for k, v in message.headers()}
        equal((headers["topic"], headers["partition"], headers["group"]), (name, "0", name))
        value = message.value().decode()
        equal(headers["offset"], value)
        found[value] = f"{headers['delivery.count']} {headers['message']}"
    rejected = "1 Offset rejected by client."
    equal(found, {"1": rejected, "3": rejected, "4": "5 Offset delivery count exceeded the threshold.", "5": rejected})


def set_group_configs(admin: AdminClient, group: str, configs: Mapping[str, str]) -> None:
    source, put = ConfigSource.DYNAMIC_TOPIC_CONFIG, AlterConfigOpType.SET
    entries = [ConfigEntry(n, v, source=source, incremental_operation=put) for n, v in configs.items()]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(60)


def nulls(name: str) -> None:
    wanted = [(None, b"v"), (b"k", None), (b"", b"")]
    producer = Producer(PLAIN)
    for key, value in wanted:
        producer.produce(name, value, key)
    equal(producer.flush(60), 0)
    equal([(m.key(), m.value()) for m in read(name, 3)], wanted)


def big(name: str) -> None:
    wanted = bytes(i % 251 for i in range(1_000_000))
    send(Producer({**PLAIN, "message.max.bytes": 1_100_000}), name, [wanted])
    equal(read(name, 1)[0].value() == wanted, True)


def too_large(name: str) -> None:
    producer = Producer(PLAIN)
    code = rejection(lambda: send(producer, name, [b"x" * 500_000]))
    equal(code, KafkaError.MSG_SIZE_TOO_LARGE)
    send(producer, name, [b"small"])
    equal(values(read(name, 1)), ["small"])


def idempotent(name: str) -> None:
    send(Producer({**PLAIN, "enable.idempotence": True, "linger.ms": 0, "batch.num.messages": 10}), name, numbers(500))


def leader_killed(name: str) -> None:
    def numbers_slowly() -> Iterable[str]:
        for value in numbers(600):
            time.sleep(0.005)
            yield value

    send(Producer({**PLAIN, "enable.idempotence": True, "linger.ms": 0}), name, numbers_slowly(), print_acked)


def majority_acks(name: str) -> None:
    leader_killed(name)
    equal(values(read(name, 600)), numbers(600))


# -- transactions ----------------------------------------------------------------------------------------------------------
def transactional(transactional_id: str) -> Producer:
    producer = Producer({**PLAIN, "transactional.id": transactional_id})
    producer.init_transactions(60)
    return producer


def transactions(name: str) -> None:
    producer = transactional(name)
    for sent, commit in ((["a1", "a2"], True), (["b1"], False), (["c1"], True)):
        producer.begin_transaction()
        send(producer, name, sent)
        if commit:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
    equal(values(read(name, 3, "read_committed")), ["a1", "a2", "c1"])
    equal(values(read(name, 4)), ["a1", "a2", "b1", "c1"])


def transaction_offsets(name: str) -> None:
    reader = Consumer({**PLAIN, "group.id": name, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    reader.subscribe([name])
    got: list[str] = []
    wait_until(
        lambda: got.extend(values(m for m in reader.consume(100, 0.5) if not m.error())) or len(got) >= 100,
        "100 records",
    )
    producer = transactional(name)

    def run_transaction(sent: list[str], offset: int) -> None:
        producer.begin_transaction()
        send(producer, name + "-out", sent)
        producer.send_offsets_to_transaction([TopicPartition(name, 0, offset)], reader.consumer_group_metadata(), 60)

    run_transaction(["no"] * 50, 50)
    producer.abort_transaction(60)
    equal(reader.committed([TopicPartition(name, 0)], 30)[0].offset, -1001)
    run_transaction([f"<{v}>" for v in got], 100)
    producer.commit_transaction(60)
    equal(reader.committed([TopicPartition(name, 0)], 30)[0].offset, 100)
    reader.close()
    equal(values(read(name + "-out", 100, "read_committed")), [f"<{i}>" for i in range(100)])


def fencing(name: str) -> None:
    old = transactional(name)
    old.begin_transaction()
    send(old, name, ["old"])
    new = transactional(name)
    code = rejection(lambda: old.commit_transaction(60))
    equal(code in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED), True)
    new.begin_transaction()
    send(new, name, ["new"])
    new.commit_transaction(60)
    equal(values(read(name, 1, "read_committed")), ["new"])
