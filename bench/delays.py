"""`python -m bench.delays`: many pending delayed messages on one broker: rate in, memory, restart, lateness of deliveries, rate out.

Steps: (1) `--pending` records are written that are due in 2 to 26 hours; (2) the broker is restarted, until it reports again how many are pending; (3) `--due`
records are due at times spread over `--window` seconds, and a consumer measures how late each arrives, beside the pending ones; (4) `--burst` records are due
in the same second. Memory is the resident set of the broker's process. The values depend on the load of the machine, which is printed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.client import percentile
from bench.peer.systems import Weir, wait_for
from brokerd.wire.messages.delayed_messages import DelayedMessagesRequest, DelayedMessagesResponse
from controlplane.clients.connection import Declined, KafkaConnection, NoResponse
from controlplane.clients.delayed_messages import fetch_pending

TOPIC, PARTITIONS = "later", 4
FRONT = f"{TOPIC}.delay"
FAR_MS, SPREAD_MS = 2 * 3_600_000, 24 * 3_600_000
"""The pending records are due after FAR_MS, spread over SPREAD_MS."""
LEAD_S = 10.0
"""Seconds between the writing of records and the time of the first one."""
RESPONSE_S_MAX = 900.0
"""The longest time in seconds of one step."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """Milliseconds between the delivery time of a record and its arrival at a consumer, ascending."""

    late_ms: list[float]

    @property
    def early(self) -> int:
        return sum(ms < 0 for ms in self.late_ms)

    def text(self) -> str:
        found = self.late_ms
        shown = " ".join(f"p{p:g} {percentile(found, p):.0f}" for p in (50, 99, 99.9))
        return f"{len(found):,} records: {self.early} early, late by ms: min {found[0]:.0f} {shown} max {found[-1]:.0f}"


def far_times(count: int, now_ms: int, rng: random.Random) -> Iterator[int]:
    return (now_ms + FAR_MS + rng.randrange(SPREAD_MS) for _ in range(count))


def near_times(count: int, first_ms: int, window_s: float) -> Iterator[int]:
    return (first_ms + int(i * window_s * 1000 / count) for i in range(count))


def produce(bootstrap: str, times: Iterable[int], value: bytes, first: int = 0) -> int:
    """Write a record for each delivery time. Returns their number. Raises SystemExit if one is not acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.num.messages": 5_000,
            "queue.buffering.max.messages": 200_000,
        }
    )
    failed: list[object] = []
    number = first
    for at in times:
        while True:
            try:
                producer.produce(
                    FRONT,
                    value,
                    b"k%d" % number,
                    number % PARTITIONS,
                    headers=[("x-deliver-at-ms", b"%d" % at)],
                    on_delivery=lambda error, message: failed.append(error) if error is not None else None,
                )
                break
            except BufferError:
                producer.poll(0.1)
        number += 1
        if number % 1_000 == 0:
            producer.poll(0)
    if (left := producer.flush(300)) or failed:
        raise SystemExit(f"{left + len(failed)} records were not acknowledged: {failed[:1]}")
    return number - first


def responses(port: int) -> list[DelayedMessagesResponse] | None:
    """The responses for all partitions. None: the broker does not respond for one of them."""
    connection = KafkaConnection("127.0.0.1", port)
    try:
        return [fetch_pending(connection, FRONT, p, DelayedMessagesRequest(bounds_ms=[])) for p in range(PARTITIONS)]
    except (NoResponse, Declined):
        return None
    finally:
        connection.close()


def until_pending(port: int, count: int) -> None:
    def there() -> bool:
        found = responses(port)
        return found is not None and sum(a.pending + a.due for a in found) >= count

    wait_for(there, f"{count:,} pending records", RESPONSE_S_MAX, 0.2)


