"""One client as a process: `python -m tests.soak.clients ROLE SETTINGS`. Reports results as lines of JSON: `acked`, `failed`, `read`, `error`.

A role is one library with one task until SIGTERM: writing numbered values (`name:0`, `name:1`, ...), reading a topic in a group with a commit after each batch,
or copying a topic to another in transactions. Invariant: a result is reported only after the broker has confirmed it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

STOPPING: list[int] = []
CLOSE_SECONDS = 120


def print_event(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def is_running() -> bool:
    return not STOPPING


class ValueRate:
    """How many values are due, at `rate` per second."""

    def __init__(self, rate: float) -> None:
        self.rate, self._began, self.sent = rate, time.monotonic(), 0

    def next_values(self) -> range:
        upto = int((time.monotonic() - self._began) * self.rate)
        out = range(self.sent, max(self.sent, min(upto, self.sent + 200)))
        self.sent = out.stop
        return out


# -- librdkafka ------------------------------------------------------------------------------------------------------------
def confluent_producer(s: dict[str, Any]) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": s["bootstrap"],
            "enable.idempotence": True,
            "linger.ms": 20,
            "message.timeout.ms": 120_000,
            "log_level": 0,
        }
    )
    reported: list[str] = []

    def on_delivery(error: Any, message: Any) -> None:
        if error is None:
            reported.append(message.value().decode())
        else:
            print_event(failed=[message.value().decode()], reason=str(error))

    pace = ValueRate(s["rate"])
    while is_running() or producer.poll(0.05) or len(producer):
        for n in pace.next_values() if is_running() else ():
            producer.produce(s["topic"], f"{s['name']}:{n}", on_delivery=on_delivery)
        producer.poll(0.05)
        if reported:
            print_event(acked=reported)
            reported.clear()
    if reported:
        print_event(acked=reported)


def confluent_consumer(s: dict[str, Any]) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": s["bootstrap"],
            "group.id": s["group"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **s.get("more", {}),
        }
    )

    def report_partitions(sign: str) -> Callable[[Any, Any], None]:
        return lambda _, partitions: print_event(**{sign: sorted(tp.partition for tp in partitions)})

    consumer.subscribe(
        [s["topic"]],
        on_assign=report_partitions("given"),
        on_revoke=report_partitions("given_up"),
        on_lost=report_partitions("lost"),
    )
    while is_running():
        ends: dict[int, int] = {}
        values: list[str] = []
        for m in consumer.consume(100, 0.2):
            if m.error():
                print_event(error=str(m.error()))
                continue
            values.append(m.value().decode())
            ends[m.partition()] = m.offset() + 1
        if not values:
            continue
        print_event(read=values)
        try:
            consumer.commit(offsets=[TopicPartition(s["topic"], p, o) for p, o in ends.items()], asynchronous=False)
        except (
            KafkaException
        ) as e:  # another member owns the partition now, or there is no coordinator: the records are read again
            print_event(error=f"commit: {e}")
    consumer.close()


class Copier:
    """Copies in transactions. Records of an aborted transaction are read again from the committed offsets."""

    def __init__(self, s: dict[str, Any]) -> None:
        from confluent_kafka import Consumer, Producer

        self.s = s
        self.producer = Producer(
            {
                "bootstrap.servers": s["bootstrap"],
                "transactional.id": s["name"],
                "transaction.timeout.ms": 30_000,
                "log_level": 0,
            }
        )
        self.producer.init_transactions(CLOSE_SECONDS)
        self.consumer = Consumer(
            {
                "bootstrap.servers": s["bootstrap"],
                "group.id": s["group"],
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 0,
                **s.get("more", {}),
            }
        )
        self.ends: dict[int, int] = {}
        """Records of the open transaction."""
        self.astray = False
        """True after an abort: its records were read already, also of partitions that stay assigned after an incremental revocation."""
        self.consumer.subscribe([s["topic"]], on_revoke=self._on_revoke, on_lost=self._on_revoke)

    def _on_revoke(self, consumer: Any, partitions: Any) -> None:
        if self.ends:
            self._abort()
            self.astray = True

    def _abort(self) -> None:
        self.ends.clear()
        self._with_retries(self.producer.abort_transaction)

    def _with_retries(self, call: Callable[..., None], *given: Any) -> None:
        """Retries a call while librdkafka marks its error as retriable."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + CLOSE_SECONDS
        while True:
            try:
                return call(*given)
            except KafkaException as e:
                if not e.args[0].retriable() or time.monotonic() > deadline:
                    raise

    def _rewind(self) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        self.astray = False
        mine = self.consumer.assignment()
        try:
            for tp in self.consumer.committed(mine, CLOSE_SECONDS) if mine else ():
                self.consumer.seek(TopicPartition(tp.topic, tp.partition, max(tp.offset, 0)))
        except KafkaException as e:  # no fetch yet, or no coordinator: retried before the next read
            print_event(error=f"rewind: {e}")
            self.astray = True

    def run(self) -> None:
        from confluent_kafka import KafkaException

        while is_running():
            try:
                self.copy_once()
            except KafkaException as e:
                error = e.args[0]
                print_event(error=f"{error}")
                if error.fatal() or not (error.txn_requires_abort() or error.retriable()):
                    raise
                try:
                    self._abort()
                    self._rewind()
                except KafkaException as again:
                    print_event(error=f"abort: {again}")
                    raise
        if self.ends:
            self._abort()
        self.consumer.close()

    def copy_once(self) -> None:
        from confluent_kafka import TopicPartition

        upto = time.monotonic() + 0.3
        while (left := upto - time.monotonic()) > 0:
            m = self.consumer.poll(left)  # one at a time: a revocation aborts the batch before the next record
            if self.astray:
                self._rewind()
                continue
            if m is None:
                continue
            if m.error():
                print_event(error=str(m.error()))
                continue
            if not self.ends:
                self.producer.begin_transaction()
            self.producer.produce(self.s["out"], m.value())
            self.ends[m.partition()] = m.offset() + 1
        if not self.ends:
            return
        offsets = [TopicPartition(self.s["topic"], p, o) for p, o in self.ends.items()]
        self._with_retries(
            self.producer.send_offsets_to_transaction, offsets, self.consumer.consumer_group_metadata(), CLOSE_SECONDS
        )
        self._with_retries(self.producer.commit_transaction, CLOSE_SECONDS)
        self.ends.clear()
        print_event(committed=len(offsets))


