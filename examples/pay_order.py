"""A shop that takes a payment and publishes the paid order, both or neither, with a half message: `python -m examples.pay_order BROKERS TOPIC`.

The topic needs `weir.half.enable=true`. The payments are in a SQLite file (`--payments`). `pay` writes the half message, takes the payment and commits
the message. `--crash after-half` or `after-payment` ends the process in between, as a crash does. `respond` is the other half of the service: it answers
the checks of the brokers from the payments, for orders that a crashed process left behind. An order without a payment is rolled back after
GIVE_UP_CHECKS checks, because its payment cannot come any more.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer

GIVE_UP_CHECKS = 1
"""The shop takes a payment within a second, so an order without one at the first check was abandoned."""
CRASH_STATUS = 70


class Payments:
    """The shop's own database. A payment is a local transaction."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with closing(sqlite3.connect(path)) as db:
            db.execute("CREATE TABLE IF NOT EXISTS payment (order_id TEXT PRIMARY KEY, cents INTEGER NOT NULL)")

    def take(self, order_id: str, cents: int) -> None:
        with closing(sqlite3.connect(self._path)) as db, db:
            db.execute("INSERT INTO payment VALUES (?, ?)", (order_id, cents))

    def has(self, order_id: str) -> bool:
        with closing(sqlite3.connect(self._path)) as db:
            return db.execute("SELECT 1 FROM payment WHERE order_id = ?", (order_id,)).fetchone() is not None


class HalfProducer:
    def __init__(self, brokers: str, topic: str) -> None:
        self._front = f"{topic}.half"
        self._producer = Producer({"bootstrap.servers": brokers, "enable.idempotence": True, "acks": "all"})

    def prepare(self, order_id: str, value: bytes) -> None:
        """Store the message. Consumers of the topic do not see it. Raises RuntimeError if it was rejected."""
        self._write(order_id, value, {"x-half-id": order_id})

    def decide(self, order_id: str, decision: str) -> bool:
        """`decision`: commit or rollback. False: another decision was the first one, or the message has expired."""
        try:
            self._write(order_id, b"", {"x-half-id": order_id, "x-half": decision})
        except RuntimeError:
            return False
        return True

    def _write(self, order_id: str, value: bytes, headers: dict[str, str | bytes | None]) -> None:
        results: list[KafkaError | None] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            results.append(error)

        # The key is the order: the decision reaches the partition of its message.
        self._producer.produce(self._front, value, key=order_id, headers=headers, on_delivery=on_delivery)
        self._producer.flush()
        if results != [None]:
            raise RuntimeError(f"order {order_id} was not written: {results}")


def pay(shop: HalfProducer, payments: Payments, order_id: str, cents: int, crash: str) -> None:
    shop.prepare(order_id, f"order {order_id} paid: {cents} cents".encode())
    if crash == "after-half":
        os._exit(CRASH_STATUS)
    payments.take(order_id, cents)
    if crash == "after-payment":
        os._exit(CRASH_STATUS)
    shop.decide(order_id, "commit")


def respond_to_checks(shop: HalfProducer, payments: Payments, brokers: str, topic: str, seconds: float) -> None:
    """Answer checks for this time."""
    settings: dict[str, Any] = {
        "bootstrap.servers": brokers,
        "group.id": f"{topic}-shop",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    with closing(Consumer(settings)) as checks:
        checks.subscribe([f"{topic}.half.check"])
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            message = checks.poll(0.5)
            if message is None or message.error():
                continue
            headers = {name: (value or b"").decode() for name, value in message.headers() or []}
            order_id, number = headers["x-half-id"], int(headers["x-half-check"])
            if payments.has(order_id):
                shop.decide(order_id, "commit")
            elif number >= GIVE_UP_CHECKS:
                shop.decide(order_id, "rollback")
            checks.commit(message=message, asynchronous=False)


def main() -> int:
    parser = argparse.ArgumentParser(description="pay orders, or answer checks of paid orders")
    parser.add_argument("brokers", help="host:port, ...")
    parser.add_argument("topic")
    parser.add_argument("--payments", type=Path, default=Path("payments.sqlite"))
    verbs = parser.add_subparsers(dest="verb", required=True)
    paying = verbs.add_parser("pay")
    paying.add_argument("order")
    paying.add_argument("cents", type=int)
    paying.add_argument("--crash", choices=("never", "after-half", "after-payment"), default="never")
    respond_parser = verbs.add_parser("respond")
    respond_parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    shop, payments = HalfProducer(given.brokers, given.topic), Payments(given.payments)
    if given.verb == "pay":
        pay(shop, payments, given.order, given.cents, given.crash)
    else:
        respond_to_checks(shop, payments, given.brokers, given.topic, given.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
