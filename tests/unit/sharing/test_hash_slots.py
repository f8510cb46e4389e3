"""Key order of a share partition: who may acquire which records, and random histories in which no key has two holders."""

from __future__ import annotations

import random
from types import ModuleType

import pytest

from brokerd.sharing import hash_slots
from brokerd.sharing.delivery import Acknowledgement, AcknowledgeType, Acquired, LogBatch, RecordState
from brokerd.sharing.hash_slots import SLOTS, UNORDERED, HashSlots, batch_slots, slot_of
from brokerd.sharing.share_partition import SharePartition
from brokerd.wire import key_walk
from brokerd.wire.compression import GZIP, NONE
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import HEADER_BYTES, Record, batches, build

_, ACCEPT, RELEASE, REJECT, _ = AcknowledgeType
LOCK_MS = 1_000
Keys = tuple[bytes | None, ...]


def batch(first: int, keys: Keys, *, compression: int = NONE, control: bool = False) -> bytes:
    records = [Record(i, 1, key, b"v") for i, key in enumerate(keys)]
    return build(records, base_offset=first, compression=compression, control=control)


class KeyedPartition:
    """A share partition over a log of keyed batches."""

    def __init__(self, *batches: Keys, locks_max: int = 200, deliveries_max: int = 5) -> None:
        self.share = SharePartition(1, 0, 0, 0, LOCK_MS, deliveries_max, locks_max)
        self.keys: list[bytes | None] = []
        self.log: list[tuple[LogBatch, bytes]] = []
        for keys in batches:
            first = len(self.keys)
            self.keys += keys
            self.log.append((LogBatch(first, len(self.keys) - 1), batch(first, keys)))

    def take(self, member: str, n: int = 500, *, exact: bool = False, now: int = 0, reads: int = 9) -> list[Acquired]:
        self.share.keep_key_order(True)
        offset = self.share.fetch_offset(member)
        if offset is None or self.share.slots is None:
            return []
        found = [b for b in self.log if b[0].last >= offset][:reads]
        data = b"".join(data for _, data in found)
        self.share.slots.learn(data, self.share.start, self.share.start + self.share.locks_max)
        out = self.share.acquire(member, offset, [b for b, _ in found], n, now, exact=exact)
        self.share.validate()
        return out

    def acknowledge(self, member: str, kind: AcknowledgeType, *offsets: int) -> None:
        for offset in offsets:
            acknowledged = self.share.acknowledge(member, [Acknowledgement(offset, offset, (kind,))], 0)
            assert acknowledged == ErrorCode.NONE
            self.share.validate()


def offsets(acquired: list[Acquired]) -> list[int]:
    return [o for a in acquired for o in range(a.first, a.last + 1)]


A, B, C = b"a", b"b", b"c"


def test_a_member_gets_no_record_of_a_key_that_another_member_holds() -> None:
    p = KeyedPartition((A, B, A), (B, C, A))
    assert offsets(p.take("x", 1, exact=True)) == [0]
    assert offsets(p.take("y")) == [1, 3, 4], "the records with key a wait for x"
    assert p.take("z") == []
    p.acknowledge("x", ACCEPT, 0)
    assert offsets(p.take("z")) == [2, 5]


def test_a_member_gets_more_records_of_the_keys_that_it_holds() -> None:
    p = KeyedPartition((A, A), (A, B))
    assert offsets(p.take("x", 1)) == [0, 1], "a batch as a whole"
    assert offsets(p.take("x")) == [2, 3]


def test_a_released_record_comes_before_later_records_of_its_key() -> None:
    p = KeyedPartition((A, A, A))
    assert offsets(p.take("x", 2, exact=True)) == [0, 1]
    p.acknowledge("x", RELEASE, 0)
    assert p.take("y") == [], "x still holds a record with this key"
    p.acknowledge("x", RELEASE, 1)
    assert offsets(p.take("y", 1, exact=True)) == [0]
    assert p.take("x") == []


def test_locks_that_end_free_their_keys() -> None:
    p = KeyedPartition((A, A, B))
    assert offsets(p.take("x", 1, exact=True)) == [0]
    assert p.share.expire(LOCK_MS)
    assert offsets(p.take("y", 2, exact=True, now=LOCK_MS)) == [0, 1]
    assert p.share.release("y")
    assert offsets(p.take("z", now=LOCK_MS)) == [0, 1, 2]


def test_records_without_a_key_have_no_order() -> None:
    p = KeyedPartition((None, A, None, None))
    assert offsets(p.take("x", 1, exact=True)) == [0]
    assert offsets(p.take("y")) == [1, 2, 3]
    assert slot_of(None) == UNORDERED and 0 <= slot_of(b"") < SLOTS


def test_a_key_that_waits_does_not_hide_later_keys() -> None:
    """More records than one read returns wait for their key."""
    p = KeyedPartition(*[(A,) * 10] * 10, (B,))
    assert offsets(p.take("x", 1, exact=True)) == [0]
    found: list[int] = []
    for _ in range(11):
        found += offsets(p.take("y", reads=1))
    assert found == [100]


def test_the_limit_of_records_in_flight_includes_waiting_records() -> None:
    p = KeyedPartition((A,) * 60, (A,) * 60, (B,) * 60, locks_max=100)
    assert offsets(p.take("x", 1, exact=True)) == [0]
    assert p.take("y") == [] and p.share.fetch_offset("y") is None
    p.acknowledge("x", ACCEPT, 0)
    assert offsets(p.take("y", 5, exact=True)) == [1, 2, 3, 4, 5]


