"""The hash slots of the records in flight of a share partition, for share groups that keep the order of each key (decision 100). Pure.

Records with the same key are in the same slot. A member holds a slot while it holds a record of the slot. No other member then acquires a record of
it. A member acquires available records in the order of their offsets. So the records of a key are never processed by two members at the same time.
Invariant: the slot of each acquired record is known, except for records that were acquired before the order was required (`has_unknown_holders`).
Does not contain: delivery states (`share_partition`).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from crc32c import crc32c

from brokerd.sharing.delivery import OffsetRun, RecordState
from brokerd.storage.key_hashes import batch_records
from brokerd.wire import key_walk
from brokerd.wire.compiled import find_compiled
from brokerd.wire.records import BatchHeader, CorruptBatch, batches, records_of

SLOTS = 16_384
"""Number of hash slots. Different keys of one slot only wait for each other."""
UNORDERED = -1
"""The slot of an offset without a record, or whose record has no key."""
_walk = find_compiled(key_walk)


def slot_of(key: bytes | None) -> int:
    return UNORDERED if key is None else crc32c(key) % SLOTS


def batch_slots(data: bytes, at: int, header: BatchHeader) -> dict[int, int]:
    """{offset: slot} of the records of the batch at `at`, by the compiled walk where it was built. Empty for a batch that cannot be read."""
    base = header.base_offset
    if _walk is None:
        with suppress(CorruptBatch):
            return {r.offset: slot_of(r.key) for r in records_of(data, at, header)}
    else:
        with suppress(CorruptBatch, _walk.NotCollected):
            records = batch_records(data, at, header)
            found = array("Q", bytes(8 * max(0, header.record_count)))
            _walk.key_slots(records, len(found), SLOTS, found)
            return {base + (entry >> 32): (entry & 0xFFFFFFFF) - 1 for entry in found}
    return {}


@dataclass(slots=True)
class HeldSlot:
    member: str
    records: int


@dataclass(slots=True)
class HashSlots:
    has_unknown_holders: bool = False
    """Members hold records whose slots are unknown. Nothing may be acquired until their locks have ended."""
    changes: int = 0
    """Number of changes of the slots and their holders."""
    _slots: dict[int, int] = field(default_factory=dict)
    _held: dict[int, HeldSlot] = field(default_factory=dict)
    _members: dict[str, int] = field(default_factory=dict)
    """{member: number of slots that it holds}."""
    _searched: tuple[int, ...] = ()
    _first_free: int | None = None
    """The result of the last search for a member that holds no slot, and the values on which it depends: many members wait without a record."""

    def learn(self, data: bytes, start: int, end: int) -> None:
        """Learn the slots of the records in these batches from offset `start` to below `end`."""
        slots = self._slots
        for at, header in batches(data):
            first, last = max(header.base_offset, start), min(header.last_offset, end - 1)
            if first > last or last in slots:
                continue
            slots.update(dict.fromkeys(range(first, last + 1), UNORDERED))
            self.changes += 1
            if header.is_control:
                continue
            # No consumer can read the keys of a batch without a result either.
            found = batch_slots(data, at, header)
            if first == header.base_offset and last == header.last_offset:
                slots.update(found)
            else:
                slots.update((offset, slot) for offset, slot in found.items() if first <= offset <= last)

    def first_acquirable(self, runs: Sequence[OffsetRun], member: str, version: tuple[int, int]) -> int | None:
        """The first available offset that the member may acquire, or whose slot is unknown. `version` changes with the available offsets."""
        if member in self._members:
            return self._search(runs, member)
        searched = (self.changes, *version)
        if self._searched != searched:
            self._searched, self._first_free = searched, self._search(runs, member)
        return self._first_free

    def _search(self, runs: Sequence[OffsetRun], member: str) -> int | None:
        slots, held = self._slots, self._held
        for run in runs:
            if run.state is RecordState.AVAILABLE:
                for offset in range(run.first, run.last + 1):
                    slot = slots.get(offset)
                    holder = held.get(slot) if slot is not None else None
                    if holder is None or holder.member == member:
                        return offset
        return None

    def may_acquire(self, first: int, last: int, member: str) -> tuple[bool, int]:
        """(whether no other member holds the slot of the record at `first`, the last offset up to `last` with the same result). False if the slot is
        unknown."""
        slots, held = self._slots, self._held
        acquirable = False
        for offset in range(first, last + 1):
            slot = slots.get(offset)
            holder = held.get(slot) if slot is not None else None
            may = slot is not None and (holder is None or holder.member == member)
            if offset == first:
                acquirable = may
            elif may is not acquirable:
                return acquirable, offset - 1
        return acquirable, last

    def hold(self, first: int, last: int, member: str) -> None:
        self.changes += 1
        for offset in range(first, last + 1):
            slot = self._slots[offset]
            if slot == UNORDERED:
                continue
            held = self._held.get(slot)
            if held is None:
                held = self._held[slot] = HeldSlot(member, 0)
                self._members[member] = self._members.get(member, 0) + 1
            held.records += 1

    def end(self, first: int, last: int) -> None:
        """The locks of these records have ended."""
        self.changes += 1
        for offset in range(first, last + 1):
            slot = self._slots.get(offset, UNORDERED)
            held = self._held.get(slot)
            if held is None:
                continue
            held.records -= 1
            if not held.records:
                del self._held[slot]
                self._members[held.member] -= 1
                if not self._members[held.member]:
                    del self._members[held.member]

    def forget(self, first: int, last: int) -> None:
        """The delivery of these records has ended, and the start offset passes them."""
        for offset in range(first, last + 1):
            self._slots.pop(offset, None)

    def validate(self, runs: Sequence[OffsetRun]) -> None:
        if self.has_unknown_holders:
            return
        counted: dict[tuple[int, str], int] = {}
        for run in runs:
            for offset in range(run.first, run.last + 1) if run.member else ():
                slot = self._slots[offset]
                if slot != UNORDERED:
                    counted[slot, run.member] = counted.get((slot, run.member), 0) + 1
        assert counted == {(slot, h.member): h.records for slot, h in self._held.items()}, "a slot has a wrong holder"
        assert self._members == Counter(h.member for h in self._held.values()), "a member has a wrong number of slots"
