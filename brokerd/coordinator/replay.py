"""A record of __consumer_offsets becomes part of the group it speaks of, of whichever protocol.

Laws: what stands later counts; a group is of the protocol whose record came last, and its offsets are its own in both; a record that cannot
be read raises ValueError. Called by `groups` while it loads, and by tests. Must not come in: the log's reading.
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd.coordinator import consumer_records, records
from brokerd.coordinator.consumer_events import Change, Fact
from brokerd.coordinator.group import Group
from brokerd.coordinator.mixed_group import MixedGroup
from brokerd.coordinator.offsets import Commits
from brokerd.wire.records import Record

AnyGroup = Group | MixedGroup


class Replay:
    """`classic` and `consumer` make an empty group of an id with given offsets."""

    def __init__(
        self, classic: Callable[[str, Commits], Group], consumer: Callable[[str, Commits], MixedGroup]
    ) -> None:
        self._classic, self._consumer = classic, consumer

    def read(self, groups: dict[str, AnyGroup], record: Record, producer_id: int | None) -> str | None:
        """The id of the group whose offsets a transaction has changed, if it was that."""
        key = record.key or b""
        if int.from_bytes(key[:2], "big") in consumer_records.KEY_TYPES:
            self._fact(groups, record)
            return None
        name = records.read_key(key)
        if name.topic is not None:
            group = groups.get(name.group_id) or groups.setdefault(
                name.group_id, self._classic(name.group_id, Commits())
            )
            place = (name.topic, name.partition)
            if record.value is None:
                group.commits.forget(place)
                return None
            group.commits.place(place, records.read_offset(record.value), record.offset, producer_id)
            return name.group_id if producer_id is not None else None
        known = groups.get(name.group_id)
        if record.value is None:
            # Of the group, not of its offsets: another protocol may have taken them over.
            if isinstance(known, Group):
                groups[name.group_id] = self._classic(name.group_id, known.commits)
            return None
        if not isinstance(known, Group):
            known = groups[name.group_id] = self._classic(name.group_id, known.commits if known else Commits())
        records.read_group(known, record.value)
        return None

    def _fact(self, groups: dict[str, AnyGroup], record: Record) -> None:
        group_id, fact, name = consumer_records.read_key(record.key or b"")
        known = groups.get(group_id)
        if fact is None:
            return
        if record.value is None:
            if isinstance(known, MixedGroup):
                if fact is Fact.GROUP:
                    groups[group_id] = self._classic(group_id, known.commits)
                else:
                    known.apply(Change(fact, name, None), record.timestamp)
            return
        value = consumer_records.read_value(fact, record.value)
        if not isinstance(known, MixedGroup):
            known = groups[group_id] = self._consumer(group_id, known.commits if known else Commits())
        known.apply(Change(fact, name, value), record.timestamp)
