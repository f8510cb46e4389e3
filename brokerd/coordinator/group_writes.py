"""Writes of the group coordinator: batches of records, and the tombstones of groups and offsets.

Invariant: a deleted group leaves the memory when its tombstones are replicated, not before. Does not contain: groups, events, loading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from brokerd.coordinator.classic import records as formats
from brokerd.coordinator.classic.events import TopicIndex
from brokerd.coordinator.classic.group import Group
from brokerd.coordinator.consumer import records as consumer_records
from brokerd.coordinator.group_replay import AnyGroup
from brokerd.coordinator.group_shard import GroupShard
from brokerd.coordinator.shard import REJECTED_BEFORE_APPEND, ShardManager
from brokerd.coordinator.share_group import records as share_records
from brokerd.coordinator.share_group.group import ShareGroup
from brokerd.coordinator.streams_group import records as streams_records
from brokerd.coordinator.streams_group.group import StreamsGroup
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import Record, build


class GroupWrites(ShardManager[GroupShard]):
    def _records(self, pairs: Iterable[tuple[bytes, bytes | None]]) -> list[Record]:
        wall_ms = self._clock().wall_ms
        return [Record(i, wall_ms, key, value) for i, (key, value) in enumerate(pairs)]

    def _group_tombstones(self, group: AnyGroup) -> list[Record]:
        """Tombstones of the group's own records. Its committed offsets stay."""
        if isinstance(group, Group):
            return self._records([(formats.group_key(group.group_id), None)])
        if isinstance(group, ShareGroup):
            return self._records([(share_records.key(group.group_id, c), None) for c in group.tombstones()])
        if isinstance(group, StreamsGroup):
            return self._records([(streams_records.key(group.group_id, c), None) for c in group.tombstones()])
        return self._records([(consumer_records.key(group.group_id, c), None) for c in group.tombstones()])

    def _write(
        self,
        partition: int,
        shard: GroupShard,
        records: Sequence[Record],
        done: Callable[[int], None],
        producer: tuple[int, int] | None = None,
    ) -> None:
        if producer is None:
            batch = build(records)
        else:
            batch = build(
                records, producer_id=producer[0], producer_epoch=producer[1], base_sequence=0, transactional=True
            )
        self._log.append(partition, batch, shard.epoch, done)

    # -- deleting ----------------------------------------------------------------------------------------------------------
    def tombstones(
        self, group_id: str, group: AnyGroup, keys: Sequence[TopicIndex], whole: bool, done: Callable[[int], None]
    ) -> None:
        """Write tombstones of offsets and, with `whole`, of the group. They are deleted from memory as soon as the tombstones are replicated.
        Then `done(error)` is called. A rejected write deletes nothing."""
        partition, shard, error = self.find(group_id)
        if error or shard is None:
            done(error)
            return
        gone: list[tuple[bytes, bytes | None]] = [(formats.offset_key(group_id, t, p), None) for t, p in keys]
        if whole:
            gone += [(record.key or b"", None) for record in self._group_tombstones(group)]
        if not gone:
            done(ErrorCode.NONE)
            return
        if whole:
            shard.deleting.add(group_id)
        below = self._log.end_offset(partition)

        def on_written(error: int, partly: bool) -> None:
            shard.deleting.discard(group_id)
            if self.shards.get(partition) is not shard:
                pass  # the next load of the shard reads from the log whether the records were written
            elif error == ErrorCode.NONE:
                for key in keys:
                    group.commits.forget(key, below)
                if whole and shard.groups.get(group_id) is group:
                    group.end()
                    shard.replace(group, None)
            elif partly or error not in REJECTED_BEFORE_APPEND:
                self._reload(partition, shard, error)
            done(ErrorCode.NONE if error == ErrorCode.NONE else ErrorCode.COORDINATOR_NOT_AVAILABLE)

        self._write_all(partition, shard, gone, on_written)

    def _write_all(
        self,
        partition: int,
        shard: GroupShard,
        pairs: Sequence[tuple[bytes, bytes | None]],
        done: Callable[[int, bool], None],
    ) -> None:
        """Write the records in one or more batches, then call `done(error, partly)` once. `partly`: some batches may be in the log despite the error."""
        portions = list(formats.batches_of(pairs))
        left, appended = len(portions), 0
        failed: int = ErrorCode.NONE

        def on_written(error: int) -> None:
            nonlocal left, failed
            left, failed = left - 1, failed or error
            if not left:
                done(failed, appended > 0)

        for portion in portions:
            if failed:
                on_written(failed)
                continue
            self._write(partition, shard, self._records(portion), on_written)
            appended += not failed
