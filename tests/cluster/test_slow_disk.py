"""The event loop of a broker never waits for a device: a real broker whose flushes and reads outside the page cache are slow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.local import ROOT, LocalCluster, wait_for

pytestmark = pytest.mark.cluster
DELAY_S = 0.7
RECORDS, RECORD_BYTES = 600, 10_000


class SlowDisk(LocalCluster):
    def _spawn(self, name: str, command: list[str]) -> None:
        if name.startswith("broker"):
            command = [sys.executable, "-m", "tests.cluster.slow_disk", str(self.report), str(DELAY_S), *command[3:]]
        super()._spawn(name, command)

    @property
    def report(self) -> Path:
        return self.folder / "report"

    def read_events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.report.read_text().splitlines()]

    def drop_pages(self) -> None:
        """Drops this broker's files from the page cache, so that reads go to the disk."""
        for path in (self.folder / "data-1").rglob("*"):
            if path.is_file():
                fd = os.open(path, os.O_RDONLY)
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)


def write(bootstrap: str, topic: str, count: int, key: bytes | None = None, size: int = RECORD_BYTES) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.size": 100_000})
    for i in range(count):
        producer.produce(topic, os.urandom(size), key=key and key + b"%d" % (i % 10))
    assert producer.flush(120) == 0


def read(bootstrap: str, topic: str, group: str, isolation: str = "read_committed") -> int:
    """Reads partition 0 from its log start to its current end and commits the position. Returns the number of records."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": isolation, "enable.auto.commit": False}
    )
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)
    consumer.assign([TopicPartition(topic, 0, 0)])
    got, last, deadline = 0, -1, time.monotonic() + 180
    while last + 1 < end:
        assert time.monotonic() < deadline, f"{got} of {end} records"
        for message in consumer.consume(500, 1):
            assert message.error() is None
            got, last = got + 1, message.offset() or 0
    consumer.commit(offsets=[TopicPartition(topic, 0, end)], asynchronous=False)
    consumer.close()
    return got


def test_the_event_loop_never_waits_for_a_slow_disk(tmp_path: Path) -> None:
    settings = {
        "log.cleaner.backoff.ms": "1000",
        "log.retention.check.interval.ms": "2000",
        "log.segment.bytes": "1000000",
    }
    with SlowDisk(tmp_path, brokers=1, settings=settings) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        topics = [
            NewTopic("old", 1, 1),
            NewTopic("sure", 1, 1, config={"flush.messages": "1"}),
            NewTopic(
                "keys",
                1,
                1,
                config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": "200000"},
            ),
            NewTopic("brief", 1, 1, config={"retention.ms": "1000", "segment.bytes": "200000"}),
        ]
        for future in admin.create_topics(topics).values():
            future.result(60)
        write(cluster.bootstrap, "old", RECORDS)
        write(cluster.bootstrap, "sure", 20)
        write(cluster.bootstrap, "keys", 100, key=b"key")
        write(cluster.bootstrap, "brief", 100)
        assert read(cluster.bootstrap, "sure", "group") == 20
        folder = tmp_path / "data-1"
        wait_for(lambda: (folder / "keys-0" / "cleaner-offset").exists(), "a compaction", 120)
        # As at a start after a long time: nothing is in the page cache, not even the coordinators' logs.
        cluster.kill("broker-1", signal.SIGTERM)
        cluster.drop_pages()
        cluster.start_broker(1)
        wait_for(lambda: cluster.listening(1), "the broker to listen", 120)

        def leads_all() -> bool:
            partitions = [p for t in admin.list_topics(timeout=30).topics.values() for p in t.partitions.values()]
            return all(p.leader == 1 for p in partitions)

        wait_for(leads_all, "the broker to lead again", 120)
        assert read(cluster.bootstrap, "old", "group") == RECORDS
        assert read(cluster.bootstrap, "sure", "group") == 20
        wait_for(lambda: len(list((folder / "brief-0").glob("*.log"))) == 1, "retention", 120)
        cluster.kill("broker-1", signal.SIGTERM)
        said = cluster.read_events()
    waited = [line for line in said if "loop_waited_for" in line]
    assert not waited, (
        f"the event loop waited for the disk {len(waited)} times, first: {json.dumps(waited[0], indent=1)}"
    )
    turns = [line["longest_turn_s"] for line in said if "longest_turn_s" in line]
    assert turns and max(turns) < DELAY_S, "a loop iteration took as long as one slow call"


def test_the_injected_delays_take_effect(tmp_path: Path) -> None:
    """A call on the main thread is reported and takes as long as configured. Otherwise the test above could not fail."""
    report, program = tmp_path / "report", "import os, sys; from tests.cluster import slow_disk as s\n"
    program += f"r = s.Report({str(report)!r}); r.serving = True; s.install(r, 0.2)\n"
    program += f"fd = os.open({str(tmp_path / 'file')!r}, os.O_RDWR | os.O_CREAT); os.pwrite(fd, bytes(100000), 0); os.fdatasync(fd)\n"
    program += "os.pread(fd, 100, 0); os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED); os.pread(fd, 100, 0)\n"
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60)
    assert time.monotonic() - began > 0.4
    assert [json.loads(line)["loop_waited_for"] for line in report.read_text().splitlines()] == ["fdatasync", "pread"]
