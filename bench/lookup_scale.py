"""`python -m bench.lookup_scale`: look-ups by key in a topic of very many records, whose log an offline generator writes.

A broker creates the topic and stops. The generator appends batches to the partitions with the broker's own log: record N has key N and is in
partition N modulo the number of partitions. The broker starts again and builds the indexes. Then keys that exist, and keys that do not, are looked up one
at a time in all partitions one after the other, as the console does: first with empty active segments, then with some megabytes in
each of them. One broker.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
from confluent_kafka.admin import AdminClient, NewTopic
from crc32c import crc32c

from bench.client import percentile
from bench.kernel import cpu_clock
from bench.peer.systems import Weir, wait_for
from brokerd.cluster.clocks import read_clocks
from brokerd.cluster.configs import TopicConfig
from brokerd.storage.log import Log
from brokerd.storage.os_disk import OsDisk
from brokerd.wire import records
from brokerd.wire.messages.key_lookups import KeyLookupRequest, LookupStop
from brokerd.wire.records import Record
from controlplane.clients.connection import KafkaConnection
from controlplane.clients.key_lookups import look_up

TOPIC = "lookup"
PREFIX, DIGITS = b"order-", 12
BATCH_BYTES = 16_384
CHECKED_FROM = 21
"""Position in a batch of the first byte that its CRC covers. The CRC is before it."""
BUILD_SECONDS_MAX = 3_600


def key_of(number: int) -> bytes:
    return PREFIX + b"%0*d" % (DIGITS, number)


class Batches:
    """Batches that differ in their keys only: one is built, the digits of the keys and the CRC of the others are written into copies of it."""

    def __init__(self, record_bytes: int) -> None:
        """`record_bytes`: of a record in the log."""
        now_ms = time.time_ns() // 1_000_000
        sample = [Record(i, now_ms, key_of(0), b"") for i in range(2)]
        empty = (len(records.build(sample)) - records.HEADER_BYTES) // 2
        value = os.urandom(max(0, record_bytes - empty - 1))
        self.count = max(1, BATCH_BYTES // record_bytes)
        built = records.build([Record(i, now_ms, key_of(0), value) for i in range(self.count)])
        self._data = np.frombuffer(built, dtype=np.uint8).copy()
        at, places = 0, []
        while (at := built.find(key_of(0), at)) >= 0:
            places.append(at + len(PREFIX))
            at += len(PREFIX)
        if len(places) != self.count:
            raise SystemExit("a value contains a key")
        self._digits = np.array(places)[:, None] + np.arange(DIGITS)
        self._powers = 10 ** np.arange(DIGITS - 1, -1, -1)
        self.record_bytes = (len(built) - records.HEADER_BYTES) / self.count

    def of(self, first: int, step: int) -> bytearray:
        """A batch with the keys `first`, `first + step`, and so on."""
        numbers = first + step * np.arange(self.count)
        self._data[self._digits] = (numbers[:, None] // self._powers) % 10 + ord("0")
        self._data[CHECKED_FROM - 4 : CHECKED_FROM] = np.frombuffer(
            int(crc32c(self._data[CHECKED_FROM:])).to_bytes(4, "big"), dtype=np.uint8
        )
        return bytearray(self._data)


def generate(
    system: Weir, partition: int, partitions: int, numbers: range, made: Batches, config: TopicConfig, *, rolled: bool
) -> None:
    """Append the batches with these numbers to the log of a broker that does not run. `rolled`: the active segment is empty after that."""
    folder = next(system.folder.glob(f"{system.log_dirs}/{TOPIC}-{partition}"))
    log = Log.open(folder, config, OsDisk(), read_clocks())
    for number in numbers:
        data = made.of(partition + number * made.count * partitions, partitions)
        log.append(data, list(records.batches(data)), 0, read_clocks())
    if rolled:
        log.roll(read_clocks())
    log.close()


def create_topic(system: Weir, partitions: int, config: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(TOPIC, partitions, 1, config=config)]).values():
        future.result(60)
    wait_led(system, partitions)


def wait_led(system: Weir, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})

    def led() -> bool:
        topic = admin.list_topics(timeout=20).topics.get(TOPIC)
        return topic is not None and [p.leader for p in topic.partitions.values()] == [1] * partitions

    wait_for(led, "the topic", seconds=600, pause=0.2)


def files(system: Weir, suffix: str) -> list[Path]:
    return sorted(system.folder.glob(f"{system.log_dirs}/{TOPIC}-*/*{suffix}"))


def built(system: Weir, partitions: int) -> bool:
    """Whether each closed segment has an index."""
    return len(files(system, ".keyindex")) == len(files(system, ".log")) - partitions


def requested(connection: KafkaConnection, partitions: int, key: bytes) -> tuple[float, int, int, int]:
    """(milliseconds, matches, bytes of log, bytes of index) of a look-up in all partitions."""
    began, matches, log_bytes, index_bytes = time.perf_counter(), 0, 0, 0
    for partition in range(partitions):
        result = look_up(
            connection, TOPIC, partition, KeyLookupRequest(key=key, bytes_max=2**40, duration_ms_max=60_000)
        )
        if result.stop != LookupStop.LOG_START:
            raise SystemExit(f"the look-up in partition {partition} was not complete")
        matches += len(result.matches)
        log_bytes, index_bytes = log_bytes + result.log_bytes, index_bytes + result.index_bytes
    return (time.perf_counter() - began) * 1000, matches, log_bytes, index_bytes


def report(system: Weir, partitions: int, total: int, lookups: int) -> None:
    rng, connection = random.Random(1), KafkaConnection("127.0.0.1", system.ports[1])
    active = sum(f.stat().st_size for f in files(system, ".log") if is_active(f))
    print(f"active segments: {active / 1e6:.1f} MB in all partitions", flush=True)
    try:
        for name, first, matches in (("key present", 0, 1), ("key absent", 10 * total, 0)):
            pid = system.broker_pids()[1]
            before, found = cpu_clock([pid]), []
            for _ in range(lookups):
                found.append(requested(connection, partitions, key_of(first + rng.randrange(total))))
                if found[-1][1] != matches:
                    raise SystemExit(f"{found[-1][1]} matches instead of {matches}")
            took = sorted(f[0] for f in found)
            cpu_ms = (cpu_clock([pid]) - before) / lookups * 1000
            log_mb, index_kb = median(f[2] for f in found) / 1e6, median(f[3] for f in found) / 1e3
            print(
                f"{name:<12} p50 {median(took):8.1f} ms  p99 {percentile(took, 99):8.1f} ms  n={lookups}  "
                f"broker CPU {cpu_ms:.1f} ms, log {log_mb:.2f} MB, index {index_kb:.0f} kB",
                flush=True,
            )
    finally:
        connection.close()


def is_active(file: Path) -> bool:
    return file == max(file.parent.glob("*.log"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.lookup_scale", description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--bytes", type=int, default=100, help="of a record in the log")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--segment-megabytes", type=int, default=256)
    parser.add_argument("--active-megabytes", type=int, default=16, help="in each active segment in the second part")
    parser.add_argument("--lookups", type=int, default=200)
    parser.add_argument("--folder", help="directory for the data; the default is that of temporary files")
    given = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")
    made = Batches(given.bytes)
    batches = given.records // (made.count * given.partitions)
    total = batches * made.count * given.partitions
    topic = TopicConfig.from_overrides(
        config := {"segment.bytes": str(given.segment_megabytes * 1024 * 1024), "weir.index.keys": "true"}
    )
    with tempfile.TemporaryDirectory(prefix="weir-bench-lookup-scale-", dir=given.folder) as folder:
        system = Weir(Path(folder), 1)
        try:
            system.start()
            settings = Path(folder) / "broker-1" / "broker.properties"
            settings.write_text(settings.read_text() + "weir.index.io.max.bytes.per.second=1073741824\n")
            create_topic(system, given.partitions, config)
            system.end_broker(1, signal.SIGTERM)
            began, cpu = time.monotonic(), time.process_time()
            for partition in range(given.partitions):
                generate(system, partition, given.partitions, range(batches), made, topic, rolled=True)
            print(
                f"{total:,} records of {made.record_bytes:.0f} bytes in {given.partitions} partitions, {len(files(system, '.log'))} segments, "
                f"{sum(f.stat().st_size for f in files(system, '.log')) / 1e9:.2f} GB: "
                f"generated in {time.monotonic() - began:.0f} s ({time.process_time() - cpu:.0f} s of CPU), "
                f"load of the machine {os.getloadavg()[0]:.1f}",
                flush=True,
            )
            began = time.monotonic()
            system.start_broker(1)
            wait_led(system, given.partitions)
            print(f"the broker leads the partitions {time.monotonic() - began:.1f} s after its start", flush=True)
            wait_for(lambda: built(system, given.partitions), "the indexes", seconds=BUILD_SECONDS_MAX, pause=1.0)
            closed = [f for f in files(system, ".log") if not is_active(f)]
            log_bytes = sum(f.stat().st_size for f in closed)
            index_bytes = sum(f.stat().st_size for f in files(system, ".keyindex"))
            spent = cpu_clock([system.broker_pids()[1]])
            print(
                f"indexes of {log_bytes / 1e9:.2f} GB built in {time.monotonic() - began:.0f} s since the start, {spent / log_bytes * 1e9:.1f} s of "
                f"broker CPU per GB with the start; {index_bytes / 1e6:.0f} MB, {index_bytes / log_bytes:.2%} of the log",
                flush=True,
            )
            report(system, given.partitions, total, given.lookups)
            system.end_broker(1, signal.SIGTERM)
            more = given.active_megabytes * 1_000_000 // BATCH_BYTES
            for partition in range(given.partitions):
                numbers = range(batches, batches + more)
                generate(system, partition, given.partitions, numbers, made, topic, rolled=False)
            system.start_broker(1)
            wait_led(system, given.partitions)
            report(system, given.partitions, total, max(1, given.lookups // 10))
            print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")
        finally:
            system.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
