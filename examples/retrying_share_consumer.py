"""A consumer of a share group that processes topics by priority, and failed records again after a while:
`python -m examples.retrying_share_consumer BROKERS GROUP URGENT,NORMAL`.

The topics need `weir.retry.enable=true`. Each topic has a member of the group of its own, which also reads TOPIC.retry. Members are polled in the order
of the topics, and again from the first one after each delivery, so records of a later topic wait while an earlier one has some. A record whose
processing fails is written to TOPIC.retry.delay with the next delay of `--steps-ms`, after the last one to TOPIC.dead, and then it is accepted. A record
that could not be written is released. So each record is processed at least once. The processing of this program prints the value, and fails for
values that contain `--fail`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from confluent_kafka import AcknowledgeType, KafkaError, Message, Producer, ShareConsumer

from examples.retrying_consumer import COUNT, DELAY, GROUP, Headers, ProcessingFailed, failed_headers, headers_of

WAIT_S = 0.2
"""How long the poll of one topic waits. A record of an urgent topic is noticed after the polls of the other topics."""
RECORDS_MAX = 10
"""Records of one poll. Few, so that an urgent record does not wait long behind others, and locks do not end before the records are processed."""


class RetryingShareConsumer:
    def __init__(self, brokers: str, group: str, topics: Sequence[str], steps_ms: Sequence[int]) -> None:
        self._brokers, self._group, self._topics, self._steps_ms = brokers, group, topics, steps_ms
        self._producer = Producer({"bootstrap.servers": brokers, "enable.idempotence": True, "acks": "all"})

    def run(self, process: Callable[[Message], None], over: Callable[[], bool]) -> None:
        """Process records until `over` is true. `process` raises ProcessingFailed for a record that needs another attempt."""
        with ExitStack() as closing:
            members = [closing.enter_context(self._member(topic)) for topic in self._topics]
            while not over():
                for topic, member in zip(self._topics, members, strict=True):
                    if self._delivered(topic, member, process):
                        break

    def _member(self, topic: str) -> ShareConsumer:
        member = ShareConsumer(
            {
                "bootstrap.servers": self._brokers,
                "group.id": self._group,
                "share.acknowledgement.mode": "explicit",
                "max.poll.records": RECORDS_MAX,
            }
        )
        member.subscribe([topic, f"{topic}.retry"])
        return member

    def _delivered(self, topic: str, member: ShareConsumer, process: Callable[[Message], None]) -> bool:
        messages = [m for m in member.poll(WAIT_S) if not m.error()]
        for message in messages:
            member.acknowledge(message, self._handled(topic, message, process))
        member.commit_sync(30.0)  # an acknowledgement that failed is answered by another delivery
        return bool(messages)

    def _handled(self, topic: str, message: Message, process: Callable[[Message], None]) -> AcknowledgeType:
        if headers_of(message).get(GROUP, self._group.encode()) != self._group.encode():
            return AcknowledgeType.ACCEPT  # TOPIC.retry has records of all groups
        try:
            process(message)
        except ProcessingFailed as e:
            return AcknowledgeType.ACCEPT if self._set_aside(topic, message, str(e)) else AcknowledgeType.RELEASE
        return AcknowledgeType.ACCEPT

    def _set_aside(self, topic: str, message: Message, error: str) -> bool:
        headers = failed_headers(message, self._group, error)
        attempts = int(dict(headers)[COUNT] or 0)
        if attempts > len(self._steps_ms):
            return self._write(f"{topic}.dead", message, headers)
        return self._write(f"{topic}.retry.delay", message, [*headers, (DELAY, str(self._steps_ms[attempts - 1]))])

    def _write(self, topic: str, message: Message, headers: Headers) -> bool:
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
        return errors == [None]


def main() -> int:
    parser = argparse.ArgumentParser(description="process records of topics by priority in a share group, with retries")
    parser.add_argument("brokers", help="host:port, ...")
    parser.add_argument("group")
    parser.add_argument("topics", help="TOPIC,... in the order of their priority")
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
    until = time.monotonic() + given.seconds
    consumer = RetryingShareConsumer(given.brokers, given.group, given.topics.split(","), steps)
    consumer.run(process, lambda: time.monotonic() >= until)
    return 0


if __name__ == "__main__":
    sys.exit(main())
