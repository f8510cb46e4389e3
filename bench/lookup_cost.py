"""`python -m bench.lookup_cost`: CPU of a broker for producing to a topic with `weir.index.keys`, relative to a topic without it.

One broker leads both topics. A slice sends the same encoded batches to one of them, as many as fill SEGMENTS segments. It counts the CPU of all threads of the
broker until INDEX_SECONDS after the last response. In this time the broker also builds the indexes of these segments; on a busy machine a slice waits longer
for them. The CPU of the idle broker in the same time is subtracted. Two slices, one of each topic, are a pair and give one ratio; the order alternates. The
result is the median of the ratios, with its bootstrap interval. `--control`: neither of the two topics has an index, so the interval should contain 1.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from bench import raw
from bench.kernel import cpu_clock, process_tree, take_memory
from bench.lookup import INDEXED, PLAIN, SETTLE_SECONDS, files, is_indexed, key_of, make_topic
from bench.paired import bootstrap_median, in_order, ratios
from bench.peer.systems import Weir, wait_for
from brokerd.compiled.importer import compiled_directory, is_current
from brokerd.maintenance.segment_indexing import INDEX_INTERVAL_MS, ROUND_MS_MIN
from brokerd.wire.records import Record, build

BATCH_BYTES, SEGMENT_BYTES, SEGMENTS = 16_384, 64 * 1024 * 1024, 4
INDEX_SECONDS = 2.5 * INDEX_INTERVAL_MS / 1000
"""The build of the index follows within two of its intervals."""
IDLE_SECONDS = 20.0
WARM_UP_SLICES = 2
CONTROL = "control"
"""The topic without an index that takes the place of the indexed one."""


class Slices:
    """The slices of one broker."""

    def __init__(self, system: Weir, record_bytes: int) -> None:
        self.system = system
        self.pid = system.broker_pids()[1]
        self.batches = batches(record_bytes)
        self.requests = SEGMENTS * len(self.batches)
        self.gigabytes = self.requests * len(self.batches[0]) / 1e9
        self.admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})

    def cost(self, topic: str, idle: float) -> float:
        """CPU seconds per GB of the broker in one slice. `idle`: CPU seconds per second of the idle broker."""
        if topic == INDEXED and not is_indexed(self.system, topic):
            raise SystemExit("the index was not complete before a slice")
        take_memory(self.system.folder, round(self.gigabytes * 2000))
        before, began = self._clock(), time.monotonic()
        raw.produce("127.0.0.1", self.system.ports[1], [(topic, 0)], self.requests, self.batches)
        time.sleep(INDEX_SECONDS)
        wait_for(lambda: topic != INDEXED or is_indexed(self.system, topic), "the index", pause=0.1)
        spent = self._clock() - before - idle * (time.monotonic() - began)
        self._delete_records(topic)
        return spent / self.gigabytes

    def warm_up(self, topic: str) -> None:
        """Begin the index of the active segment, which a round through all logs begins."""
        for _ in range(WARM_UP_SLICES):
            raw.produce("127.0.0.1", self.system.ports[1], [(topic, 0)], self.requests, self.batches)
            time.sleep((ROUND_MS_MIN + 2 * INDEX_INTERVAL_MS) / 1000)
            self._delete_records(topic)

    def idle(self) -> float:
        """CPU seconds per second of the idle broker."""
        time.sleep(SETTLE_SECONDS)
        before = self._clock()
        time.sleep(IDLE_SECONDS)
        return (self._clock() - before) / IDLE_SECONDS

    def _clock(self) -> float:
        return cpu_clock(process_tree(self.pid))

    def _delete_records(self, topic: str) -> None:
        """Delete the closed segments, so that the disk and the page cache stay small."""
        for future in self.admin.delete_records([TopicPartition(topic, 0, -1)]).values():
            future.result(60)
        wait_for(lambda: len(files(self.system, topic, ".log")) == 1, "the deletion of the segments")


def batches(record_bytes: int) -> list[bytes]:
    """Different batches of the same size, which fill one segment. All keys are different."""
    rng, now = random.Random(1), int(time.time() * 1000)
    per_batch = BATCH_BYTES // (record_bytes + 32)
    size = len(build(_records(rng, now, record_bytes, 0, per_batch)))
    return [
        build(_records(rng, now, record_bytes, number * per_batch, per_batch))
        for number in range(SEGMENT_BYTES // size)
    ]


def _records(rng: random.Random, now: int, record_bytes: int, first: int, count: int) -> list[Record]:
    return [Record(i, now, key_of(first + i), rng.randbytes(record_bytes)) for i in range(count)]


def measure(slices: Slices, kinds: tuple[str, str], pairs: int) -> None:
    for kind in kinds:
        slices.warm_up(kind)
    idle = slices.idle()
    print(f"the idle broker uses {idle * 1000:.1f} ms of CPU per second", flush=True)
    costs: dict[str, list[float]] = {kind: [] for kind in kinds}
    for pair in range(pairs):
        for kind in in_order(*kinds, pair):
            costs[kind].append(slices.cost(kind, idle))
        print(f"pair {pair + 1}: " + ", ".join(f"{kind} {costs[kind][-1]:.3f} s/GB" for kind in kinds), flush=True)
    found, plain = (costs[kind] for kind in kinds)
    print(f"median {median(found):.3f} s/GB {kinds[0]}, {median(plain):.3f} s/GB {kinds[1]}")
    print(f"difference: median {bootstrap_median([a - b for a, b in zip(found, plain, strict=True)])} s/GB")
    print(f"ratio {kinds[0]} / {kinds[1]}: median {bootstrap_median(ratios(found, plain))}, {pairs} pairs")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.lookup_cost", description=__doc__)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--record-bytes", type=int, default=1_024)
    parser.add_argument("--control", action="store_true", help="two topics without an index")
    given = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")
    kinds = (CONTROL if given.control else INDEXED, PLAIN)
    with tempfile.TemporaryDirectory(prefix="weir-bench-lookup-cost-") as folder:
        system = Weir(Path(folder), 1)
        try:
            system.start()
            for kind in kinds:
                make_topic(system, kind, kind, SEGMENT_BYTES)
            slices = Slices(system, given.record_bytes)
            print(
                f"{slices.gigabytes * 1000:.0f} MB per slice, records of {given.record_bytes} bytes, "
                f"request path {'compiled' if is_current(compiled_directory()) else 'not compiled'}, "
                f"load of the machine {os.getloadavg()[0]:.1f}"
            )
            measure(slices, kinds, given.pairs)
            print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")
        finally:
            system.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
