"""Tiered storage of one broker: the remote logs of the partitions that it leads, connected to their local logs, the metadata topic and the helper.
`remote_followers` has the remote logs of the partitions that it follows.

Invariants: a partition with tiered storage has a `RemoteView` as soon as this broker is its leader. Therefore a fetch below the local log does not get
OFFSET_OUT_OF_RANGE, and no local segment is deleted before its copy is recorded.
Results of an earlier leader epoch are not used, and their objects are deleted.
Does not contain: decisions (`remote/leader`), the topic (`remote_metadata`), reads (`replication/remote_reads`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from brokerd.apis.forwarding import SendToController
from brokerd.cluster.model import Now, TopicPartition
from brokerd.config.broker import BrokerConfig
from brokerd.environment import Environment
from brokerd.remote.frames import HelperError
from brokerd.remote.helper_requests import CopyFields, HelperOperation
from brokerd.remote.leader import (
    AppendRemoteMetadata,
    Copied,
    CopySegment,
    DeleteObjects,
    LocalLog,
    LocalSegment,
    RaiseLocalStart,
    RemoteLeader,
)
from brokerd.remote.process import HelperSettings, RemoteHelper
from brokerd.remote.remote_log import RemoteLog
from brokerd.remote.segments import MetadataChange, RemoteSegment
from brokerd.remote.sizes import RemoteSizes, remote_sizes
from brokerd.remote.view import RemoteView
from brokerd.replication.partition_events import LogStartRaised
from brokerd.replication.remote_key_lookups import RemoteKeyLookups
from brokerd.replication.remote_reads import RemoteReads
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.runtime.inter_broker_clients import InterBrokerClients
from brokerd.runtime.remote_cleanup import RemoteCleanup
from brokerd.runtime.remote_followers import RemoteFollowers
from brokerd.runtime.remote_metadata import RemoteMetadata
from brokerd.storage.disk import DiskFailed, DiskFull

log = logging.getLogger(__name__)

COPY_TIMEOUT_MS = 3_600_000
"""A segment of 1 GiB at 1 MB/s needs 18 minutes. Reads detect a hanging helper earlier."""
DELETE_TIMEOUT_MS = 60_000
POLL_MS = 100
"""Interval of reads of metadata partitions that this broker leads."""


class TieredPartition:
    """A partition with tiered storage that this broker leads, in one leader epoch."""

    __slots__ = ("leader", "replica")

    def __init__(self, replica: Replica, leader: RemoteLeader) -> None:
        self.replica, self.leader = replica, leader


class RemoteLogs:
    def __init__(
        self,
        config: BrokerConfig,
        replica_manager: ReplicaManager,
        clock: Callable[[], Now],
        draw_id: Callable[[], str],
        helper: RemoteHelper | None,
        metadata: Callable[[RemoteLogs], RemoteMetadata],
    ) -> None:
        """If `helper` is None, this broker has no tiered storage. It then deletes no local segments of partitions with tiered storage and does not serve their
        remote records."""
        self._config, self._replica_manager, self._clock, self._draw_id = config, replica_manager, clock, draw_id
        self._helper = helper
        self.led: dict[TopicPartition, TieredPartition] = {}
        self.logs: dict[int, dict[TopicPartition, RemoteLog]] = {}
        """{metadata partition: remote logs}."""
        self._next_task_ms = self._next_poll_ms = 0
        self._changed: dict[TopicPartition, None] = {}
        self._rates = rates(config)
        self.key_lookups: RemoteKeyLookups | None = None
        if helper is not None:
            self.metadata = metadata(self)
            self.followers = RemoteFollowers(
                replica_manager, self.metadata, self._log, by_rack=bool(config["replica.selector.class"])
            )
            self.reads = RemoteReads(helper.request, replica_manager.disk.open, clock, self.object_name)
            self.key_lookups = RemoteKeyLookups(helper.request, self.reads.segment_fields)
            self._cleanup = RemoteCleanup(replica_manager, self.metadata, self.logs, helper, self.object_name, clock)

    @property
    def enabled(self) -> bool:
        return self._helper is not None

    def object_name(self, segment: RemoteSegment) -> str:
        return f"{self._replica_manager.image.cluster_id}/{segment.name}"

    # -- leadership ------------------------------------------------------------------------------------------------------------
    def on_election(self, topic: str, partition: int) -> None:
        """Called when this broker leads the partition in a new leader epoch."""
        replica = self._replica_manager.find_by_name(topic, partition)
        if replica is not None:
            self._follow_config(replica)

    def on_resignation(self, topic: str, partition: int) -> None:
        replica = self._replica_manager.find_by_name(topic, partition)
        if replica is not None:
            self._drop(replica)

    def _drop(self, replica: Replica) -> None:
        replica.remote = None
        if self.led.pop(replica.tp, None) is not None:
            self.reads.forget(replica.tp)

    def _follow_config(self, replica: Replica) -> None:
        """Start or end tiered storage of a partition that this broker leads."""
        known = self.led.get(replica.tp)
        if known is not None and known.replica is not replica:
            del self.led[replica.tp]
            known = None
        is_tiered = replica.config.remote_storage or (known is not None and replica.config.remote_delete_on_disable)
        if not is_tiered:
            if replica.remote is not None:
                self._drop(replica)
            return
        if known is None and replica.config.remote_storage:
            replica.remote = RemoteView()
            if self.enabled:
                self._begin(replica)
            else:
                log.warning(
                    "remote.storage.enable without a remote store, local segments are kept: partition=%s", replica.name
                )

    def _begin(self, replica: Replica) -> None:
        index = self.metadata.partition_of(replica.tp)
        if index is None:
            self.metadata.create_topic()
            return
        remote_log = self._log(index, replica.tp)
        leader = RemoteLeader(
            replica.tp, replica.core.leader_epoch, self._replica_manager.broker_id, remote_log, self._draw_id
        )
        self.led[replica.tp] = TieredPartition(replica, leader)
        replica.remote = leader.view
        self._changed[replica.tp] = None

    def _log(self, index: int, tp: TopicPartition) -> RemoteLog:
        return self.logs.setdefault(index, {}).setdefault(tp, RemoteLog(tp))

    # -- metadata --------------------------------------------------------------------------------------------------------------
    def apply(self, index: int, change: MetadataChange) -> None:
        remote_log = self._log(index, change.tp)
        valid = remote_log.apply(change)
        if not valid:
            log.warning("remote log metadata of an older leader or state ignored: %s", change)
        if change.tp in self.led:
            self._changed[change.tp] = None
        self.followers.on_remote_log_changed(change.tp)

    def restart(self, index: int) -> None:
        """Called before the metadata partition is read from its start again, and when it is no longer read."""
        self.logs.pop(index, None)
        for tp, tiered in list(self.led.items()):
            if self.metadata.partition_of(tp) == index:
                del self.led[tp]
                replica = tiered.replica
                replica.remote = RemoteView()
        self.followers.restart(index)

    # -- time ------------------------------------------------------------------------------------------------------------------
    def tick(self, now: Now) -> None:
        if not self.enabled:
            return
        if now.mono_ms >= self._next_poll_ms:
            self._next_poll_ms = now.mono_ms + POLL_MS
            for replica in self._replica_manager.led_replicas():
                if replica.config.remote_storage or replica.remote is not None:
                    self._follow_config(replica)
                    if replica.tp not in self.led and replica.remote is not None:
                        self._begin(replica)
            indexes = {i for tp in self.led if (i := self.metadata.partition_of(tp)) is not None}
            self.metadata.need(indexes | self.followers.needed() | set(self.metadata.led_partitions()))
            self.metadata.poll()
            self.followers.update()
            self._cleanup.tick(now)
            self.reads.tick(now)
        if now.mono_ms >= self._next_task_ms:
            self._next_task_ms = now.mono_ms + self._config["remote.log.manager.task.interval.ms"]
            self._changed.update(dict.fromkeys(self.led))
            self.followers.all_changed()
            self._send_rates()
        self._changed.update((tp, None) for tp, t in self.led.items() if not t.leader.loaded)
        while self._changed:
            tp = next(iter(self._changed))
            del self._changed[tp]
            self._decide(tp, now)

    def _decide(self, tp: TopicPartition, now: Now) -> None:
        tiered = self.led.get(tp)
        if tiered is None:
            return
        replica, leader = tiered.replica, tiered.leader
        if not replica.leads or replica.core.leader_epoch != leader.leader_epoch:
            self._drop(replica)
            return
        self._close_tail_start(replica, now)
        for effect in leader.decide(self._local_log(replica), now):
            match effect:
                case AppendRemoteMetadata():
                    self.metadata.append(effect.changes)
                case CopySegment():
                    self._copy(tiered, effect)
                case DeleteObjects():
                    self._delete(effect.segment, partial(self._objects_deleted, tiered, effect.segment))
                case RaiseLocalStart():
                    self._raise_start(replica, effect.offset, now)

    @staticmethod
    def _local_log(replica: Replica) -> LocalLog:
        log_, config, state = replica.log, replica.config, replica.core.state
        *closed, active = log_.segments
        # Records below a hand-over offset are on history replicas only. The chain of remote segments would start above them.
        handed_over = state is not None and state.handover_offset >= 0
        return LocalLog(
            start_offset=log_.start_offset,
            end_offset=log_.end_offset,
            last_stable=replica.last_stable() if replica.core.serves_latest else 0,
            segments=[LocalSegment(s.base_offset, s.end_offset, s.size) for s in closed],
            active_bytes=active.size,
            end_of_epoch=log_.epochs.end_offset_for,
            retention_ms=config.retention_ms,
            retention_bytes=config.retention_bytes,
            copies=config.remote_storage and not config.remote_copy_disabled and not handed_over,
            deletes_all=not config.remote_storage and config.remote_delete_on_disable,
            replica_starts=_replica_starts(replica),
        )

    def _close_tail_start(self, replica: Replica, now: Now) -> None:
        """Roll the active segment if new replicas of a tail move start within it, so that it can be copied. The segments of the leader that chose the
        start end there, but those of a later leader may not."""
        log_, starts = replica.log, _replica_starts(replica)
        if any(log_.segments[-1].base_offset < start <= replica.core.high_watermark for start in starts):
            try:
                log_.roll(now)
            except DiskFull as e:
                replica.set_append_problem(str(e))
            except DiskFailed as e:
                self._replica_manager.fail(replica, e)

    def _raise_start(self, replica: Replica, offset: int, now: Now) -> None:
        try:
            self._replica_manager.delete_below(replica, min(offset, replica.core.high_watermark))
        except DiskFailed as e:
            self._replica_manager.fail(replica, e)
            return
        self._replica_manager.run(replica, LogStartRaised(replica.log.start_offset), now)

    def request_start(self, replica: Replica, offset: int) -> None:
        """A client deletes the records below `offset` (DeleteRecords). The new remote log start is written to the metadata topic."""
        tiered = self.led.get(replica.tp)
        if tiered is not None:
            tiered.leader.request_start(offset)
            self._changed[replica.tp] = None

    def sizes(self) -> Iterator[RemoteSizes]:
        """Yield the remote sizes of the partitions with tiered storage that this broker leads. Partitions whose remote log is not loaded yet are omitted."""
        for tp, tiered in self.led.items():
            replica, leader = tiered.replica, tiered.leader
            if leader.view.loaded:
                segments = (LocalSegment(s.base_offset, s.end_offset, s.size) for s in replica.log.segments)
                read = self.reads.bytes_read.get(tp, 0)
                yield remote_sizes(replica.topic, leader, replica.log.start_offset, segments, read)

    # -- copying and deleting --------------------------------------------------------------------------------------------------
    def _copy(self, tiered: TieredPartition, effect: CopySegment) -> None:
        replica, segment = tiered.replica, effect.segment
        local = next((s for s in replica.log.segments[:-1] if s.base_offset == segment.start_offset), None)
        if local is None or local.size != segment.size_bytes:
            tiered.leader.copied(segment.segment_id, None, self._clock())
            return
        fields = CopyFields(
            path=str(local.path),
            name=self.object_name(segment),
            base=segment.start_offset,
            end=segment.end_offset,
            size=segment.size_bytes,
            interval=local.interval,
            key_index_header=replica.config.index_header if replica.config.index_keys else None,
            previous=None if effect.previous is None else self.reads.segment_fields(effect.previous),
        )
        if effect.previous is None and (snapshot := replica.log.snapshots.read(segment.start_offset)) is not None:
            fields["producers"] = [snapshot.producers, snapshot.closing]
        log.info(
            "segment copy started: partition=%s start=%d bytes=%d",
            replica.name,
            segment.start_offset,
            segment.size_bytes,
        )
        assert self._helper is not None
        self._helper.request(HelperOperation.COPY, fields, COPY_TIMEOUT_MS, partial(self._on_copied, tiered, segment))

    def _on_copied(self, tiered: TieredPartition, segment: RemoteSegment, error: HelperError, value: Any) -> None:
        name = f"{tiered.replica.name}: segment={segment.start_offset} id={segment.segment_id}"
        result = None
        if error:
            log.warning("%s not copied: error=%s detail=%s", name, error.name, value)
        else:
            size, max_timestamp, epochs, *counts = value
            result = Copied(size, max_timestamp, tuple((e, o) for e, o in epochs), *counts)
        current = self.led.get(segment.tp) is tiered
        if current and tiered.leader.copied(segment.segment_id, result, self._clock()):
            self._changed[segment.tp] = None
        elif error is not HelperError.NO_RESPONSE:
            # Another leader may have deleted these records before the copy was complete.
            log.info("%s deleted: reason=leadership-changed", name)
            self._delete(segment, lambda ok: None)

    def _delete(self, segment: RemoteSegment, done: Callable[[bool], None]) -> None:
        def on_result(error: HelperError, value: object) -> None:
            if error:
                log.warning("remote segment not deleted: name=%s error=%s detail=%s", segment.name, error.name, value)
            done(not error)

        assert self._helper is not None
        self._helper.request(HelperOperation.DELETE, {"name": self.object_name(segment)}, DELETE_TIMEOUT_MS, on_result)

    def _objects_deleted(self, tiered: TieredPartition, segment: RemoteSegment, ok: bool) -> None:
        tiered.leader.objects_deleted(segment.segment_id, ok, self._clock())
        self._changed[segment.tp] = None

    # -- settings and end ------------------------------------------------------------------------------------------------------
    def _send_rates(self) -> None:
        """Send the quotas to the helper if they have changed. A new helper process starts with the current quotas."""
        current = rates(self._config)
        if self._rates != current and self._helper is not None:
            self._rates = current
            self._helper.request(HelperOperation.RATES, current, DELETE_TIMEOUT_MS, lambda error, value: None)

    def close(self) -> None:
        if self._helper is not None:
            self._helper.close()


def build_remote_logs(
    config: BrokerConfig,
    environment: Environment,
    replica_manager: ReplicaManager,
    clients: InterBrokerClients,
    send_to_controller: SendToController,
) -> RemoteLogs:
    """Tiered storage as configured. The metadata topic has connections of its own for reads and appends, because a fetch waits at the leader."""
    loop = environment.loop

    def metadata(remote_logs: RemoteLogs) -> RemoteMetadata:
        return RemoteMetadata(
            replica_manager,
            clients.remote_reads,
            clients.remote_appends,
            lambda: loop.now,
            environment.read_ahead,
            send_to_controller,
            remote_logs.apply,
            remote_logs.restart,
            partition_count=config["remote.log.metadata.topic.num.partitions"],
            replication_factor=config["remote.log.metadata.topic.replication.factor"],
        )

    def settings() -> HelperSettings:
        own: str = config["remote.log.cache.dir"]
        return {
            "url": config["remote.log.storage.url"],
            "cache": own
            or str(config["log.dirs"][0].absolute().with_name(f"{config['log.dirs'][0].name}-remote-cache")),
            "cache_bytes": config["remote.log.cache.max.bytes"],
            "copy_rate": config["remote.log.manager.copy.max.bytes.per.second"],
            "fetch_rate": config["remote.log.manager.fetch.max.bytes.per.second"],
        }

    helper = environment.remote_helper(settings) if config["remote.log.storage.system.enable"] else None
    return RemoteLogs(config, replica_manager, lambda: loop.now, environment.draw_id, helper, metadata)


def _replica_starts(replica: Replica) -> list[int]:
    """Return the log start offsets of new replicas that wait for the leader's local log: observers, and replicas that only their log start keeps out of the
    ISR."""
    state, config = replica.core.state, replica.config
    if state is None or not config.remote_storage or config.remote_copy_disabled:
        return []
    observers = [state.tail_start] if state.observers and state.tail_start >= 0 else []
    return [*observers, *replica.core.late_starts]


def rates(config: BrokerConfig) -> dict[str, int]:
    """The quotas of the helper, in bytes per second."""
    return {
        "copy": config["remote.log.manager.copy.max.bytes.per.second"],
        "fetch": config["remote.log.manager.fetch.max.bytes.per.second"],
    }
