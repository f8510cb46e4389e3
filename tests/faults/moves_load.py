"""`make moves-load`: what a move costs the producers, and what the comparison of replicas costs the move.

Three brokers; producers write with acks=all at a steady rate to three replicas and time each record. Meanwhile BYTES move from one broker to another:
without a throttle, with a fixed one, with an adaptive one, and with the comparison of replicas. The output has the producers' latency and the copy
rate. Does not check: deaths, records (`make moves-matrix`), several machines: brokers, clients and disk are on one.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for
from tests.cluster.test_moves import ALONE, part_of
from tests.faults.tail_move import fill

RECORD = b"x" * 1_000
CAP = 200_000_000
FLOOR = 1_000_000
RUNS: dict[str, dict[str, Any]] = {
    "quiet": {},
    "free": {"throttle_bytes_per_s": None, "compare": False},
    "fixed": {"throttle_bytes_per_s": 10_000_000, "compare": False},
    "adaptive": {"throttle_bytes_per_s": FLOOR, "adaptive": {"cap": CAP, "floor": FLOOR}, "compare": False},
    "compared": {"throttle_bytes_per_s": None, "compare": True},
}
"""Options of each run's move; `quiet`: no move for QUIET_SECONDS."""
QUIET_SECONDS = 20.0


class Load:
    """Idempotent acks=all producers at a fixed rate, and the latency of each record in ms since `begin`."""

    def __init__(self, devcluster: DevCluster, topic: str, bytes_per_s: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": devcluster.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 60_000,
            }
        )
        self._topic, self._each, self._stop = topic, max(1, bytes_per_s // len(RECORD) // 100), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.waits: list[float] = []
        self.failed: list[str] = []

    def begin(self) -> None:
        self.waits = []

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            for _ in range(self._each):
                self._produce()
            self._producer.poll(0)
            due += 0.01
            time.sleep(max(0.0, due - time.monotonic()))

    def _produce(self) -> None:
        at = time.monotonic()

        def on_delivery(error: Any, message: Any) -> None:
            if error is not None:
                self.failed.append(str(error))
            else:
                self.waits.append((time.monotonic() - at) * 1000)

        self._producer.produce(self._topic, RECORD, on_delivery=on_delivery)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join(30)
        assert self._producer.flush(60) == 0


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    seconds: float
    copied_bytes: int
    records: int
    p50: float
    p99: float
    worst: float
    p99_worst_second: float
    rates: tuple[int, int] | None
    compared: str
    baseline: float | None


def quantile(values: Sequence[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(q * len(ordered)) - 1)] if ordered else math.nan


def measure_move(devcluster: DevCluster, load: Load, name: str, size: int, partitions: int, target: int) -> Result:
    load.begin()
    began, rates, compared, copied = time.monotonic(), [], "", 0
    seconds_of: list[list[float]] = []
    seen, baseline = 0, None

    def count_second() -> None:
        nonlocal seen
        waits = load.waits
        seconds_of.append(waits[seen:])
        seen = len(waits)

    if name == "quiet":
        while time.monotonic() - began < QUIET_SECONDS:
            time.sleep(1)
            count_second()
    else:
        requested = dict(RUNS[name])
        adaptive = requested.pop("adaptive", None)
        parts = [{"topic": "cargo", "partition": i, "replicas": [target]} for i in range(partitions)]
        scope = {"kind": "partitions", "partitions": parts}
        move = devcluster.post("moves", {"scope": scope, "start": True, "comment": name, **requested})["id"]
        if adaptive:
            devcluster.post(f"moves/{move}/throttle", {"adaptive": adaptive})
        while True:
            row = devcluster.get(f"moves/{move}")
            if row["throttle_bytes_per_s"]:
                rates.append(row["throttle_bytes_per_s"])
            baseline = (row["adaptive"] or {}).get("baseline") or baseline
            if row["finished_at"]:
                break
            assert time.monotonic() - began < 230, row
            time.sleep(1)
            count_second()
        assert row["state"] == "done", row["note"]
        copied = size
        comparison = part_of(devcluster, move)["compared"]
        compared = f"{comparison['text']} ({comparison['bytes']} bytes)" if comparison else ""
    seconds = time.monotonic() - began
    waits = list(load.waits)
    worst = max((quantile(s, 0.99) for s in seconds_of if len(s) > 20), default=math.nan)
    return Result(
        name,
        seconds,
        copied,
        len(waits),
        quantile(waits, 0.5),
        quantile(waits, 0.99),
        max(waits, default=math.nan),
        worst,
        (min(rates), max(rates)) if rates else None,
        compared,
        baseline,
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.moves_load", description=__doc__)
    parser.add_argument("--bytes", type=int, default=300_000_000, help="bytes moved per run")
    parser.add_argument("--partitions", type=int, default=1, help="number of partitions that the bytes are spread over")
    parser.add_argument("--rate", type=int, default=2_000_000, help="produced bytes per second")
    parser.add_argument("--runs", nargs="*", default=list(RUNS), choices=list(RUNS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-load-") as folder:
        devcluster = DevCluster(Path(folder))
        try:
            devcluster.topic("load", partitions=6, replication_factor=3, configs={"min.insync.replicas": "2"})
            devcluster.topic(
                "cargo",
                partitions=arguments.partitions,
                replication_factor=1,
                assignment={str(i): [1] for i in range(arguments.partitions)},
                configs={**ALONE, "segment.bytes": "104857600"},
            )
            fill(devcluster, "cargo", arguments.bytes, arguments.partitions)
            wait_for(
                lambda: sum(p["size_bytes"] or 0 for p in devcluster.partitions("cargo")) >= arguments.bytes,
                "the cargo's size",
                60,
            )
            with Load(devcluster, "load", arguments.rate) as load:
                time.sleep(5)
                for i, name in enumerate(arguments.runs):
                    target = next(b for b in (3, 2, 1) if b not in devcluster.partitions("cargo")[0]["replicas"])
                    t = measure_move(devcluster, load, name, arguments.bytes, arguments.partitions, target)
                    speed = (
                        ""
                        if not t.copied_bytes
                        else f"{t.copied_bytes / 1e6:.0f} MB in {t.seconds:.1f} s, {t.copied_bytes / t.seconds / 1e6:.1f} MB/s; "
                    )
                    rates = (
                        "" if t.rates is None else f"; throttle {t.rates[0] / 1e6:.1f} to {t.rates[1] / 1e6:.1f} MB/s"
                    )
                    if t.baseline is not None:
                        rates += f", brokers' baseline {t.baseline:.0f} ms"
                    print(
                        f"{t.name:>9}: {speed}{t.records} records, p50 {t.p50:.1f} ms, p99 {t.p99:.1f} ms, worst second's p99 {t.p99_worst_second:.1f} ms, "
                        f"longest {t.worst:.0f} ms{rates}{'; ' + t.compared if t.compared else ''}",
                        flush=True,
                    )
                    if i + 1 < len(arguments.runs):
                        time.sleep(3)
            assert not load.failed, load.failed[:3]
        finally:
            devcluster.down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
