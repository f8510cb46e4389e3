"""The compiled record walk, its Python source and the checks by columns return the same results, for valid records and for hostile bytes. An outdated
build is not used."""

from __future__ import annotations

import random
from functools import partial
from types import ModuleType

import pytest

from brokerd.wire import record_columns, record_walk, records
from brokerd.wire.record_walk import LONG_MAX, LONG_MIN
from brokerd.wire.records import HEADER_BYTES, BatchHeader
from tests.unit.storage.test_batch_validation import GARBAGE, NOW, RawRecord

RULES = ((False, LONG_MIN, LONG_MAX), (True, LONG_MIN, LONG_MAX), (True, NOW - 10, NOW + 400))


def frame_records(data: bytes, count: int, newest: int, *, base: int = NOW, attributes: int = 0) -> bytes:
    """A batch with these records. Its CRC is not correct, because it is checked elsewhere."""
    header = BatchHeader(
        0, HEADER_BYTES - 12 + len(data), -1, 2, 0, attributes, count - 1, base, newest, -1, -1, -1, count
    )
    return records.HEADER.pack(*header) + data


def walk_result(
    module: ModuleType, data: bytes, count: int, rules: tuple[bool, int, int], *, step: int, runs: bool
) -> tuple[object, ...]:
    """The result of a walk in steps: its end and findings, or why the records are invalid."""
    progress = module.Progress()
    try:
        while progress.i < count:
            module.walk(
                data, min(count, progress.i + step), NOW, *rules, progress, record_columns.run if runs else None
            )
    except module.Invalid as e:
        return ("invalid", str(e))
    return (progress.i, progress.p, progress.newest, progress.headers, progress.unkeyed, progress.untimely)


def is_valid_in_both(compiled: ModuleType, data: bytes, count: int) -> bool:
    """Both agree under all rules, in one step and in many, by runs and record by record. Returns True for valid records."""
    sound = True
    for rules in RULES:
        expected = walk_result(record_walk, data, count, rules, step=count, runs=True)
        sound = sound and expected[0] != "invalid"
        accepted = expected[1:2] + expected[4:] == (len(data), None, None)
        newest = expected[2] if accepted else NOW
        assert isinstance(newest, int)
        for module in (record_walk, record_columns, compiled):
            assert module.batch_is_valid(frame_records(data, count, newest), *rules) == accepted
            assert not module.batch_is_valid(memoryview(frame_records(data, count, newest ^ 1)), *rules)
        for module, step, runs in (
            (compiled, count, False),
            (compiled, 7, False),
            (record_walk, count, False),
            (record_walk, 7, True),
        ):
            found = walk_result(module, data, count, rules, step=step, runs=runs)
            if expected[0] != "invalid" or step == count:
                assert found == expected
            else:
                assert found[0] == "invalid"
    return sound


@pytest.mark.parametrize("case", GARBAGE)
def test_both_walks_reject_unreadable_records(case: str, compiled_module_under_test: ModuleType) -> None:
    data = GARBAGE[case]()
    _, header = next(records.batches(data))
    body = data[HEADER_BYTES:]
    if case == "bytes behind the last record":
        assert is_valid_in_both(compiled_module_under_test, body, header.record_count)
        assert (
            walk_result(compiled_module_under_test, body, header.record_count, RULES[0], step=1, runs=False)[1]
            == len(body) - 1
        )
    elif case == "a timestamp of more than 64 bits":
        assert not is_valid_in_both(compiled_module_under_test, body, header.record_count)
    else:
        is_valid_in_both(compiled_module_under_test, body, header.record_count)


def valid_records(rng: random.Random) -> tuple[bytes, int]:
    """Records of all shapes, some of them equal in runs."""
    raw: list[RawRecord] = []
    while len(raw) < 40 or rng.random() < 0.5:
        shape = RawRecord(
            timestamp_delta=rng.choice((0, 0, 1, -3, 63, 64, 300, 9_000, -(2**40), 2**62)),
            key=rng.choice((None, b"", b"key", b"k" * 70)),
            value=rng.choice((None, b"", b"v" * 12, b"v" * 100, b"v" * 9_000)),
            headers=rng.choice(((), (), ((b"h", b"x"),), ((b"", None), (b"n" * 70, b"")))),
        )
        raw += [shape] * rng.choice((1, 1, 2, 30, 90))
    return b"".join(r.encode(i) for i, r in enumerate(raw)), len(raw)


def test_both_walks_agree_on_valid_changed_and_truncated_records(
    compiled_module_under_test: ModuleType,
) -> None:
    rng = random.Random(44)
    rejected = 0
    for _ in range(15):
        data, count = valid_records(rng)
        assert is_valid_in_both(compiled_module_under_test, data, count)
        places = [i for i, byte in enumerate(data) if byte != ord("v")]
        for _ in range(25):
            wrong = bytearray(data)
            for _ in range(rng.choice((1, 1, 3))):
                at = rng.choice(places)
                wrong[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0x81, 0xFF, wrong[at] ^ 1, wrong[at] ^ 0x80))
            rejected += not is_valid_in_both(compiled_module_under_test, bytes(wrong), count)
            rejected += not is_valid_in_both(compiled_module_under_test, data[: rng.randrange(len(data))], count)
    assert rejected > 400


ALIKE = [
    RawRecord(key=key, value=value, headers=headers, timestamp_delta=delta)
    for key in (None, b"", b"k" * 5, b"k" * 63, b"k" * 64)
    for value in (None, b"", b"v" * 3, b"v" * 63, b"v" * 64, b"v" * 300, b"v" * 8_183, b"v" * 8_184, b"v" * 8_200)
    for headers, delta in (((), 0), ((), 5), ((), -3), ((), 64), (((b"h", b"x"),), 0))
]


