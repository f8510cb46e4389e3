"""`python -m bench.validation`: cost of validating produced batches, as broker CPU per request relative to the same broker without validation.

Each broker of a cluster leads one partition without followers (acks=1). One validates with the Python source. One validates with the compiled
record walk, if it was built (decision 044). Two were started by this module with validation patched out: the second one is a control. The same
requests are sent to each in turn, in changing order. A round gives one ratio of the CPU clocks of two processes.

Two processes of the same kind differ, because their memory has another layout and each broker has other duties. The control was up to a tenth
away from 1 in one cluster. So several clusters are started, and the kinds change places. The result is the median of the clusters' medians; its
precision is the range of these medians, and the distance of the control from 1.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import runpy
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from bench import client, raw
from bench.kernel import cpu_clock
from bench.peer.systems import Weir, wait_for
from brokerd.wire import record_walk, record_walks
from brokerd.wire.compiled import compiled_name
from brokerd.wire.records import Record, build

UNVALIDATED, CONTROL, PYTHON, COMPILED = "unvalidated", "control", "python", "compiled"
KINDS = (UNVALIDATED, CONTROL, PYTHON, *((COMPILED,) if record_walks.COMPILED else ()))
"""The kinds of brokers. The topic that a broker leads has the name of its kind."""
RECORD_BYTES, BATCH_BYTES, LARGE_BATCH_BYTES = 1_024, 16_384, 1_000_000
PASS_BYTES = 12_000_000
"""Bytes of a pass with several records per batch: some hundredths of a second of broker CPU, so that compared passes are close in time."""
SINGLES = 1_000
"""Requests of a pass with one record each."""
LIBRDKAFKA_RECORDS = 15_000


class Load(NamedTuple):
    """One pass: the send function, and the number of requests and of records."""

    requests: int
    records: int
    send: Callable[[int, str], object]
    """Called with a port and a topic."""


def of_batch(batch: bytes, records: int, requests: int) -> Load:
    return Load(
        requests, records, lambda port, topic: raw.produce("127.0.0.1", port, [(topic, 0)], requests, [batch], acks=1)
    )


def equal(batch_bytes: int) -> list[Record]:
    """As many records as fit, without keys, that differ in their timestamps only."""
    now, value = int(time.time() * 1000), os.urandom(RECORD_BYTES)
    return [Record(i, now + i // 3, None, value) for i in range(batch_bytes // (RECORD_BYTES + 16))]


def mixed(batch_bytes: int) -> list[Record]:
    """Records of 1 KiB on average, all with keys; neighbours differ in size."""
    rng = random.Random(1)
    now = int(time.time() * 1000)
    return [
        Record(
            i, now + i // 3, b"key-%d" % rng.randrange(10**6), rng.randbytes(rng.randrange(24, 2 * RECORD_BYTES - 24))
        )
        for i in range(batch_bytes // (RECORD_BYTES + 28))
    ]


def loads() -> dict[str, Load]:
    out = {"1 record a batch": of_batch(build(equal(RECORD_BYTES + 16)), 1, SINGLES)}
    for size, name in ((BATCH_BYTES, "16 KiB batches"), (LARGE_BATCH_BYTES, "1 MB batches")):
        for kind in (equal, mixed):
            records = kind(size)
            out[f"{name}, {kind.__name__} records"] = of_batch(build(records), len(records), PASS_BYTES // size)
    value = os.urandom(RECORD_BYTES)
    per_batch = BATCH_BYTES // (RECORD_BYTES + 16)
    out["16 KiB batches, librdkafka"] = Load(
        LIBRDKAFKA_RECORDS // per_batch,
        per_batch,
        lambda port, topic: client.produce(f"127.0.0.1:{port}", [topic], value, LIBRDKAFKA_RECORDS, BATCH_BYTES, "1"),
    )
    return out


class Brokers(Weir):
    """A cluster with one broker of each kind. `first`: the position in KINDS of broker 1."""

    def __init__(self, folder: Path, first: int) -> None:
        super().__init__(folder, len(KINDS))
        self.kinds = [*KINDS[first:], *KINDS[:first]]
        """Broker N has the Nth kind."""

    def broker_command(self, number: int) -> list[str]:
        command = super().broker_command(number)
        at = command.index("brokerd")
        return [*command[:at], "bench.validation", "--be", self.kinds[number - 1], *command[at + 1 :]]


def be(kind: str, arguments: list[str]) -> None:
    """Run a broker of this kind. In the kinds without validation, functions that do nothing replace the two validation functions."""
    if kind == PYTHON:
        sys.modules[f"{record_walks.__package__}.{compiled_name(record_walk)}"] = None  # type: ignore[assignment]
        importlib.reload(record_walks)
    from brokerd.apis import local_append, produce

    if kind in (UNVALIDATED, CONTROL):
        local_append.inspect_now = lambda data, headers, *_: (None, data, headers)  # type: ignore[attr-defined]
        produce.ProduceApi._long_batches = lambda *_: []  # type: ignore[method-assign]
    assert (kind != PYTHON and COMPILED in KINDS) == record_walks.COMPILED
    sys.argv = ["brokerd", *arguments]
    runpy.run_module("brokerd", run_name="__main__")


def make_topics(system: Brokers) -> None:
    admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})
    new = [NewTopic(kind, 1, replica_assignment=[[n]]) for n, kind in enumerate(system.kinds, 1)]
    for future in admin.create_topics(new).values():
        future.result(60)

    def led() -> bool:
        topics = admin.list_topics(timeout=20).topics
        return all(
            kind in topics and topics[kind].partitions and topics[kind].partitions[0].leader == n
            for n, kind in enumerate(system.kinds, 1)
        )

    wait_for(led, "the topics", pause=0.1)


Measurements = dict[str, list[float]]
"""Microseconds per request by round, for each kind of broker of one cluster."""


def measured(system: Brokers, load: Load, rounds: int) -> Measurements:
    pids = system.broker_pids()
    measurements: Measurements = {kind: [] for kind in KINDS}
    for round_ in range(-1, rounds):  # the first one is a warm-up
        for at in range(len(KINDS)):
            number = (at + round_) % len(KINDS) + 1
            kind = system.kinds[number - 1]
            before = cpu_clock([pids[number]])
            load.send(system.ports[number], kind)
            if round_ >= 0:
                measurements[kind].append((cpu_clock([pids[number]]) - before) / load.requests * 1e6)
    return measurements


def base_of(measurements: Measurements, kind: str) -> list[float]:
    """Return the reference of `kind`, by round: the mean of both brokers without validation. The control is compared with the other one."""
    if kind == CONTROL:
        return measurements[UNVALIDATED]
    return [(a + b) / 2 for a, b in zip(measurements[UNVALIDATED], measurements[CONTROL], strict=True)]


def report(name: str, records: int, clusters: list[Measurements]) -> None:
    """One line for each kind but the first."""
    for kind in KINDS[1:]:
        bases = [base_of(f, kind) for f in clusters]
        ratios = [
            median(a / b for a, b in zip(f[kind], base, strict=True)) for f, base in zip(clusters, bases, strict=True)
        ]
        mine = median(median(f[kind]) for f in clusters)
        base = median(median(base) for base in bases)
        print(
            f"{name:<30} {records:>7} {kind:<9} {mine:>8.1f} {base:>8.1f} {median(ratios):>7.3f}  {min(ratios):.3f} to {max(ratios):.3f}",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.validation", description=__doc__)
    parser.add_argument(
        "--clusters", type=int, default=8, help="a multiple of the kinds lets each kind be each broker equally often"
    )
    parser.add_argument("--rounds", type=int, default=15, help="rounds in each cluster")
    parser.add_argument("--only", default="", help="loads whose names contain this")
    arguments = parser.parse_args()
    found: dict[tuple[str, int], list[Measurements]] = {}
    print(
        f"{arguments.clusters} clusters, {arguments.rounds} rounds each, load of the machine {os.getloadavg()[0]:.1f} at the start"
    )
    for cluster in range(arguments.clusters):
        with tempfile.TemporaryDirectory(prefix="weir-bench-validation-") as folder:
            system = Brokers(Path(folder), cluster % len(KINDS))
            try:
                system.start()
                make_topics(system)
                for name, load in loads().items():
                    if arguments.only in name:
                        measurements = measured(system, load, arguments.rounds)
                        found.setdefault((name, load.records), []).append(measurements)
            finally:
                system.close()
    print(f"{'load':<30} {'records':>7} {'walk':<9} {'us/req.':>8} {'without':>8} {'ratio':>7}  by cluster")
    for (name, records), clusters in found.items():
        report(name, records, clusters)
    print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--be"]:
        be(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(main())
