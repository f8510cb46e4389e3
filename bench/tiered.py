"""`python -m bench.tiered`: producers and consumers of new records on brokers whose remote store is slow, fails, or does not respond.

Three brokers as processes, an S3 server (moto) behind a proxy, two tiered topics with three replicas and the same leader. A producer sends 1,000 records/s of 1 KiB
with acks=all to `live`, whose segments are copied meanwhile, and a consumer reads them. In all modes but `quiet` a third client reads `cold` from the earliest offset,
again and again: more than the chunk cache has, at the fetch quota. The run fails if the store sends more than the quota allows. Latencies start at the scheduled time of a record. Values are ratios to `quiet` of the same round. The
clients, moto and the proxy share the machine with the brokers: the cold reader, moto and the proxy run niced, because in reality they are elsewhere.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.client import latencies, percentile, produce
from brokerd.remote.rate import BURST_S
from controlplane.clients.broker_samples import sample_broker
from controlplane.clients.connection import KafkaConnection
from tests.cluster.local import ROOT, LocalCluster, wait_for
from tests.pipeline.s3 import BUCKET, CREDENTIALS, s3_server

MIB = 1024 * 1024
RATE, RECORD_BYTES, COLD_RECORD_BYTES = 1_000, 1024, 10 * 1024
CACHE_BYTES = 64 * MIB
COLD_BYTES = 96 * MIB
"""More than the cache, so that each pass of the cold reader reads from the store."""
FETCH_RATE = 20 * MIB
"""remote.log.manager.fetch.max.bytes.per.second: the cold reader is not to take the CPU of the machine."""
UNDER_WAY_BYTES_MAX = 16 * MIB
"""Requested before a measurement and answered in it: at most one segment of 1 MiB by each of the 12 threads of the helper, and headers."""
MODES = ("quiet", "pass", "slow 2", "error", "silent")
UNCOPIED_BYTES_MAX = 3 * MIB
"""Bytes of `live` without a copy at the start of a measurement, the active segment included."""
TOPIC = {"remote.storage.enable": "true", "segment.bytes": str(MIB), "min.insync.replicas": "2"}
NICE = ("nice", "-n", "15")
RECOVERY_SECONDS = 120.0
Measurements = dict[str, float]


class Proxy:
    """`bench.store_proxy` as a process."""

    def __init__(self, target: int) -> None:
        self._process = subprocess.Popen(
            [*NICE, sys.executable, "-m", "bench.store_proxy", str(target)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self.port = int(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def set(self, mode: str) -> int:
        """The bytes that the store has answered so far."""
        assert self._process.stdin is not None
        self._process.stdin.write(mode + "\n")
        self._process.stdin.flush()
        name, _, response_bytes = self._line().partition(" ")
        assert name == mode.partition(" ")[0]
        return int(response_bytes)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


# -- clients in processes of their own -----------------------------------------------------------------------------------
def consume_live(bootstrap: str, seconds: float) -> None:
    """Prints the latencies of records from their timestamps to this consumer, in ms, and the number of records."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "live", "log_level": 0, "fetch.wait.max.ms": 500})
    _, high = consumer.get_watermark_offsets(TopicPartition("live", 0), timeout=20)
    consumer.assign([TopicPartition("live", 0, high)])
    print("ready", flush=True)
    found: list[float] = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        message = consumer.poll(0.05)  # `consume` would wait for more records
        if message is not None and message.error() is None:
            found.append(time.time() * 1000 - message.timestamp()[1])
    consumer.close()
    print(json.dumps(metrics_of(sorted(found))))


