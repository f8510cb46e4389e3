"""The share partitions that this broker leads: loaded from the share coordinator, read from the log, written back (Kafka: SharePartitionManager).

Invariants: a share partition is used only in the leader epoch in which it was loaded, and only while this broker is certainly the leader: a deposed
leader would deliver records that its successor has finished. A response to an acknowledgement waits until the state is durable. A share partition
whose write is fenced is loaded again. A member gets its first records after a write that began in its session: after AlterShareGroupOffsets such a write is
fenced, so new members get no records of the state before the change. Does not contain: the rules of delivery (`sharing`), requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from brokerd.apis.share_observer import ShareObserver
from brokerd.cluster.model import Now, TopicPartition
from brokerd.config.share_groups import EARLIEST, ShareGroupConfig
from brokerd.coordinator.share_state.persister import SharePersister
from brokerd.coordinator.share_state.records import SharePartitionKey
from brokerd.coordinator.share_state.state import NO_START, ShareState
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.sharing.dead_letters import PartitionDeadLetters
from brokerd.sharing.delivery import Acknowledgement, Acquired, LogBatch
from brokerd.sharing.share_partition import SharePartition
from brokerd.storage.disk import DiskFailed
from brokerd.storage.nonblocking import NotInPageCache, blocking_reads, nonblocking_reads
from brokerd.storage.read_ahead import ReadAhead
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import batches
from brokerd.wire.steps import run_now

log = logging.getLogger(__name__)

LOAD_RETRY_MS = 1_000
"""Pause before a share partition whose load failed is loaded again."""
IDLE_MS = 600_000
"""A share partition without requests for this time is removed from memory, unless records are acquired. Its state is stored by the share coordinator."""
READS_MAX = 8
"""Maximum number of log reads for one acquisition. A read may contain only records that are not delivered, for example records of aborted transactions."""
READ_MARGIN = 1.1
READ_BYTES = 64 * 1024
"""Bytes read for an acquisition: those expected for the records, times READ_MARGIN, plus READ_BYTES."""

Done = Callable[[int], None]


@dataclass(slots=True)
class Shared:
    """A share partition of this broker. While `core` is None, the share partition is being loaded, or `error` is the reason why it is not loaded."""

    place: SharePartitionKey
    replica: Replica
    epoch: int
    core: SharePartition | None = None
    error: int = ErrorCode.NONE
    retry_ms: int = 0
    used_ms: int = 0
    waiting: dict[int, list[Done]] = field(default_factory=dict)
    """{number of a write: acknowledgements and new members that wait for the write}."""
    first_writes: dict[str, int] = field(default_factory=dict)
    """{member: number of the first write that began in its session}."""
    letters: PartitionDeadLetters = field(default_factory=PartitionDeadLetters)
    offset_bytes: float = 0.0
    """Bytes of the log per offset, in the last read. 0: unknown."""
    full: bool = False
    """Since the last check of `key`, a member found no record because the limit of records in flight was reached."""
    start_raised: bool = False
    """Since the last tick, an acquisition has archived records below a new log start offset."""
    key: Hashable = field(default_factory=object)
    """The purgatory key: records have become available, the limit of records in flight permits another one, or the share partition was loaded."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Records for a member: complete batches, and the offsets in them that the member has acquired."""

    data: bytes
    acquired: list[Acquired]


@dataclass(frozen=True, slots=True)
class FetchLimits:
    bytes_max: int
    records_max: int
    batch_size: int
    exact: bool


class DeadLetterWriter(Protocol):
    def advance(self, shared: Shared, current: Callable[[Shared], bool], changed: Callable[[Shared], None]) -> None:
        """Write the next dead letters of a share partition. `current`: whether this broker still leads it. `changed`: records were archived."""
        ...


