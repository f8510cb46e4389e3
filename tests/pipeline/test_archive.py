"""The archive job on a real cluster, compared with the producer's acknowledgements and the topic. The lake is read with pyarrow, never only through
the job's own manifest.

Does not test retention that overtakes the job (tests/unit/pipeline tests the arithmetic).
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.cluster.local import ROOT, LocalCluster, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.timeout(420)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), brokers=1) as running:
        yield running


def create(cluster: LocalCluster, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)


class Job:
    def __init__(self, cluster: LocalCluster, lake: Path, topics: str) -> None:
        self.folder, self._log = lake / "job-1", lake / "job.log"
        lake.mkdir(exist_ok=True)
        self._command = [
            sys.executable,
            "-m",
            "pipeline.jobs.archive",
            "--bootstrap",
            cluster.bootstrap,
            "--topics",
            topics,
            "--lake",
            str(lake),
            "--job-id",
            "job-1",
            "--driver-memory",
            "512m",
        ]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen([*self._command, *more], stdout=log, stderr=log, cwd=ROOT)

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self) -> int:
        assert self.process is not None
        return self.process.wait(timeout=200)

    def run_once(self) -> None:
        self.start("--once")
        assert self.end() == 0, self._log.read_text()[-3000:]

    def batches(self) -> int:
        return len(list(self.folder.glob("topic=*/batch=*/_written.json")))


def read_archived_records(folder: Path) -> list[tuple[str, int, int, bytes | None, bytes | None]]:
    out = []
    for path in folder.glob("topic=*/batch=*/*.parquet"):
        topic = path.parts[-3].removeprefix("topic=")
        for row in pq.ParquetFile(path).read(columns=["partition", "offset", "key", "value"]).to_pylist():
            out.append((topic, row["partition"], row["offset"], row["key"], row["value"]))
    return out


class AcknowledgedRecords:
    """The acknowledged records, with their partition and offset."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.records: list[tuple[str, int, int, bytes | None, bytes | None]] = []
        self.producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "compression.type": "lz4",
            }
        )

    def produce(self, topic: str, number: int) -> None:
        key = f"k{number % 97}".encode() if number % 10 else None
        self.producer.produce(
            topic,
            f"value-{number}".encode(),
            key=key,
            on_delivery=self._on_delivery,
            headers=[("n", str(number))] if number % 3 == 0 else None,
        )
        self.producer.poll(0)

    def _on_delivery(self, error: object, message: object) -> None:
        if error is None:
            m = message
            self.records.append((m.topic(), m.partition(), m.offset(), m.key(), m.value()))  # type: ignore[attr-defined]


def test_an_archive_job_killed_repeatedly_writes_each_record_exactly_once(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    create(cluster, "flights", 3)
    create(cluster, "orders", 1)
    truth, stopping = AcknowledgedRecords(cluster), threading.Event()

    def go_on() -> None:
        number = 0
        while not stopping.wait(0.005):
            for _ in range(20):
                truth.produce("orders" if number % 5 == 0 else "flights", number)
                number += 1

    producing = threading.Thread(target=go_on)
    producing.start()
    try:
        job = Job(cluster, tmp_path / "lake", "flights,orders")
        for _ in range(2):
            before = job.batches()
            job.start("--records-per-batch", "3000", "--trigger-seconds", "0.1")
            # Killed while batches run without a pause: between staging, renames, manifest and checkpoint.
            wait_for(lambda before=before: job.batches() >= before + 5, "five more batches", 150)  # type: ignore[misc]
            job.kill()
    finally:
        stopping.set()
        producing.join()
    assert truth.producer.flush(60) == 0
    job.run_once()

    found = read_archived_records(job.folder)
    assert Counter(found).most_common(1)[0][1] == 1
    assert sorted(found, key=repr) == sorted(truth.records, key=repr)
    lines = [json.loads(line) for line in (job.folder / "manifest.jsonl").read_text().splitlines()]
    assert sum(line["rows"] for line in lines) == len(truth.records)
    for topic, partition in {(line["topic"], line["partition"]) for line in lines}:
        mine = [x for x in lines if (x["topic"], x["partition"]) == (topic, partition)]
        assert [x["first_offset"] for x in mine[1:]] == [x["next_offset"] for x in mine[:-1]]
        assert mine[0]["first_offset"] == 0


def test_sigterm_ends_the_job_after_its_batch_and_it_continues_from_there(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    create(cluster, "bookings", 2)
    truth = AcknowledgedRecords(cluster)
    for number in range(500):
        truth.produce("bookings", number)
    assert truth.producer.flush(30) == 0
    job = Job(cluster, tmp_path / "lake", "bookings")
    job.start("--trigger-seconds", "0.2")
    wait_for(lambda: job.batches() >= 1, "a batch", 150)
    assert job.process is not None
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 0
    assert json.loads((job.folder / "status.json").read_text())["phase"] == "ended"

    # More partitions and more records while no job runs.
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_partitions([NewPartitions("bookings", 4)])["bookings"].result(30)
    producer = AcknowledgedRecords(cluster)
    wait_for(
        lambda: len(producer.producer.list_topics("bookings", 10).topics["bookings"].partitions) == 4, "partitions"
    )
    for number in range(500, 1000):
        producer.produce("bookings", number)
    assert producer.producer.flush(30) == 0
    job.run_once()
    assert sorted(read_archived_records(job.folder), key=repr) == sorted(truth.records + producer.records, key=repr)
    headers = [
        row["headers"]
        for path in job.folder.glob("topic=*/batch=*/*.parquet")
        for row in pq.ParquetFile(path).read(columns=["headers"]).to_pylist()
    ]
    assert len([h for h in headers if h]) == len([n for n in range(1000) if n % 3 == 0])
