"""`python -m bench.rocketmq_halves`: half messages of Weir beside the transactional messages of Apache RocketMQ 5, in one run.

One broker of each system runs, with one replica, and acknowledges from the page cache (as in `bench.rocketmq`). Each half message is committed as soon as it is
stored. Each round, in turn: (1) `--messages` messages, at most `--in-progress` of them not committed, as fast as possible: rate and CPU of the broker per
message until a consumer has all; (2) `--paced` messages, `--rate` per second: the time from the call that writes a half message to its arrival. Each system has
its usual client. RocketMQ's client does not wait for a response to a commit; Weir's does, so it keeps a message in progress for longer.
"""

from __future__ import annotations

import argparse
import os
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.client import percentile
from bench.kernel import cpu_clock
from bench.peer.systems import Weir, wait_for
from bench.rocketmq import RocketMQ

PARTITIONS = 4
"""RocketMQ's default number of queues of a topic."""
WARM_UP = 200
SECONDS_MAX = 300
STAMP = struct.Struct(">qi")
"""The start of each value: time of the call in ns, number of the message."""


@dataclass(frozen=True, slots=True)
class Run:
    """`late_ms`: from the call that writes a half message to its arrival, ascending."""

    seconds: float
    cpu_us: float
    late_ms: list[float]


@dataclass(frozen=True, slots=True)
class Measurements:
    per_s: float
    cpu_us: float
    late_ms: list[float]


class WeirShop:
    """Writes half messages, commits each when it is stored, and reads the topic."""

    def __init__(self, system: Weir, topic: str, size: int) -> None:
        self.front, self.rest = f"{topic}.half", os.urandom(max(0, size - STAMP.size))
        admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})
        new = NewTopic(topic, PARTITIONS, 1, config={"weir.half.enable": "true"})
        admin.create_topics([new])[topic].result(60)

        def ready() -> bool:
            found = admin.list_topics(timeout=20).topics.get(self.front)
            return found is not None and all(p.leader >= 0 for p in found.partitions.values())

        wait_for(ready, f"the leaders of {self.front}")
        self.producer = Producer(
            {"bootstrap.servers": system.bootstrap, "log_level": 0, "enable.idempotence": True, "linger.ms": 0}
        )
        self.consumer = Consumer(
            {"bootstrap.servers": system.bootstrap, "log_level": 0, "group.id": topic, "enable.auto.commit": False}
        )
        self.consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
        self.failed: list[object] = []

    def run(self, count: int, in_progress: int, rate: int) -> tuple[float, list[float]]:
        """(seconds until all messages have arrived, time of each in ms). `rate` 0: no limit. Raises SystemExit when one is missing or came twice."""
        late: dict[int, float] = {}
        room = threading.Semaphore(in_progress)
        reader = threading.Thread(target=self._read, args=(count, late), daemon=True)
        reader.start()
        began = time.monotonic_ns()
        for number in range(count):
            while rate and (left := began + number * 1_000_000_000 // rate - time.monotonic_ns()) > 0:
                self.producer.poll(left / 1e9)
            while not room.acquire(blocking=False):
                self.producer.poll(0.01)
            self._write(number, room)
            self.producer.poll(0)
        while reader.is_alive() and time.monotonic_ns() - began < SECONDS_MAX * 1e9:
            self.producer.poll(0.005)
        seconds = (time.monotonic_ns() - began) / 1e9
        if self.producer.flush(60) or self.failed or len(late) != count:
            raise SystemExit(f"weir: {len(late)} of {count} messages arrived, rejected: {self.failed[:1]}")
        return seconds, sorted(late.values())

    def _write(self, number: int, room: threading.Semaphore) -> None:
        half_id, partition = os.urandom(12).hex(), number % PARTITIONS

        def stored(error: Any, message: Message) -> None:
            if error is not None:
                self.failed.append(error)
                return
            decision: list[tuple[str, str | bytes | None]] = [("x-half-id", half_id), ("x-half", "commit")]
            self.producer.produce(self.front, b"", partition=partition, headers=decision, on_delivery=decided)

        def decided(error: Any, message: Message) -> None:
            if error is not None:
                self.failed.append(error)
            room.release()

        value = STAMP.pack(time.monotonic_ns(), number) + self.rest
        self.producer.produce(
            self.front, value, partition=partition, headers=[("x-half-id", half_id)], on_delivery=stored
        )

    def _read(self, count: int, late: dict[int, float]) -> None:
        while len(late) < count:
            m = self.consumer.poll(0.5)  # `consume` would wait for more messages
            now = time.monotonic_ns()
            if m is None:
                continue
            if m.error():
                raise KafkaException(m.error())
            sent, number = STAMP.unpack_from(m.value() or b"")
            if number in late:
                self.failed.append(f"message {number} came twice")
            late[number] = (now - sent) / 1e6


def weir_run(system: Weir, topic: str, given: argparse.Namespace, count: int, rate: int) -> Run:
    shop = WeirShop(system, topic, given.bytes)
    try:
        shop.run(WARM_UP, given.in_progress, 0)
        return measured(system.broker_pids()[1], lambda: shop.run(count, given.in_progress, rate), count)
    finally:
        shop.consumer.close()


def rocket_run(system: RocketMQ, topic: str, given: argparse.Namespace, count: int, rate: int) -> Run:
    command = system.java(
        "RocketHalves",
        *(system.name_server, topic, str(count), str(given.in_progress), str(rate), str(given.bytes), str(SECONDS_MAX)),
        heap=("-Xmx512m",),
    )
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True) as client,
    ):
        assert client.stdin is not None and client.stdout is not None
        # Logback writes to the standard output, too.
        ready = any(line.strip() == "ready" for line in client.stdout)

        def act() -> tuple[float, list[float]]:
            out, _ = client.communicate("\n" if ready else None)
            lines = [line.split() for line in out.splitlines()]
            seconds = [float(words[1]) for words in lines if words[:1] == ["seconds"]]
            late = sorted(float(words[1]) for words in lines if words[:1] == ["late"])
            if client.returncode or len(late) != count:
                errors.seek(0)
                raise SystemExit(f"RocketMQ: {len(late)} of {count} messages arrived: {errors.read()[-2000:]}")
            return seconds[0], late

        return measured(system.running["broker-1"].pid, act, count)


