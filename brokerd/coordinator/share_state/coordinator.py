"""The share coordinator: the share partitions of the __share_group_state partitions that this broker leads (Kafka: ShareCoordinatorService).

Invariants: a request is answered after its record is replicated, and a read returns only replicated state. A write of an old leader or of an old
state epoch is rejected. Records below the oldest snapshot that is needed are deleted; the topic is not compacted, because the updates since a
snapshot are needed together. No sockets.
"""

from __future__ import annotations

import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol
from uuid import UUID

from brokerd.cluster.model import SHARE_STATE_TOPIC, Now
from brokerd.coordinator.shard import REJECTED_BEFORE_APPEND, CoordinatorLog, CoordinatorShard, ShardManager
from brokerd.coordinator.share_state import records as formats
from brokerd.coordinator.share_state.records import SharePartitionKey, ShareStateKind
from brokerd.coordinator.share_state.state import ShareState, StateUpdate, apply_update
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import BatchHeader, Record, build, records_of

log = logging.getLogger(__name__)

PRUNE_INTERVAL_MS = 300_000
"""Kafka's default of share.coordinator.state.topic.prune.interval.ms, and of the interval of snapshots of idle share partitions."""

Done = Callable[[int], None]


class PrunableLog(CoordinatorLog, Protocol):
    def delete_below(self, partition: int, offset: int) -> None:
        """Delete the records below `offset`, on all replicas."""
        ...


@dataclass(slots=True)
class StoredState:
    """`snapshot_offset`: offset of the last snapshot record; the records of the share partition from it on are needed. `updates`: updates since.
    `pending`: writes that are not replicated yet."""

    state: ShareState
    snapshot_offset: int
    updates: int = 0
    pending: int = 0


@dataclass(slots=True)
class ShareStateShard(CoordinatorShard):
    states: dict[SharePartitionKey, StoredState] = field(default_factory=dict)
    waiting: dict[int, Done] = field(default_factory=dict)
    """{number: response of a write that is not replicated yet}."""
    numbers: int = 0


def coordinator_key(place: SharePartitionKey) -> str:
    """The key of a share partition in FindCoordinator and in the choice of the partition of __share_group_state, as in Kafka."""
    text = urlsafe_b64encode(place.topic_id.bytes).decode().rstrip("=")
    return f"{place.group_id}:{text}:{place.partition}"


