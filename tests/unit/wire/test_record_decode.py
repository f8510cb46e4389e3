"""Decoded records: the Python source and the compiled module give the same records, and the same errors for damaged bytes."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.wire import record_decode, records
from brokerd.wire.records import HEADER_BYTES, Record

blob = st.none() | st.binary(max_size=300)
many_records = st.lists(
    st.tuples(
        st.integers(-(2**62), 2**62),
        blob,
        blob,
        st.lists(st.tuples(st.text(max_size=80), blob), max_size=3),
    ),
    min_size=1,
    max_size=5,
)
Outcome = tuple[list[Any], tuple[int, int] | str]


def payload(fields: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]) -> bytes:
    """The bytes of these records, with the base timestamp 0."""
    written = [
        Record(i, timestamp, key, value, tuple(headers)) for i, (timestamp, key, value, headers) in enumerate(fields)
    ]
    return records.build([Record(0, 0, None, None), *written])[HEADER_BYTES + 7 :]


def outcome(
    module: ModuleType, data: bytes, count: int, append_time: int | None = None, headers_max: int = 1_000
) -> Outcome:
    """The records, and the result or the name and text of the error."""
    found: list[Any] = []
    try:
        return found, module.decode(data, 0, count, 40, 0, append_time, headers_max, lambda fields: fields, found)
    except (module.InvalidRecords, module.TooManyHeaders) as e:
        return found, f"{type(e).__name__} {e}"


@given(many_records, st.none() | st.integers(0, 2**62))
def test_both_modules_decode_the_same_records(
    compiled_decoder: ModuleType, fields: list[Any], append_time: int | None
) -> None:
    data = payload(fields)
    count = sum(len(headers) for *_, headers in fields)
    expected = [
        (40 + i, timestamp if append_time is None else append_time, key, value, tuple(headers))
        for i, (timestamp, key, value, headers) in enumerate(fields)
    ]
    for module in (record_decode, compiled_decoder):
        assert outcome(module, data, len(fields), append_time) == (
            expected,
            (len(data), count),
        )


@given(many_records, st.data())
def test_both_modules_find_the_same_error_in_damaged_bytes(
    compiled_decoder: ModuleType, fields: list[Any], data: st.DataObject
) -> None:
    damaged = bytearray(payload(fields))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    for given_bytes in (bytes(damaged), cut):
        assert outcome(record_decode, given_bytes, len(fields)) == outcome(compiled_decoder, given_bytes, len(fields))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x0c\0\0\0\1\1", "InvalidRecords a record longer than its batch"),
        (b"\x0d\0\0\0\1\1\0", "InvalidRecords a record longer than its batch"),
        (b"\x0e\0\0\0\1\1\0\0", "InvalidRecords a record's length does not fit its fields"),
        (b"\x0c\0\0\0\1\x10\0", "InvalidRecords a field longer than its batch"),
        (b"\x0c\0\0\0\1\1\x02", "InvalidRecords a record with more headers than bytes for them"),
        (b"\x0c\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f\0\1\1\0", "InvalidRecords a varint of more than 64 bits"),
        (b"\xff\xff\xff\xff\xff\x01", "InvalidRecords a varint of more than 35 bits"),
        (b"\x0c\0\0", "InvalidRecords a record longer than its batch"),
        (b"\x04\0\0", "InvalidRecords records are cut off"),
        (b"", "InvalidRecords records are cut off"),
    ],
)
def test_records_that_do_not_match_their_lengths_are_invalid(
    compiled_decoder: ModuleType, data: bytes, problem: str
) -> None:
    for module in (record_decode, compiled_decoder):
        assert outcome(module, data, 1) == ([], problem)


def test_the_headers_of_all_records_are_limited(compiled_decoder: ModuleType) -> None:
    data = payload([(0, None, b"v", [("a", b"1"), ("b", None)])] * 3)
    for module in (record_decode, compiled_decoder):
        assert outcome(module, data, 3, headers_max=6)[1] == (len(data), 6)
        found, problem = outcome(module, data, 3, headers_max=5)
        assert (len(found), problem) == (2, "TooManyHeaders ")
