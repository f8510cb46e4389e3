"""A metadata log whose entries are written at given times, kept by the real recorder."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import (
    BrokerDown,
    BrokerUp,
    ClusterCreated,
    Entry,
    MetadataRecord,
    PartitionChanged,
    TopicCreated,
    TopicReady,
    entry_hash,
)
from brokerd.cluster.model import PartitionState, ReplicaIncarnation
from controlplane.models import Cluster
from controlplane.monitoring.metadata_history import MetadataHistoryRecorder

START_MS = int(datetime(2026, 1, 20, 12, tzinfo=UTC).timestamp() * 1000)


class InlineExecutor(Executor):
    """Runs a job at once, except the close of the test's database connection."""

    def __init__(self, recorder: MetadataHistoryRecorder) -> None:
        self._recorder = recorder

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._recorder.write(*args)
        return Future()


def time_at(minute: float) -> datetime:
    return datetime.fromtimestamp(START_MS / 1000 + 60 * minute, UTC)


class KeptLog:
    """Entries at minutes after START_MS. `keep` is a round of the monitor."""

    def __init__(self) -> None:
        self.image = Image()
        self.recorder = MetadataHistoryRecorder()
        self.topics: dict[str, UUID] = {}
        self.minute = 0.0
        self.states: dict[tuple[str, int], PartitionState] = {}

    def write(self, minute: float, *records: MetadataRecord, read_at: float | None = None) -> None:
        """`read_at`: the minute at which the monitor reads the entry, without a time from ZooKeeper."""
        self.minute = minute
        entry = Entry(self.image.seq + 1, 1, "test", self.image.chain_hash, records)
        applied = self.image.apply_entry(entry, entry_hash(entry.encode()))
        written_ms = START_MS + int(60_000 * minute)
        read_ms = written_ms if read_at is None else START_MS + int(60_000 * read_at)
        self.recorder.entry_applied(self.image, applied, 0 if read_at is not None else written_ms, read_ms)

    def begin(self, brokers: int = 3) -> None:
        self.write(0, ClusterCreated("test"), *(self.broker_up(b) for b in range(1, brokers + 1)))

    @staticmethod
    def broker_up(broker: int, epoch: int = 1) -> BrokerUp:
        return BrokerUp(broker, 100 * epoch + broker, f"uuid-{broker}", "127.0.0.1", 9000 + broker)

    @staticmethod
    def down(broker: int, epoch: int = 1) -> BrokerDown:
        return BrokerDown(broker, 100 * epoch + broker)

    def topic(
        self, minute: float, name: str, *replicas: tuple[int, ...], configs: dict[str, str] | None = None
    ) -> UUID:
        topic_id = self.topics[name] = uuid4()
        states = [PartitionState(r, isr(r), r[0], 100 + r[0]) for r in replicas]
        self.states |= {(name, i): s for i, s in enumerate(states)}
        changed = [PartitionChanged(topic_id, i, s) for i, s in enumerate(states)]
        created = TopicCreated(topic_id, name, 1, configs or {}, len(replicas))
        self.write(minute, created, *changed, TopicReady(topic_id))
        return topic_id

    def state(self, minute: float, name: str, index: int, leader: int, in_sync: tuple[int, ...], **more: Any) -> None:
        old = self.image.topics[self.topics[name]].partitions[index]
        values = {"replicas": old.replicas, "leader_epoch": old.leader_epoch + (leader != old.leader)} | more
        epoch = 100 + leader if leader >= 0 else -1
        state = PartitionState(
            isr=isr(in_sync),
            leader=leader,
            leader_broker_epoch=epoch,
            partition_epoch=old.partition_epoch + 1,
            **values,
        )
        self.write(minute, PartitionChanged(self.topics[name], index, state))

    def keep(self, minute: float | None = None) -> None:
        now_ms = START_MS + int(60_000 * (self.minute if minute is None else minute))
        self.recorder.observe(self.image, InlineExecutor(self.recorder), now_ms, complete=True)

    def seen_until(self, minute: float) -> None:
        """The monitor has read the end of the log at this time."""
        Cluster.objects.update_or_create(
            pk=1, defaults={"metadata_seq": self.image.seq, "observed_at": time_at(minute)}
        )


def isr(brokers: tuple[int, ...]) -> tuple[ReplicaIncarnation, ...]:
    return tuple(ReplicaIncarnation(b, 100 + b) for b in brokers)


def flights(log: KeptLog) -> None:
    """Minute 0: three brokers. 1: topic flights. 10: broker 2 down, its leaders move. 20: broker 2 back in the ISR."""
    log.begin()
    log.topic(1, "flights", (1, 2), (2, 3), configs={"retention.ms": "60000"})
    log.write(10, log.down(2))
    log.state(10, "flights", 0, 1, (1,))
    log.state(10, "flights", 1, 3, (3,))
    log.write(19, log.broker_up(2, 2))
    log.state(20, "flights", 0, 1, (1, 2))
    log.keep(30)
    log.seen_until(30)