class ShareCoordinator(ShardManager[ShareStateShard]):
    def __init__(
        self,
        coordinator_log: PrunableLog,
        clock: Callable[[], Now],
        *,
        updates_per_snapshot: int,
        topic_exists: Callable[[UUID], bool],
    ) -> None:
        super().__init__(SHARE_STATE_TOPIC, coordinator_log, clock, ShareStateShard)
        self._prunable = coordinator_log
        self._updates_per_snapshot, self._topic_exists = updates_per_snapshot, topic_exists
        self._pruned_ms = 0

    # -- loading -----------------------------------------------------------------------------------------------------------
    def _on_unloaded(self, partition: int, shard: ShareStateShard) -> None:
        waiting, shard.waiting = shard.waiting, {}
        for done in waiting.values():
            done(ErrorCode.NOT_COORDINATOR)

    def _on_loaded(self, partition: int, shard: ShareStateShard, now: Now) -> None:
        log.info(
            "share coordinator partition loaded: partition=__share_group_state-%d share_partitions=%d",
            partition,
            len(shard.states),
        )

    def _replay(self, shard: ShareStateShard, data: bytes, at: int, header: BatchHeader) -> None:
        for record in records_of(data, at, header):
            if record.offset < shard.next_offset:
                continue
            try:
                self._replay_record(shard, record)
            except ValueError as e:
                log.warning("invalid record skipped: topic=__share_group_state offset=%d error=%s", record.offset, e)

    @staticmethod
    def _replay_record(shard: ShareStateShard, record: Record) -> None:
        kind, place = formats.read_key(record.key or b"")
        if kind is ShareStateKind.SNAPSHOT:
            if record.value is None:
                shard.states.pop(place, None)
            else:
                shard.states[place] = StoredState(formats.read_snapshot(record.value), record.offset)
            return
        known = shard.states.get(place)
        if record.value is None or known is None:
            return
        snapshot_epoch, change = formats.read_update(record.value)
        if snapshot_epoch == known.state.snapshot_epoch:
            known.state = apply_update(known.state, change, record.timestamp)
            known.updates += 1

    # -- time --------------------------------------------------------------------------------------------------------------
    def tick(self, now: Now) -> None:
        for partition, shard in list(self.shards.items()):
            if not shard.loaded:
                self._load(partition, shard, now)
        if now.mono_ms - self._pruned_ms >= PRUNE_INTERVAL_MS:
            self._pruned_ms = now.mono_ms
            self.prune(now)

    def prune(self, now: Now) -> None:
        """Write snapshots of share partitions without recent writes, and delete the records that are not needed any more."""
        for partition, shard in list(self.shards.items()):
            if not shard.loaded or not self._log.leadership_confirmed(partition):
                continue
            for place in [p for p in shard.states if not self._topic_exists(p.topic_id)]:
                self.delete(place, lambda error: None)
            idle = [
                (place, x)
                for place, x in shard.states.items()
                if not x.pending and x.updates and now.wall_ms - x.state.written_wall_ms >= PRUNE_INTERVAL_MS
            ]
            for place, state in idle:
                again = replace(state.state, snapshot_epoch=state.state.snapshot_epoch + 1)
                self._write(
                    partition, shard, place, again, formats.snapshot(again), ShareStateKind.SNAPSHOT, _ignore_result
                )
            if self.shards.get(partition) is not shard:
                continue
            replicated = self._log.high_watermark(partition)
            needed = min((x.snapshot_offset for x in shard.states.values()), default=replicated)
            if min(needed, replicated) > self._log.start_offset(partition):
                self._prunable.delete_below(partition, min(needed, replicated))

    def topics_deleted(self, topic_ids: Iterable[UUID]) -> None:
        gone = frozenset(topic_ids)
        for shard in list(self.shards.values()):
            for place in [p for p in shard.states if p.topic_id in gone] if shard.loaded else ():
                self.delete(place, _ignore_result)

    # -- requests ------------------------------------------------------------------------------------------------------------
    def initialize(self, place: SharePartitionKey, state_epoch: int, start: int, done: Done) -> None:
        """Start the state of a share partition again in a state epoch. A repeated request of the same state epoch changes nothing."""
        partition, shard, error = self.find(coordinator_key(place))
        if error or shard is None:
            done(error)
            return
        stored = shard.states.get(place)
        if stored is not None and stored.state.state_epoch > state_epoch:
            done(ErrorCode.FENCED_STATE_EPOCH)
            return
        if not self._topic_exists(place.topic_id):
            done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        if stored is not None and stored.state.state_epoch == state_epoch:
            done(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if stored.pending else ErrorCode.NONE)
            return
        wall_ms = self._clock().wall_ms
        state = ShareState(
            state_epoch,
            stored.state.leader_epoch if stored is not None else -1,
            start,
            snapshot_epoch=stored.state.snapshot_epoch + 1 if stored is not None else 0,
            created_wall_ms=wall_ms,
            written_wall_ms=wall_ms,
        )
        self._write(partition, shard, place, state, formats.snapshot(state), ShareStateKind.SNAPSHOT, done)

    def read(self, place: SharePartitionKey, leader_epoch: int, done: Callable[[int, ShareState | None], None]) -> None:
        """Read the state for the leader of the partition in `leader_epoch`. From now on, writes of earlier leaders are rejected."""
        state, error = self.summary(place)
        if state is None:
            done(error, None)
            return
        if state.leader_epoch > leader_epoch:
            done(ErrorCode.FENCED_LEADER_EPOCH, None)
            return
        if state.leader_epoch == leader_epoch:
            done(ErrorCode.NONE, state)
            return
        change = StateUpdate(leader_epoch, -1, (), state.complete_count)
        self._update(place, change, lambda error: done(error, state if not error else None))

    def summary(self, place: SharePartitionKey) -> tuple[ShareState | None, int]:
        """(state or None, error)."""
        _, shard, error = self.find(coordinator_key(place))
        if error or shard is None:
            return None, error
        known = shard.states.get(place)
        if known is None:
            return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if known.pending:
            return None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return known.state, ErrorCode.NONE

    def write(self, place: SharePartitionKey, state_epoch: int, change: StateUpdate, done: Done) -> None:
        _, shard, error = self.find(coordinator_key(place))
        if error or shard is None:
            done(error)
            return
        known = shard.states.get(place)
        if known is None:
            done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif known.state.leader_epoch > change.leader_epoch:
            done(ErrorCode.FENCED_LEADER_EPOCH)
        elif known.state.state_epoch != state_epoch:
            done(ErrorCode.FENCED_STATE_EPOCH)
        else:
            self._update(place, change, done)

    def delete(self, place: SharePartitionKey, done: Done) -> None:
        """Delete the state. State that does not exist is no error."""
        partition, shard, error = self.find(coordinator_key(place))
        if error or shard is None or place not in shard.states:
            done(error)
        else:
            self._write(partition, shard, place, None, None, ShareStateKind.SNAPSHOT, done)

    # -- writes ------------------------------------------------------------------------------------------------------------
    def _update(self, place: SharePartitionKey, change: StateUpdate, done: Done) -> None:
        partition, shard, error = self.find(coordinator_key(place))
        if error or shard is None or place not in shard.states:
            done(error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        known = shard.states[place]
        state = apply_update(known.state, change, self._clock().wall_ms)
        if known.updates >= self._updates_per_snapshot:
            state = replace(state, snapshot_epoch=state.snapshot_epoch + 1)
            self._write(partition, shard, place, state, formats.snapshot(state), ShareStateKind.SNAPSHOT, done)
        else:
            value = formats.update(state.snapshot_epoch, change)
            self._write(partition, shard, place, state, value, ShareStateKind.UPDATE, done)

    def _write(
        self,
        partition: int,
        shard: ShareStateShard,
        place: SharePartitionKey,
        state: ShareState | None,
        value: bytes | None,
        kind: ShareStateKind,
        done: Done,
    ) -> None:
        """Append a record and answer when it is replicated. Later requests see the new state immediately; reads wait for the replication."""
        before = shard.states.get(place)
        offset = self._log.end_offset(partition)
        number = shard.numbers = shard.numbers + 1
        at_once = True

        def on_written(error: int) -> None:
            if shard.waiting.pop(number, None) is None:
                return  # answered when the broker resigned
            known = shard.states.get(place)
            if error and error in REJECTED_BEFORE_APPEND and at_once:
                done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            elif error:
                self._reload(partition, shard, error)
                done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                if known is not None and not at_once:
                    known.pending -= 1
                done(ErrorCode.NONE)

        shard.waiting[number] = done
        record = Record(0, self._clock().wall_ms, formats.key(kind, place), value)
        self._log.append(partition, build([record]), shard.epoch, on_written)
        at_once = False
        applied = number in shard.waiting or self._log.end_offset(partition) > offset
        if self.shards.get(partition) is not shard or not applied:
            return
        pending = int(number in shard.waiting)
        if state is None:
            shard.states.pop(place, None)
        elif kind is ShareStateKind.SNAPSHOT:
            shard.states[place] = StoredState(state, offset, 0, pending + (before.pending if before is not None else 0))
        elif before is not None:
            before.state, before.updates, before.pending = state, before.updates + 1, before.pending + pending


def _ignore_result(error: int) -> None:
    """Ignore the result: a failed deletion is repeated later."""
