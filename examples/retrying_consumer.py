"""A consumer that processes failed records again after a while, and keeps those that never succeed: `python -m examples.retrying_consumer BROKERS TOPIC GROUP`.

The topic needs `weir.retry.enable=true`. A record whose processing fails is written to TOPIC.retry.delay with the next delay of `--steps-ms`, and after
the last one to TOPIC.dead. The consumer reads TOPIC and TOPIC.retry, and commits an offset after the record is processed or written elsewhere, so each
record is processed at least once. The processing of this program prints the value, and fails for values that contain `--fail`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer

COUNT, GROUP, SOURCE, ERROR, DELAY = "x-retry-count", "x-retry-group", "x-retry-source", "x-retry-error", "x-delay-ms"
ERROR_CHARS_MAX = 1_000
Headers = list[tuple[str, str | bytes | None]]


class ProcessingFailed(Exception):
    """The record could not be processed, perhaps at this time only."""


def headers_of(message: Message) -> dict[str, bytes]:
    return {name: value or b"" for name, value in message.headers() or []}


def failed_headers(message: Message, group: str, error: str) -> Headers:
    """The headers of a record for its next attempt, or for the dead letters. Headers of other programs are kept."""
    own = headers_of(message)
    attempts = int(own.get(COUNT, b"0")) + 1
    source = own.get(SOURCE) or f"{message.topic()}-{message.partition()}@{message.offset()}".encode()
    kept: Headers = [(n, v) for n, v in message.headers() or [] if n not in (COUNT, GROUP, SOURCE, ERROR, DELAY)]
    return [*kept, (COUNT, str(attempts)), (GROUP, group), (SOURCE, source), (ERROR, error[:ERROR_CHARS_MAX])]


class RetryingConsumer:
    def __init__(self, brokers: str, topic: str, group: str, steps_ms: Sequence[int]) -> None:
        self._topic, self._group, self._steps_ms = topic, group, steps_ms
        self._producer = Producer({"bootstrap.servers": brokers, "enable.idempotence": True, "acks": "all"})
        settings: dict[str, Any] = {
            "bootstrap.servers": brokers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        self._consumer = Consumer(settings)
        self._consumer.subscribe([topic, f"{topic}.retry"])

    def run(self, process: Callable[[Message], None], seconds: float) -> None:
        """Process records for this time. `process` raises ProcessingFailed for a record that needs another attempt."""
        until = time.monotonic() + seconds
        with closing(self._consumer):
            while time.monotonic() < until:
                message = self._consumer.poll(0.5)
                if message is None or message.error():
                    continue
                own = headers_of(message)
                if (
                    own.get(GROUP, self._group.encode()) == self._group.encode()
                ):  # TOPIC.retry has records of all groups
                    try:
                        process(message)
                    except ProcessingFailed as e:
                        self._set_aside(message, str(e))
                self._consumer.commit(message=message, asynchronous=False)

    def _set_aside(self, message: Message, error: str) -> None:
        headers = failed_headers(message, self._group, error)
        attempts = int(dict(headers)[COUNT] or 0)
        if attempts <= len(self._steps_ms):
            headers.append((DELAY, str(self._steps_ms[attempts - 1])))
            self._write(f"{self._topic}.retry.delay", message, headers)
        else:
            self._write(f"{self._topic}.dead", message, headers)

    def _write(self, topic: str, message: Message, headers: Headers) -> None:
        """Raises RuntimeError if the record was not acknowledged: its offset is not committed then."""
        errors: list[KafkaError | None] = []
        self._producer.produce(
            topic,
            message.value(),
            message.key(),
            partition=message.partition() or 0,
            headers=headers,
            on_delivery=lambda error, _: errors.append(error),
        )
        self._producer.flush()
        if errors != [None]:
            raise RuntimeError(f"{topic} did not accept the record: {errors}")


def main() -> int:
    parser = argparse.ArgumentParser(description="process records of a topic with retries")
    parser.add_argument("brokers", help="host:port, ...")
    parser.add_argument("topic")
    parser.add_argument("group")
    parser.add_argument("--steps-ms", default="1000,10000,60000", help="delay before each further attempt")
    parser.add_argument("--fail", default="", help="fail for values that contain this")
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()

    def process(message: Message) -> None:
        value = (message.value() or b"").decode()
        sys.stdout.write(f"{value}\n")
        sys.stdout.flush()
        if given.fail and given.fail in value:
            raise ProcessingFailed(f"cannot process {value!r}")

    steps = [int(step) for step in given.steps_ms.split(",")]
    RetryingConsumer(given.brokers, given.topic, given.group, steps).run(process, given.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
