"""Rows in order, and positions for Spark."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.lake import reading
from pipeline.lake.conditions import equal, every
from pipeline.lake.reading import PositionReader, in_order
from pipeline.lake.tables import topic_table
from tests.unit.pipeline.lake.records import archive_of, record, write_and_commit


def test_rows_come_in_the_order_of_offsets_window_by_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "WINDOW_OFFSETS", 4)
    archive = archive_of(tmp_path)
    write_and_commit(archive, [record(n, day=n % 2) for n in range(10)])
    table = topic_table(archive.lake.open(), "t")
    parts = [p["offset"].to_pylist() for p in in_order(table, 0, 1, 9, every(), ("offset",))]
    assert parts == [[1, 2, 3, 4], [5, 6, 7, 8]]
    one = in_order(table, 0, 0, 10, equal("key", b"k7"), ("offset",))
    assert [p["offset"].to_pylist() for p in one] == [[7]]


def test_positions_of_all_files(tmp_path: Path) -> None:
    archive = archive_of(tmp_path)
    write_and_commit(archive, [record(0), record(1, day=1), record(0, partition=1)])
    table = topic_table(archive.lake.open(), "t")
    files = pa.RecordBatch.from_pydict({"file": [pickle.dumps(t.file) for t in table.scan().plan_files()]})
    reader = PositionReader(archive.lake, ("topics", "t"))
    rows = [(r["partition"], r["offset"]) for out in reader(iter([files])) for r in out.to_pylist()]
    assert sorted(rows) == [(0, 0), (0, 1), (1, 0)]
