"""Where partitions live: their logs, cores and waiters on this broker.

Laws: the metadata log alone opens, closes and deletes replicas; every effect of a core is run here, in its order. Called by the API doors, the fetchers and the broker.
Must not come in: sockets, the wire's messages, ZooKeeper.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol
from uuid import UUID

from brokerd import partition_events as core
from brokerd.archives import Archives
from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import (
    IsrRefused,
    PartitionChanged,
    Record,
    ReplicaReset,
    TopicConfigChanged,
    TopicDeleted,
)
from brokerd.cluster.model import Now, PartitionState, TopicPartition, TopicState
from brokerd.copies import Copies
from brokerd.findings import Findings
from brokerd.logdirs import LogDir, LogDirs
from brokerd.partition import Partition, Role
from brokerd.replica import Replica
from brokerd.seeds import Seeds
from brokerd.storage.disk import Disk, DiskFailed, DiskFull
from brokerd.storage.producers import EXPIRATION_MS
from brokerd.waiters import Waiters
from brokerd.wishes import Wishes

log = logging.getLogger(__name__)

TICK_MS = 100
"""How often `tick` is called."""
ROUND_MS_MAX = 1_000
"""Within this every leader looks once whether a follower has fallen behind (an eighth of replica.lag.time.max.ms where that is less)."""

OPENINGS_PER_TURN = 32
"""Logs opened in one turn of the loop after the start, at half a millisecond each and more on a slow disk; clients have their turn in between."""


class Following(Protocol):
    """What the fetchers offer (net/fetcher)."""

    def follow(self, tp: TopicPartition, leader: int, leader_epoch: int) -> None: ...

    def unfollow(self, tp: TopicPartition) -> None: ...

    def resume(self, tp: TopicPartition) -> None:
        """Its position is known again."""


class LeadershipListener(Protocol):
    """Told about partitions of internal topics: the coordinators."""

    def leads(self, topic: str, partition: int, epoch: int, now: Now) -> None: ...

    def resigned(self, topic: str, partition: int, now: Now) -> None: ...


class Partitions:
    def __init__(
        self,
        broker_id: int,
        log_dirs: LogDirs,
        disk: Disk,
        waiters: Waiters,
        *,
        lag_ms_max: int,
        late_ms_max: int = 310_000,
        topic_config: Callable[[TopicState], TopicConfig],
        producer_expiration_ms: int = EXPIRATION_MS,
    ) -> None:
        self.broker_id, self.log_dirs, self.disk, self.waiters = broker_id, log_dirs, disk, waiters
        self._topic_config = topic_config
        self.image = Image()
        self.incarnation: int | None = None
        self.frozen = False
        """True after the loop stood still for longer than a session: no produce until the log was read past a sync."""
        self.current: Callable[[], bool] = lambda: True
        """Whether the image is known to be the newest: without ZooKeeper a leader may have been deposed unheard."""
        self.hosted: dict[TopicPartition, Replica] = {}
        self.on_directory_failed: Callable[[], None] = lambda: None
        self.following: Following | None = None
        self.leadership: LeadershipListener | None = None
        self.wishes = Wishes()
        self.seeds = Seeds()
        self.archives: Archives | None = None
        """What leads here asks others for old records; set by the broker."""
        self.unflushed: dict[TopicPartition, Replica] = {}
        """Replicas where somebody waits for a flush; the upkeep takes them at the end of the turn."""
        self.offline_changed = False
        self.findings = Findings()
        self._nowhere: set[TopicPartition] = set()
        """Copies that no online directory holds: they are on one that failed, so that a new one would be an empty one."""
        self._loaded = False
        self._no_room: set[TopicPartition] = set()
        self.openings_per_turn = OPENINGS_PER_TURN
        self._openings_left = OPENINGS_PER_TURN
        self._unopened: dict[TopicPartition, None] = {}
        """Assigned here and opened in one of the next turns. Until then this broker answers as one that has not read of them yet."""
        self._round_ms = max(TICK_MS, min(lag_ms_max // 8, ROUND_MS_MAX))
        self._round_not_before_ms = self._share = 0
        self._unlooked: list[Replica] = []
        machine = partial(Partition, broker_id, lag_ms_max=lag_ms_max, late_ms_max=late_ms_max)
        self.copies = Copies(log_dirs, self.hosted, self.findings, machine, producer_expiration_ms)
        log_dirs.on_failure = self._directory_failed

    # -- finding -----------------------------------------------------------------------------------------------------
    def find(self, topic: TopicState, partition: int) -> Replica | None:
        return self.hosted.get(TopicPartition(topic.topic_id, partition))

    def named(self, topic: str, partition: int) -> Replica | None:
        state = self.image.topic_named(topic)
        return self.find(state, partition) if state is not None else None

    def led(self) -> Iterator[Replica]:
        return (r for r in self.hosted.values() if r.leads)

    # -- following the metadata log ----------------------------------------------------------------------------------
    def load(self, image: Image, now: Now) -> None:
        """A whole image (at start, or after the tailer fell behind a snapshot)."""
        self.image = image
        for d in self.log_dirs.online:
            try:
                self.log_dirs.sort(d, image, {tp.topic_id for tp in self.hosted}, self.broker_id)
            except DiskFailed as e:
                self.log_dirs.fail(d, str(e))
        if not self._loaded and self.log_dirs.any_failed:
            self._miss(image)
        for tp in list(self.hosted):
            if image.partition(tp) is None:
                self._close(tp)
        for topic, index, _ in image.each_partition():
            self.sync(TopicPartition(topic.topic_id, index), now)
        self.log_dirs.sorted_out()
        self._loaded = self.copies.settled = True
        self.copies.bury()

    def apply(self, image: Image, records: Sequence[Record], now: Now) -> None:
        """One entry that the image has just applied."""
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
                case IsrRefused() if record.broker_id == self.broker_id and record.incarnation == self.incarnation:
                    tp = TopicPartition(record.topic_id, record.partition)
                    replica = self.hosted.get(tp)
                    log.info("ISR of %s not accepted: %s", tp, record.reason)
                    if replica is not None:
                        self.run(replica, core.IsrRefused(record.leader_epoch, record.partition_epoch), now)
                case _:
                    pass
        self.copies.bury()

    @property
    def seat(self) -> int | None:
        """This life's incarnation, once it has been read in the metadata log."""
        return self.incarnation if self.image.incarnation(self.broker_id) == self.incarnation else None

    def registered(self, incarnation: int, now: Now) -> None:
        """This broker has a (new) seat number: what it led under the old one it leads no more."""
        self.incarnation = incarnation
        for tp in list(self.hosted):
            self.sync(tp, now)

    def sync(self, tp: TopicPartition, now: Now) -> None:
        """Make the local replica what the image says it is."""
        topic = self.image.topics.get(tp.topic_id)
        state = topic.partitions.get(tp.partition) if topic is not None else None
        if topic is None or state is None:
            return
        if self.broker_id not in state.hosts:
            self._found(tp)
            if tp in self.hosted:
                self._delete(tp, now)
            return
        if tp in self._nowhere:
            return
        replica = self.hosted.get(tp)
        if replica is None:
            if self._loaded and self._openings_left <= 0:
                self._unopened[tp] = None
                return
            self._openings_left -= 1
            try:
                replica = self.hosted[tp] = self.copies.open(tp, topic, self._topic_config(topic), now)
            except DiskFull as e:
                if tp not in self._no_room:
                    log.error("%s-%d cannot be opened until there is room: %s", topic.name, tp.partition, e)
                self._no_room.add(tp)
                return
            except (DiskFailed, OSError) as e:
                log.error("%s-%d cannot be opened and stays offline: %s", topic.name, tp.partition, e)
                if isinstance(e, DiskFailed):
                    self.log_dirs.on_error()
                self._nowhere.add(tp)
                self.offline_changed = True
                return
            self._no_room.discard(tp)
        if (
            replica.offline_reason is None or state.leader != self.broker_id
        ):  # else the controller has not heard of it yet
            self.run(replica, self._changed(replica, state), now)

    def turn_over(self, now: Now) -> bool:
        """A turn of the loop ends: open what this one may still open. True when something is left for the next."""
        while self._unopened and self._openings_left > 0:
            tp = next(iter(self._unopened))
            del self._unopened[tp]
            self.sync(tp, now)
        self._openings_left = self.openings_per_turn
        return bool(self._unopened)

    def open_again(self, now: Now) -> None:
        """What a full disk kept closed."""
        for tp in list(self._no_room):
            state = self.image.partition(tp)
            if state is None or self.broker_id not in state.hosts:
                self._no_room.discard(tp)
            else:
                self.sync(tp, now)

    def _changed(self, replica: Replica, state: PartitionState) -> core.Changed:
        leads = state.leader == self.broker_id and self.seat is not None and state.leader_incarnation == self.seat
        return core.Changed(
            state,
            leads,
            replica.config.min_insync_replicas,
            replica.log.end_offset,
            replica.log.start_offset,
            leader_alive=state.leader >= 0,
            sure_end=replica.log.flushing.sure_end,
        )

    # -- opening, closing, deleting ----------------------------------------------------------------------------------
    def _let_go(self, tp: TopicPartition) -> Replica:
        replica = self.hosted.pop(tp)
        self.log_dirs.of(replica.log.folder).held -= 1
        return replica

    def _close(self, tp: TopicPartition) -> None:
        replica = self._let_go(tp)
        self.wishes.withdraw(tp)
        if self.following is not None:
            self.following.unfollow(tp)
        replica.log.close()
        replica.offline_reason = "closed"  # to whoever still has it in a fetch session
        self.waiters.check(replica.hw_key())
        self.waiters.check(replica.end_key())

    def _retire(self, replica: Replica, now: Now) -> None:
        """Give up every role before the log goes."""
        led = replica.leads
        self.findings.gone(replica.tp)
        self.offline_changed = self.offline_changed or replica.offline_reason is not None
        replica.offline_reason = "deleted"
        self.wishes.withdraw(replica.tp)
        self.waiters.check(replica.hw_key())
        self.waiters.check(replica.end_key())
        if self.following is not None:
            self.following.unfollow(replica.tp)
        if led and self.leadership is not None:
            self.leadership.resigned(replica.topic, replica.tp.partition, now)

    def _delete(self, tp: TopicPartition, now: Now) -> None:
        replica = self._let_go(tp)
        self._retire(replica, now)
        log.info("deleting %s: the metadata log says it lives here no more", replica.name)
        self.copies.doomed.append(replica)

    def _reset(self, tp: TopicPartition, reset_id: str, now: Now) -> None:
        """Replica recovery: throw the copy away and begin anew as a follower. The controller took us out of the ISR first."""
        replica = self.hosted.get(tp)
        topic = self.image.topics.get(tp.topic_id)
        state = self.image.partition(tp)
        if topic is None or state is None or self.broker_id in state.isr_ids:
            log.warning("reset %s of %s ignored: this broker sits in the ISR", reset_id, tp)
            return
        if replica is not None:
            self._delete(tp, now)
        self._found(tp)  # one that was on a failed directory begins anew on another
        log.info("%s-%d is rebuilt from its leader (%s)", topic.name, tp.partition, reset_id)
        self.sync(tp, now)

    def reconfigure(self, now: Now) -> None:
        """The broker's defaults for topics have changed."""
        for topic_id in dict.fromkeys(tp.topic_id for tp in self.hosted):
            if topic_id in self.image.topics:
                self._reconfigure(topic_id, now)

    def _reconfigure(self, topic_id: UUID, now: Now) -> None:
        topic = self.image.topics[topic_id]
        config = self._topic_config(topic)
        for index, state in topic.partitions.items():
            replica = self.hosted.get(TopicPartition(topic_id, index))
            if replica is not None:
                replica.config = config
                replica.log.config = config
                self.run(replica, self._changed(replica, state), now)

    # -- running a core's effects ------------------------------------------------------------------------------------
    def run(self, replica: Replica, event: core.Event, now: Now) -> None:
        machine = replica.core
        led_before = replica.leads
        for effect in machine.handle(event, now):
            match effect:
                case core.RaiseHighWatermark():
                    if replica.log.producers.closing:
                        replica.log.producers.replicated(effect.offset)
                    self.waiters.check(replica.hw_key())
                case core.RaiseLowWatermark():
                    self.waiters.check(replica.hw_key())
                case core.ProposeIsr():
                    self.wishes.propose(replica.tp, effect)
                case core.FailWaiters():
                    self.wishes.withdraw(replica.tp)
                    self.waiters.check(replica.hw_key())
                    self.waiters.check(replica.end_key())
                    if self.leadership is not None:
                        self.leadership.resigned(replica.topic, replica.tp.partition, now)
                case core.Lead():
                    log.info(
                        "leading %s, epoch %d from offset %d", replica.name, effect.leader_epoch, effect.epoch_start
                    )
                    if self.leadership is not None:
                        self.leadership.leads(replica.topic, replica.tp.partition, effect.leader_epoch, now)
                case core.Follow():
                    if self.following is not None and replica.offline_reason is None:
                        self.following.follow(replica.tp, effect.leader, effect.leader_epoch)
                case core.StopFollowing():
                    if self.following is not None:
                        self.following.unfollow(replica.tp)
        if self.wishes.isrs and machine.proposal is None:
            self.wishes.answered(replica.tp)
        if led_before and not replica.leads:
            self.waiters.check(replica.end_key())
        if isinstance(event, core.LogStartRaised):
            self.waiters.check(replica.hw_key())  # fetch sessions tell it
        elif isinstance(event, core.Tick):
            self.wishes.look(replica)
        elif isinstance(event, core.Changed):
            self.wishes.look(replica)
            self.seeds.look(replica)
            if machine.role is Role.HOLDER and replica.log.flushing.offset < replica.log.end_offset:
                self.unflushed[replica.tp] = replica  # nothing is written to it any more that would have it flushed
            if self.archives is not None and max(event.state.archive_start, event.state.log_start_floor) >= 0:
                self.archives.look(replica)
            self.waiters.check(replica.hw_key())  # who waits for what lies below to be let go, by those in sync
        if machine.state is not None and machine.state.log_start_floor > replica.log.start_offset:
            if replica.leads:
                self._let_go_below(min(machine.state.log_start_floor, machine.high_watermark), replica, now)
            elif machine.role is Role.HOLDER and replica.offline_reason is None:
                self._let_go_below(machine.state.log_start_floor, replica, now)

    def _let_go_below(self, floor: int, replica: Replica, now: Now) -> None:
        """What the metadata log says is deleted, as far as it is committed: as DeleteRecords does. Each leader sees to it."""
        if floor <= replica.log.start_offset:
            return
        log.info("%s: records below %d are deleted, the metadata log says so", replica.name, floor)
        try:
            replica.log.raise_start(floor)
        except DiskFailed as e:
            self.fail(replica, e)
            return
        self.run(replica, core.LogStartRaised(replica.log.start_offset), now)

    def tick(self, now: Now) -> None:
        """Leaders look whether a follower has fallen behind: a share of them each time, all within a round."""
        if not self._unlooked:
            if now.mono_ms < self._round_not_before_ms:
                return
            self._unlooked = [r for r in self.hosted.values() if r.leads and r.core.has_others]
            self._round_not_before_ms = now.mono_ms + self._round_ms
            self._share = 1 + len(self._unlooked) * TICK_MS // self._round_ms
        for replica in self._unlooked[-self._share :]:
            if replica.leads and self.hosted.get(replica.tp) is replica:
                self.run(replica, core.Tick(), now)
        del self._unlooked[-self._share :]

    # -- what was written and what is flushed ------------------------------------------------------------------------
    def appended(self, replica: Replica, now: Now) -> None:
        """A leader's log has grown."""
        end, sure_end = replica.log.end_offset, replica.log.flushing.sure_end
        if sure_end < end:
            self.unflushed[replica.tp] = replica
        self.run(replica, core.Appended(end, sure_end), now)
        self.waiters.check(replica.end_key())

    def trouble(self, replica: Replica, why: str | None) -> None:
        """What may pass by itself, and that it has passed (None): said once each, however often it is met."""
        if why is not None and replica.trouble is None:
            log.error("%s takes no records for now: %s", replica.name, why)
        elif why is None and replica.trouble is not None:
            log.info("%s takes records again", replica.name)
        replica.trouble = why

    def want_flush(self, replica: Replica) -> None:
        if replica.log.flushing.sure_end < replica.log.end_offset:
            self.unflushed[replica.tp] = replica

    def flushed(self, replica: Replica, now: Now) -> None:
        """More of this replica's log is on the disk: whoever waited for that goes on."""
        self.want_flush(replica)
        if replica.leads:
            self.run(replica, core.Appended(replica.log.end_offset, replica.log.flushing.sure_end), now)
            self.waiters.check(replica.hw_key())
        elif self.following is not None and replica.core.role is Role.FOLLOWER:
            self.following.resume(replica.tp)

    # -- what fails ----------------------------------------------------------------------------------------------------
    def fail(self, replica: Replica, error: BaseException) -> None:
        """A file failed this replica, or its device all of the directory: offline until restart, never retried after an EIO.

        The controller is told (`offline`), takes it out of the ISR and lets others lead.
        """
        if isinstance(error, DiskFailed) and error.of_device:
            self.log_dirs.fail(self.log_dirs.of(replica.log.folder), str(error))
        elif isinstance(error, DiskFailed):
            self.log_dirs.on_error()
        if replica.offline_reason is None:
            log.error("%s goes offline: %s", replica.name, error)
            self._offline(replica, str(error))

    def _offline(self, replica: Replica, why: str) -> None:
        replica.offline_reason = why
        self.offline_changed = True
        self.waiters.check(replica.hw_key())
        self.waiters.check(replica.end_key())
        if self.following is not None:
            self.following.unfollow(replica.tp)
        self.wishes.withdraw(replica.tp)

    def _directory_failed(self, failed: LogDir) -> None:
        for replica in self.hosted.values():
            if replica.log.folder.parent == failed.path and replica.offline_reason is None:
                self._offline(replica, failed.failed or "")
        self.log_dirs.on_error()
        self.on_directory_failed()

    def _miss(self, image: Image) -> None:
        """At the start with a directory offline: what is assigned here and found nowhere is taken to be on that one."""
        here = {name for d in self.log_dirs.online for name in self.disk.listdir(d.path)}
        for topic, index, state in image.each_partition():
            if self.broker_id in state.hosts and f"{topic.name}-{index}" not in here:
                self._nowhere.add(TopicPartition(topic.topic_id, index))
        if self._nowhere:
            self.offline_changed = True
            log.error("%d partitions stay offline: the directories that are left do not hold them", len(self._nowhere))

    def _found(self, tp: TopicPartition) -> None:
        if tp in self._nowhere:
            self._nowhere.discard(tp)
            self.offline_changed = True

    def offline(self) -> frozenset[TopicPartition]:
        """Assigned to this broker and not served by it until its next start."""
        return frozenset(self._nowhere) | {r.tp for r in self.hosted.values() if r.offline_reason is not None}