def measured(pid: int, act: Callable[[], tuple[float, list[float]]], count: int) -> Run:
    before = cpu_clock([pid])
    seconds, late = act()
    return Run(seconds, (cpu_clock([pid]) - before) / count * 1e6, late)


def one_round(run: Callable[[str, int, int], Run], round_: int, given: argparse.Namespace) -> Measurements:
    fast = run(f"fast-{round_}", given.messages, 0)
    paced = run(f"paced-{round_}", given.paced, given.rate)
    return Measurements(given.messages / fast.seconds, fast.cpu_us, paced.late_ms)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.rocketmq_halves", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--messages", type=int, default=50_000, help="messages of a round that are written without a limit"
    )
    parser.add_argument("--in-progress", type=int, default=64, help="messages without a commit at a time")
    parser.add_argument("--paced", type=int, default=5_000, help="messages whose latency is measured")
    parser.add_argument("--rate", type=int, default=500, help="of them per second")
    parser.add_argument("--bytes", type=int, default=100, help="bytes of a value")
    given = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")
    weir = Weir(Path(tempfile.mkdtemp(prefix="rocketmq-weir-")), 1)
    rocket = RocketMQ(Path(tempfile.mkdtemp(prefix="rocketmq-")), 1_000)
    passes: dict[str, list[Measurements]] = {weir.name: [], rocket.name: []}
    try:
        rocket.start()
        weir.start()
        runs: dict[str, Callable[[str, int, int], Run]] = {
            weir.name: lambda topic, count, rate: weir_run(weir, topic, given, count, rate),
            rocket.name: lambda topic, count, rate: rocket_run(rocket, topic, given, count, rate),
        }
        for round_ in range(1, given.rounds + 1):
            for name in [*runs] if round_ % 2 else [*runs][::-1]:
                found = one_round(runs[name], round_, given)
                passes[name].append(found)
                shown = " ".join(f"p{p:g} {percentile(found.late_ms, p):.1f}" for p in (50, 99, 99.9))
                print(
                    f"round {round_}, {name:<14} {found.per_s:>7,.0f}/s, {found.cpu_us:>6.1f} us of broker CPU, latency in ms at {given.rate}/s: "
                    f"{shown} max {found.late_ms[-1]:.1f}  [load {os.getloadavg()[0]:.1f}]",
                    flush=True,
                )
    finally:
        rocket.close()
        weir.close()
    report(passes[weir.name], passes[rocket.name])
    return 0


def report(ours: list[Measurements], theirs: list[Measurements]) -> None:
    """Prints the medians of the ratios. A ratio belongs to one round."""
    pairs = list(zip(ours, theirs, strict=True))
    for title, ratios in (
        ("messages per second", [a.per_s / b.per_s for a, b in pairs]),
        ("broker CPU per message", [a.cpu_us / b.cpu_us for a, b in pairs]),
        ("latency p50", [percentile(a.late_ms, 50) / percentile(b.late_ms, 50) for a, b in pairs]),
        ("latency p99", [percentile(a.late_ms, 99) / percentile(b.late_ms, 99) for a, b in pairs]),
    ):
        print(f"weir / rocketmq, {title}: {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    sys.exit(main())
