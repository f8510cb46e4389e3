"""`python -m bench.drain`: a broker leaves the cluster, with a topic whose records are mostly remote, and with the same records in a plain topic.

Four brokers as processes; the remote store is a folder. Every partition of the broker that leaves gets a replica on the broker that has none. Measured are the
time until the new replicas are in sync and the old ones are removed, and the bytes of the new replicas, which are the bytes that were copied: nobody
produces meanwhile. The plain topic is in the same run, so the ratio does not depend on the machine. The page cache has all files.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from brokerd.cluster.model import TopicState
from controlplane.controller.events import DesiredAssignment
from tests.cluster.local import LocalCluster, wait_for
from tests.cluster.tiered_settings import tiered_settings

MIB = 1024 * 1024
BROKERS, PARTITIONS, LEAVING = 4, 4, 1
PLACEMENT = [[(p + i) % BROKERS + 1 for i in range(3)] for p in range(PARTITIONS)]
"""Three replicas of each partition: three of the four partitions are on LEAVING, and it leads one."""
VALUE_BYTES = 1_000
TIERED, PLAIN = "tiered", "plain"
WAIT_SECONDS = 1_800.0


@dataclass(frozen=True, slots=True)
class Drain:
    """`total_bytes`: of one copy of the partitions that left, over both tiers. `local_bytes`: of the local logs of these partitions on the broker that left."""

    seconds: float
    total_bytes: int
    local_bytes: int
    moved_bytes: int


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


def leave(cluster: LocalCluster, topic: str, partition_bytes: int) -> Drain:
    """Move all partitions of LEAVING at the same time."""
    state = topic_state(cluster, topic)
    moves: dict[int, int] = {}
    wanted = []
    for index, placed in state.partitions.items():
        if LEAVING in placed.replicas:
            new = next(b for b in cluster.ports if b not in placed.replicas)
            moves[index] = new
            replicas = tuple(new if b == LEAVING else b for b in placed.replicas)
            wanted.append(
                DesiredAssignment(state.topic_id, index, replicas, placed.assignment_generation, f"{topic}-{index}", "")
            )
    local = sum(log_bytes(cluster, LEAVING, topic, index) for index in moves)
    begun = time.monotonic()
    cluster.rows.move(*wanted)

    def left() -> bool:
        partitions = topic_state(cluster, topic).partitions
        return all(
            LEAVING not in partitions[i].replicas and new in partitions[i].isr_ids and not partitions[i].adding
            for i, new in moves.items()
        )

    wait_for(left, f"the partitions of {topic} to leave", WAIT_SECONDS)
    seconds = time.monotonic() - begun
    moved = sum(log_bytes(cluster, new, topic, index) for index, new in moves.items())
    return Drain(seconds, len(moves) * partition_bytes, local, moved)


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
                f"{drain.moved_bytes / MIB:.0f} MiB moved, {drain.seconds:.1f} s"
            )
        ratio = found[TIERED].moved_bytes / found[PLAIN].moved_bytes
        print(
            f"tiered / plain: bytes {ratio:.3f}, seconds {found[TIERED].seconds / found[PLAIN].seconds:.2f}", flush=True
        )
    return 0


def run(records: int, local_bytes: int) -> dict[str, Drain]:
    folder = Path(tempfile.mkdtemp(prefix="drain-"))
    settings = tiered_settings(folder, copy_ms=500, retention_ms=1000)
    segment = str(max(MIB, local_bytes // 4))
    configs = {
        TIERED: {
            "remote.storage.enable": "true",
            "segment.bytes": segment,
            "local.retention.bytes": str(local_bytes),
        },
        PLAIN: {"segment.bytes": segment},
    }
    try:
        with LocalCluster(folder, brokers=BROKERS, settings=settings) as cluster:
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
            found = {}
            for topic in (TIERED, PLAIN):
                admin.create_topics([NewTopic(topic, PARTITIONS, replica_assignment=PLACEMENT, config=configs[topic])])[
                    topic
                ].result(60)
                wait_for(partial(cluster.image.topic_named, topic), topic)
                fill(cluster, topic, records)
            least = records // PARTITIONS - 2 * local_bytes // VALUE_BYTES

            def tiered() -> bool:
                partitions = topic_state(cluster, TIERED).partitions.items()
                return all(local_start(cluster, b, TIERED, i) > least for i, p in partitions for b in p.replicas)

            wait_for(tiered, "copies and local retention", WAIT_SECONDS)
            for topic in (TIERED, PLAIN):
                found[topic] = leave(cluster, topic, records // PARTITIONS * VALUE_BYTES)
            return found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