class SharePartitions:
    def __init__(
        self,
        replica_manager: ReplicaManager,
        persister: SharePersister,
        config_of: Callable[[str], ShareGroupConfig],
        clock: Callable[[], Now],
        read_ahead: ReadAhead | None,
        leadership_confirmed: Callable[[Replica], bool],
        dead_letters: DeadLetterWriter,
        observer: ShareObserver | None = None,
    ) -> None:
        """`leadership_confirmed`: whether no other broker can be the leader of a replica's partition now."""
        self._replica_manager, self._persister, self._config_of = replica_manager, persister, config_of
        self._clock, self._read_ahead, self._leadership_confirmed = clock, read_ahead, leadership_confirmed
        self._dead_letters, self._observer = dead_letters, observer
        self._shared: dict[SharePartitionKey, Shared] = {}

    def __iter__(self) -> Iterator[Shared]:
        return iter(list(self._shared.values()))

    # -- finding -----------------------------------------------------------------------------------------------------------
    def find(self, group_id: str, tp: TopicPartition) -> Shared | ErrorCode:
        """The share partition, which is loaded if necessary. An error: this broker does not lead the partition."""
        replica = self._replica_manager.hosted.get(tp)
        if replica is None or not replica.leads or not self._leadership_confirmed(replica):
            if tp.topic_id not in self._replica_manager.image.topics:
                return ErrorCode.UNKNOWN_TOPIC_ID
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        place = SharePartitionKey(group_id, tp.topic_id, tp.partition)
        shared = self._shared.get(place)
        if shared is not None and (shared.replica is not replica or shared.epoch != replica.core.leader_epoch):
            self._drop(shared, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            shared = None
        now_ms = self._clock().mono_ms
        if shared is None:
            shared = self._shared[place] = Shared(place, replica, replica.core.leader_epoch)
            self._load(shared)
        elif shared.error and now_ms >= shared.retry_ms:
            shared.error = ErrorCode.NONE
            self._load(shared)
        shared.used_ms = now_ms
        return shared

    def _is_current(self, shared: Shared) -> bool:
        replica = shared.replica
        return (
            self._shared.get(shared.place) is shared
            and replica.leads
            and replica.core.leader_epoch == shared.epoch
            and self._replica_manager.hosted.get(replica.tp) is replica
        )

    # -- loading -----------------------------------------------------------------------------------------------------------
    def _load(self, shared: Shared) -> None:
        def on_result(error: int, state: ShareState | None) -> None:
            if not self._is_current(shared):
                return
            if state is None:
                shared.error, shared.retry_ms = error, self._clock().mono_ms + LOAD_RETRY_MS
                log.info("share partition not loaded: share_partition=%s error=%d", shared.place, error)
            else:
                self._on_loaded(shared, state)
            self._replica_manager.purgatory.check(shared.key)

        self._persister.read(shared.place, shared.epoch, on_result)

    def _on_loaded(self, shared: Shared, state: ShareState) -> None:
        config = self._config_of(shared.place.group_id)
        start = state.start if state.start != NO_START else self._first_offset(shared.replica, config)
        core = shared.core = SharePartition.load(
            state,
            shared.epoch,
            start,
            lock_ms=config.lock_ms,
            deliveries_max=config.deliveries_max,
            locks_max=config.locks_max,
        )
        core.dead_letters = bool(config.dead_letter_topic)
        core.raise_start(shared.replica.start_offset)
        if self._observer is not None:
            self._observer.on_loaded(shared.place, shared.replica, core, state)
        self.flush(shared)

    def _first_offset(self, replica: Replica, config: ShareGroupConfig) -> int:
        """The start of a new share partition, by `share.auto.offset.reset`."""
        end = replica.last_stable() if config.committed else replica.core.high_watermark
        if config.reset == EARLIEST:
            return replica.start_offset
        if config.reset_ms is None:
            return end
        with blocking_reads():
            found = run_now(replica.log.offset_for_timestamp(self._clock().wall_ms - config.reset_ms, end))
        return found[0] if found is not None else end

    # -- delivery ----------------------------------------------------------------------------------------------------------
    def acquire(self, shared: Shared, member: str, limits: FetchLimits) -> Fetched | None:
        """Records for a member, or None: there are none now, or they are not in the page cache yet."""
        core, replica = shared.core, shared.replica
        if core is None or not self._is_current(shared) or not self._leadership_confirmed(replica):
            return None
        config = self._config_of(shared.place.group_id)
        core.lock_ms, core.deliveries_max, core.locks_max = config.lock_ms, config.deliveries_max, config.locks_max
        core.renew, core.dead_letters = config.renew, bool(config.dead_letter_topic)
        core.keep_key_order(config.key_order)
        if self._raise_start(core, replica):
            shared.start_raised = True  # other members may be waiting: the tick serves them, because this one may be in the middle of its evaluation
        if not self._is_confirmed(shared, core, member):
            return None
        try:
            with self._reading():
                for n in range(READS_MAX):
                    before = _progress(core)
                    bytes_max = limits.bytes_max if n else self._read_bytes(shared, core, member, limits)
                    found = self._acquire(shared, core, member, limits, bytes_max, config.committed)
                    if found is not None or _progress(core) == before:
                        return found
        except NotInPageCache as cold:
            assert self._read_ahead is not None
            self._read_ahead.look_up(cold, lambda: self._replica_manager.purgatory.check(shared.key))
        except DiskFailed as e:
            self._replica_manager.fail(replica, e)
        finally:
            self.flush(shared)
        return None

    def _raise_start(self, core: SharePartition, replica: Replica) -> bool:
        if self._observer is not None:
            self._observer.on_log_start_raised(core, replica.start_offset)
        return core.raise_start(replica.start_offset)

    def _is_confirmed(self, shared: Shared, core: SharePartition, member: str) -> bool:
        """Return whether the share coordinator has accepted a write of this state since the session of the member began. The first call starts one."""
        number = shared.first_writes.get(member)
        if number is None:
            number = shared.first_writes[member] = core.require_write()
            shared.waiting.setdefault(number, []).append(
                lambda error: self._replica_manager.purgatory.check(shared.key)
            )
            self.flush(shared)
        return core.writes_done >= number

    def _reading(self) -> AbstractContextManager[None]:
        return blocking_reads() if self._read_ahead is None or self._read_ahead.blind else nonblocking_reads()

    @staticmethod
    def _read_bytes(shared: Shared, core: SharePartition, member: str, limits: FetchLimits) -> int:
        """Bytes to read for an acquisition. Members request 50 MB and 500 records (defaults of Kafka), so a read of all permitted bytes would read most
        records many times."""
        offset = core.fetch_offset(member)
        if offset is None:
            return limits.bytes_max
        expected = (core.fetch_end(limits.records_max, offset) - offset) * shared.offset_bytes
        return min(limits.bytes_max, int(expected * READ_MARGIN) + READ_BYTES)

    def _acquire(
        self,
        shared: Shared,
        core: SharePartition,
        member: str,
        limits: FetchLimits,
        bytes_max: int,
        committed: bool,
    ) -> Fetched | None:
        replica, offset = shared.replica, core.fetch_offset(member)
        if offset is None:
            # Until the next check, and not until the next acquisition: another member may leave room for the one that waits.
            shared.full = True
        limit = replica.last_stable() if committed else replica.core.high_watermark
        if offset is None or offset >= limit:
            return None
        data = replica.log.read(offset, bytes_max, limit).bytes()
        if not data:
            return None
        found: list[LogBatch] = []
        ends: list[tuple[int, int]] = []
        for at, header in batches(data):
            found.append(LogBatch(header.base_offset, header.last_offset, not header.is_control))
            ends.append((at, at + header.size))
        shared.offset_bytes = len(data) / (found[-1].last + 1 - found[0].first)
        if committed and replica.log.aborted.counts:
            self._leave_out_aborted(replica, data, found)
        if core.slots is not None:
            core.slots.learn(data, core.start, core.start + core.locks_max)
        acquired = core.acquire(
            member,
            offset,
            found,
            limits.records_max,
            self._clock().mono_ms,
            exact=limits.exact,
            batch_size=limits.batch_size,
        )
        if not acquired:
            return None
        first, last = acquired[0].first, acquired[-1].last
        inside = [
            place for batch, place in zip(found, ends, strict=True) if batch.last >= first and batch.first <= last
        ]
        return Fetched(data[inside[0][0] : inside[-1][1]], acquired)

    @staticmethod
    def _leave_out_aborted(replica: Replica, data: bytes, log_batches: list[LogBatch]) -> None:
        aborted = replica.log.aborted.overlapping(log_batches[0].first, log_batches[-1].last + 1)
        if not aborted:
            return
        for i, (_, header) in enumerate(batches(data)):
            if header.is_transactional and any(
                a.producer_id == header.producer_id and a.first_offset <= header.base_offset <= a.last_offset
                for a in aborted
            ):
                log_batches[i] = log_batches[i]._replace(deliver=False)

    def acknowledge(
        self, shared: Shared, member: str, acknowledgements: list[Acknowledgement], renew: bool, done: Done
    ) -> None:
        """`done` gets the error code when the acknowledgements are durable."""
        core = shared.core
        if core is None:
            done(
                ErrorCode.INVALID_RECORD_STATE
            )  # the acquisition locks of the member ended when the previous leader was replaced
            return
        floor, now_ms = max(core.start, core.log_start), self._clock().mono_ms
        error = core.acknowledge(member, acknowledgements, now_ms, renew=renew)
        observer = self._observer
        if observer is not None and not error:
            observer.on_acknowledged(core, member, acknowledgements, now_ms)

        def on_durable(error: int) -> None:
            if observer is not None and not error:
                observer.on_confirmed(core, floor, acknowledgements)
            done(error)

        number = core.pending_write
        if error or number is None:
            on_durable(error)
        else:
            shared.waiting.setdefault(number, []).append(on_durable)
        self._records_ended(shared)

    def release(self, group_id: str, member: str, tp: TopicPartition) -> None:
        """The share session of a member has ended."""
        shared = self._shared.get(SharePartitionKey(group_id, tp.topic_id, tp.partition))
        if shared is None:
            return
        shared.first_writes.pop(member, None)
        if shared.core is None:
            return
        if self._observer is not None:
            self._observer.on_released(shared.core, member)
        if shared.core.release(member):
            self._records_ended(shared)

    def _records_ended(self, shared: Shared) -> None:
        """Records were acknowledged, released, archived or deleted, or their locks ended: write it, and serve waiting members if they may acquire some record now."""
        core = shared.core
        self.flush(shared)
        if core is not None and (core.available or (shared.full and core.fetch_offset() is not None)):
            shared.full = False
            self._replica_manager.purgatory.check(shared.key)

    # -- writes ------------------------------------------------------------------------------------------------------------
    def flush(self, shared: Shared) -> None:
        """Write the changes to the share coordinator, unless a write is in progress."""
        core = shared.core
        update = core.begin_write() if core is not None else None
        if core is None or update is None:
            return

        def done(error: int) -> None:
            if self._observer is not None:
                self._observer.wrote(core, update, error)
            if shared.core is not core:
                return
            if error:
                log.warning("share partition state not written: share_partition=%s error=%d", shared.place, error)
                self._drop(shared, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                self._replica_manager.purgatory.check(shared.key)
                return
            core.end_write()
            for number in [n for n in shared.waiting if n <= core.writes_done]:
                for reply in shared.waiting.pop(number):
                    reply(ErrorCode.NONE)
            self._advance_dead_letters(shared)
            self.flush(shared)

        if self._observer is not None:
            self._observer.writes(core, update)
        self._persister.write(shared.place, core.state_epoch, update, done, lambda: self._is_current(shared))

    def _advance_dead_letters(self, shared: Shared) -> None:
        if shared.core is not None and shared.core.archiving:
            self._dead_letters.advance(shared, self._is_current, self._records_ended)

    def _drop(self, shared: Shared, error: ErrorCode) -> None:
        """Remove the share partition from memory. The next request loads it again."""
        if self._shared.get(shared.place) is shared:
            del self._shared[shared.place]
        shared.core = None
        waiters, shared.waiting = shared.waiting, {}
        for replies in waiters.values():
            for reply in replies:
                reply(error)

    def tick(self, now: Now) -> None:
        """End locks and deleted records, and forget share partitions that this broker does not lead any more or that no member uses."""
        for shared in self:
            core = shared.core
            if not self._is_current(shared):
                self._drop(shared, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                self._replica_manager.purgatory.check(shared.key)
            elif core is not None and self._end_records(shared, core, now):
                self._records_ended(shared)
            elif core is not None and core.archiving:
                self._advance_dead_letters(shared)
            elif now.mono_ms - shared.used_ms > IDLE_MS and (
                core is None or (core.next_expiry_ms is None and core.pending_write is None)
            ):
                self._drop(shared, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _end_records(self, shared: Shared, core: SharePartition, now: Now) -> bool:
        """End locks whose time has passed, and records that retention or DeleteRecords has deleted. Returns whether any ended since the last tick."""
        if self._observer is not None:
            self._observer.on_expired(core, now.mono_ms)
        late, deleted = core.expire(now.mono_ms), self._raise_start(core, shared.replica) or shared.start_raised
        shared.start_raised = False
        return late or deleted


def _progress(core: SharePartition) -> tuple[int, ...]:
    """Values that change when a read was useful, although it gave no records for the member."""
    return core.start, core.end, core.available, core.slots.changes if core.slots is not None else 0
