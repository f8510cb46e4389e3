"""`python -m bench.validation`: cost of validating produced batches, as broker CPU per request relative to the same broker without validation.

Each broker of a cluster leads one partition without followers (acks=1). One validates with the Python source. One validates with the compiled
record walk, if it was built (decision 044). One was started by this module with validation patched out. The same requests are sent to each in
turn, in changing order. A round gives one ratio of the CPU clocks of two processes; the result is the median of the rounds. The rest of the
machine slows all of them, but not always equally: the quartiles show the precision of the median. `lowest` is the ratio of the lowest figures
of each.
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
from statistics import median, quantiles
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from bench import client, raw
from bench.kernel import cpu_clock
from bench.peer.systems import Weir, wait_for
from brokerd.wire import record_walks
from brokerd.wire.records import Record, build

UNVALIDATED, PYTHON, COMPILED = "unvalidated", "python", "compiled"
KINDS = (UNVALIDATED, PYTHON, COMPILED) if record_walks.COMPILED else (UNVALIDATED, PYTHON)
"""Broker N has the Nth kind. The topics that it leads have the name of the kind."""
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
        requests, records, lambda port, topic: raw.produce("127.0.0.1", port, [(topic, 0)], requests, batch, acks=1)
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
    def broker_command(self, number: int) -> list[str]:
        command = super().broker_command(number)
        at = command.index("brokerd")
        return [*command[:at], "bench.validation", "--be", KINDS[number - 1], *command[at + 1 :]]


def be(kind: str, arguments: list[str]) -> None:
    """Run a broker of this kind. In the unvalidated one, two calls that do nothing are left of validation."""
    if kind == PYTHON:
        sys.modules[f"{record_walks.__package__}.{record_walks.COMPILED_NAME}"] = None  # type: ignore[assignment]
        importlib.reload(record_walks)
    from brokerd.apis import local_append, produce

    if kind == UNVALIDATED:
        local_append.inspect_now = lambda data, headers, *_: (None, data, headers)  # type: ignore[attr-defined]
        produce.ProduceApi._long = lambda *_: []  # type: ignore[method-assign]
    assert (kind != PYTHON and COMPILED in KINDS) == record_walks.COMPILED
    sys.argv = ["brokerd", *arguments]
    runpy.run_module("brokerd", run_name="__main__")


def make_topics(system: Weir) -> None:
    admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})
    new = [NewTopic(kind, 1, replica_assignment=[[n]]) for n, kind in enumerate(KINDS, 1)]
    for future in admin.create_topics(new).values():
        future.result(60)

    def led() -> bool:
        topics = admin.list_topics(timeout=20).topics
        return all(
            kind in topics and topics[kind].partitions and topics[kind].partitions[0].leader == n
            for n, kind in enumerate(KINDS, 1)
        )

    wait_for(led, "the topics", pause=0.1)


def report(name: str, records: int, figures: dict[str, list[float]]) -> None:
    """One line for each kind that validates. `figures`: microseconds per request, by round."""
    base = figures[UNVALIDATED]
    for kind in KINDS[1:]:
        mine = figures[kind]
        ratios = [a / b for a, b in zip(mine, base, strict=True)]
        low, _, high = quantiles(ratios, n=4)
        print(
            f"{name:<30} {records:>7} {kind:<9} {median(mine):>8.1f} {median(base):>8.1f} {median(ratios):>7.3f}  "
            f"{low:.3f} to {high:.3f} {min(mine) / min(base):>7.3f}",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.validation", description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--only", default="", help="loads whose names contain this")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-bench-validation-") as folder:
        system = Brokers(Path(folder), len(KINDS))
        try:
            system.start()
            make_topics(system)
            pids = system.broker_pids()

            def spent(load: Load, number: int) -> float:
                before = cpu_clock([pids[number]])
                load.send(system.ports[number], KINDS[number - 1])
                return (cpu_clock([pids[number]]) - before) / load.requests * 1e6

            print(f"{arguments.rounds} rounds each, load of the machine {os.getloadavg()[0]:.1f} at the start")
            print(
                f"{'load':<30} {'records':>7} {'walk':<9} {'us/req.':>8} {'without':>8} {'ratio':>7}  quartiles        {'lowest':>7}"
            )
            for name, load in loads().items():
                if arguments.only not in name:
                    continue
                figures: dict[str, list[float]] = {kind: [] for kind in KINDS}
                for round_ in range(-1, arguments.rounds):  # the first one is a warm-up
                    for at in range(len(KINDS)):
                        number = (at + round_) % len(KINDS) + 1
                        found = spent(load, number)
                        if round_ >= 0:
                            figures[KINDS[number - 1]].append(found)
                report(name, load.records, figures)
            print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")
        finally:
            system.close()
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--be"]:
        be(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(main())
