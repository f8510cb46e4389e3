"""Replay of records of __consumer_offsets into groups of all types. Does not read the log.

Invariants: a later record replaces an earlier one. The last group record decides the protocol of a group. A group keeps its offsets when its
protocol changes. An invalid record raises ValueError.
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd.coordinator.classic import records
from brokerd.coordinator.classic.group import Group
from brokerd.coordinator.classic.offsets import GroupOffsets
from brokerd.coordinator.consumer import records as consumer_records
from brokerd.coordinator.consumer.events import ConsumerGroupChange, GroupRecordKey
from brokerd.coordinator.consumer.mixed_group import MixedGroup
from brokerd.coordinator.share_group import records as share_records
from brokerd.coordinator.share_group.events import ShareGroupChange, ShareRecordKey
from brokerd.coordinator.share_group.group import ShareGroup
from brokerd.coordinator.streams_group import records as streams_records
from brokerd.coordinator.streams_group.events import StreamsGroupChange, StreamsRecordKey
from brokerd.coordinator.streams_group.group import StreamsGroup
from brokerd.coordinator.streams_group.state import INITIAL_EPOCH
from brokerd.wire.records import Record

AnyGroup = Group | MixedGroup | ShareGroup | StreamsGroup


class Replay:
    """`classic`, `consumer` and `streams` create an empty group from a group id and its offsets, `share` from a group id."""

    def __init__(
        self,
        classic: Callable[[str, GroupOffsets], Group],
        consumer: Callable[[str, GroupOffsets], MixedGroup],
        share: Callable[[str], ShareGroup],
        streams: Callable[[str, GroupOffsets], StreamsGroup],
    ) -> None:
        self._classic, self._consumer, self._share, self._streams = classic, consumer, share, streams

    def read(self, groups: dict[str, AnyGroup], record: Record, producer_id: int | None) -> str | None:
        """Apply a record. Returns the group id of a transactional offset commit, otherwise None."""
        key = record.key or b""
        kind = int.from_bytes(key[:2], "big")
        if kind in consumer_records.KEY_TYPES:
            self._apply_group_record(groups, record)
            return None
        if kind in share_records.KEY_TYPES:
            self._apply_share_record(groups, record)
            return None
        if kind in streams_records.KEY_TYPES:
            self._apply_streams_record(groups, record)
            return None
        name = records.read_key(key)
        if name.topic is not None:
            group = groups.get(name.group_id) or groups.setdefault(
                name.group_id, self._classic(name.group_id, GroupOffsets())
            )
            place = (name.topic, name.partition)
            if record.value is None:
                group.commits.forget(place, record.offset)
                return None
            group.commits.place(place, records.read_offset(record.value), record.offset, producer_id)
            return name.group_id if producer_id is not None else None
        group_of_record = groups.get(name.group_id)
        if record.value is None:
            # The tombstone deletes the group but not its offsets, because a group of the consumer protocol may own them now.
            if isinstance(group_of_record, Group):
                groups[name.group_id] = self._classic(name.group_id, group_of_record.commits)
            return None
        if not isinstance(group_of_record, Group):
            group_of_record = groups[name.group_id] = self._classic(
                name.group_id, group_of_record.commits if group_of_record else GroupOffsets()
            )
        records.read_group(group_of_record, record.value)
        return None

    def _apply_group_record(self, groups: dict[str, AnyGroup], record: Record) -> None:
        group_id, fact, name = consumer_records.read_key(record.key or b"")
        known = groups.get(group_id)
        if fact is None:
            return
        if record.value is None:
            if isinstance(known, MixedGroup):
                if fact is GroupRecordKey.GROUP:
                    groups[group_id] = self._classic(group_id, known.commits)
                else:
                    known.apply(ConsumerGroupChange(fact, name, None), record.timestamp)
            return
        value = consumer_records.read_value(fact, record.value)
        if not isinstance(known, MixedGroup):
            known = groups[group_id] = self._consumer(group_id, known.commits if known else GroupOffsets())
        known.apply(ConsumerGroupChange(fact, name, value), record.timestamp)

    def _apply_share_record(self, groups: dict[str, AnyGroup], record: Record) -> None:
        group_id, fact, name = share_records.read_key(record.key or b"")
        known = groups.get(group_id)
        if record.value is None:
            if isinstance(known, ShareGroup):
                if fact is ShareRecordKey.GROUP:
                    del groups[group_id]
                else:
                    known.apply(ShareGroupChange(fact, name, None), record.timestamp)
            return
        if not isinstance(known, ShareGroup):
            known = groups[group_id] = self._share(group_id)
        known.apply(ShareGroupChange(fact, name, share_records.read_value(fact, record.value)), record.timestamp)

    def _apply_streams_record(self, groups: dict[str, AnyGroup], record: Record) -> None:
        group_id, fact, name = streams_records.read_key(record.key or b"")
        known = groups.get(group_id)
        if record.value is None:
            if isinstance(known, StreamsGroup):
                if fact is StreamsRecordKey.GROUP:
                    groups[group_id] = self._classic(group_id, known.commits)
                else:
                    known.apply(StreamsGroupChange(fact, name, None), record.timestamp)
            return
        value = streams_records.read_value(fact, record.value)
        if not isinstance(known, StreamsGroup):
            known = groups[group_id] = self._streams(group_id, known.commits if known else GroupOffsets())
        known.apply(StreamsGroupChange(fact, name, value), record.timestamp)


def has_only_tombstones(group: AnyGroup) -> bool:
    """Return whether the log has nothing but tombstones of the group. An empty classic group without offsets is equivalent."""
    if group.members or not group.commits.none or isinstance(group, Group):
        return not group.members and group.commits.none
    return group.epoch <= INITIAL_EPOCH if isinstance(group, StreamsGroup) else not group.epoch
