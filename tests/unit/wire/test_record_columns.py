"""Records of one layout are validated by columns, with the result of the walk."""

from __future__ import annotations

import random
from dataclasses import replace
from types import ModuleType

import pytest

from brokerd.wire import record_columns, record_walk
from brokerd.wire.record_walk import LONG_MAX, LONG_MIN
from tests.unit.storage.test_batch_validation import NOW, RawRecord
from tests.unit.wire.test_record_walk import ALIKE, frame_records, is_valid_in_both


@pytest.mark.parametrize("count", [1, 2, 15, 64, 65])
def test_records_of_one_shape_have_the_same_result(compiled_module_under_test: ModuleType, count: int) -> None:
    """Each byte except those of keys and values is changed. Counts of up to 64 have a separate path in the Python source."""
    rng = random.Random(46 + count)
    for shape in ALIKE if count <= 2 else rng.sample(ALIKE, 25):
        raw = [replace(shape, timestamp_delta=shape.timestamp_delta + rng.choice((0, 0, 1))) for _ in range(count)]
        data = b"".join(r.encode(i) for i, r in enumerate(raw))
        assert is_valid_in_both(compiled_module_under_test, data, count)
        places = [i for i, byte in enumerate(data) if byte not in b"kv"]
        for at in places if len(places) < 30 else rng.sample(places, 10):
            wrong = bytearray(data)
            wrong[at] = rng.choice((0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFF, wrong[at] ^ 1, wrong[at] ^ 2, wrong[at] ^ 0x80))
            is_valid_in_both(compiled_module_under_test, bytes(wrong), count)
        is_valid_in_both(compiled_module_under_test, data[:-1], count)
        is_valid_in_both(compiled_module_under_test, data + b"\0", count)
        is_valid_in_both(compiled_module_under_test, data, count + 1)


def test_a_varint_of_three_bytes_is_not_read_as_one_of_two() -> None:
    """Without the third byte, the two lengths would fit the batch."""
    for size in (8_192, 8_200, 12_000):
        record = bytearray(b"\0\0\0\1" + bytes(3) + b"v" * (size - 8) + b"\0")
        value = size - 8
        record[4:7] = value << 1 & 0x7F | 0x80, value >> 6 & 0x7F | 0x80, value >> 13
        good = bytes((size << 1 & 0x7F | 0x80, size >> 6 & 0x7F | 0x80, size >> 13)) + record
        hidden = good[:2] + b"\0" + record
        for data, accepted in ((good, True), (hidden, False)):
            for module in (record_walk, record_columns):
                assert module.batch_is_valid(frame_records(data, 1, NOW), False, LONG_MIN, LONG_MAX) == accepted


@pytest.mark.parametrize("count", [1, 2, 15, 64])
def test_usual_batches_are_checked_without_a_walk_in_python(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_columns, "walk", lambda *_: pytest.fail("walked"))
    for value in (b"v" * 3, b"v" * 64, b"v" * 1_024):
        raw = [RawRecord(value=value, timestamp_delta=i // 3) for i in range(count)]
        data = frame_records(b"".join(r.encode(i) for i, r in enumerate(raw)), count, NOW + (count - 1) // 3)
        assert record_columns.batch_is_valid(data, False, LONG_MIN, LONG_MAX)
        assert record_columns.batch_is_valid(data, False, NOW - 64, NOW + 64)
    if count == 1:
        monkeypatch.setattr(record_columns, "_alike", lambda *_: pytest.fail("parsed"))
        assert record_columns.batch_is_valid(data, False, NOW, NOW)