def test_only_whole_uncompressed_batches_with_timestamps_of_their_producer_are_accepted(
    compiled_module_under_test: ModuleType,
) -> None:
    data = RawRecord().encode(0)
    for module in (record_walk, record_columns, compiled_module_under_test):
        accepts = partial(module.batch_is_valid, keyed=False, earliest=LONG_MIN, latest=LONG_MAX)
        assert accepts(frame_records(data, 1, NOW))
        assert accepts(frame_records(data, 1, NOW, attributes=0x10)), "transactional"
        for bit in (1, 2, 4, 8):
            assert not accepts(frame_records(data, 1, NOW, attributes=bit))
        assert not accepts(frame_records(data, 1, NOW) * 2)
        assert not accepts(frame_records(RawRecord(value=b"v" * 100).encode(0), 1, NOW) + b"\0"), (
            "longer than its header says"
        )
        assert not accepts(frame_records(data, 1, NOW)[:-1])
        assert not any(accepts(frame_records(data, 1, NOW)[:size]) for size in range(HEADER_BYTES + 1))
        assert accepts(frame_records(data, 1, -1, base=-1)), "without a timestamp"
        assert accepts(frame_records(data, 1, -1, base=LONG_MIN))
        assert accepts(frame_records(data, 1, LONG_MAX, base=LONG_MAX))
        assert not accepts(frame_records(RawRecord(timestamp_delta=1).encode(0), 1, LONG_MAX, base=LONG_MAX))


@pytest.mark.parametrize("base", [LONG_MIN, LONG_MIN + 1, -(2**61) - 1, -(2**61), -1, NOW, 2**61, 2**61 + 1, LONG_MAX])
def test_timestamps_at_the_limits_of_64_bits_have_the_same_result(
    compiled_module_under_test: ModuleType, base: int
) -> None:
    """The compiled walk adds in 64 bits: a sum that does not fit them is no timestamp, and is not wrapped."""
    edges = (2**61, 2**62, 2**63)
    deltas = {
        0,
        -1,
        1,
        *(s * e + d for e in edges for s in (1, -1) for d in (-1, 0, 1)),
        LONG_MAX - base,
        LONG_MIN - base,
    }
    for delta in sorted(d for d in deltas if LONG_MIN <= d <= LONG_MAX):
        for first in (0, delta, -1):
            data = b"".join(RawRecord(timestamp_delta=d).encode(i) for i, d in enumerate((first, delta, delta)))
            stamps = {base + first, base + delta}
            readable = all(LONG_MIN <= t <= LONG_MAX for t in stamps)
            newest = max(-1, *stamps) if readable else NOW
            for earliest, latest in ((LONG_MIN, LONG_MAX), (NOW - 10, NOW + 10), (LONG_MIN, base), (base, LONG_MAX)):
                accepted = readable and all(earliest <= t <= latest or t == -1 for t in stamps)
                batch_ = frame_records(data, 3, newest, base=base)
                for module in (record_walk, record_columns, compiled_module_under_test):
                    assert module.batch_is_valid(batch_, False, earliest, latest) == accepted, (module, delta, first)


def test_varints_have_at_most_five_or_ten_bytes_and_64_bits(compiled_module_under_test: ModuleType) -> None:
    """The tenth byte of a timestamp delta has one bit. More bits would be lost in 64 bits."""
    for last, readable in ((b"\x00", True), (b"\x01", True), (b"\x02", False), (b"\x7f", False), (b"\x80\x00", False)):
        body = b"\0" + b"\x80" * 9 + last + b"\0\1\1\0"
        data = bytes((2 * len(body),)) + body
        for module in (record_walk, compiled_module_under_test):
            found = walk_result(module, data, 1, RULES[0], step=1, runs=False)
            assert (found[0] != "invalid") == readable and ("64 bits" in str(found[1])) != readable
    record = b"\0\0\0\1\1\0"
    for length, readable in ((b"\x0c", True), (b"\x8c\x80\x80\x80\x00", True), (b"\x8c\x80\x80\x80\x80\x00", False)):
        for module in (record_walk, compiled_module_under_test):
            found = walk_result(module, length + record, 1, RULES[0], step=1, runs=False)
            assert (found[0] != "invalid") == readable


def test_the_record_count_of_one_uncompressed_batch_is_read_from_its_header(
    compiled_module_under_test: ModuleType,
) -> None:
    body = RawRecord().encode(0)
    for module in (record_walk, record_columns, compiled_module_under_test):
        for count in (0, 1, 255, 2**31 - 1):
            assert module.plain_records(frame_records(body, count, NOW, attributes=0x18)) == count
            assert module.plain_records(memoryview(frame_records(body, count, NOW, attributes=1))) == -1
        assert module.plain_records(frame_records(body, -5, NOW)) == 0
        for data in (
            b"",
            frame_records(body, 1, NOW)[:HEADER_BYTES],
            frame_records(body, 1, NOW) * 2,
            frame_records(body, 1, NOW)[:-1],
        ):
            assert module.plain_records(data) == -1


def test_both_walks_agree_on_random_bytes(compiled_module_under_test: ModuleType) -> None:
    rng = random.Random(45)
    for size in (0, 1, 6, 7, 8, 20, 200):
        for _ in range(60):
            is_valid_in_both(
                compiled_module_under_test,
                bytes(rng.choice((0, 2, 14, 0x80, 0xFF, rng.randrange(256))) for _ in range(size)),
                3,
            )
