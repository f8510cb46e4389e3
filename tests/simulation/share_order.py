"""The rules of a share group that keeps the order of each key (`weir.share.key.order.enable`), for the worlds `--share-order`.

While a member holds a record, the same leader gives no other record with its key to another member. A leader delivers the records of a key in the
order of their offsets: an earlier record has ended, or the same member holds it. The keys are read from the logs, without the product's slots.
Does not check: two leaders one after the other (as without key order, a new leader does not know the locks), changes of the setting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from zlib import crc32

from brokerd.config.share_groups import KEY_ORDER
from brokerd.replication.replica import Replica
from brokerd.sharing.delivery import Acquired, RecordState
from brokerd.sharing.sessions import ShareSession
from brokerd.sharing.share_partition import SharePartition
from brokerd.wire.records import Record, iterate
from tests.simulation.checkers import Violation
from tests.simulation.clients import Producer
from tests.simulation.share_checker import Copy, Leader, Place, ShareChecker
from tests.simulation.world import World

KEYS = (b"a", b"b", b"c", None)
ORDERED = {KEY_ORDER: "true"}
READ_BYTES = 64 * 1024


class KeyedProducer(Producer):
    """Writes records of few keys, so that most records in flight share their key with others."""

    def record(self, position: int, value: bytes) -> Record:
        return Record(position, self.clock().wall_ms, KEYS[crc32(value) % len(KEYS)], value)


class KeyOrderChecker(ShareChecker):
    def __init__(self, world: World, lock_ms: int, deliveries_max: int) -> None:
        super().__init__(world, lock_ms, deliveries_max)
        self._keys: dict[Place, bytes | None] = {}

    def on_acquired(
        self, core: SharePartition, session: ShareSession, acquired: Sequence[Acquired], now_ms: int
    ) -> None:
        super().on_acquired(core, session, acquired, now_ms)
        leader, member = self.leaders[id(core)], session.member_id
        offsets = [o for a in acquired for o in range(a.first, a.last + 1)]
        waiting = self._available(leader, offsets[-1])
        for offset in offsets:
            key = self._key(leader.replica, leader.place.partition, offset)
            if key is None:
                continue
            others = {r.member for r in self._held_with(leader, key)} - {member}
            if others:
                raise Violation(f"{leader.place}: {offset} goes to {member}; {others} holds a record with its key")
            if any(self._key(leader.replica, leader.place.partition, w) == key for w in waiting if w < offset):
                raise Violation(f"{leader.place}: {offset} goes to {member}, and an earlier record of its key waits")
        self.world.reached["delivery while records of other keys wait"] += bool(waiting)

    def _held_with(self, leader: Leader, key: bytes) -> Iterator[Copy]:
        held = [(offset, r) for offset, r in leader.records.items() if r.state is RecordState.ACQUIRED]
        yield from (r for offset, r in held if self._key(leader.replica, leader.place.partition, offset) == key)

    @staticmethod
    def _available(leader: Leader, end: int) -> list[int]:
        records = leader.records
        return [
            o
            for o in range(leader.start, end)
            if (records[o].state if o in records else RecordState.AVAILABLE) is RecordState.AVAILABLE
        ]

    def _key(self, replica: Replica, partition: int, offset: int) -> bytes | None:
        place = (partition, offset)
        if place not in self._keys:
            data = replica.log.read(offset, READ_BYTES, replica.core.high_watermark).bytes()
            self._keys.update({(partition, r.offset): r.key for r in iterate(data)})
        return self._keys[place]
