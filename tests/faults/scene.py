"""Helpers of the fault tests: topics, acknowledged writes, frozen and killed processes, and the final check.

The final check is `check_records`: every replica in the ISR, all logs equal byte for byte with the acknowledged records in order and without duplicates, and
a client reads the same. Does not check the indexes (a sequential read does not use them for each offset).
"""

from __future__ import annotations

import contextlib
import re
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from brokerd.cluster.model import PartitionState
from brokerd.storage import checkpoints
from brokerd.storage.os_disk import OsDisk
from brokerd.wire import records
from tests import log_phrases
from tests.cluster.local import LocalCluster, wait_for


@contextlib.contextmanager
def cluster(folder: Path, brokers: int, **settings: str) -> Iterator[LocalCluster]:
    with LocalCluster(folder, brokers, settings) as running:
        yield running


# -- topics and records ----------------------------------------------------------------------------------------------------
def create(
    cluster: LocalCluster,
    name: str,
    *,
    min_insync: int = 1,
    replicas: Sequence[int] = (),
    at: str = "",
    **configs: object,
) -> None:
    """A topic with one partition on every broker, or on `replicas`, the first of which is preferred. `at`: the broker that gets the request.
    `configs` with `_` for `.`."""
    settings = {"min.insync.replicas": str(min_insync), **{k.replace("_", "."): str(v) for k, v in configs.items()}}
    admin = AdminClient({"bootstrap.servers": at or cluster.bootstrap, "log_level": 0})
    topic = (
        NewTopic(name, 1, replica_assignment=[list(replicas)], config=settings)
        if replicas
        else NewTopic(name, 1, cluster.count, config=settings)
    )

    def is_requested() -> bool:
        try:
            admin.create_topics([topic])[name].result(30)
        except KafkaException as e:  # a broker that has just lost ZooKeeper, or a lost response to a first attempt
            if e.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return True
            if e.args[0].code() != KafkaError.REQUEST_TIMED_OUT:
                raise
            return False
        return True

    wait_for(is_requested, f"{name} to be created")
    wait_for(lambda: cluster.image.topic_named(name) and leader(cluster, name) >= 0, f"a leader of {name}")


def topic_id(cluster: LocalCluster, name: str) -> UUID:
    topic = cluster.image.topic_named(name)
    assert topic is not None
    return topic.topic_id


def state(cluster: LocalCluster, name: str) -> PartitionState:
    topic = cluster.image.topic_named(name)
    assert topic is not None
    return topic.partitions[0]


def leader(cluster: LocalCluster, name: str) -> int:
    return state(cluster, name).leader


def produce(cluster: LocalCluster, name: str, values: Sequence[str], acks: str = "all", **settings: object) -> None:
    """Writes and waits for each acknowledgement. With acks=all each record is written exactly once, whichever leader changes happen."""
    errors = attempt(cluster, name, values, acks, **{"enable_idempotence": acks == "all", **settings})
    assert not errors, f"{len(errors)} records were not acknowledged, e.g. {errors[0]}"


def attempt(
    cluster: LocalCluster, name: str, values: Sequence[str], acks: str = "all", **settings: object
) -> list[object]:
    """Writes. Returns the errors of records that were not acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": acks,
            "linger.ms": 0,
            "message.timeout.ms": 60_000,
            "log_level": 0,
            **{k.replace("_", "."): v for k, v in settings.items()},
        }
    )
    errors: list[object] = []
    for value in values:
        producer.produce(name, value, partition=0, on_delivery=lambda e, m: errors.append(e) if e else None)
        producer.poll(0)
    assert producer.flush(90) == 0
    return errors


def read(cluster: LocalCluster, name: str) -> list[str]:
    """All records that a new consumer reads."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "truth", "log_level": 0})
    try:
        end = _end(consumer, name)
        consumer.assign([TopicPartition(name, 0, 0)])
        out: list[str] = []
        deadline = time.monotonic() + 60
        while len(out) < end:
            assert time.monotonic() < deadline, f"{len(out)} of {end} records"
            out += [m.value().decode() for m in consumer.consume(500, 0.5) if not m.error()]
        return out
    finally:
        consumer.close()


def _end(consumer: Consumer, name: str) -> int:
    deadline = time.monotonic() + 60
    while True:
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(name, 0), timeout=5)[1])
        except KafkaException as e:
            if time.monotonic() > deadline:
                raise AssertionError(f"no end offset of {name} within 60 s") from e
            time.sleep(0.1)


# -- files on the disks ------------------------------------------------------------------------------------------------
def folder_of(cluster: LocalCluster, broker_id: int, name: str) -> Path:
    return cluster.folder / f"data-{broker_id}" / f"{name}-0"


