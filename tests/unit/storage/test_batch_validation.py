"""Validation of the records in a batch: everything that a strict reader would reject is rejected, with Kafka's error code, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd.cluster.configs import TopicConfig
from brokerd.storage.batch_validation import RECORD_ERRORS_MAX, Rejection, Rules, Walk, rules_of, validate_batch
from brokerd.wire import records
from brokerd.wire.compression import compress
from brokerd.wire.errors import ErrorCode
from brokerd.wire.record_walks import batch_is_valid
from brokerd.wire.records import HEADER_BYTES, TIMESTAMP_TYPE, BatchHeader, Record, UnpackBudget
from brokerd.wire.steps import run_now
from tests.fuzz.reader import Unreadable, read_strictly

NOW = 1_700_000_000_000
ANY = Rules()


def varint(n: int) -> bytes:
    """Zigzag encoding, as in records."""
    out = bytearray()
    n = (n << 1) ^ (n >> 63)
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


@dataclass
class RawRecord:
    """A record in which any field can be wrong. None: the correct value."""

    offset_delta: int | None = None
    timestamp_delta: int = 0
    key: bytes | None = None
    value: bytes | None = b"value"
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    length: int | None = None
    key_length: int | None = None
    value_length: int | None = None
    header_count: int | None = None

    def encode(self, index: int) -> bytes:
        body = b"\0" + varint(self.timestamp_delta) + varint(index if self.offset_delta is None else self.offset_delta)
        for field, length in ((self.key, self.key_length), (self.value, self.value_length)):
            said = (-1 if field is None else len(field)) if length is None else length
            body += varint(said) + (field or b"")
        body += varint(len(self.headers) if self.header_count is None else self.header_count)
        for name, value in self.headers:
            body += varint(len(name)) + name + varint(-1 if value is None else len(value)) + (value or b"")
        return varint(len(body) if self.length is None else self.length) + body


def batch_with_records(
    data: bytes, count: int, *, base: int = NOW, newest: int | None = None, codec: int = 0, flags: int = 0
) -> bytes:
    """A batch of `count` records with these bytes inside and a correct header."""
    header = BatchHeader(
        0, 0, -1, 2, 0, codec | flags, count - 1, base, base if newest is None else newest, -1, -1, -1, count
    )
    return bytes(records.build_from_payload(header, compress(data, codec)))


def batch(*raw: RawRecord, **more: int) -> bytes:
    return batch_with_records(b"".join(r.encode(i) for i, r in enumerate(raw)), len(raw), **more)


def verdict(data: bytes, rules: Rules = ANY, budget: UnpackBudget | None = None) -> Rejection | int:
    ((pos, header),) = records.check(data)
    found = run_now(validate_batch(data, pos, header, rules, budget or UnpackBudget()))
    accepted = not header.compression and found == header.max_timestamp
    assert batch_is_valid(data, *rules) == accepted
    return found


def rejection_of(data: bytes, rules: Rules = ANY) -> Rejection:
    found = verdict(data, rules)
    assert isinstance(found, Rejection), "accepted"
    return found


@pytest.mark.parametrize("codec", range(5))
def test_valid_batches_are_accepted_with_their_largest_timestamp(codec: int) -> None:
    rng = random.Random(1)
    for count in (1, 2, 63, 64, 65, 200, 8193):
        made = [
            Record(
                i,
                NOW + rng.choice((0, 1, -5, 100, 20_000)),
                rng.choice((None, b"", b"k" * 70)),
                rng.choice((None, b"", b"v" * 100, rng.randbytes(rng.choice((3, 300))))),
                rng.choice(((), (), (("h", None), ("", b"x" * 130)))),
            )
            for i in range(count)
        ]
        data = records.build(made, compression=codec)
        assert verdict(data) == max(r.timestamp for r in made)


def test_the_largest_timestamp_is_computed_and_not_taken_from_the_header() -> None:
    assert (
        verdict(batch(RawRecord(), RawRecord(timestamp_delta=7), RawRecord(timestamp_delta=-9), newest=NOW + 10**9))
        == NOW + 7
    )
    assert verdict(batch(RawRecord(), base=-1)) == -1
    assert verdict(batch(RawRecord(timestamp_delta=-5))) == NOW - 5


GARBAGE: dict[str, Callable[[], bytes]] = {
    "one delta out of nowhere": lambda: batch(RawRecord(offset_delta=1_000_000_000)),
    "ten records of 0xff": lambda: batch_with_records(b"\xff" * 80, 10),
    "zeros": lambda: batch_with_records(b"\0" * 80, 10),
    "a delta twice": lambda: batch(RawRecord(), RawRecord(offset_delta=0)),
    "a delta left out": lambda: batch(RawRecord(), RawRecord(offset_delta=2), RawRecord()),
    "a negative delta": lambda: batch(RawRecord(offset_delta=-1)),
    "bytes behind the last record": lambda: batch_with_records(RawRecord().encode(0) + b"\0", 1),
    "fewer records than said": lambda: batch_with_records(RawRecord(value=b"v" * 100).encode(0), 3),
    "a length beyond the batch": lambda: batch(RawRecord(length=5_000)),
    "a length too short": lambda: batch(RawRecord(length=3), RawRecord()),
    "a negative length": lambda: batch(RawRecord(length=-1)),
    "a key beyond the record": lambda: batch(RawRecord(key=b"k", key_length=500), RawRecord()),
    "a value beyond the record": lambda: batch(RawRecord(value_length=6), RawRecord()),
    "a value shorter than the record": lambda: batch(RawRecord(value_length=4), RawRecord()),
    "headers that are not there": lambda: batch(RawRecord(header_count=1_000_000), RawRecord()),
    "a negative number of headers": lambda: batch(RawRecord(header_count=-1)),
    "a header without a name": lambda: batch_with_records(b"\x10\0\0\0\1\1\2\1\1", 1),
    "a varint without end": lambda: batch_with_records(b"\xff" * 20 + b"\1", 1),
    "a timestamp of more than 64 bits": lambda: batch(RawRecord(timestamp_delta=2**63 - 1)),
}


@pytest.mark.parametrize("codec", [0, 3, 4])
@pytest.mark.parametrize("case", GARBAGE)
def test_records_that_no_consumer_could_read_are_invalid(case: str, codec: int) -> None:
    data = GARBAGE[case]()
    if codec:
        _, header = next(records.batches(data))
        data = batch_with_records(data[HEADER_BYTES:], header.record_count, codec=codec)
    found = rejection_of(data)
    assert (found.error, found.record_errors) == (ErrorCode.INVALID_RECORD, ())


def test_a_batch_that_cannot_be_decompressed_is_invalid_or_too_large() -> None:
    broken = batch_with_records(b"x" * 50, 1, codec=0, flags=4)
    assert rejection_of(broken).error == ErrorCode.INVALID_RECORD
    bomb = batch(*[RawRecord(value=b"\0" * 1000)] * 100, codec=4)
    budget = UnpackBudget()
    budget.records = 99
    found = verdict(bomb, budget=budget)
    assert isinstance(found, Rejection) and found.error == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [0, 1])
def test_ten_records_without_key_in_a_hundred_are_named(codec: int) -> None:
    """KIP-467: the producer drops the rejected records and may send the other ninety again."""
    without = set(range(3, 100, 10))
    data = batch(*(RawRecord(key=None if i in without else b"key") for i in range(100)), codec=codec)
    assert verdict(data) == NOW
    found = rejection_of(data, Rules(keyed=True))
    assert found.error == ErrorCode.INVALID_RECORD
    assert {e.batch_index for e in found.record_errors} == without
    assert all("key" in e.message for e in found.record_errors)


def test_a_batch_without_keys_names_a_bounded_number_of_records() -> None:
    found = rejection_of(batch(*[RawRecord()] * 5_000), Rules(keyed=True))
    assert [e.batch_index for e in found.record_errors] == list(range(RECORD_ERRORS_MAX))


def test_timestamps_out_of_range_are_named_and_decide_the_code() -> None:
    raw = [RawRecord(key=b"k", timestamp_delta=d) for d in (0, -1_001, 5, 501, -1_000, 500)]
    config = TopicConfig.from_overrides(
        {
            "message.timestamp.before.max.ms": "1000",
            "message.timestamp.after.max.ms": "500",
            "cleanup.policy": "compact",
        }
    )
    found = rejection_of(batch(*raw, RawRecord()), rules_of(config, NOW))
    assert found.error == ErrorCode.INVALID_TIMESTAMP
    assert {e.batch_index for e in found.record_errors} == {1, 3, 6}
    assert verdict(batch(RawRecord(key=b"k"), base=-1), rules_of(config, NOW)) == -1, (
        "without a timestamp, nothing is out of range"
    )
    stamped = TopicConfig.from_overrides(
        {"message.timestamp.type": "LogAppendTime", "message.timestamp.before.max.ms": "1"}
    )
    assert verdict(batch(*raw), rules_of(stamped, NOW)) == NOW + 501
    many = [RawRecord(timestamp_delta=0)] * 30 + [RawRecord(timestamp_delta=60)] + [RawRecord(timestamp_delta=0)] * 30
    far = rejection_of(batch(*many), Rules(False, NOW - 10, NOW + 50))
    assert [e.batch_index for e in far.record_errors] == [30]


def test_without_a_limit_every_timestamp_is_accepted() -> None:
    """Kafka compares a difference with Long.MAX_VALUE, which no difference exceeds."""
    for config in (TopicConfig.from_overrides({}), TopicConfig.from_overrides({"message.timestamp.after.max.ms": "9"})):
        assert verdict(batch(RawRecord(), base=-(2**63)), rules_of(config, NOW)) == -1


def test_only_brokers_stamp_append_times() -> None:
    assert rejection_of(batch(RawRecord(), flags=TIMESTAMP_TYPE)).error == ErrorCode.INVALID_TIMESTAMP


def test_the_validation_stops_after_the_requested_number_of_records() -> None:
    data = batch(*(RawRecord(value=b"v" * (i % 7)) for i in range(1_000)))
    ((_, header),) = records.check(data)
    walk, steps = Walk(data[HEADER_BYTES:], header, ANY), 0
    while walk.step(256):
        steps += 1
    assert (steps, walk.result()) == (3, NOW)


# -- compared with a slow and strict reader --------------------------------------------------------------------------------


def is_valid_in_both(data: bytes, count: int) -> bool:
    header = records.peek(batch_with_records(data, count))
    walk = Walk(data, header, Rules(keyed=True))
    found = walk.verdict()
    try:
        newest, unkeyed = read_strictly(data, count, NOW)
    except Unreadable:
        assert walk.problem is not None, "no strict reader could read this"
        return False
    assert walk.problem is None, f"sound, but {walk.problem}"
    if unkeyed:
        assert isinstance(found, Rejection)
        assert [e.batch_index for e in found.record_errors] == unkeyed[:RECORD_ERRORS_MAX]
    else:
        assert found == newest
    return True


SHAPES = st.builds(
    RawRecord,
    timestamp_delta=st.sampled_from((0, 0, 0, 1, 5, -3, 63, 64, 300, 9_000, 2_000_000)),
    key=st.sampled_from((None, b"", b"key", b"k" * 70)),
    value=st.sampled_from((None, b"", b"v" * 12, b"v" * 12, b"v" * 100, b"v" * 9_000)),
    headers=st.sampled_from(((), (), (), ((b"h", b"x"),), ((b"", None), (b"n" * 70, b"")))),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(SHAPES, min_size=1, max_size=6), st.sampled_from((1, 8, 30, 70)), st.randoms(use_true_random=False))
def test_the_validation_agrees_with_a_slow_reference_reader(
    shapes: list[RawRecord], repeats: int, rng: random.Random
) -> None:
    """Runs of equal records and the records between them, unchanged and with a few bytes changed."""
    raw = [r for shape in shapes for r in [shape] * rng.randint(1, repeats)]
    data = bytearray(b"".join(r.encode(i) for i, r in enumerate(raw)))
    assert is_valid_in_both(bytes(data), len(raw))
    small = [i for i, b in enumerate(data[:20_000]) if b != ord("v")]
    for _ in range(15):
        wrong = bytearray(data)
        for _ in range(rng.choice((1, 1, 2))):
            at = rng.choice(small)
            wrong[at] = rng.choice((0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFF, wrong[at] ^ 2, wrong[at] ^ 0x80))
        is_valid_in_both(bytes(wrong), len(raw))


def test_each_byte_of_a_run_is_compared() -> None:
    """A run is checked by columns. The columns contain every byte of a length, in every record."""
    for key, value, delta in (
        (None, b"v" * 3, 0),
        (b"k" * 5, b"v" * 70, 0),
        (b"", b"v" * 3, 300),
        (b"k" * 70, None, 5),
    ):
        raw = [RawRecord(key=key, value=value, timestamp_delta=delta)] * 80
        encoded = [r.encode(i) for i, r in enumerate(raw)]
        data = b"".join(encoded)
        assert is_valid_in_both(data, len(raw))
        for wrong in (2, 40, 70):
            first = len(b"".join(encoded[:wrong]))
            for at in (first + i for i, byte in enumerate(encoded[wrong]) if byte not in b"vk"):
                for change in (1, 2, 0x80):
                    is_valid_in_both(data[:at] + bytes((data[at] ^ change,)) + data[at + 1 :], len(raw))