def confluent_copier(s: dict[str, Any]) -> None:
    Copier(s).run()


# -- aiokafka --------------------------------------------------------------------------------------------------------------
def aiokafka_producer(s: dict[str, Any]) -> None:
    import aiokafka

    async def run() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=s["bootstrap"], enable_idempotence=True, linger_ms=20, request_timeout_ms=120_000
        )
        await producer.start()
        pace, waiting = ValueRate(s["rate"]), dict[Any, str]()
        while is_running() or waiting:
            for n in pace.next_values() if is_running() else ():
                waiting[await producer.send(s["topic"], f"{s['name']}:{n}".encode())] = f"{s['name']}:{n}"
            if not waiting:
                await asyncio.sleep(0.05)
                continue
            done, _ = await asyncio.wait(waiting, timeout=0.05)
            reported = {waiting.pop(f): f.exception() for f in done}
            if acked := [value for value, error in reported.items() if error is None]:
                print_event(acked=acked)
            for value, error in reported.items():
                if error is not None:
                    print_event(failed=[value], reason=repr(error))
        await producer.stop()

    asyncio.run(run())


def aiokafka_consumer(s: dict[str, Any]) -> None:
    import aiokafka
    from aiokafka.errors import KafkaError

    async def run() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            s["topic"],
            bootstrap_servers=s["bootstrap"],
            group_id=s["group"],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            **s.get("more", {}),
        )
        await consumer.start()
        while is_running():
            found = await consumer.getmany(timeout_ms=200)
            values = [m.value.decode() for part in found.values() for m in part]
            if not values:
                continue
            print_event(read=values)
            try:
                await consumer.commit({tp: part[-1].offset + 1 for tp, part in found.items() if part})
            except KafkaError as e:
                print_event(error=f"commit: {e!r}")
        await consumer.stop()

    asyncio.run(run())


