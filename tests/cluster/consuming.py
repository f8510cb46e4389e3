"""A consumer as a process of its own, so that it can be killed: `python -m tests.cluster.consuming BOOTSTRAP GROUP TOPIC SETTINGS`.

It says what happens to it in lines of JSON on standard output, each at once: what it is given and gives up, what it has read, and what was
committed once the broker has confirmed it. Times are of the system's monotonic clock, which all processes share.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition


def say(**what: Any) -> None:
    sys.stdout.write(json.dumps({"at": time.monotonic(), **what}) + "\n")
    sys.stdout.flush()


def main(bootstrap: str, group: str, topic: str, settings: str) -> None:
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.append(number))
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
            **json.loads(settings),
        }
    )  # fmt: skip

    def given(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        say(sign="+", places=[tp.partition for tp in partitions])

    def given_up(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        say(sign="-", places=[tp.partition for tp in partitions])

    consumer.subscribe([topic], on_assign=given, on_revoke=given_up, on_lost=given_up)
    while not stopping:
        messages = [m for m in consumer.consume(50, 0.1) if m.error() is None]
        if not messages:
            continue
        say(read=[m.value().decode() for m in messages])
        ends = {m.partition(): m.offset() + 1 for m in messages}
        try:
            done = consumer.commit(offsets=[TopicPartition(topic, p, o) for p, o in ends.items()], asynchronous=False)
        except KafkaException as e:
            say(refused=str(e))
        else:
            say(committed={tp.partition: tp.offset for tp in done or [] if tp.error is None})
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
