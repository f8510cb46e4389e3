"""`python -m bench.lookup`: cost of a key index for a broker, size of the index, and time of a look-up by key beside a full scan.

Rounds produce the same keyed records to a topic with `weir.index.keys` and to one without, in alternating order. The CPU of the broker is
counted for the same number of seconds in both, until after the index is built; the CPU of the idle broker is subtracted. Then keys are looked up in
both topics, and a consumer reads a topic from its start to find one key. At last keys are looked up in two topics whose records are all in the active
segment, one with an index and one without. `--against FOLDER`: the same passes with the brokers of another work tree, for the ratio of their CPU.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.client import percentile
from bench.kernel import cpu_clock, take_memory
from bench.peer.systems import Weir, wait_for
from brokerd.maintenance.key_indexing import PART_BYTES
from brokerd.maintenance.segment_indexing import INDEX_INTERVAL_MS, ROUND_MS_MIN
from brokerd.wire.messages.key_lookups import KeyLookupRequest, KeyLookupResponse, LookupStop
from controlplane.clients.connection import KafkaConnection
from controlplane.clients.key_lookups import look_up

RECORD_BYTES, SEGMENT_BYTES = 1_024, 16 * 1024 * 1024
SETTLE_SECONDS, IDLE_SECONDS = 10.0, 20.0
"""Time after the warm-up in which the CPU of the idle broker is not counted, and in which it is."""
LOOKUPS, SCANS = 200, 5
"""Number of look-ups with the index, and of scans without it."""
INDEXED, PLAIN = "indexed", "plain"
THIS, OTHER = "this", "other"
ACTIVE_SEGMENT_BYTES = 1024 * 1024 * 1024


class OtherTree(Weir):
    """A Weir cluster whose brokers run the code of another work tree."""

    def __init__(self, folder: Path, tree: Path, brokers: int = 1) -> None:
        super().__init__(folder, brokers)
        self.tree = tree

    def start_broker(self, number: int) -> None:
        self.spawn(f"broker-{number}", self.broker_command(number), {"PYTHONPATH": str(self.tree)})


def make_topic(system: Weir, kind: str, name: str, segment_bytes: int = SEGMENT_BYTES) -> None:
    admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})
    config = {"segment.bytes": str(segment_bytes), "weir.index.keys": str(kind == INDEXED).lower()}
    for future in admin.create_topics([NewTopic(name, 1, 1, config=config)]).values():
        future.result(60)

    def led() -> bool:
        topic = admin.list_topics(timeout=20).topics.get(name)
        return topic is not None and bool(topic.partitions) and topic.partitions[0].leader == 1

    wait_for(led, f"topic {name}", pause=0.1)


def key_of(number: int) -> bytes:
    return b"order-%012d" % number


def produce(bootstrap: str, topic: str, value: bytes, records: int, first: int = 0) -> None:
    """Records `first` to `records - 1`. Record N has key N. Raises SystemExit if a record is not acknowledged."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "log_level": 0, "acks": "1", "batch.size": 16_384, "linger.ms": 5}
    )
    for number in range(first, records):
        while True:
            try:
                producer.produce(topic, value, key_of(number), partition=0)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if left := producer.flush(120):
        raise SystemExit(f"{left} records of {topic} were not acknowledged")


def files(system: Weir, topic: str, suffix: str) -> list[Path]:
    return sorted(system.folder.glob(f"{system.log_dirs}/{topic}-0/*{suffix}"))


def is_indexed(system: Weir, topic: str) -> bool:
    """Whether each closed segment has an index."""
    return len(files(system, topic, ".keyindex")) == len(files(system, topic, ".log")) - 1


