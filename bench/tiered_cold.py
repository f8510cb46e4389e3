"""`python -m bench.tiered_cold`: the speed at which one consumer reads remote records, beside the store's own.

One broker as a process and an S3 server (moto) behind a proxy. The proxy delays each response by `--late` seconds and limits the rate of each connection, like an
object store. The store's own speed is that of range requests of the size of a chunk for the same objects: one at a time, and as many at a time as the helper
sends for one reader. The same consumer reads the same records from a local log, which shows the limit of client and machine. All read by turns in each round,
and the chunk cache is empty before. All processes share the machine, so only the ratios mean something.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.client import produce
from bench.tiered import MIB, cluster_with_store, local_start
from brokerd.remote.chunk_cache import CHUNK_BYTES
from brokerd.remote.operations import AHEAD_CHUNKS_MAX
from brokerd.remote.s3 import S3Store, store_at
from tests.cluster.local import LocalCluster, wait_for
from tests.cluster.test_tiered_storage import helpers
from tests.pipeline.s3 import BUCKET

TOPIC, LOCAL, RECORD_BYTES = "cold", "local", 10 * 1024
SEGMENT_BYTES = 16 * MIB
PARALLEL = 1 + AHEAD_CHUNKS_MAX
"""Requests to the store at a time for one reader: the chunk that it waits for, and those ahead."""


class Span(NamedTuple):
    name: str
    position: int


def remote_spans(store: S3Store, upto: int) -> list[Span]:
    """The chunks of all segments below offset `upto`, in order. A segment is read until its end, which `get` shows."""
    names = sorted((n for n in store.names("") if n.endswith(".log")), key=lambda n: n.rpartition("/")[2])
    below = [n for n in names if int(n.rpartition("/")[2][:20]) < upto]
    return [Span(n, at) for n in below for at in range(0, SEGMENT_BYTES, CHUNK_BYTES)]


def store_speed(store: S3Store, upto: int, parallel: int) -> float:
    """Bytes per second."""
    spans = remote_spans(store, upto)
    with ThreadPoolExecutor(parallel) as pool:
        begun = time.monotonic()
        total = sum(pool.map(lambda s: len(store.get(s.name, s.position, CHUNK_BYTES)), spans))
        return total / (time.monotonic() - begun)


def consumer_speed(bootstrap: str, topic: str, upto: int) -> float:
    """Bytes per second of the records below offset `upto`, from the first fetch on."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "cold",
            "log_level": 0,
            "check.crcs": False,
            "fetch.message.max.bytes": 8 * MIB,
        }
    )
    consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)  # connects
    seen, total, begun = 0, 0, time.monotonic()
    consumer.assign([TopicPartition(topic, 0, 0)])
    while seen < upto:
        for message in consumer.consume(10_000, 1.0):
            if message.error() is None:
                seen = (message.offset() or 0) + 1
                total += len(message)
    seconds = time.monotonic() - begun
    consumer.close()
    return total / seconds


def empty_cache(cluster: LocalCluster) -> None:
    """A new helper process starts with an empty cache."""
    before = helpers(cluster)
    for pid in before.values():
        os.kill(pid, signal.SIGKILL)
    wait_for(
        lambda: (now := helpers(cluster)).keys() == before.keys() and not set(now.values()) & set(before.values()),
        "new helpers",
    )
    time.sleep(1)  # until they have read their settings


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.tiered_cold", description=__doc__)
    parser.add_argument("--mib", type=int, default=192, help="size of the topic")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--late", type=float, default=0.03, help="seconds by which each response of the store is late")
    parser.add_argument("--mib-per-s", type=float, default=10, help="limit of each connection to the store; 0 = none")
    given = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")  # for `LocalCluster`
    folder = Path(tempfile.mkdtemp(prefix="tiered-cold-"))
    found: list[dict[str, float]] = []
    settings = {
        "remote.log.cache.max.bytes": str(1024 * MIB),
        "remote.log.manager.fetch.max.bytes.per.second": str(2**62),
        "remote.log.metadata.topic.replication.factor": "1",
    }
    try:
        with cluster_with_store(folder, 1, settings) as (cluster, proxy):
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
            configs = {
                "remote.storage.enable": "true",
                "segment.bytes": str(SEGMENT_BYTES),
                "local.retention.bytes": "1",
            }
            count, value = given.mib * MIB // RECORD_BYTES, os.urandom(RECORD_BYTES)
            for topic, own in ((TOPIC, configs), (LOCAL, {})):
                admin.create_topics([NewTopic(topic, 1, 1, config=own)])[topic].result(60)
                wait_for(partial(cluster.image.topic_named, topic), topic)
                produce(cluster.bootstrap, [topic], value, count, 1_000_000, "all")
            least = count - 2 * SEGMENT_BYTES // RECORD_BYTES
            wait_for(lambda: local_start(cluster, TOPIC) > least, "copies and local retention", 600)
            upto = local_start(cluster, TOPIC)
            store = store_at(BUCKET, "tier")
            proxy.set(f"slow {given.late} {given.mib_per_s * MIB}")
            for number in range(given.rounds):
                empty_cache(cluster)
                speeds = {
                    "broker": consumer_speed(cluster.bootstrap, TOPIC, upto),
                    "local": consumer_speed(cluster.bootstrap, LOCAL, upto),
                    "one": store_speed(store, upto, 1),
                    "several": store_speed(store, upto, PARALLEL),
                }
                found.append(speeds)
                print(
                    f"round {number + 1}, load {os.getloadavg()[0]:.1f}, MiB/s: {speeds['broker'] / MIB:.0f} through the broker, "
                    f"{speeds['local'] / MIB:.0f} from a local log, from the store {speeds['one'] / MIB:.0f} with one request at a time, "
                    f"{speeds['several'] / MIB:.0f} with {PARALLEL}",
                    flush=True,
                )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for other in ("one", "several", "local"):
        ratios = [s["broker"] / s[other] for s in found]
        print(f"cold read / {other}: {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
