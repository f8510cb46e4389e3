"""Where partitions live: their logs, cores and waiters on this broker.

Laws: the metadata log alone opens, closes and deletes replicas (absence never deletes: a folder of an unknown topic is set
aside as `-stray`); every effect of a core is run here, in its order. Called by the API doors, the fetchers and the broker.
Must not come in: sockets, the wire's messages, ZooKeeper.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from uuid import UUID

from brokerd import partition as core
from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.metadata import (
    Image,
    IsrRefused,
    PartitionChanged,
    Record,
    ReplicaReset,
    TopicConfigChanged,
    TopicDeleted,
)
from brokerd.cluster.model import Now, PartitionState, Seat, TopicPartition, TopicState
from brokerd.partition import Partition, Role
from brokerd.replication import Position, truncation_point
from brokerd.storage import checkpoints
from brokerd.storage.disk import Disk, DiskFailed, DiskFull
from brokerd.storage.log import Log
from brokerd.storage.producers import EXPIRATION_MS
from brokerd.waiters import Waiters

log = logging.getLogger(__name__)

TICK_MS = 100
"""How often `tick` is called."""
ROUND_MS_MAX = 1_000
"""Within this every leader looks once whether a follower has fallen behind (an eighth of replica.lag.time.max.ms where that is less)."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """An ISR that this broker, as leader, asks the controller for."""

    tp: TopicPartition
    leader_epoch: int
    partition_epoch: int
    isr: tuple[Seat, ...]


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


class Replica:
    """One partition that this broker holds."""

    __slots__ = ("_end_key", "_hw_key", "config", "core", "log", "offline_reason", "topic", "tp")

    def __init__(self, tp: TopicPartition, topic: str, config: TopicConfig, log_: Log, core_: Partition) -> None:
        self.tp, self.topic, self.config, self.log, self.core = tp, topic, config, log_, core_
        self.offline_reason: str | None = None
        self._hw_key, self._end_key = object(), object()

    @property
    def leads(self) -> bool:
        return self.core.role is Role.LEADER and self.offline_reason is None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.tp.partition}"

    def hw_key(self) -> Hashable:
        """What to wait on for the high watermark (`Waiters`). Of this replica: one opened anew has another."""
        return self._hw_key

    def end_key(self) -> Hashable:
        return self._end_key


class Partitions:
    def __init__(
        self,
        broker_id: int,
        log_dir: Path,
        disk: Disk,
        waiters: Waiters,
        *,
        lag_ms_max: int,
        topic_config: Callable[[TopicState], TopicConfig],
        deep_recovery: bool,
        producer_expiration_ms: int = EXPIRATION_MS,
    ) -> None:
        self.broker_id, self.log_dir, self.disk, self.waiters = broker_id, log_dir, disk, waiters
        self._lag_ms_max, self._topic_config, self._deep = lag_ms_max, topic_config, deep_recovery
        self._producer_expiration_ms = producer_expiration_ms
        self.image = Image()
        self.incarnation: int | None = None
        self.frozen = False
        """True after the loop stood still for longer than a session: no produce until the log was read past a sync."""
        self.current: Callable[[], bool] = lambda: True
        """Whether the image is known to be the newest: without ZooKeeper a leader may have been deposed unheard."""
        self.disk_failed: Callable[[], None] = lambda: None
        """An I/O error: what was written and not flushed may be gone, of any file."""
        self.hosted: dict[TopicPartition, Replica] = {}
        self.following: Following | None = None
        self.leadership: LeadershipListener | None = None
        self.proposals: dict[TopicPartition, Proposal] = {}
        self.proposals_changed = False
        self.unflushed: dict[TopicPartition, Replica] = {}
        """Replicas where somebody waits for a flush; the upkeep takes them at the end of the turn."""
        self._doomed: list[Replica] = []
        self._round_ms = max(TICK_MS, min(lag_ms_max // 8, ROUND_MS_MAX))
        self._round_not_before_ms = self._share = 0
        self._unlooked: list[Replica] = []
        self._high_watermarks = checkpoints.read_offsets(disk, log_dir / checkpoints.HIGH_WATERMARKS)

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
        self._sort_folders(image)
        for tp in list(self.hosted):
            if image.partition(tp) is None:
                self._close(tp)
        for topic, index, _ in image.each_partition():
            self.sync(TopicPartition(topic.topic_id, index), now)
        self._bury()

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
        self._bury()

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
        if self.broker_id not in state.replicas:
            if tp in self.hosted:
                self._delete(tp, now)
            return
        replica = self.hosted.get(tp)
        if replica is None:
            try:
                replica = self._open(tp, topic, now)
            except (DiskFailed, DiskFull, OSError) as e:
                log.error("%s-%d cannot be opened and stays offline: %s", topic.name, tp.partition, e)
                return
        self.run(replica, self._changed(replica, state), now)

    def _changed(self, replica: Replica, state: PartitionState) -> core.Changed:
        leads = (
            state.leader == self.broker_id
            and self.incarnation is not None
            and state.leader_incarnation == self.incarnation
            and self.image.incarnation(self.broker_id) == self.incarnation
        )
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
    def _open(self, tp: TopicPartition, topic: TopicState, now: Now) -> Replica:
        self._bury()  # a topic of the same name may have had this folder
        folder = self.log_dir / f"{topic.name}-{tp.partition}"
        config = self._topic_config(topic)
        if self.disk.exists(folder):
            found = checkpoints.read_partition_metadata(self.disk, folder)
            if found is not None and found != tp.topic_id:
                self._set_aside(folder, f"belongs to topic id {found}, not {tp.topic_id}")
        fresh = not self.disk.exists(folder)
        if fresh:
            self.disk.mkdir(folder)
            checkpoints.write_partition_metadata(self.disk, folder, tp.topic_id)
        key = (topic.name, tp.partition)
        opened = Log.open(folder, config, self.disk, now, deep=self._deep)
        opened.producer_expiration_ms = self._producer_expiration_ms
        machine = Partition(self.broker_id, tp, self._lag_ms_max)
        machine.high_watermark = max(
            opened.start_offset, min(0 if fresh else self._high_watermarks.get(key, 0), opened.end_offset)
        )
        replica = self.hosted[tp] = Replica(tp, topic.name, config, opened, machine)
        return replica

    def _close(self, tp: TopicPartition) -> None:
        replica = self.hosted.pop(tp)
        self._withdraw(tp)
        if self.following is not None:
            self.following.unfollow(tp)
        replica.log.close()

    def _retire(self, replica: Replica, now: Now) -> None:
        """Give up every role before the log goes."""
        led = replica.leads
        replica.offline_reason = "deleted"
        self._withdraw(replica.tp)
        self.waiters.check(replica.hw_key())
        self.waiters.check(replica.end_key())
        if self.following is not None:
            self.following.unfollow(replica.tp)
        if led and self.leadership is not None:
            self.leadership.resigned(replica.topic, replica.tp.partition, now)

    def _delete(self, tp: TopicPartition, now: Now) -> None:
        replica = self.hosted.pop(tp)
        self._retire(replica, now)
        log.info("deleting %s: the metadata log says it lives here no more", replica.name)
        self._doomed.append(replica)

    def _bury(self) -> None:
        """Delete what was given up, once no checkpoint names it: a folder that a checkpoint names and that is gone means a lost copy."""
        if not self._doomed:
            return
        for replica in self._doomed:
            self._high_watermarks.pop((replica.topic, replica.tp.partition), None)
        # Not `checkpoint`: while an image is being loaded, what is not open yet still needs its number.
        self._write_high_watermarks({**self._high_watermarks, **self._now_high()})
        while self._doomed:
            self._doomed.pop().log.delete()

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
        log.info("%s-%d is rebuilt from its leader (%s)", topic.name, tp.partition, reset_id)
        self._high_watermarks.pop((topic.name, tp.partition), None)
        self.sync(tp, now)

    def _sort_folders(self, image: Image) -> None:
        """Folders of topics that the image does not know are set aside; of deleted topics, removed (safety section 1)."""
        for name in self.disk.listdir(self.log_dir):
            folder = self.log_dir / name
            if name.endswith("-stray") or not self.disk.isdir(folder):
                continue
            topic_id = checkpoints.read_partition_metadata(self.disk, folder)
            if topic_id is None or topic_id in image.topics:
                continue
            if name.endswith("-delete") or topic_id in image.deleted:
                self.disk.rmtree(folder)
            elif not any(tp.topic_id == topic_id for tp in self.hosted):
                self._set_aside(folder, f"topic id {topic_id} is unknown to the metadata log")

    def _set_aside(self, folder: Path, why: str) -> None:
        log.warning("%s set aside as -stray: %s", folder.name, why)
        target = folder.with_name(folder.name + "-stray")
        number = 1
        while self.disk.exists(target):
            number += 1
            target = folder.with_name(f"{folder.name}.{number}-stray")
        self.disk.rename(folder, target)

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
                    self.waiters.check(replica.hw_key())
                case core.ProposeIsr():
                    self.proposals[replica.tp] = Proposal(
                        replica.tp, effect.leader_epoch, effect.partition_epoch, effect.isr
                    )
                    self.proposals_changed = True
                case core.FailWaiters():
                    self._withdraw(replica.tp)
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
                    if self.following is not None:
                        self.following.follow(replica.tp, effect.leader, effect.leader_epoch)
                case core.StopFollowing():
                    if self.following is not None:
                        self.following.unfollow(replica.tp)
        if self.proposals and machine.proposal is None and replica.tp in self.proposals:
            self._withdraw(replica.tp)
        if led_before and not replica.leads:
            self.waiters.check(replica.end_key())

    def _withdraw(self, tp: TopicPartition) -> None:
        if self.proposals.pop(tp, None) is not None:
            self.proposals_changed = True

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

    def _want_flush(self, replica: Replica) -> None:
        if replica.log.flushing.sure_end < replica.log.end_offset:
            self.unflushed[replica.tp] = replica

    def flushed(self, replica: Replica, now: Now) -> None:
        """More of this replica's log is on the disk: whoever waited for that goes on."""
        self._want_flush(replica)
        if replica.leads:
            self.run(replica, core.Appended(replica.log.end_offset, replica.log.flushing.sure_end), now)
            self.waiters.check(replica.hw_key())
        elif self.following is not None and replica.core.role is Role.FOLLOWER:
            self.following.resume(replica.tp)

    # -- a follower's side -------------------------------------------------------------------------------------------
    def position(self, tp: TopicPartition) -> Position | None:
        replica = self.hosted.get(tp)
        if replica is None or replica.core.role is not Role.FOLLOWER or replica.offline_reason:
            return None
        if replica.log.flushing.sure_end < replica.log.end_offset:
            return (
                None  # to ask for more is to say that one holds what came before: not while a power cut could take it
            )
        return Position(replica.log.end_offset, replica.log.last_epoch, replica.log.start_offset)

    def append_fetched(
        self, tp: TopicPartition, records: bytes | memoryview, hw: int, log_start: int, now: Now
    ) -> None:
        replica = self.hosted[tp]
        if len(records):
            try:
                replica.log.append_fetched(memoryview(records), now)
            except (DiskFailed, DiskFull) as e:
                # A full disk cannot be waited for here: the follower would spin on the same fetch.
                self.fail(replica, e)
                return
            self._want_flush(replica)
        replica.core.told_high_watermark(hw, replica.log.end_offset)
        if log_start > replica.log.start_offset:
            replica.log.raise_start(min(log_start, replica.log.end_offset))

    def diverged(self, tp: TopicPartition, epoch: int, end_offset: int, now: Now) -> None:
        replica = self.hosted[tp]
        point = truncation_point(replica.log.epochs.end_offset_for, replica.log.end_offset, epoch, end_offset)
        log.warning("%s: truncated from %d to %d, where the leader's epoch %d parts from ours",
                    replica.name, replica.log.end_offset, point, epoch)  # fmt: skip
        if point < replica.log.start_offset:
            replica.log.reset_to(point, now)
        else:
            replica.log.truncate_to(point)
        replica.core.truncated(replica.log.end_offset)

    def out_of_range(self, tp: TopicPartition, leader_log_start: int, now: Now) -> None:
        replica = self.hosted[tp]
        if leader_log_start > replica.log.end_offset:
            log.warning("%s: the leader's log starts at %d, ours ends at %d: begun anew there",
                        replica.name, leader_log_start, replica.log.end_offset)  # fmt: skip
            replica.log.reset_to(leader_log_start, now)
            replica.core.truncated(replica.log.end_offset)

    def fail(self, replica: Replica, error: BaseException) -> None:
        """The folder or file system failed this replica: offline until restart, never retried after an EIO."""
        log.error("%s goes offline: %s", replica.name, error)
        led = replica.leads
        replica.offline_reason = str(error)
        if isinstance(error, DiskFailed):
            self.disk_failed()
        self.waiters.check(replica.hw_key())
        self.waiters.check(replica.end_key())
        if self.following is not None:
            self.following.unfollow(replica.tp)
        if led:
            self._withdraw(replica.tp)

    # -- upkeep --------------------------------------------------------------------------------------------------------
    def checkpoint(self) -> None:
        """Write down high watermarks (each min(HW, end)), the whole file at once."""
        self._write_high_watermarks(self._now_high())

    def _now_high(self) -> checkpoints.Offsets:
        return {(r.topic, r.tp.partition): min(r.core.high_watermark, r.log.end_offset) for r in self.hosted.values()}

    def _write_high_watermarks(self, offsets: checkpoints.Offsets) -> None:
        self._high_watermarks = offsets
        try:
            checkpoints.write_offsets(self.disk, self.log_dir / checkpoints.HIGH_WATERMARKS, offsets)
        except (DiskFailed, DiskFull) as e:
            log.warning("high watermarks not written down, which costs a restart some fetching: %s", e)
            if isinstance(e, DiskFailed):
                self.disk_failed()

    def retain(self, now: Now) -> None:
        """Remove what retention allows; only leaders decide, followers are told the new start."""
        for replica in list(self.hosted.values()):
            if replica.offline_reason is not None:
                continue
            try:
                if replica.leads:
                    replica.log.retain(now, replica.core.high_watermark)
                    self.run(replica, core.LogStartRaised(replica.log.start_offset), now)
            except DiskFailed as e:
                self.fail(replica, e)

    def close(self, *, clean: bool) -> None:
        """Flush and close every log (a clean stop needs no scan at the next start)."""
        if not clean:
            return
        self.checkpoint()
        for replica in self.hosted.values():
            replica.log.flush()
            replica.log.close()