def consume_cold(bootstrap: str) -> None:
    """Reads `cold` from the earliest offset, again and again. Prints its progress for each line of standard input."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "cold",
            "log_level": 0,
            "auto.offset.reset": "error",
            "check.crcs": False,
            "queued.max.messages.kbytes": 4096,
            "fetch.message.max.bytes": MIB,
        }
    )
    end = consumer.get_watermark_offsets(TopicPartition("cold", 0), timeout=20)[1]
    position, read, errors = 0, 0, list[str]()

    def report() -> None:
        for _ in sys.stdin:
            print(json.dumps({"bytes": read, "errors": errors[:3]}), flush=True)

    consumer.assign([TopicPartition("cold", 0, 0)])
    print("ready", flush=True)
    threading.Thread(target=report, daemon=True).start()
    while True:
        for message in consumer.consume(100, 0.1):
            error = message.error()
            if error is not None and (not error.retriable() or error.code() == KafkaError._AUTO_OFFSET_RESET):
                errors.append(str(error))
            elif error is None:
                if message.offset() != position:
                    errors.append(f"offset {message.offset()}, expected {position}")
                position = (message.offset() or 0) + 1
                read += len(message.value() or b"")
        if position >= end:
            position = 0
            consumer.assign([TopicPartition("cold", 0, 0)])


def metrics_of(ordered: list[float]) -> Measurements:
    return {
        "p50": percentile(ordered, 50),
        "p99": percentile(ordered, 99),
        "p99.9": percentile(ordered, 99.9),
        "max": ordered[-1],
        "count": float(len(ordered)),
    }


class ColdReader:
    def __init__(self, bootstrap: str) -> None:
        command = [*NICE, sys.executable, "-m", "bench.tiered", "--client", "cold", "--bootstrap", bootstrap]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == "ready"

    def progress(self) -> dict[str, Any]:
        """{"bytes": read so far, "errors": what a consumer must never get}"""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


# -- measurement -----------------------------------------------------------------------------------------------------------
def measure(cluster: LocalCluster, seconds: float) -> dict[str, Measurements]:
    command = [sys.executable, "-m", "bench.tiered", "--client", "live", "--bootstrap", cluster.bootstrap]
    consumer = subprocess.Popen([*command, "--seconds", str(seconds + 2)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert consumer.stdout is not None
    assert consumer.stdout.readline().strip() == "ready"
    found = latencies(cluster.bootstrap, "live", os.urandom(RECORD_BYTES), RATE, seconds, "all")
    text, _ = consumer.communicate(timeout=120)
    consumed = json.loads(text)
    if consumed["count"] < RATE * seconds:
        raise SystemExit(f"the live consumer got {consumed['count']:.0f} of {RATE * seconds:.0f} records")
    return {"producer": metrics_of(found), "consumer": consumed}


def is_copied(cluster: LocalCluster) -> bool:
    """Return whether at most UNCOPIED_BYTES_MAX bytes of `live` lack a copy in the remote store."""
    topic = cluster.image.topic_named("live")
    assert topic is not None
    leader = topic.partitions[0].leader
    broker = KafkaConnection("127.0.0.1", cluster.ports[leader])
    try:
        remote = sample_broker(broker, leader, {"live": [0]}, {}, with_sizes=True).remote or {}
    finally:
        broker.close()
    return ("live", 0) in remote and remote["live", 0].local_only <= UNCOPIED_BYTES_MAX


def run_round(cluster: LocalCluster, proxy: Proxy, seconds: float) -> dict[str, Any]:
    out: dict[str, Any] = {}
    reader: ColdReader | None = None
    try:
        for mode in MODES:
            proxy.set("pass")
            if mode != "quiet" and reader is None:
                reader = ColdReader(cluster.bootstrap)
            if reader is not None:
                recovered(reader)
            wait_for(partial(is_copied, cluster), "the copies of the live topic", RECOVERY_SECONDS)
            response_bytes, begun = proxy.set("pass" if mode == "quiet" else mode), time.monotonic()
            before = reader.progress() if reader is not None else {"bytes": 0}
            found: dict[str, Any] = measure(cluster, seconds)
            if reader is not None:
                after = reader.progress()
                if after["errors"]:
                    raise SystemExit(f"{mode}: the cold consumer got {after['errors']}")
                found["cold_seconds"] = time.monotonic() - begun
                found["cold_bytes"] = after["bytes"] - before["bytes"]
                found["store_bytes"] = proxy.set("pass") - response_bytes
                check_quota(mode, found)
                found["cold_continues_s"] = recovered(reader)
            out[mode] = found
            print(line_of(mode, found, out["quiet"]), flush=True)
    finally:
        if reader is not None:
            reader.close()
    return out


def check_quota(mode: str, found: dict[str, Any]) -> None:
    allowed = FETCH_RATE * (found["cold_seconds"] + BURST_S) + UNDER_WAY_BYTES_MAX
    if found["store_bytes"] > allowed:
        raise SystemExit(
            f"{mode}: the store sent {found['store_bytes'] / MIB:.0f} MiB in {found['cold_seconds']:.1f} s, "
            f"and {allowed / MIB:.0f} MiB are allowed"
        )


def recovered(reader: ColdReader) -> float:
    """Seconds until the cold reader gets further records."""
    begun, before = time.monotonic(), reader.progress()["bytes"]
    while reader.progress()["bytes"] == before:
        if time.monotonic() - begun > RECOVERY_SECONDS:
            raise SystemExit("the cold consumer gets no records, though the store answers")
        time.sleep(0.1)
    return time.monotonic() - begun


def line_of(mode: str, found: dict[str, Any], quiet: dict[str, Any]) -> str:
    parts = [f"{mode:7}"]
    for client in ("producer", "consumer"):
        own, base = found[client], quiet[client]
        shown = ", ".join(f"{p} {own[p]:.1f} ms ({own[p] / base[p]:.2f})" for p in ("p50", "p99", "p99.9"))
        parts.append(f"{client} {shown}")
    if "cold_bytes" in found:
        read, sent = (found[name] / MIB / found["cold_seconds"] for name in ("cold_bytes", "store_bytes"))
        parts.append(
            f"cold {read:.1f} MiB/s, from the store {sent:.1f} MiB/s, continues after {found['cold_continues_s']:.1f} s"
        )
    return "; ".join(parts)


@contextmanager
def cluster_with_store(
    folder: Path, brokers: int = 3, others: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[LocalCluster, Proxy]]:
    """`others`: further settings of the brokers."""
    with s3_server(folder / "moto.log", NICE) as endpoint:
        proxy = Proxy(int(endpoint.rpartition(":")[2]))
        os.environ.update(CREDENTIALS, AWS_ENDPOINT_URL_S3=f"http://127.0.0.1:{proxy.port}")
        settings = {
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.url": f"s3://{BUCKET}/tier",
            "remote.log.manager.task.interval.ms": "500",
            "remote.log.manager.fetch.max.bytes.per.second": str(FETCH_RATE),
            "remote.log.cache.max.bytes": str(CACHE_BYTES),
            "log.retention.check.interval.ms": "1000",
            **others,
        }
        try:
            with LocalCluster(folder, brokers=brokers, settings=settings) as cluster:
                yield cluster, proxy
        finally:
            proxy.close()


def local_start(cluster: LocalCluster, topic: str) -> int:
    bases = [int(f.stem) for f in (cluster.folder / "data-1" / f"{topic}-0").glob("*.log")]
    return min(bases, default=0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.tiered", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--json", type=Path, help="all values go here")
    parser.add_argument("--client", choices=["live", "cold"], help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.client == "live":
        consume_live(given.bootstrap, given.seconds)
        return 0
    if given.client == "cold":
        consume_cold(given.bootstrap)
        return 0
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")  # for `KafkaConnection`
    folder = Path(tempfile.mkdtemp(prefix="tiered-latency-"))
    found: list[dict[str, Any]] = []
    try:
        with cluster_with_store(folder) as (cluster, proxy):
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
            for topic, local in (("cold", 2 * MIB), ("live", 8 * MIB)):
                configs = {**TOPIC, "local.retention.bytes": str(local)}
                new = NewTopic(topic, 1, replica_assignment=[[1, 2, 3]], config=configs)
                admin.create_topics([new])[topic].result(60)
                wait_for(partial(cluster.image.topic_named, topic), topic)
            value, count = os.urandom(COLD_RECORD_BYTES), COLD_BYTES // COLD_RECORD_BYTES
            produce(cluster.bootstrap, ["cold"], value, count, 100_000, "all")
            wait_for(lambda: local_start(cluster, "cold") > 0.9 * count, "copies and local retention", 600)
            for number in range(given.rounds):
                print(f"round {number + 1}, load {os.getloadavg()[0]:.1f}", flush=True)
                found.append(run_round(cluster, proxy, given.seconds))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for mode in MODES[1:]:
        parts = []
        for client in ("producer", "consumer"):
            ratios = {p: [r[mode][client][p] / r["quiet"][client][p] for r in found] for p in ("p50", "p99", "p99.9")}
            parts.append(
                f"{client} "
                + ", ".join(f"{p} {median(v):.2f} ({min(v):.2f} to {max(v):.2f})" for p, v in ratios.items())
            )
        print(f"{mode} / quiet: {'; '.join(parts)}")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
