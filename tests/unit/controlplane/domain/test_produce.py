"""Input of a new record: bytes from text, headers, limits."""

from __future__ import annotations

import pytest

from controlplane.domain.errors import Rejected
from controlplane.domain.produce import (
    COPY_RECORDS_MAX,
    COUNT_MAX,
    HEADERS_MAX,
    RECORD_BYTES_MAX,
    InputFormat,
    NewRecord,
    ProducedRecord,
    ProduceSummary,
    check_range,
    check_record,
    decode_input,
    headers_of_text,
)


@pytest.mark.parametrize(
    ("text", "wanted", "data"),
    [
        ("é", InputFormat.TEXT, "é".encode()),
        ('{"a":  1}', InputFormat.JSON, b'{"a":  1}'),
        ("0x00 FF", InputFormat.HEX, b"\x00\xff"),
        ("AP8\n=", InputFormat.BASE64, b"\x00\xff"),
        ("", InputFormat.TEXT, b""),
    ],
)
def test_bytes_of_typed_text(text: str, wanted: InputFormat, data: bytes) -> None:
    assert decode_input(text, wanted, "value") == data


@pytest.mark.parametrize(
    ("text", "wanted", "reason"),
    [
        ("{", InputFormat.JSON, "Not JSON: the name of a field is missing"),
        ("abc", InputFormat.HEX, "Not hexadecimal: each byte has two"),
        ("*", InputFormat.BASE64, "Not Base64"),
        ("\ud800", InputFormat.TEXT, "UTF-8 cannot encode"),
        ("[" * 100_000, InputFormat.JSON, "nested too deeply"),
    ],
)
def test_text_without_its_format_is_rejected(text: str, wanted: InputFormat, reason: str) -> None:
    with pytest.raises(Rejected, match=reason) as rejection:
        decode_input(text, wanted, "key")
    assert rejection.value.field == "key"


def test_headers_are_lines_and_may_be_null() -> None:
    assert headers_of_text("trace: a:b\n\n x \nempty:") == [("trace", b"a:b"), ("x", None), ("empty", b"")]


@pytest.mark.parametrize(
    ("record", "count", "field"),
    [
        (NewRecord(), 0, "count"),
        (NewRecord(), COUNT_MAX + 1, "count"),
        (NewRecord(partition=3), 1, "partition"),
        (NewRecord(timestamp_ms=-1), 1, "timestamp_ms"),
        (NewRecord(headers=[("a", None)] * (HEADERS_MAX + 1)), 1, "headers"),
        (NewRecord(headers=[("", b"")]), 1, "headers"),
        (NewRecord(value=b"x" * (RECORD_BYTES_MAX + 1)), 1, "value"),
        (NewRecord(value=b"x" * RECORD_BYTES_MAX), 9, "count"),
    ],
)
def test_a_record_outside_the_limits_is_rejected(record: NewRecord, count: int, field: str) -> None:
    with pytest.raises(Rejected) as rejection:
        check_record(record, 3, count)
    assert rejection.value.field == field
    check_record(NewRecord(b"k", b"v", [("h", None)], 2, 0), 3, COUNT_MAX)


def test_a_copy_has_a_bound() -> None:
    check_range(5, 5)
    check_range(0, COPY_RECORDS_MAX - 1)
    for first, last in ((-1, 0), (5, 4), (0, COPY_RECORDS_MAX)):
        with pytest.raises(Rejected):
            check_range(first, last)


def test_the_summary_counts_rejected_and_unknown_records() -> None:
    records = [
        ProducedRecord(0, 1),
        ProducedRecord(0, None, "too large"),
        ProducedRecord(None, None, "late", unknown=True),
    ]
    summary = ProduceSummary.of([*records, records[1]])
    assert (summary.written, summary.refused, summary.unknown) == (1, 2, 1)
    assert summary.problems == ["too large", "late"]
