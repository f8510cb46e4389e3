"""A librdkafka client: produce, catch up, produce at a fixed rate. It works the same with each system."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

DELIVERY_REPORT_EVERY = 9_973
"""One record in this many has a delivery callback, as a sample of all: a callback for each record would measure Python. The number is prime, so
that each of many topics is sampled."""
Done = Callable[[], None]
"""Called after the last response, before the client's threads end."""
PLAIN: Mapping[str, str] = {}
"""Settings of a client that needs no security settings."""


def _nothing() -> None:
    pass


def produce(
    bootstrap: str,
    topics: Sequence[str],
    value: bytes,
    count: int,
    batch_bytes: int,
    acks: str,
    done: Done = _nothing,
    security: Mapping[str, str] = PLAIN,
) -> float:
    """Seconds for `count` records at full speed, with the topics in turn. Raises SystemExit if a record is not acknowledged."""
    producer = Producer(
        {
            **security,
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "acks": acks,
            "batch.size": batch_bytes,
            "batch.num.messages": 1_000_000,
            "linger.ms": 5 if batch_bytes < 100_000 else 100,
            "compression.type": "none",
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 512 * 1024,
        }
    )
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)

    for topic in topics:
        producer.list_topics(topic, timeout=20)
    began = time.monotonic()
    for i, topic in zip(range(count), cycle(topics), strict=False):
        while True:
            try:
                producer.produce(topic, value, on_delivery=None if i % DELIVERY_REPORT_EVERY else delivered)
                break
            except BufferError:
                producer.poll(0.05)
        if i % DELIVERY_REPORT_EVERY == 0:
            producer.poll(0)
    left = producer.flush(300)
    seconds = time.monotonic() - began
    done()
    if left or failed:
        raise SystemExit(f"{left} records were not delivered, {len(failed)} failed ({failed[:1]})")
    return seconds


def consume(
    bootstrap: str, topics: Sequence[str], count: int, done: Done = _nothing, security: Mapping[str, str] = PLAIN
) -> float:
    """Seconds from the first record to the last of `count` records that are stored in partition 0 of each topic."""
    consumer = Consumer(
        {
            **security,
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "group.id": "bench",
            "enable.auto.commit": False,
            "check.crcs": False,
            "queued.min.messages": 1_000_000,
            "fetch.message.max.bytes": 10_000_000,
            "enable.auto.offset.store": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0) for topic in topics])
    got = 0
    while not got:
        got += len(consumer.consume(1, 1))
    began = time.monotonic()
    while got < count:
        got += len(consumer.consume(min(10_000, count - got), 1))
    seconds = time.monotonic() - began
    done()
    consumer.close()
    return seconds


def latencies(
    bootstrap: str, topic: str, value: bytes, rate: int, seconds: float, acks: str, done: Done = _nothing
) -> list[float]:
    """Latencies in ms, sorted, of a producer that sends `rate` records per second for `seconds` seconds.

    A latency starts at the scheduled time of the record, not at the call of the producer, because a stall of the broker delays all later records.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "acks": acks,
            "linger.ms": 1,
            "batch.size": 1_048_576,
            "compression.type": "none",
        }
    )
    out: list[float] = []
    failed: list[KafkaError] = []

    def delivered(late: float, error: KafkaError | None, message: Message) -> None:
        if error is None:
            out.append((message.latency() + late) * 1000)
        else:
            failed.append(error)

    producer.list_topics(topic, timeout=20)
    count = int(rate * seconds)
    began = time.perf_counter() + 0.05
    for i in range(count):
        due = began + i / rate
        while (now := time.perf_counter()) < due:
            producer.poll(min(0.001, due - now))
        producer.produce(topic, value, on_delivery=partial(delivered, now - due))
    left = producer.flush(60)
    done()
    if left or failed:
        raise SystemExit(f"{left} records were not delivered, {len(failed)} failed ({failed[:1]})")
    return sorted(out)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest value of `ordered` that is not exceeded by at least `percent` of the values."""
    return ordered[min(len(ordered) - 1, max(0, -int(-len(ordered) * percent // 100) - 1))]
