"""Columns of consumed records, with their types, nulls and headers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipeline import schemas
from pipeline.arrow_records import RecordColumns


@dataclass
class Record:
    """As confluent-kafka's `Message`."""

    at: int
    data: bytes | None = b"v"
    name: bytes | None = None
    stamp: tuple[int, int] = (1, 1_700_000_000_123)
    pairs: Any = None

    def error(self) -> None:
        return None

    def key(self) -> bytes | None:
        return self.name

    def value(self) -> bytes | None:
        return self.data

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return self.stamp

    def headers(self) -> Any:
        return self.pairs


def batch(*records: Any, headers: bool = False) -> pa.RecordBatch:
    columns = RecordColumns(headers=headers)
    for record in records:
        columns.extend([record])
    assert len(columns) == len(records)
    return columns.arrow("t", 3)


def test_every_column_has_its_value_and_type() -> None:
    found = batch(Record(5, b"value", b"key"), Record(6, None, stamp=(2, 0)), Record(7, b"", b"", (0, -1)))
    assert found.schema == schemas.ARROW_RECORD
    rows = found.to_pylist()
    assert [r["key"] for r in rows] == [b"key", None, b""] and [r["value"] for r in rows] == [b"value", None, b""]
    assert [(r["topic"], r["partition"], r["offset"]) for r in rows] == [("t", 3, 5), ("t", 3, 6), ("t", 3, 7)]
    assert found.column("timestamp").cast(pa.int64()).to_pylist() == [1_700_000_000_123_000, 0, -1_000]
    assert [r["timestampType"] for r in rows] == [0, 1, 0]


def test_headers_keep_their_order_and_duplicates() -> None:
    found = batch(Record(0, pairs=[("a", b"1"), ("a", None)]), Record(1), headers=True)
    assert found.schema == schemas.ARROW_RECORD_WITH_HEADERS
    assert found.column("headers").to_pylist() == [[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None]


def test_the_size_is_that_of_keys_and_values() -> None:
    columns = RecordColumns(headers=False)
    added: Any = [Record(0, b"12345", b"12"), Record(1, None)]
    assert columns.extend(added) == columns.size == 7
