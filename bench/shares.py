"""`python -m bench.shares`: the rate at which the members of a share group read a topic, on Weir and on Apache Kafka 4.3.1 in one run.

Three brokers of each system run at the same time. Each round creates a topic with three replicas on each system and fills it. The members of one share group
read it until every record was delivered. They are Kafka's own Java client with its default settings; the next poll acknowledges the records. The systems take
turns, and a ratio belongs to one round. The time includes the start of the members: joining the group and the first assignment. `--against COMMIT` compares
with the brokers of an earlier commit of this repository instead of Kafka's. `--key-order KEYS` compares a share group that keeps the order of each key with one
that does not, on two clusters of Weir. The records have so many different keys.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from bench.against import checkout
from bench.client import produce
from bench.kernel import cpu_clock
from bench.lookup import OtherTree
from bench.peer.fetch import copy_dependencies
from bench.peer.systems import PEERS, System, Weir, wait_for
from brokerd.config.share_groups import KEY_ORDER
from weir_common.java import find_java

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "bench" / "java" / "ShareRate.java"
BUILT = ROOT / "build" / "peers" / "share-rate"
CLIENT = "org.apache.kafka:kafka-clients:4.3.1"
RECORD_BYTES, BATCH_BYTES = 1_000, 16_384
CLIENT_SECONDS_MAX = 600


@dataclass(frozen=True, slots=True)
class Measurements:
    """One pass. `cpu_us`: CPU of all brokers per record in microseconds. `redelivered`: deliveries after the first one of a record."""

    records_per_s: float
    cpu_us: float
    client_cpu_us: float
    redelivered: int


class Earlier(OtherTree):
    name = "earlier"


class Unordered(Weir):
    name = "without key order"


def client_command() -> list[str]:
    """Compiles the client. Raises Absent without Maven or without the jars."""
    lib = copy_dependencies(BUILT, [CLIENT])
    classes = BUILT / "classes"
    subprocess.run(["javac", "-nowarn", "-cp", f"{lib}/*", "-d", str(classes), str(SOURCE)], check=True)
    return [str(find_java()), "-Xmx512m", "-cp", f"{classes}:{lib}/*", "ShareRate"]


def produce_keys(system: System, topic: str, count: int, keys: int) -> None:
    producer = Producer({"bootstrap.servers": system.bootstrap, "batch.size": BATCH_BYTES, "linger.ms": 20})
    value = os.urandom(RECORD_BYTES)
    for n in range(count):
        while True:
            try:
                producer.produce(topic, value, key=f"key-{n % keys}")
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise SystemExit(f"{system.name}: records of {topic} were not acknowledged")


def require_key_order(system: System, group: str) -> None:
    entry = ConfigEntry(
        KEY_ORDER,
        "true",
        source=ConfigSource.DYNAMIC_TOPIC_CONFIG,
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})
    admin.incremental_alter_configs([resource])[resource].result(30)


def filled_topic(system: System, name: str, partitions: int, count: int, keys: int) -> None:
    admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})
    topic = NewTopic(name, partitions, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([topic])[name].result(60)

    def ready() -> bool:
        found = admin.list_topics(timeout=20).topics.get(name)
        return (
            found is not None
            and len(found.partitions) == partitions
            and all(len(p.isrs) == 3 for p in found.partitions.values())
        )

    wait_for(ready, f"the replicas of {name}")
    if keys:
        produce_keys(system, name, count, keys)
    else:
        produce(system.bootstrap, [name], os.urandom(RECORD_BYTES), count, BATCH_BYTES, "all")


def one_pass(
    system: System, command: list[str], name: str, partitions: int, count: int, members: int, keys: int
) -> Measurements:
    """Raises SystemExit when a record was not delivered. `keys`: 0 for records without keys."""
    filled_topic(system, name, partitions, count, keys)
    if keys and system.name == Weir.name:
        require_key_order(system, name)
    pids = system.broker_pids().values()
    before = cpu_clock(pids)
    done = subprocess.run(
        [*command, system.bootstrap, name, str(count), str(members)],
        capture_output=True,
        text=True,
        timeout=CLIENT_SECONDS_MAX,
        check=False,
    )
    spent = cpu_clock(pids) - before
    if done.returncode or not done.stdout:
        raise SystemExit(f"{system.name}: the client ended with {done.returncode}: {done.stderr[-2000:]}")
    seconds, unique, deliveries, client_cpu = done.stdout.split()
    if int(unique) != count:
        raise SystemExit(f"{system.name}: {unique} of {count} records were delivered")
    admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})
    admin.delete_topics([name])[name].result(60)
    return Measurements(
        count / float(seconds), spent / count * 1e6, float(client_cpu) / count * 1e6, int(deliveries) - count
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.shares", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--members", type=int, default=20)
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--against", metavar="COMMIT", help="an earlier commit, in place of Kafka")
    parser.add_argument(
        "--key-order", type=int, metavar="KEYS", default=0, help="two clusters of Weir, one with key order"
    )
    given = parser.parse_args()
    if given.against and given.key_order:
        parser.error("--against and --key-order exclude each other")
    with ExitStack() as stack:
        tree = None
        if given.against:
            tree = stack.enter_context(checkout(given.against))
        return compared(given, tree)


def compared(given: argparse.Namespace, tree: Path | None) -> int:
    command = client_command()
    running: list[System] = []
    try:
        for n in range(2):
            folder = Path(tempfile.mkdtemp(prefix="shares-"))
            if not n:
                running.append(Weir(folder, 3))
            elif given.key_order:
                running.append(Unordered(folder, 3))
            else:
                running.append(PEERS["kraft"](folder, 3) if tree is None else Earlier(folder, tree, 3))
            running[-1].start()
        print(f"load of the machine {os.getloadavg()[0]:.1f} after the start; {given.rounds} rounds")
        passes: dict[str, list[Measurements]] = {s.name: [] for s in running}
        for round_ in range(-1, given.rounds):  # the first one is a warm-up
            for system in running if round_ % 2 else running[::-1]:
                found = one_pass(
                    system,
                    command,
                    f"shares-{round_ + 1}",
                    given.partitions,
                    given.records,
                    given.members,
                    given.key_order,
                )
                print(
                    f"round {round_ + 1}, {system.name:<12} {found.records_per_s:>8.0f} records/s, {found.cpu_us:>6.1f} us of broker CPU and "
                    f"{found.client_cpu_us:>6.1f} us of client CPU per record, {found.redelivered} redelivered",
                    flush=True,
                )
                if round_ >= 0:
                    passes[system.name].append(found)
    finally:
        for system in running:
            system.close()
    return report(passes)


def report(passes: dict[str, list[Measurements]]) -> int:
    """Prints the medians of the ratios. Returns 1 if Weir is behind in one of them."""
    ours, (peer, theirs) = passes[Weir.name], next((n, found) for n, found in passes.items() if n != Weir.name)
    behind = False
    for title, ratios, ahead in (
        ("records/s", [a.records_per_s / b.records_per_s for a, b in zip(ours, theirs, strict=True)], 1),
        ("broker CPU per record", [a.cpu_us / b.cpu_us for a, b in zip(ours, theirs, strict=True)], -1),
    ):
        middle = median(ratios)
        print(f"weir / {peer}, {title}: {middle:.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        behind = behind or (middle - 1) * ahead < 0
    return int(behind)


if __name__ == "__main__":
    sys.exit(main())
