"""Tables of the lake from the catalogue, and queries as processes. The tables are written by the pipeline's own code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.clients import lake
from tests.unit.pipeline.lake.records import archive_of, record, write_and_commit
from weir_common.lake import ValueFormat
from weir_common.lake_queries import QueryError
from weir_common.lake_records import LakeLookup


@pytest.fixture
def folder(tmp_path: Path, settings: Any) -> Path:
    settings.WEIR = replace(settings.WEIR, lake_dir=tmp_path)
    archive = archive_of(tmp_path, ValueFormat.JSON, key_buckets=2)
    write_and_commit(archive, [record(0, b'{"n": 1}'), record(1, b"{"), record(0, b'{"n": 1}', partition=1)])
    return tmp_path


def test_tables_with_their_metrics(folder: Path) -> None:
    found = {t.name: t for t in lake.tables()}
    assert set(found) == {"t", "t__dead_letters"}
    assert (found["t"].rows, found["t"].snapshots, found["t"].is_dead_letters) == (2, 1, False)
    assert found["t"].partitioned_by == "day(timestamp), bucket[2](key)"
    assert found["t__dead_letters"].rows == 1 and found["t"].bytes > 0


def test_a_table_with_columns_positions_snapshots_and_files(folder: Path) -> None:
    found = lake.table("topics", "t")
    assert found is not None
    assert [c.name for c in found.columns][-2:] == ["data", "data.n"]
    assert [(p.partition, p.next_offset) for p in found.positions] == [(0, 2), (1, 1)]
    assert [(s.operation, s.added_rows, s.job) for s in found.newest_snapshots] == [("append", 2, "job-1")]
    assert (
        sum(f.rows for f in found.first_files) == 2
        and "timestamp_day=2026-01-01, key_bucket=" in found.first_files[0].partition
    )
    assert lake.table("topics", "absent") is None


def test_an_unavailable_catalogue_is_an_error(settings: Any) -> None:
    settings.WEIR = replace(settings.WEIR, lake_catalog="postgresql://127.0.0.1:1/x")
    with pytest.raises(lake.LakeUnavailable):
        lake.tables()


def test_a_query_runs_in_a_process(folder: Path) -> None:
    assert lake.query("SELECT sum(data.n)::BIGINT AS s FROM t").rows == [[2]]


def test_records_are_looked_up_in_a_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lookup = LakeLookup("t", b"k1", "", {0: 2, 1: 1}, None, None, 10, str(folder))
    found = lake.records(lookup)
    assert [(r.partition, r.offset, r.value) for r in found.records] == [(0, 1, b"{")], "a dead letter"
    monkeypatch.setattr(lake, "RECORDS_SECONDS_MAX", 0.01)
    assert lake.records(lookup).error is QueryError.TIME


def test_a_look_up_without_a_lake(tmp_path: Path, settings: Any) -> None:
    settings.WEIR = replace(settings.WEIR, lake_dir=tmp_path)
    assert lake.records(LakeLookup("t", b"k", "", {0: 1}, None, None, 1, "")).error is QueryError.NO_TABLE


def test_a_query_is_ended_after_its_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "SECONDS_MAX", 0.01)
    assert lake.query("SELECT 1").error is QueryError.TIME


def test_a_query_is_ended_above_its_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "PROCESS_BYTES_MAX", 1024 * 1024)
    found = lake.query("SELECT 1")
    assert found.error is QueryError.MEMORY and "more than 1 MiB of memory" in found.detail


def test_a_process_that_breaks_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake.sys, "executable", "/bin/false")
    assert lake.query("SELECT 1").error is QueryError.CRASHED


def test_a_read_of_the_history_runs_in_a_process(folder: Path) -> None:
    found = lake.history([("cluster", "offline")], 0, 60, 60)
    assert found.error is QueryError.NO_TABLE, found.detail


def test_a_read_of_the_history_is_ended_after_its_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "HISTORY_SECONDS_MAX", 0.01)
    assert lake.history([("cluster", "offline")], 0, 60, 60).error is QueryError.TIME
