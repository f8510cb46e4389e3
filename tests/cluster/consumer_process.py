"""A consumer in its own process, so that a test can kill it: `python -m tests.cluster.consumer_process BOOTSTRAP GROUP TOPIC SETTINGS`.

It writes each event as a line of JSON to standard output at once: partitions assigned and revoked, records read, and offsets whose commit the
broker has confirmed. Times are of the system's monotonic clock, which all processes share.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition


def report(**what: Any) -> None:
    sys.stdout.write(json.dumps({"at": time.monotonic(), **what}) + "\n")
    sys.stdout.flush()


def main(bootstrap: str, group: str, topic: str, settings: str) -> None:
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.append(number))
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **json.loads(settings),
        }
    )

    def on_assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        report(sign="+", places=[tp.partition for tp in partitions])

    def on_revoked(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        report(sign="-", places=[tp.partition for tp in partitions])

    consumer.subscribe([topic], on_assign=on_assigned, on_revoke=on_revoked, on_lost=on_revoked)
    while not stopping:
        messages = [m for m in consumer.consume(50, 0.1) if m.error() is None]
        if not messages:
            continue
        report(read=[m.value().decode() for m in messages])
        ends = {m.partition(): m.offset() + 1 for m in messages}
        try:
            done = consumer.commit(offsets=[TopicPartition(topic, p, o) for p, o in ends.items()], asynchronous=False)
        except KafkaException as e:
            report(rejected=str(e))
        else:
            report(committed={tp.partition: tp.offset for tp in done or [] if tp.error is None})
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
