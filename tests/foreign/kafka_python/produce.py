"""Producing and transactions."""

from __future__ import annotations

import time
from collections.abc import Callable

from kafka.errors import InvalidProducerEpochError, MessageSizeTooLargeError, ProducerFencedError
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.foreign.kafka_python.kit import (
    consumer,
    expect_rejection,
    numbers,
    producer,
    read,
    read_records,
    send,
    values,
)
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


def acks(wanted: int | str) -> Callable[[str], None]:
    def feature(name: str) -> None:
        send(producer(acks=wanted, enable_idempotence=wanted == "all"), name, numbers(100))
        equal(values(read(name, 100)), numbers(100))

    return feature


def codec(kind: str) -> Callable[[str], None]:
    def feature(name: str) -> None:
        wanted = [str(i) * 20 for i in range(500)]
        send(producer(compression_type=kind, linger_ms=50), name, wanted)
        equal(values(read(name, 500)), wanted)

    return feature


acks_0, acks_1, acks_all = acks(0), acks(1), acks("all")
gzip, snappy, lz4, zstd = codec("gzip"), codec("snappy"), codec("lz4"), codec("zstd")


def headers(name: str) -> None:
    wanted = [("a", b"1"), ("a", b"2"), ("empty", b"")]
    producer().send(name, b"v", headers=wanted).get(60)
    equal(list(read(name, 1)[0].headers), wanted)


def send_one_by_one(front: str, written: list[tuple[bytes, bytes | None, list[tuple[str, bytes]]]]) -> None:
    """Each record is acknowledged before the next one is sent: a decision needs a message that is stored."""
    made = producer()
    for key, value, headers in written:
        made.send(front, value, key, headers=headers, partition=0).get(60)


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
        found = [(m.key, m.value, list(m.headers)) for m in read(name + suffix, len(matching))]
        equal(found, [written[n] for n in matching])


def nulls(name: str) -> None:
    wanted = [(None, b"v"), (b"k", None), (b"", b"")]
    made = producer()
    for key, value in wanted:
        made.send(name, value, key).get(60)
    equal([(m.key, m.value) for m in read(name, 3)], wanted)


def big(name: str) -> None:
    wanted = bytes(i % 251 for i in range(1_000_000))
    producer().send(name, wanted).get(60)
    equal(read(name, 1)[0].value == wanted, True)


def too_large(name: str) -> None:
    made = producer(enable_idempotence=False)  # an idempotent one (the default) rejects all that follows, too
    expect_rejection(MessageSizeTooLargeError, lambda: made.send(name, b"x" * 500_000).get(60))
    send(made, name, ["small"])
    equal(values(read(name, 1)), ["small"])


def idempotent(name: str) -> None:
    send(producer(enable_idempotence=True, batch_size=200), name, numbers(500))


def leader_killed(name: str) -> None:
    made = producer(acks="all", enable_idempotence=True, delivery_timeout_ms=90_000)
    sent = []
    for value in numbers(600):
        sent.append(
            made.send(name, value.encode(), partition=0).add_callback(lambda _, value=value: print_acked(value))
        )
        time.sleep(0.005)
    for one in sent:
        one.get(90)


def majority_acks(name: str) -> None:
    leader_killed(name)
    equal(values(read(name, 600)), numbers(600))


def transactions(name: str) -> None:
    made = producer(transactional_id=name)
    made.init_transactions()
    for sent, commit in ((["a1", "a2"], True), (["b1"], False), (["c1"], True)):
        made.begin_transaction()
        send(made, name, sent)
        if commit:
            made.commit_transaction()
        else:
            made.abort_transaction()
    equal(values(read(name, 3, "read_committed")), ["a1", "a2", "c1"])
    equal(values(read(name, 4)), ["a1", "a2", "b1", "c1"])


def transaction_offsets(name: str) -> None:
    partition = TopicPartition(name, 0)
    reader = consumer(name, group_id=name)
    got = values(read_records(reader, 100))
    made = producer(transactional_id=name)
    made.init_transactions()

    def run_transaction(sent: list[str], offset: int) -> None:
        made.begin_transaction()
        send(made, name + "-out", sent)
        made.send_offsets_to_transaction({partition: OffsetAndMetadata(offset, "", -1)}, reader.group_metadata())

    run_transaction(["no"] * 50, 50)
    made.abort_transaction()
    equal(reader.committed(partition), None)
    run_transaction([f"<{v}>" for v in got], 100)
    made.commit_transaction()
    wait_until(lambda: reader.committed(partition) == 100, "the offset")  # it does not ask for stable offsets
    reader.close()
    equal(values(read(name + "-out", 100, "read_committed")), [f"<{i}>" for i in range(100)])


def fencing(name: str) -> None:
    old = producer(transactional_id=name)
    old.init_transactions()
    old.begin_transaction()
    send(old, name, ["old"])
    new = producer(transactional_id=name)
    new.init_transactions()
    expect_rejection((ProducerFencedError, InvalidProducerEpochError), old.commit_transaction)
    new.begin_transaction()
    send(new, name, ["new"])
    new.commit_transaction()
    equal(values(read(name, 1, "read_committed")), ["new"])