def cpu_of_pass(system: Weir, kind: str, topic: str, value: bytes, records: int, seconds: float) -> float:
    """CPU seconds of the broker in `seconds` seconds, which include the appends and the build of the index. The first records come before, so that the
    build of the active segment has begun, as in each topic that is older than some seconds."""
    make_topic(system, kind, topic)
    first = 2 * PART_BYTES // RECORD_BYTES
    produce(system.bootstrap, topic, value, first)
    time.sleep((ROUND_MS_MIN + 2 * INDEX_INTERVAL_MS) / 1000)
    take_memory(system.folder, 2 * records * RECORD_BYTES // 1_000_000)
    pid = system.broker_pids()[1]
    began, before = time.monotonic(), cpu_clock([pid])
    produce(system.bootstrap, topic, value, records, first)
    while time.monotonic() < began + seconds:
        time.sleep(0.05)
    spent = cpu_clock([pid]) - before
    if time.monotonic() > began + seconds * 1.1:
        raise SystemExit(f"{records:,} records need more than {seconds:.0f} s: use a larger --seconds")
    if kind == INDEXED and not is_indexed(system, topic):
        raise SystemExit(f"the index was not complete after {seconds:.0f} s: use a larger --seconds")
    return spent


def look_up_timed(connection: KafkaConnection, topic: str, key: bytes) -> tuple[float, KeyLookupResponse]:
    """Look up a key: milliseconds and the response. An incomplete response ends the benchmark."""
    query = KeyLookupRequest(key=key, bytes_max=2**40, duration_ms_max=60_000)
    began = time.perf_counter()
    result = look_up(connection, topic, 0, query)
    took_ms = (time.perf_counter() - began) * 1000
    if result.stop != LookupStop.LOG_START:
        raise SystemExit(f"the look-up in {topic} was not complete")
    return took_ms, result


def time_lookups(port: int, topic: str, keys: list[bytes], matches: int) -> tuple[list[float], int, int]:
    """Sorted milliseconds of the look-ups, and the bytes of log and index that a median look-up read."""
    connection = KafkaConnection("127.0.0.1", port)
    took, log_bytes, index_bytes = [], [], []
    try:
        for key in keys:
            ms, result = look_up_timed(connection, topic, key)
            if len(result.matches) != matches:
                raise SystemExit(f"{len(result.matches)} matches for {key!r} in {topic} instead of {matches}")
            took.append(ms)
            log_bytes.append(result.log_bytes)
            index_bytes.append(result.index_bytes)
    finally:
        connection.close()
    return sorted(took), int(median(log_bytes)), int(median(index_bytes))


def consume_all(bootstrap: str, topic: str, key: bytes, records: int) -> float:
    """Milliseconds of a consumer that reads the whole topic for one key."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "log_level": 0, "group.id": "lookup", "enable.auto.commit": False}
    )
    began = time.perf_counter()
    consumer.assign([TopicPartition(topic, 0, 0)])
    count = found = 0
    while count < records:
        messages = consumer.consume(1_000, 1.0)
        count += len(messages)
        found += sum(m.key() == key for m in messages)
        if time.perf_counter() > began + 60:
            raise SystemExit(f"only {count} records of {topic} were read")
    took_ms = (time.perf_counter() - began) * 1000
    consumer.close()
    if found != 1:
        raise SystemExit(f"the consumer found {found} records")
    return took_ms


def line(name: str, took: list[float], more: str = "") -> None:
    print(
        f"{name:<38} p50 {median(took):>8.1f} ms  p99 {percentile(took, 99):>8.1f} ms  n={len(took)}  {more}",
        flush=True,
    )


def report_lookups(system: Weir, records: int) -> None:
    rng, port = random.Random(1), system.ports[1]
    # The newest records are in the active segment, which is always scanned: each look-up includes this scan.
    keys = [key_of(rng.randrange(records)) for _ in range(LOOKUPS)]
    absent = [key_of(records + i) for i in range(LOOKUPS)]
    rows: list[tuple[str, str, list[bytes], int]] = [
        ("with the index, key present", INDEXED, keys, 1),
        ("with the index, key absent", INDEXED, absent, 0),
        ("scan by the leader, key present", PLAIN, keys[:SCANS], 1),
        ("scan by the leader, key absent", PLAIN, absent[:SCANS], 0),
    ]
    for name, kind, requested, matches in rows:
        took, log_bytes, index_bytes = time_lookups(port, f"{kind}-1", requested, matches)
        line(name, took, f"log {log_bytes / 1e6:.2f} MB, index {index_bytes / 1e3:.1f} kB")
    scanned = sorted(consume_all(system.bootstrap, f"{PLAIN}-1", key, records) for key in keys[:SCANS])
    line("consumer that reads the whole topic", scanned)


def report_active(system: Weir, value: bytes, records: int) -> None:
    """Look-ups in the active segment, with its index and without."""
    rng, port = random.Random(2), system.ports[1]
    medians: dict[str, tuple[float, float]] = {}
    keys = [key_of(rng.randrange(records)) for _ in range(LOOKUPS)]
    for kind in (INDEXED, PLAIN):
        topic = f"active-{kind}"
        make_topic(system, kind, topic, ACTIVE_SEGMENT_BYTES)
        produce(system.bootstrap, topic, value, records)
    connection = KafkaConnection("127.0.0.1", port)
    wait_for(
        lambda: look_up_timed(connection, f"active-{INDEXED}", key_of(records))[1].log_bytes < 2 * PART_BYTES,
        "the index of the active segment",
        pause=0.5,
    )
    connection.close()
    for kind, count in ((INDEXED, LOOKUPS), (PLAIN, 4 * SCANS)):
        before = cpu_clock([system.broker_pids()[1]])
        took, log_bytes, index_bytes = time_lookups(port, f"active-{kind}", keys[:count], 1)
        cpu_ms = (cpu_clock([system.broker_pids()[1]]) - before) * 1000 / count
        medians[kind] = median(took), cpu_ms
        more = f"log {log_bytes / 1e6:.2f} MB, index {index_bytes / 1e3:.1f} kB, broker CPU {cpu_ms:.1f} ms"
        line(f"active segment, {kind}", took, more)
    (indexed_ms, indexed_cpu), (plain_ms, plain_cpu) = medians[INDEXED], medians[PLAIN]
    print(
        f"active segment: time {indexed_ms / plain_ms:.3f}, broker CPU {indexed_cpu / plain_cpu:.3f} of those of a scan"
    )


def compare_trees(systems: dict[str, Weir], value: bytes, records: int, rounds: int, seconds: float) -> None:
    """Broker CPU of the passes with an index, of this tree relative to another one."""
    ratios = []
    for number in range(1, rounds + 1):
        order = [*systems] if number % 2 else [*reversed(systems)]
        cpu = {name: cpu_of_pass(systems[name], INDEXED, f"tree-{number}", value, records, seconds) for name in order}
        ratios.append(cpu[THIS] / cpu[OTHER])
        print(
            f"round {number}: broker CPU {cpu[THIS]:.2f} s, {cpu[OTHER]:.2f} s in the other tree, ratio {ratios[-1]:.3f}"
        )
    print(f"median ratio {median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})", flush=True)


def compare(spent: Callable[[str, int], float], rounds: int, gigabytes: float) -> None:
    """Prints one line per round, and the median ratio."""
    ratios, differences = [], []
    for number in range(1, rounds + 1):
        kinds = (INDEXED, PLAIN) if number % 2 else (PLAIN, INDEXED)
        cpu = {kind: spent(kind, number) / gigabytes for kind in kinds}
        ratios.append(cpu[INDEXED] / cpu[PLAIN])
        differences.append(cpu[INDEXED] - cpu[PLAIN])
        print(
            f"round {number}: broker CPU {cpu[INDEXED]:.2f} s/GB with the index, {cpu[PLAIN]:.2f} without, ratio {ratios[-1]:.2f}",
            flush=True,
        )
    print(
        f"median ratio {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), difference {median(differences):.2f} s/GB"
    )


def against(tree: Path, value: bytes, records: int, rounds: int, seconds: float) -> None:
    with ExitStack() as stack:
        systems: dict[str, Weir] = {}
        for name in (THIS, OTHER):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-lookup-")))
            system = Weir(folder, 1) if name == THIS else OtherTree(folder, tree)
            stack.callback(system.close)
            system.start()
            systems[name] = system
            make_topic(system, PLAIN, "warm-up")
            produce(system.bootstrap, "warm-up", value, 10_000)
        compare_trees(systems, value, records, rounds, seconds)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.lookup", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=400, help="bytes of record values per pass")
    parser.add_argument("--seconds", type=float, default=20, help="duration of a pass")
    parser.add_argument(
        "--against", type=Path, help="a work tree: only the CPU of the passes with the index is compared"
    )
    given = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")
    records = given.megabytes * 1_000_000 // RECORD_BYTES
    if records < 4 * PART_BYTES // RECORD_BYTES:
        parser.error(f"--megabytes: at least {4 * PART_BYTES // 1_000_000 + 1}")
    value = os.urandom(RECORD_BYTES)
    if given.against is not None:
        against(given.against.resolve(), value, records, given.rounds, given.seconds)
        return 0
    with tempfile.TemporaryDirectory(prefix="weir-bench-lookup-") as folder:
        system = Weir(Path(folder), 1)
        try:
            system.start()
            make_topic(system, PLAIN, "warm-up")
            produce(system.bootstrap, "warm-up", value, 10_000)
            pids = [system.broker_pids()[1]]
            time.sleep(SETTLE_SECONDS)
            before = cpu_clock(pids)
            time.sleep(IDLE_SECONDS)
            idle: float = (cpu_clock(pids) - before) / IDLE_SECONDS * given.seconds
            print(f"the idle broker uses {idle / given.seconds * 1000:.1f} ms of CPU per second")
            print(f"{records:,} records of {RECORD_BYTES} bytes per pass, load of the machine {os.getloadavg()[0]:.1f}")

            def spent(kind: str, number: int) -> float:
                return cpu_of_pass(system, kind, f"{kind}-{number}", value, records, given.seconds) - idle

            compare(spent, given.rounds, records * RECORD_BYTES / 1e9)
            closed = files(system, f"{INDEXED}-1", ".log")[:-1]
            index_bytes = sum(p.stat().st_size for p in files(system, f"{INDEXED}-1", ".keyindex"))
            log_bytes = sum(p.stat().st_size for p in closed)
            indexed_records = int(files(system, f"{INDEXED}-1", ".log")[-1].stem)
            print(
                f"index: {index_bytes / indexed_records:.2f} bytes per record, {index_bytes / log_bytes:.2%} of the log"
            )
            report_lookups(system, records)
            report_active(system, value, records)
            print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")
        finally:
            system.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