def aiokafka_copier(s: dict[str, Any]) -> None:
    """The only member of its group: aiokafka sends offsets without the group's generation, so that two members could copy twice."""
    import aiokafka
    from aiokafka.errors import KafkaError

    async def run() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=s["bootstrap"],
            transactional_id=s["name"],
            transaction_timeout_ms=30_000,
            request_timeout_ms=120_000,
        )
        consumer = aiokafka.AIOKafkaConsumer(
            s["topic"],
            bootstrap_servers=s["bootstrap"],
            group_id=s["group"],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        await producer.start()
        await consumer.start()
        while is_running():
            found = await consumer.getmany(timeout_ms=300)
            ends = {tp: part[-1].offset + 1 for tp, part in found.items() if part}
            if not ends:
                continue
            try:
                async with producer.transaction():
                    for part in found.values():
                        for m in part:
                            await producer.send(s["out"], m.value)
                    await producer.send_offsets_to_transaction(ends, s["group"])
            except KafkaError as e:
                print_event(error=repr(e))
                break
            print_event(committed=len(ends))
        await consumer.stop()
        await producer.stop()

    while is_running():  # an error aborts the transaction: the copy starts again from the committed offsets
        asyncio.run(run())


# -- kafka-python ----------------------------------------------------------------------------------------------------------
def kafka_python_producer(s: dict[str, Any]) -> None:
    import kafka

    producer = kafka.KafkaProducer(
        bootstrap_servers=s["bootstrap"].split(","), acks="all", linger_ms=20, delivery_timeout_ms=120_000
    )
    reported: list[str] = []
    pace = ValueRate(s["rate"])

    def send(value: str) -> None:
        future = producer.send(s["topic"], value.encode())
        future.add_callback(lambda _: reported.append(value))
        future.add_errback(lambda error: print_event(failed=[value], reason=repr(error)))

    while is_running():
        for n in pace.next_values():
            send(f"{s['name']}:{n}")
        time.sleep(0.05)
        if reported:
            received = reported[:]  # another thread appends meanwhile
            del reported[: len(received)]
            print_event(acked=received)
    producer.flush(CLOSE_SECONDS)
    print_event(acked=reported)
    producer.close(CLOSE_SECONDS)


def kafka_python_consumer(s: dict[str, Any]) -> None:
    import kafka
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=s["bootstrap"].split(","),
        group_id=s["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        **s.get("more", {}),
    )
    consumer.partitions_for_topic(s["topic"])  # metadata is loaded before the join: see tests/foreign/notes.md
    consumer.subscribe([s["topic"]])
    while is_running():
        found = consumer.poll(200)
        values = [m.value.decode() for part in found.values() for m in part]
        if not values:
            continue
        print_event(read=values)
        try:
            consumer.commit({tp: OffsetAndMetadata(part[-1].offset + 1, "", -1) for tp, part in found.items() if part})
        except KafkaError as e:
            print_event(error=f"commit: {e!r}")
    consumer.close()


ROLES: dict[str, Callable[[dict[str, Any]], None]] = {
    f.__name__: f
    for f in (
        confluent_producer,
        confluent_consumer,
        confluent_copier,
        aiokafka_producer,
        aiokafka_consumer,
        aiokafka_copier,
        kafka_python_producer,
        kafka_python_consumer,
    )
}

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: STOPPING.append(number))
    ROLES[sys.argv[1]](json.loads(sys.argv[2]))