def segments(cluster: LocalCluster, broker_id: int, name: str) -> bytes:
    return b"".join(p.read_bytes() for p in sorted(folder_of(cluster, broker_id, name).glob("*.log")))


def high_watermark_on_disk(cluster: LocalCluster, broker_id: int, name: str) -> int:
    disk, folder = OsDisk(), cluster.folder / f"data-{broker_id}"
    return checkpoints.read_offsets(disk, folder / checkpoints.HIGH_WATERMARKS).get((name, 0), 0)


def values_of(data: bytes) -> list[str]:
    return [(r.value or b"").decode() for r in records.iterate(memoryview(data))]


def wait_for_equal_logs(cluster: LocalCluster, name: str) -> bytes:
    def equal() -> tuple[bytes] | None:
        try:
            logs = [segments(cluster, i, name) for i in state(cluster, name).replicas]
        except FileNotFoundError:  # a segment was deleted during the listing
            return None
        return (logs[0],) if all(one == logs[0] for one in logs) else None

    wait_for(lambda: set(state(cluster, name).isr_ids) == set(state(cluster, name).replicas), f"the full ISR of {name}")
    return wait_for(equal, f"replicas of {name} equal byte for byte")[0]  # type: ignore[no-any-return]


def check_records(cluster: LocalCluster, name: str, written: Sequence[str]) -> None:
    """No acknowledged record is lost, duplicated or reordered on any replica; see the module docstring."""
    assert values_of(wait_for_equal_logs(cluster, name)) == list(written)
    assert read(cluster, name) == list(written)


# -- processes -------------------------------------------------------------------------------------------------------------
def freeze(cluster: LocalCluster, name: str) -> None:
    cluster.processes[name].send_signal(signal.SIGSTOP)


def thaw(cluster: LocalCluster, name: str) -> None:
    cluster.processes[name].send_signal(signal.SIGCONT)


def all_in_sync(cluster: LocalCluster) -> bool:
    return all(len(p.isr) == len(p.replicas) and p.leader >= 0 for _, _, p in cluster.image.each_partition())


def wait_until_recovered(cluster: LocalCluster) -> None:
    """Waits until every broker is live and every partition has a leader and a full ISR, without an intervention."""
    for i in cluster.ports:
        wait_for(lambda i=i: cluster.listening(i) and is_registered(cluster, i), f"broker {i} in the metadata log")  # type: ignore[misc]
    wait_for(lambda: all_in_sync(cluster), "the full ISR everywhere", 90)


def is_registered(cluster: LocalCluster, broker_id: int) -> bool:
    """Whether the metadata log has the current registration of the broker. Just after a restart the log has the previous one, so a check would pass
    too early."""
    log = cluster.log(f"broker-{broker_id}")
    # The second phrase is of the version before, which upgrade tests run as well.
    found = list(
        re.finditer(
            rf"{log_phrases.BROKER_REGISTERED}\d+ broker_epoch=(\d+)|broker \d+ registered, incarnation (\d+)", log
        )
    )
    if not found:
        return False
    last = found[-1]
    epoch = int(last[1] or last[2])
    return last.start() > log.rfind(log_phrases.METADATA_LOADED) and epoch == cluster.image.broker_epoch(broker_id)


def heal_cluster(cluster: LocalCluster, *, delete_topics: bool = False) -> LocalCluster:
    """A shared cluster, ready for the next test whatever state the previous test has left. `delete_topics`: without the topics of earlier tests. A
    test that puts an older disk under a broker takes their only replica offline for good."""
    for name in cluster.processes:
        thaw(cluster, name)
    if "zookeeper" not in cluster.processes:
        cluster.start_zookeeper()
    for i in cluster.ports:
        if f"broker-{i}" not in cluster.processes:
            cluster.start_broker(i)
    if delete_topics:
        names = {name for name, row in cluster.rows.topics.items() if not row.deleted} - set(cluster.internal_topics)
        cluster.rows.delete_topics(names)
        wait_for(lambda: not any(cluster.image.topic_named(n) for n in names), "the deletion of earlier topics")
    wait_until_recovered(cluster)
    return cluster


class LogLines:
    """The lines that a process appends to its log from now on."""

    def __init__(self, cluster: LocalCluster, name: str) -> None:
        self._cluster, self._name = cluster, name
        self._from = len(cluster.log(name))

    def lines(self, *parts: str) -> list[str]:
        """The new lines that contain every part."""
        return [x for x in self._cluster.log(self._name)[self._from :].splitlines() if all(p in x for p in parts)]

    def wait(self, *parts: str) -> str:
        return str(wait_for(lambda: self.lines(*parts), f"{self._name} to say {' .. '.join(parts)!r}")[-1])
