"""`python -m bench.drain`: a broker leaves the cluster, with two topics whose records are mostly remote, and with the same records in a plain topic.

Four brokers as processes; the remote store is a folder. Every partition of the broker that leaves gets a replica on the broker that has none: one tiered topic
moves in mode copy, the other in mode tail (the steps of a move, without its comparison of replicas). Measured are the time until the new replicas are in sync
and the old ones are removed, the bytes of the new replicas, and the bytes that the store got meanwhile. The bytes of the new replicas were copied between
brokers. There are no producers. The plain topic is in the same run, so the ratios do not depend on the machine. The page cache has all files. The leaders look
for segments to copy every 0.5 s (30 s by default).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from brokerd.cluster.model import TopicState
from controlplane.clients import kafka
from controlplane.controller.events import DesiredAssignment
from tests.cluster.local import LocalCluster, wait_for
from tests.cluster.tiered_settings import tiered_settings

MIB = 1024 * 1024
BROKERS, PARTITIONS, LEAVING = 4, 4, 1
PLACEMENT = [[(p + i) % BROKERS + 1 for i in range(3)] for p in range(PARTITIONS)]
"""Three replicas of each partition: three of the four partitions are on LEAVING, and it leads one."""
VALUE_BYTES = 1_000
TIERED, TAIL, PLAIN = "tiered", "tiered-tail", "plain"
WAIT_SECONDS = 1_800.0


@dataclass(frozen=True, slots=True)
class Drain:
    """`total_bytes`: of one copy of the partitions that left, over both tiers. `local_bytes`: of the local logs of these partitions on the broker that left.
    `moved_bytes`: of the new replicas. `stored_bytes`: new in the remote store."""

    seconds: float
    total_bytes: int
    local_bytes: int
    moved_bytes: int
    stored_bytes: int


def log_bytes(cluster: LocalCluster, broker: int, topic: str, partition: int) -> int:
    folder = cluster.folder / f"data-{broker}" / f"{topic}-{partition}"
    return sum(f.stat().st_size for f in folder.glob("*.log"))


def local_start(cluster: LocalCluster, broker: int, topic: str, partition: int) -> int:
    folder = cluster.folder / f"data-{broker}" / f"{topic}-{partition}"
    return min((int(f.stem) for f in folder.glob("*.log")), default=0)


def topic_state(cluster: LocalCluster, topic: str) -> TopicState:
    state = cluster.image.topic_named(topic)
    assert state is not None
    return state


def fill(cluster: LocalCluster, topic: str, records: int) -> None:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "linger.ms": 20, "batch.size": 131_072, "log_level": 0}
    )
    for number in range(records):
        while True:
            try:
                producer.produce(topic, b"%08d" % number + b"v" * (VALUE_BYTES - 8), partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(600):
        raise SystemExit(f"{topic}: not all records were accepted")


def store_bytes(cluster: LocalCluster) -> int:
    return sum(f.stat().st_size for f in (cluster.folder / "store").rglob("*.log"))


def replace_leaving(cluster: LocalCluster, topic: str, moves: Mapping[int, int], *, observe: bool) -> None:
    """Order that the new broker takes the place of LEAVING or, with `observe`, that it becomes an observer first."""
    state = topic_state(cluster, topic)
    desired_moves = []
    for index, new in moves.items():
        placed = state.partitions[index]
        replicas = placed.replicas if observe else tuple(new if b == LEAVING else b for b in placed.replicas)
        observers = (new,) if observe else ()
        name = f"{topic}-{index}-{'observe' if observe else 'join'}"
        desired_moves.append(
            DesiredAssignment(
                state.topic_id, index, replicas, placed.assignment_generation, name, "", observers=observers
            )
        )
    cluster.rows.move(*desired_moves)


def leave(cluster: LocalCluster, topic: str, partition_bytes: int) -> Drain:
    """Move all partitions of LEAVING at the same time."""
    placed = topic_state(cluster, topic).partitions
    moves = {
        index: next(b for b in cluster.ports if b not in p.replicas)
        for index, p in placed.items()
        if LEAVING in p.replicas
    }
    local = sum(log_bytes(cluster, LEAVING, topic, index) for index in moves)
    stored, begun = store_bytes(cluster), time.monotonic()
    if topic == TAIL:
        replace_leaving(cluster, topic, moves, observe=True)

        def copied() -> bool:
            """Whether the local logs start where those of the observers do."""
            partitions = topic_state(cluster, topic).partitions
            return all(
                kafka.bounds("127.0.0.1", cluster.ports[p.leader], topic, i)[0] >= p.tail_start >= 0
                for i, p in partitions.items()
                if i in moves
            )

        wait_for(copied, "the copies to the remote store", WAIT_SECONDS)
    replace_leaving(cluster, topic, moves, observe=False)

    def left() -> bool:
        partitions = topic_state(cluster, topic).partitions
        return all(
            LEAVING not in partitions[i].replicas and new in partitions[i].isr_ids and not partitions[i].adding
            for i, new in moves.items()
        )

    wait_for(left, f"the partitions of {topic} to leave", WAIT_SECONDS)
    seconds = time.monotonic() - begun
    moved = sum(log_bytes(cluster, new, topic, index) for index, new in moves.items())
    return Drain(seconds, len(moves) * partition_bytes, local, moved, store_bytes(cluster) - stored)


def main() -> int:
    parser = argparse.ArgumentParser(prog="drain", description="A broker with a tiered topic leaves the cluster.")
    parser.add_argument("--mib", type=int, default=400, help="size of each topic, one copy")
    parser.add_argument("--local-mib", type=int, default=4, help="local retention of a partition of the tiered topic")
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    for _ in range(arguments.rounds):
        found = run(arguments.mib * MIB // VALUE_BYTES, arguments.local_mib * MIB)
        for topic, drain in found.items():
            print(
                f"{topic}: {drain.total_bytes / MIB:.0f} MiB stored, {drain.local_bytes / MIB:.0f} MiB local, "
                f"{drain.moved_bytes / MIB:.1f} MiB moved, {drain.stored_bytes / MIB:.1f} MiB to the store, {drain.seconds:.1f} s"
            )
        plain = found[PLAIN]
        for topic in (TIERED, TAIL):
            moved = found[topic].moved_bytes / plain.moved_bytes
            print(f"{topic} / plain: bytes {moved:.4f}, seconds {found[topic].seconds / plain.seconds:.2f}", flush=True)
    return 0


def run(records: int, local_bytes: int) -> dict[str, Drain]:
    folder = Path(tempfile.mkdtemp(prefix="drain-"))
    settings = tiered_settings(folder, copy_ms=500, retention_ms=1000)
    segment = str(max(MIB, local_bytes // 4))
    tiered_configs = {
        "remote.storage.enable": "true",
        "segment.bytes": segment,
        "local.retention.bytes": str(local_bytes),
    }
    configs = {TIERED: tiered_configs, TAIL: tiered_configs, PLAIN: {"segment.bytes": segment}}
    try:
        with LocalCluster(folder, brokers=BROKERS, settings=settings) as cluster:
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
            found = {}
            for topic in configs:
                admin.create_topics([NewTopic(topic, PARTITIONS, replica_assignment=PLACEMENT, config=configs[topic])])[
                    topic
                ].result(60)
                wait_for(partial(cluster.image.topic_named, topic), topic)
                fill(cluster, topic, records)
            least = records // PARTITIONS - 2 * local_bytes // VALUE_BYTES

            def tiered() -> bool:
                return all(
                    local_start(cluster, b, topic, i) > least
                    for topic in (TIERED, TAIL)
                    for i, p in topic_state(cluster, topic).partitions.items()
                    for b in p.replicas
                )

            wait_for(tiered, "copies and local retention", WAIT_SECONDS)
            for topic in configs:
                found[topic] = leave(cluster, topic, records // PARTITIONS * VALUE_BYTES)
            return found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
