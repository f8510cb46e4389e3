"""The remote logs of the partitions that this broker follows, for consumers that read from it (KIP-392 with KIP-405).

Invariants: only brokers with `replica.selector.class` read the metadata of followed partitions: it costs memory and fetches. A follower reports the start of
its remote records to its leader with its position. The leader redirects consumers of remote records to it only then.
Does not contain: partitions that this broker leads (`remote_logs`), reads (`replication/remote_reads`).
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd.cluster.model import TopicPartition
from brokerd.remote.lineage import chain_of
from brokerd.remote.remote_log import RemoteLog
from brokerd.remote.view import FollowerView
from brokerd.replication.partition import Role
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.runtime.remote_metadata import RemoteMetadata

IsrStatus = tuple[int, bool]
"""(leader epoch, whether this broker is in the ISR). Before these values change, the log may still be truncated."""


class FollowedRemoteLog:
    """`reported` is the start of the remote records that was last sent to the leader."""

    __slots__ = ("index", "isr_status", "replica", "reported", "stale", "view")

    def __init__(self, replica: Replica, index: int) -> None:
        self.replica, self.index = replica, index
        self.view = FollowerView()
        self.stale, self.reported = True, -1
        self.isr_status: IsrStatus = (-1, False)


class RemoteFollowers:
    def __init__(
        self,
        replica_manager: ReplicaManager,
        metadata: RemoteMetadata,
        remote_log: Callable[[int, TopicPartition], RemoteLog],
        *,
        by_rack: bool,
    ) -> None:
        """`remote_log` returns the remote log of a partition, from its metadata partition. `by_rack`: whether consumers may read from followers."""
        self._replica_manager, self._metadata, self._remote_log, self._by_rack = (
            replica_manager,
            metadata,
            remote_log,
            by_rack,
        )
        self.followed: dict[TopicPartition, FollowedRemoteLog] = {}

    def needed(self) -> set[int]:
        """The metadata partitions that must be read now, according to the roles and configs of the replicas. Creates and removes views accordingly."""
        if not self._by_rack:
            return set()
        current: dict[TopicPartition, FollowedRemoteLog] = {}
        for replica in self._replica_manager.hosted.values():
            if not replica.config.remote_storage or replica.core.role is not Role.FOLLOWER or replica.offline_reason:
                continue
            index = self._metadata.partition_of(replica.tp)
            if index is None:
                continue
            known = self.followed.get(replica.tp)
            if known is None or known.replica is not replica or replica.remote is not known.view:
                known = FollowedRemoteLog(replica, index)
                replica.remote = known.view
            current[replica.tp] = known
        for tp, known in self.followed.items():
            if current.get(tp) is not known:
                _end(known.replica, known.view)
        self.followed = current
        return {known.index for known in current.values()}

    def on_remote_log_changed(self, tp: TopicPartition) -> None:
        """Called when the remote log of `tp` has changed."""
        if (known := self.followed.get(tp)) is not None:
            known.stale = True

    def all_changed(self) -> None:
        for known in self.followed.values():
            known.stale = True

    def restart(self, index: int) -> None:
        """Called before the metadata partition is read from its start again, and when it is no longer read."""
        for tp, known in list(self.followed.items()):
            if known.index == index:
                del self.followed[tp]
                _end(known.replica, known.view)

    def update(self) -> None:
        """Apply the records that were read. Report a changed start of the remote records."""
        for tp, known in self.followed.items():
            replica, view, core = known.replica, known.view, known.replica.core
            isr_status = (core.leader_epoch, core.state is not None and core.broker_id in core.state.isr_ids)
            if (known.stale or isr_status != known.isr_status) and (
                view.loaded or self._metadata.is_current(known.index)
            ):
                remote_log = self._remote_log(known.index, tp)
                view.chain = chain_of(list(remote_log.segments.values()), replica.log.epochs.end_offset_for)
                view.loaded, view.log_start = True, remote_log.log_start
                known.stale, known.isr_status = False, isr_status
            if replica.remote_start_offset != known.reported:
                known.reported = replica.remote_start_offset
                self._replica_manager.hooks.resume(tp)


def _end(replica: Replica, view: FollowerView) -> None:
    """Remove the view, unless this broker leads the partition now: the leader has its own view."""
    if replica.remote is view:
        replica.remote = None
