"""What every fault test does to a cluster and asks of it: topics, acknowledged writes, frozen and killed processes, the oracle.

The oracle is `whole`: every replica in the ISR, all logs equal byte for byte, and in them, in order and once, what was acknowledged; a client
reads the same. What it does not see: the indexes (a client's read goes through them, one offset at a time does not).
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from brokerd.cluster.model import PartitionState
from brokerd.storage import checkpoints
from brokerd.storage.disk import OsDisk
from brokerd.wire import records
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
    """One partition on every broker, or on `replicas`, whose first leads. Asked `at` any broker. `configs` with `_` for `.`."""
    settings = {"min.insync.replicas": str(min_insync), **{k.replace("_", "."): str(v) for k, v in configs.items()}}
    admin = AdminClient({"bootstrap.servers": at or cluster.bootstrap, "log_level": 0})
    topic = (
        NewTopic(name, 1, replica_assignment=[list(replicas)], config=settings)
        if replicas
        else NewTopic(name, 1, cluster.count, config=settings)
    )

    def asked() -> bool:
        try:
            admin.create_topics([topic])[name].result(30)
        except KafkaException as e:  # a broker that has just lost ZooKeeper, or a first attempt that was not heard of
            if e.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return True
            if e.args[0].code() != KafkaError.REQUEST_TIMED_OUT:
                raise
            return False
        return True

    wait_for(asked, f"{name} to be created")
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
    """Write and wait for each acknowledgement; with acks=all each record once, whatever the leaders do meanwhile."""
    errors = attempt(cluster, name, values, acks, **{"enable_idempotence": acks == "all", **settings})
    assert not errors, f"{len(errors)} records were not acknowledged, e.g. {errors[0]}"


def attempt(
    cluster: LocalCluster, name: str, values: Sequence[str], acks: str = "all", **settings: object
) -> list[object]:
    """Write; the errors of what was not acknowledged."""
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
    """All that a new client is shown."""
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


# -- what lies on the disks ------------------------------------------------------------------------------------------------
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
        except FileNotFoundError:  # a segment went while it was listed
            return None
        return (logs[0],) if all(one == logs[0] for one in logs) else None

    wait_for(lambda: set(state(cluster, name).isr_ids) == set(state(cluster, name).replicas), f"the full ISR of {name}")
    return wait_for(equal, f"replicas of {name} equal byte for byte")[0]  # type: ignore[no-any-return]


def whole(cluster: LocalCluster, name: str, written: Sequence[str]) -> None:
    """Nothing acknowledged is lost, doubled or reordered, on any replica; see above."""
    assert values_of(wait_for_equal_logs(cluster, name)) == list(written)
    assert read(cluster, name) == list(written)


# -- processes -------------------------------------------------------------------------------------------------------------
def freeze(cluster: LocalCluster, name: str) -> None:
    cluster.processes[name].send_signal(signal.SIGSTOP)


def thaw(cluster: LocalCluster, name: str) -> None:
    cluster.processes[name].send_signal(signal.SIGCONT)


def all_in_sync(cluster: LocalCluster) -> bool:
    return all(len(p.isr) == len(p.replicas) and p.leader >= 0 for _, _, p in cluster.image.each_partition())


def recovered(cluster: LocalCluster) -> None:
    """Every broker up, every partition led and in full ISR, without anybody's help."""
    for i in cluster.ports:
        wait_for(lambda i=i: cluster.listening(i) and seated(cluster, i), f"broker {i} in the metadata log")  # type: ignore[misc]
    wait_for(lambda: all_in_sync(cluster), "the full ISR everywhere", 90)


def seated(cluster: LocalCluster, broker_id: int) -> bool:
    """Whether the metadata log knows this life of the broker: just after a restart it holds the last one's seat, and all looks well."""
    log = cluster.log(f"broker-{broker_id}")
    told = log.rfind("registered, incarnation ")
    return told > log.rfind("metadata loaded") and int(log[told:].split()[2]) == cluster.image.incarnation(broker_id)


def healed(cluster: LocalCluster) -> LocalCluster:
    """A cluster that several tests share, ready for the next one whatever the last one left behind."""
    for name in cluster.processes:
        thaw(cluster, name)
    if "zookeeper" not in cluster.processes:
        cluster.start_zookeeper()
    for i in cluster.ports:
        if f"broker-{i}" not in cluster.processes:
            cluster.start_broker(i)
    recovered(cluster)
    return cluster


class Said:
    """What a process wrote into its log from here on."""

    def __init__(self, cluster: LocalCluster, name: str) -> None:
        self._cluster, self._name = cluster, name
        self._from = len(cluster.log(name))

    def lines(self, *parts: str) -> list[str]:
        """The lines that hold every part."""
        return [x for x in self._cluster.log(self._name)[self._from :].splitlines() if all(p in x for p in parts)]

    def wait(self, *parts: str) -> str:
        return str(wait_for(lambda: self.lines(*parts), f"{self._name} to say {' .. '.join(parts)!r}")[-1])
