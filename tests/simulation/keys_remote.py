"""Worlds of look-ups by key with tiered storage: as `keys`, but old records of the plain topic are only in the remote store, which is slow and fails.
`python -m tests.simulation --keys-remote`.

Invariants, in addition to those of `keys`: a response that says that everything was searched begins at an offset that a client requested as the new log
start, or at 0. The reference has each committed record, also those that only the remote store has.
"""

from __future__ import annotations

from typing import Any

from brokerd.apis.fetch_sessions import PartitionRequest
from brokerd.cluster.model import REMOTE_LOG_METADATA_TOPIC, TopicPartition
from brokerd.replication.replica import Replica
from brokerd.wire import records, versioned
from brokerd.wire.messages import FetchResponse
from brokerd.wire.messages.key_lookups import VERSION, KeyLookupResponse, LookupStop
from brokerd.wire.records import Record
from tests.simulation.archive import Archive
from tests.simulation.checkers import History, Violation, logs_agree
from tests.simulation.cluster import Cluster
from tests.simulation.fault_injector import FaultKinds
from tests.simulation.keys import COMPACTED, PLAIN, SETTINGS, KeyFaultInjector, KeyWorld, LookupWatch
from tests.simulation.run import leader_replica
from tests.simulation.world import World

REMOTE = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.url": "s3://simulated",
    "remote.log.manager.task.interval.ms": "200",
    "remote.log.metadata.topic.num.partitions": "2",
    "remote.log.metadata.topic.replication.factor": "3",
    "log.retention.check.interval.ms": "500",
}
FAILING = (0.0, 0.05, 0.3)


class CommittedRecords:
    """Each committed record of the plain topic."""

    def __init__(self) -> None:
        self.archive: Archive | None = None
        self._position = 0
        self._records: dict[int, Record] = {}

    def records_of(self, tp: TopicPartition) -> dict[int, Record]:
        assert self.archive is not None
        data = self.archive.batches_since(tp, self._position)
        self._position += len(data)
        for pos, header in records.batches(data):
            if not header.is_control:
                self._records.update({r.offset: r for r in records.records_of(data, pos, header)})
        return self._records


class RemoteLookupWatch(LookupWatch):
    def __init__(self, world: World, scan: Any, committed: CommittedRecords) -> None:
        super().__init__(world, scan)
        self.committed = committed
        self.deleted_below = 0
        """The highest offset below which a client requested the deletion of records."""

    def _records(self, replica: Replica) -> dict[int, Record]:
        local = super()._records(replica)
        if replica.topic != PLAIN or self.committed.archive is None:
            return local
        return {**self.committed.records_of(replica.tp), **local}

    def _check(
        self,
        replica: Replica,
        send_request: PartitionRequest,
        data: FetchResponse.PartitionData,
        first: dict[int, Record],
        end: int,
    ) -> None:
        super()._check(replica, send_request, data, first, end)
        if replica.topic != PLAIN:
            return
        response = versioned.decode(KeyLookupResponse, data.key_lookup, VERSION)
        if response.stop == LookupStop.LOG_START and response.start_offset > self.deleted_below:
            raise Violation(
                f"{replica.name}: a look-up is complete from {response.start_offset} on, records from {self.deleted_below} on are stored"
            )
        reached, local_start = self.world.reached, replica.log.start_offset
        reached["look-up without a response of the remote store"] += response.stop == LookupStop.REMOTE
        reached["look-up with matches in the remote store"] += any(m.offset < local_start for m in response.matches)


class RemoteFaultInjector(KeyFaultInjector):
    """Adds a store and helpers that fail."""

    def __init__(self, cluster: Cluster, history: History, fault_kinds: FaultKinds, faults_max: int | None) -> None:
        super().__init__(cluster, history, fault_kinds, faults_max)
        self._kinds += [self._change_store] * 3

    def _change_store(self) -> None:
        failing = self.world.rng.choice(FAILING)
        self.world.deliver(f"the remote store fails: {failing}")
        self._set_failing(failing)

    def _set_failing(self, failing: float) -> None:
        self.cluster.remote_store.failing = failing
        for node in self.cluster.brokers.values():
            if node.remote_helper is not None:
                node.remote_helper.fails = failing

    def stop_faults(self) -> None:
        super().stop_faults()
        self._set_failing(0.0)


class RemoteKeyWorld(KeyWorld):
    final_matches = 50
    """A response of the remote store may take seconds."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.committed = CommittedRecords()
        self.watching = RemoteLookupWatch(world, self.scan, self.committed)

    def watch(self, history: History) -> LookupWatch:
        self.watching.history = history
        return self.watching

    @property
    def settings(self) -> dict[str, str]:
        return {**SETTINGS, **REMOTE}

    def plain_configs(self) -> dict[str, str]:
        """With one in-sync replica a power failure may lose committed records, and the reference has each of them."""
        return {
            "min_insync_replicas": "2",
            "remote_storage_enable": "true",
            "local_retention_bytes": self.world.rng.choice(("4000", "12000")),
        }

    def injector(
        self, cluster: Cluster, history: History, fault_kinds: FaultKinds, faults_max: int | None
    ) -> KeyFaultInjector:
        return RemoteFaultInjector(cluster, history, fault_kinds, faults_max)

    def on_topics_created(self, cluster: Cluster) -> None:
        cluster.run_until(
            lambda: cluster.image.topic_named(REMOTE_LOG_METADATA_TOPIC) is not None, 30, "the metadata topic"
        )
        cluster.run_until(cluster.is_settled, 30, "its replicas")
        self.committed.archive = Archive(cluster, (PLAIN,))

    def on_delete(self, offset: int) -> None:
        self.watching.deleted_below = max(self.watching.deleted_below, offset)

    def records(self, cluster: Cluster, place: tuple[str, int]) -> dict[int, Record]:
        leader = leader_replica(cluster, *place)
        if place[0] != PLAIN:
            return super().records(cluster, place)
        start = leader.start_offset
        return {o: r for o, r in self.watching._records(leader).items() if o >= start}

    def check_logs(self, cluster: Cluster) -> None:
        assert self.committed.archive is not None
        self.committed.archive.check_logs()
        logs_agree(cluster, but=(COMPACTED, PLAIN, REMOTE_LOG_METADATA_TOPIC))


def live(world: World, history: History, faults_s: float, faults_max: int | None) -> None:
    RemoteKeyWorld(world).live(history, faults_s, faults_max)