def test_records_acquired_before_the_order_was_required_end_first() -> None:
    p = KeyedPartition((A, B, A, C))
    assert offsets(p.share.acquire("x", 0, [p.log[0][0]], 2, 0, exact=True)) == [0, 1]
    assert p.take("y") == [], "the keys of the records of x are unknown"
    assert p.take("y") == []
    p.acknowledge("x", RELEASE, 0)
    p.acknowledge("x", ACCEPT, 1)
    assert offsets(p.take("y")) == [0, 2, 3]
    p.share.keep_key_order(False)
    assert p.share.slots is None and p.share.fetch_offset() == 4


@pytest.mark.parametrize("compression", [NONE, GZIP])
def test_slots_are_learned_from_the_start_to_the_limit(compression: int) -> None:
    slots = HashSlots()
    data = batch(10, (A, B, C, None, A), compression=compression) + batch(15, (C,), control=True)
    slots.learn(data, 11, 14)
    assert [o for o in range(20) if slots.may_acquire(o, o, "x")[0]] == [11, 12, 13]
    slots.learn(data, 11, 20)
    assert [o for o in range(20) if slots.may_acquire(o, o, "x")[0]] == [11, 12, 13, 14, 15]
    slots.hold(14, 14, "x")
    assert slots.may_acquire(14, 14, "x")[0] and not slots.may_acquire(14, 14, "y")[0]
    assert slots.may_acquire(11, 11, "y")[0] and not slots.may_acquire(30, 30, "y")[0], "the slot of 30 is unknown"
    slots.end(14, 14)
    slots.forget(11, 14)
    assert not slots.may_acquire(14, 14, "x")[0] and slots.may_acquire(15, 15, "x")[0]


def test_a_batch_that_cannot_be_decoded_has_no_order() -> None:
    damaged = bytearray(batch(0, (A, B)))
    damaged[61] = 0x7E  # the length of the first record
    slots = HashSlots()
    slots.learn(bytes(damaged), 0, 100)
    assert slots.may_acquire(1, 1, "y")[0]


@pytest.mark.parametrize("seed", range(40))
def test_no_key_has_two_holders_and_no_earlier_record_of_a_key_is_available(seed: int) -> None:
    r = random.Random(seed)
    batches = [tuple(r.choice((A, B, C, None)) for _ in range(r.randrange(1, 6))) for _ in range(60)]
    p = KeyedPartition(*batches, locks_max=40, deliveries_max=3)
    holder: dict[int, str] = {}
    ended: set[int] = set()
    now = 0

    def check(acquired: list[Acquired], member: str) -> None:
        for o in offsets(acquired):
            key = p.keys[o]
            others = {holder[h] for h in holder if p.keys[h] == key and holder[h] != member}
            assert key is None or not others, f"{o}: {others} hold the key {key!r}"
            waiting = [e for e in range(p.share.start, o) if p.keys[e] == key and e not in holder and e not in ended]
            assert key is None or not waiting, f"{o} is delivered before {waiting}"
            holder[o] = member

    for _ in range(400):
        now += r.randrange(LOCK_MS // 4)
        member = r.choice("xyz")
        act = r.randrange(8)
        if act < 4:
            check(p.take(member, r.randrange(1, 8), exact=r.random() < 0.5, now=now, reads=r.randrange(1, 4)), member)
        elif act < 7 and (mine := [o for o in holder if holder[o] == member]):
            o, kind = r.choice(mine), r.choice((ACCEPT, ACCEPT, RELEASE, REJECT))
            if p.share.acknowledge(member, [Acknowledgement(o, o, (kind,))], now) == ErrorCode.NONE:
                del holder[o]
        elif act == 7 and r.random() < 0.2:
            p.share.release(member)
        p.share.expire(now)
        p.share.validate()
        states = {o: run for run in p.share.runs for o in range(run.first, run.last + 1)}
        held = {o: run.member for o, run in states.items() if run.state is RecordState.ACQUIRED}
        ended |= {o for o, run in states.items() if run.state.final} | set(range(p.share.start))
        holder = held
    assert len(ended) > 50


@pytest.mark.parametrize("compression", [NONE, GZIP])
@pytest.mark.parametrize("walk", [None, key_walk], ids=["records", "walk"])
def test_the_slots_of_a_batch_do_not_depend_on_the_walk(
    walk: ModuleType | None, compression: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_slots, "_walk", walk)
    keys = (b"a", None, b"", b"b" * 300)
    data = batch(7, keys, compression=compression)
    ((_, header),) = batches(data)
    assert batch_slots(data, 0, header) == {7 + i: slot_of(key) for i, key in enumerate(keys)}
    damaged = data[:HEADER_BYTES] + b"\xff" * 10 + data[HEADER_BYTES + 10 :]
    assert batch_slots(damaged, 0, header) == {}


def test_adjacent_records_with_the_same_result_are_found_together() -> None:
    slots = HashSlots()
    slots.learn(batch(0, (A, A, B, C, B)), 0, 5)
    slots.hold(2, 2, "x")
    assert slots.may_acquire(0, 4, "y") == (True, 1), "A is free, B is held by another member"
    assert slots.may_acquire(2, 4, "y") == (False, 2)
    assert slots.may_acquire(2, 9, "x") == (True, 4), "the slots from 5 on are unknown"
    assert slots.may_acquire(5, 9, "x") == (False, 9)