def consumed(bootstrap: str, starts: list[int], count: int, seconds: float) -> tuple[Lateness, list[float]]:
    """Read `count` records from these offsets on. Returns how late they were, and the wall times (s) of their arrivals. Raises SystemExit."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "log_level": 0, "group.id": "delays", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(TOPIC, p, start) for p, start in enumerate(starts)])
    late: list[float] = []
    arrivals: list[float] = []
    seen: set[bytes] = set()
    deadline = time.monotonic() + seconds
    while len(late) < count:
        first = consumer.poll(0.05)  # `consume` with a time-out would wait for more records
        messages = [] if first is None else [first, *consumer.consume(10_000, 0)]
        now = time.time()
        for m in messages:
            key = m.key()
            if m.error() or key is None or key in seen:
                raise SystemExit(f"{m.error() or key!r}: an error, or a record that came twice")
            seen.add(key)
            headers = dict(m.headers() or [])
            at = int(headers.get("x-deliver-at-ms") or m.timestamp()[1])
            late.append(now * 1000 - at)
            arrivals.append(now)
        if time.monotonic() > deadline:
            raise SystemExit(f"only {len(late):,} of {count:,} records were delivered in {seconds:.0f} s")
    consumer.close()
    return Lateness(sorted(late)), arrivals


def ends(bootstrap: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "log_level": 0, "group.id": "ends"})
    found = [consumer.get_watermark_offsets(TopicPartition(TOPIC, p), timeout=30)[1] for p in range(PARTITIONS)]
    consumer.close()
    return found


def memory_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"process {pid} has ended")


def say(text: str) -> None:
    print(f"{text}  [load {os.getloadavg()[0]:.1f}]", flush=True)


def make_topics(system: Weir) -> None:
    admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})
    topic = NewTopic(TOPIC, PARTITIONS, 1, config={"weir.delay.enable": "true"})
    for future in admin.create_topics([topic]).values():
        future.result(60)
    wait_for(lambda: responses(system.ports[1]) is not None, "the leaders of the front topic", 60, 0.2)


def run(system: Weir, given: argparse.Namespace) -> None:
    system.start()
    make_topics(system)
    port, value = system.ports[1], os.urandom(given.bytes)
    empty = memory_mb(system.broker_pids()[1])
    began = time.monotonic()
    produce(system.bootstrap, far_times(given.pending, int(time.time() * 1000), random.Random(1)), value)
    took = time.monotonic() - began
    say(f"in: {given.pending:,} records of {given.bytes} bytes in {took:.0f} s, {given.pending / took:,.0f} records/s")
    until_pending(port, given.pending)
    full = memory_mb(system.broker_pids()[1])
    say(f"memory: {empty:.0f} MB without, {full:.0f} MB with the pending records")
    began = time.monotonic()
    system.end_broker(1, signal.SIGTERM)
    ended = time.monotonic() - began
    began = time.monotonic()
    system.start_broker(1)
    until_pending(port, given.pending)
    ready = time.monotonic() - began
    again = memory_mb(system.broker_pids()[1])
    say(f"restart: stopped in {ended:.1f} s, all pending records known {ready:.1f} s after the start, {again:.0f} MB")
    starts, first = ends(system.bootstrap), int((time.time() + LEAD_S) * 1000)
    number = given.pending
    number += produce(system.bootstrap, near_times(given.due, first, given.window), value, number)
    if time.time() * 1000 > first:
        say(f"the records were written {time.time() - first / 1000:.1f} s after the first delivery time")
    late, _ = consumed(system.bootstrap, starts, given.due, LEAD_S + given.window + RESPONSE_S_MAX)
    say(f"deliveries, {given.due / given.window:,.0f} records/s: {late.text()}")
    starts, at = ends(system.bootstrap), int((time.time() + LEAD_S + given.burst / 20_000) * 1000)
    produce(system.bootstrap, near_times(given.burst, at, 0.001), value, number)
    burst, arrivals = consumed(system.bootstrap, starts, given.burst, RESPONSE_S_MAX)
    over = max(max(arrivals) - at / 1000, 0.001)
    say(f"out: {given.burst:,} records of one second, {given.burst / over:,.0f} records/s, {burst.text()}")
    say(f"memory at the end: {memory_mb(system.broker_pids()[1]):.0f} MB")
    until_pending(port, given.pending)
    left = responses(port)
    if left is None or (rest := sum(a.pending + a.due for a in left)) != given.pending:
        raise SystemExit(f"{rest if left else 'unknown'} records are pending at the end instead of {given.pending:,}")
    if late.early or burst.early:
        raise SystemExit(f"{late.early + burst.early} records came before their time")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.delays", description=__doc__)
    parser.add_argument("--pending", type=int, default=1_000_000, help="records that are due in hours")
    parser.add_argument("--due", type=int, default=20_000, help="records whose lateness is measured")
    parser.add_argument("--window", type=float, default=20.0, help="seconds over which they are due")
    parser.add_argument("--burst", type=int, default=50_000, help="records that are due in the same second")
    parser.add_argument("--bytes", type=int, default=100, help="bytes of a value")
    given = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # the broker is ended by `finally`
    with tempfile.TemporaryDirectory(prefix="weir-bench-delays-") as folder:
        system = Weir(Path(folder), 1)
        try:
            run(system, given)
        finally:
            system.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
