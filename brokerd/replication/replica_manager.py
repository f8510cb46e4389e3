"""The partition replicas of this broker: their logs, state machines and delayed operations (Kafka's ReplicaManager).

Invariants: only the metadata log opens, closes and deletes replicas. Every effect of a state machine runs here, in its order.
Does not contain: sockets, wire messages, ZooKeeper.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from uuid import UUID

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import (
    IsrRejected,
    MetadataRecord,
    PartitionChanged,
    ReplicaReset,
    TopicConfigChanged,
    TopicDeleted,
)
from brokerd.cluster.model import Now, PartitionState, TopicPartition, TopicState
from brokerd.replication import partition_events as core
from brokerd.replication.bootstrap import Bootstrap
from brokerd.replication.controller_proposals import ControllerProposals
from brokerd.replication.damage_reports import DamageReports
from brokerd.replication.first_fetches import FirstFetches
from brokerd.replication.follower_checks import FollowerChecks
from brokerd.replication.missing_replicas import MissingReplicas
from brokerd.replication.outbox import Outbox, OutboxEntry
from brokerd.replication.partition import Partition, Role
from brokerd.replication.pending_openings import PendingOpenings
from brokerd.replication.purgatory import Purgatory
from brokerd.replication.replica import Replica
from brokerd.replication.replica_hooks import ReplicaHooks
from brokerd.replication.replica_opening import ReplicaOpening
from brokerd.replication.stored_truncations import StoredTruncations
from brokerd.replication.voting import Voting
from brokerd.storage.disk import Disk, DiskFailed, DiskFull
from brokerd.storage.jobs import Runner
from brokerd.storage.log_dirs import LogDir, LogDirs
from brokerd.storage.producers import EXPIRATION_MS

log = logging.getLogger(__name__)


class ReplicaManager:
    def __init__(
        self,
        broker_id: int,
        log_dirs: LogDirs,
        disk: Disk,
        purgatory: Purgatory,
        outbox: Outbox,
        jobs: Runner,
        hooks: ReplicaHooks,
        *,
        lag_ms_max: int,
        late_ms_max: int = 310_000,
        topic_config: Callable[[TopicState], TopicConfig],
        producer_expiration_ms: int = EXPIRATION_MS,
    ) -> None:
        self.broker_id, self.log_dirs, self.disk, self.purgatory = broker_id, log_dirs, disk, purgatory
        self.jobs, self.hooks, self.topic_config = jobs, hooks, topic_config
        self.image = Image()
        self.broker_epoch: int | None = None
        self.produce_suspended = False
        """True after the event loop was stalled for longer than a session, or while the metadata log cannot be read: another broker may be the leader.
        False again when the log was read past a sync."""
        self.hosted: dict[TopicPartition, Replica] = {}
        self.controller_proposals = ControllerProposals(outbox)
        self.bootstrap, self.voting = Bootstrap(outbox), Voting(outbox)
        self.unflushed: dict[TopicPartition, Replica] = {}
        """Replicas with operations that wait for a flush. Log maintenance flushes them at the end of the iteration."""
        self.unflushed_starts: dict[TopicPartition, Replica] = {}
        """Replicas whose log start offset a client has raised. Log maintenance flushes it at the end of the iteration."""
        self._outbox = outbox
        self.damage_reports = DamageReports(outbox)
        self.truncations = StoredTruncations(log_dirs)
        self._missing_replicas = MissingReplicas(broker_id, log_dirs, outbox)
        self._loaded = False
        self.pending_openings = PendingOpenings()
        self.first_fetches, self._follower_checks = FirstFetches(purgatory), FollowerChecks(lag_ms_max)
        machine = partial(Partition, broker_id, lag_ms_max=lag_ms_max, late_ms_max=late_ms_max)
        lost, assigned = hooks.replica_lost, lambda *partition: self.image.is_assigned(broker_id, *partition)
        self.replica_opening = ReplicaOpening(
            log_dirs, self.hosted, self.damage_reports, machine, producer_expiration_ms, lost, assigned
        )
        log_dirs.add_listener(self)

    def set_produce_suspended(self, *, suspended: bool) -> None:
        """Reject produce requests from now on, or accept them again after the metadata log was read past a ZooKeeper sync."""
        self.produce_suspended = suspended

    # -- lookup ------------------------------------------------------------------------------------------------------
    def find(self, topic: TopicState, partition: int) -> Replica | None:
        return self.hosted.get(TopicPartition(topic.topic_id, partition))

    def find_by_name(self, topic: str, partition: int) -> Replica | None:
        state = self.image.topic_named(topic)
        return self.find(state, partition) if state is not None else None

    def led_replicas(self) -> Iterator[Replica]:
        return (r for r in self.hosted.values() if r.leads)

    # -- changes of the metadata log ---------------------------------------------------------------------------------
    def load(self, image: Image, now: Now) -> None:
        """Apply a whole image, at the start or when a snapshot was read."""
        self.image = image
        hosted = {tp.topic_id for tp in self.hosted}
        for tp in [tp for tp in self.hosted if tp.topic_id in image.deleted]:
            self._delete(tp, now)
        # Before `sort`, which removes directories of deleted topics: their logs must be closed.
        self.replica_opening.delete_pending()
        for d in self.log_dirs.online:
            try:
                self.log_dirs.sort(d, image, hosted, self.broker_id)
            except DiskFailed as e:
                self.log_dirs.fail(d, str(e))
        if not self._loaded and self.log_dirs.any_failed:
            self._missing_replicas.find(image)
        for tp in list(self.hosted):
            if image.partition(tp) is None:
                self._close(tp)
        for topic, index, _ in image.each_partition():
            self.sync(TopicPartition(topic.topic_id, index), now)
        self.log_dirs.sorted_out()
        self._loaded = self.replica_opening.registration_possible = True
        self.replica_opening.delete_pending()

    def apply(self, image: Image, records: Sequence[MetadataRecord], now: Now) -> None:
        """Apply one entry of the metadata log; `image` contains it already."""
        self.image = image
        for record in records:
            match record:
                case PartitionChanged():
                    self.sync(TopicPartition(record.topic_id, record.partition), now)
                case TopicConfigChanged():
                    self._reconfigure(record.topic_id, now)
                case TopicDeleted():
                    for tp in [tp for tp in self.hosted if tp.topic_id == record.topic_id]:
                        self._delete(tp, now)
                case ReplicaReset() if record.broker_id == self.broker_id:
                    self._reset(TopicPartition(record.topic_id, record.partition), record.reset_id, now)
                case IsrRejected() if record.broker_id == self.broker_id and record.broker_epoch == self.broker_epoch:
                    tp = TopicPartition(record.topic_id, record.partition)
                    replica = self.hosted.get(tp)
                    log.info("ISR proposal not accepted: partition=%s reason=%s", tp, record.reason)
                    if replica is not None:
                        self.run(replica, core.IsrProposalRejected(record.leader_epoch, record.partition_epoch), now)
        self.replica_opening.delete_pending()

    @property
    def registered_epoch(self) -> int | None:
        """The broker epoch of this broker. None until the metadata log contains its registration."""
        return self.broker_epoch if self.image.broker_epoch(self.broker_id) == self.broker_epoch else None

    def on_registered(self, broker_epoch: int, now: Now) -> None:
        """Apply the new broker epoch of this broker. Leaderships of the old epoch end."""
        self.broker_epoch = broker_epoch
        for tp in list(self.hosted):
            self.sync(tp, now)

    def sync(self, tp: TopicPartition, now: Now) -> None:
        """Apply the partition state in the image to the local replica."""
        topic = self.image.topics.get(tp.topic_id)
        state = topic.partitions.get(tp.partition) if topic is not None else None
        if topic is None or state is None or self.broker_id not in state.hosts:
            self.pending_openings.end_wait(tp)
        if topic is None or state is None:
            return
        if self.broker_id not in state.hosts:
            self._missing_replicas.discard(tp)
            if tp in self.hosted:
                self._delete(tp, now)
            return
        if tp in self._missing_replicas:
            return
        replica = self.hosted.get(tp)
        if replica is None:
            if not self.pending_openings.may_open(tp, limited=self._loaded):
                return
            try:
                replica = self.hosted[tp] = self.replica_opening.open(tp, topic, self.topic_config(topic), now)
            except DiskFull as full:
                if self.pending_openings.wait_for_space(tp):
                    log.error("replica not opened: partition=%s-%d error=%s", topic.name, tp.partition, full)
                return
            except (DiskFailed, OSError) as e:
                log.error("replica offline: partition=%s-%d reason=open-failed error=%s", topic.name, tp.partition, e)
                if isinstance(e, DiskFailed):
                    self.log_dirs.io_error()
                self._missing_replicas.add(tp)
                return
            self.pending_openings.end_wait(tp)
        # Otherwise the controller has not reacted to the failure yet.
        if replica.offline_reason is None or state.leader != self.broker_id:
            self.run(replica, self._state_changed_event(replica, state), now)

    def open_pending(self, now: Now, clock: Callable[[], float]) -> bool:
        """At the end of an iteration of the event loop, open the replicas that this iteration may open. Returns whether some are left."""
        for tp in self.pending_openings.each(clock):
            self.sync(tp, now)
        return bool(self.pending_openings)

    def retry_opening(self, now: Now) -> None:
        """Retry replicas that were not opened because the disk was full."""
        for tp in self.pending_openings.waiting_for_space:
            self.sync(tp, now)

    def _state_changed_event(self, replica: Replica, state: PartitionState) -> core.PartitionStateChanged:
        epoch = self.registered_epoch
        leads = state.leader == self.broker_id and epoch is not None and state.leader_broker_epoch == epoch
        return core.PartitionStateChanged(
            state,
            leads,
            replica.config.min_insync_replicas,
            replica.log.end_offset,
            replica.log.start_offset,
            leader_alive=state.leader >= 0,
            acknowledgeable_end=replica.log.flushing.acknowledgeable_end,
            retention_deletes=replica.config.retention_deletes,
        )

    # -- opening, closing, deleting ----------------------------------------------------------------------------------
    def _remove(self, tp: TopicPartition) -> Replica:
        replica = self.hosted.pop(tp)
        self.log_dirs.directory_of(replica.log.folder).replica_count -= 1
        return replica

    def _close(self, tp: TopicPartition) -> None:
        replica = self._remove(tp)
        self.controller_proposals.withdraw(tp)
        self.hooks.unfollow(tp)
        replica.log.close()
        replica.offline_reason = "closed"  # fetch sessions may still refer to the replica
        self.purgatory.check(replica.hw_key())
        self.purgatory.check(replica.end_key())

    def _retire(self, replica: Replica, now: Now) -> None:
        """End every role before the log is deleted."""
        led = replica.leads
        self.damage_reports.remove(replica.tp)
        if replica.offline_reason is not None:
            self._outbox.mark_changed(OutboxEntry.OFFLINE_REPLICAS)
        replica.offline_reason = "deleted"
        self.controller_proposals.withdraw(replica.tp)
        self.purgatory.check(replica.hw_key())
        self.purgatory.check(replica.end_key())
        self.hooks.unfollow(replica.tp)
        if led:
            self.hooks.on_resignation(replica.topic, replica.tp.partition, now)

    def _delete(self, tp: TopicPartition, now: Now) -> None:
        replica = self._remove(tp)
        self._retire(replica, now)
        log.info("replica deleted: partition=%s reason=not-assigned", replica.name)
        self.replica_opening.pending_deletion.append(replica)

    def _reset(self, tp: TopicPartition, reset_id: str, now: Now) -> None:
        """Rebuild this replica: delete it and start as an empty follower. A reset of a replica in the ISR is ignored and logged."""
        replica = self.hosted.get(tp)
        topic = self.image.topics.get(tp.topic_id)
        state = self.image.partition(tp)
        if topic is None or state is None or self.broker_id in state.isr_ids:
            log.warning("replica reset ignored: reset_id=%s partition=%s reason=in-isr", reset_id, tp)
            return
        if replica is not None:
            self._delete(tp, now)
        self._missing_replicas.discard(tp)  # a replica of a failed directory is created in another one
        log.info("replica reset: reset_id=%s partition=%s-%d", reset_id, topic.name, tp.partition)
        self.sync(tp, now)

    def reconfigure(self, now: Now) -> None:
        """Apply changed topic defaults of the broker to all local replicas."""
        for topic_id in dict.fromkeys(tp.topic_id for tp in self.hosted):
            if topic_id in self.image.topics:
                self._reconfigure(topic_id, now)

    def _reconfigure(self, topic_id: UUID, now: Now) -> None:
        topic = self.image.topics[topic_id]
        config = self.topic_config(topic)
        for index, state in topic.partitions.items():
            replica = self.hosted.get(TopicPartition(topic_id, index))
            if replica is not None:
                replica.config = config
                replica.log.config = config
                self.run(replica, self._state_changed_event(replica, state), now)

    # -- running a core's effects ------------------------------------------------------------------------------------
    def run(self, replica: Replica, event: core.Event, now: Now) -> None:
        """Pass the event to the state machine of the replica, run its effects in their order, and then what follows from the event and the new state."""
        machine = replica.core
        led_before = replica.leads
        for effect in machine.handle(event, now):
            self._run_effect(replica, effect, now)
        if self.controller_proposals.isrs and machine.proposal is None:
            self.controller_proposals.remove_isr_proposal(replica.tp)
        if led_before and not replica.leads:
            self.purgatory.check(replica.end_key())
        if isinstance(event, core.LogStartRaised):
            self.purgatory.check(replica.hw_key())  # fetch sessions send the new log start
        elif isinstance(event, core.PartitionTick):
            self.controller_proposals.update_resets(replica)
        elif isinstance(event, core.PartitionStateChanged):
            self._partition_state_changed(replica, event.state, now)
        if machine.state is not None and machine.state.log_start_floor > replica.log.start_offset:
            if replica.leads:
                self._delete_records_below(min(machine.state.log_start_floor, machine.high_watermark), replica, now)
            elif machine.role is Role.HISTORY and replica.offline_reason is None:
                self._delete_records_below(machine.state.log_start_floor, replica, now)

    def _run_effect(self, replica: Replica, effect: core.Effect, now: Now) -> None:
        match effect:
            case core.RaiseHighWatermark():
                if replica.log.producers.closing:
                    replica.log.producers.on_replicated(effect.offset)
                self.purgatory.check(replica.hw_key(), replica.log.written_bytes)
            case core.RaiseLowWatermark():
                self.purgatory.check(replica.hw_key())
            case core.ProposeIsr():
                self.controller_proposals.propose(replica.tp, effect)
            case core.FailWaiters():
                self.controller_proposals.withdraw(replica.tp)
                self.purgatory.check(replica.hw_key())
                self.purgatory.check(replica.end_key())
                self.hooks.on_resignation(replica.topic, replica.tp.partition, now)
            case core.Lead():
                text = "became leader: partition=%s leader_epoch=%d start_offset=%d"
                log.info(text, replica.name, effect.leader_epoch, effect.epoch_start)
                self.hooks.on_election(replica.topic, replica.tp.partition, effect.leader_epoch, now)
            case core.Follow():
                replica.needs_bootstrap = replica.needs_bootstrap and replica.observes
                if replica.offline_reason is None:
                    self.hooks.follow(replica.tp, effect.leader, effect.leader_epoch)
            case core.StopFollowing():
                self.hooks.unfollow(replica.tp)

    def _partition_state_changed(self, replica: Replica, state: PartitionState, now: Now) -> None:
        """Update the collaborators that depend on the state of the partition, after the effects of the state machine."""
        self.controller_proposals.update_resets(replica)
        self.bootstrap.partition_changed(replica)
        self.voting.partition_changed(replica)
        self.first_fetches.on_partition_changed(replica, now.mono_ms)
        if self.voting.append_leader_change(replica, now, self.fail):
            self.on_appended(replica, now)
        if replica.core.role is Role.HISTORY and replica.log.flushing.offset < replica.log.end_offset:
            self.unflushed[replica.tp] = replica  # a history replica gets no appends that would flush it later
        if max(state.handover_offset, state.log_start_floor) >= 0:
            self.hooks.history_changed(replica)
        self.purgatory.check(replica.hw_key())  # DeleteRecords waits until the replicas in sync have deleted

    def _delete_records_below(self, floor: int, replica: Replica, now: Now) -> None:
        """Raise the log start offset to `floor`, from the metadata log. On a leader, the caller limits `floor` to the high watermark."""
        if floor <= replica.log.start_offset:
            return
        log.info("log start raised by the metadata log: partition=%s new_start=%d", replica.name, floor)
        try:
            replica.log.raise_start(floor)
        except DiskFailed as e:
            self.fail(replica, e)
            return
        self.run(replica, core.LogStartRaised(replica.log.start_offset), now)

    def tick(self, now: Now) -> None:
        """Check whether followers of a part of the partitions led here have fallen behind."""
        for replica in self._follower_checks.due(self.hosted.values(), now.mono_ms):
            if replica.leads and self.hosted.get(replica.tp) is replica:
                self.run(replica, core.PartitionTick(), now)
                if self.voting.append_leader_change(replica, now, self.fail):
                    self.on_appended(replica, now)

    # -- appended and flushed ----------------------------------------------------------------------------------------
    def on_appended(self, replica: Replica, now: Now) -> None:
        """Process an append to the log of a leader: update its state machine and check delayed operations."""
        end, acknowledgeable_end = replica.log.end_offset, replica.log.flushing.acknowledgeable_end
        if acknowledgeable_end < end:
            self.unflushed[replica.tp] = replica
        self.run(replica, core.LeaderAppended(end, acknowledgeable_end), now)
        self.purgatory.check(replica.end_key())

    def request_flush(self, replica: Replica) -> None:
        if replica.log.flushing.acknowledgeable_end < replica.log.end_offset:
            self.unflushed[replica.tp] = replica

    def delete_below(self, replica: Replica, offset: int) -> None:
        """Raise the log start offset because a client deleted the records below. Raises DiskFailed. `log_start_flushed` follows."""
        if replica.log.delete_below(offset):
            self.unflushed_starts[replica.tp] = replica

    def log_start_flushed(self, replica: Replica) -> None:
        """The stored log start offset was flushed. Continue the operations that wait for it."""
        if replica.leads:
            self.purgatory.check(replica.hw_key())
        elif replica.core.role is Role.FOLLOWER:
            self.hooks.resume(replica.tp)

    def on_flushed(self, replica: Replica, now: Now) -> None:
        """The flushed end of this replica's log has increased. Continue the operations that wait for it."""
        self.request_flush(replica)
        if replica.leads:
            end, acknowledgeable_end = replica.log.end_offset, replica.log.flushing.acknowledgeable_end
            self.run(replica, core.LeaderAppended(end, acknowledgeable_end), now)
            self.purgatory.check(replica.hw_key())
        elif replica.core.role is Role.FOLLOWER:
            self.hooks.resume(replica.tp)

    # -- failures ------------------------------------------------------------------------------------------------------
    def fail(self, replica: Replica, error: BaseException) -> None:
        """An I/O error of the replica's files, or of its whole log directory: offline until restart, no retry after EIO.

        The controller is notified (`offline`), removes the replica from the ISR and elects another leader.
        """
        if isinstance(error, DiskFailed) and error.of_device:
            self.log_dirs.fail(self.log_dirs.directory_of(replica.log.folder), str(error))
        elif isinstance(error, DiskFailed):
            self.log_dirs.io_error()
        if replica.offline_reason is None:
            log.error("replica offline: partition=%s error=%s", replica.name, error)
            self._offline(replica, str(error))

    def _offline(self, replica: Replica, reason: str) -> None:
        replica.offline_reason = reason
        self._outbox.mark_changed(OutboxEntry.OFFLINE_REPLICAS)
        self.purgatory.check(replica.hw_key())
        self.purgatory.check(replica.end_key())
        self.hooks.unfollow(replica.tp)
        self.controller_proposals.withdraw(replica.tp)

    def io_error(self) -> None:
        """Called by the log directories after an I/O error."""
        self.hooks.io_error()

    def records_lost(self, description: str) -> None:
        """Called by the log directories when a log lacks records. Raises DiskFailed if this broker may already be registered."""
        self.replica_opening.report_loss(description)

    def directory_failed(self, failed: LogDir) -> None:
        """Called by the log directories when one of them has failed. Its replicas go offline."""
        for replica in self.hosted.values():
            if replica.log.folder.parent == failed.path and replica.offline_reason is None:
                self._offline(replica, failed.failed or "")
        self.log_dirs.io_error()
        self.hooks.directory_failed()

    def offline(self) -> frozenset[TopicPartition]:
        """Replicas that are assigned to this broker and not served until its next start."""
        return frozenset(self._missing_replicas) | {r.tp for r in self.hosted.values() if r.offline_reason is not None}
