"""Points of metrics from the table of the job `history`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyiceberg.table import Table

from pipeline.history_rows import MinuteChunk, Series
from pipeline.lake import duckdb_files, history, history_query
from pipeline.lake.history_query import query_history
from pipeline.lake.writing import write_arrow
from weir_common.history_codes import MISSING, code_of, pack
from weir_common.lake_catalog import LakeSettings
from weir_common.lake_history import HistoryPoint, HistoryRequest
from weir_common.lake_queries import QueryError

BEGIN = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp())
LAG, RATE = ("group:g", "lag_records"), ("topic:it's", "records_per_s")


@pytest.fixture
def lake(tmp_path: Path) -> LakeSettings:
    settings = LakeSettings.of_folder(tmp_path)
    table = history.points_table(settings.open())
    series = [Series(1, *LAG), Series(2, *RATE)]
    codes = pack([code_of(v) for v in (1, 2, 3, 4)] + [MISSING] * 356)
    for day in range(2):
        chunks = [MinuteChunk(i, BEGIN + 86_400 * day, codes) for i in (1, 2)]
        files = [file for one in series for _, file in write_arrow(table, history.points_rows([one], chunks))]
        history.commit(table, history.position_text(table), f"2026-03-0{day + 2}", files, "run-1")
    return settings


def request(*keys: tuple[str, str], since: int = BEGIN, until: int = BEGIN + 86_400, step: int = 120) -> HistoryRequest:
    return HistoryRequest(keys, since, until, step, "")


def test_points_are_averages_and_peaks_of_a_step(lake: LakeSettings) -> None:
    found = query_history(request(RATE), lake)
    assert found.points == [HistoryPoint(*RATE, BEGIN, 1.5, 2), HistoryPoint(*RATE, BEGIN + 120, 3.5, 4)]


def test_several_metrics_and_a_range(lake: LakeSettings) -> None:
    whole = query_history(request(RATE, LAG, since=BEGIN + 120, until=BEGIN + 86_460, step=3600), lake)
    assert whole.error is None, whole.detail
    found = whole.points
    assert [(p.subject, p.at_s - BEGIN, p.value) for p in found] == [
        ("group:g", 0, 3.5),
        ("group:g", 86_400, 1),
        ("topic:it's", 0, 3.5),
        ("topic:it's", 86_400, 1),
    ]


def test_only_files_with_the_subjects_and_the_days_are_opened(
    lake: LakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def record_paths(_: HistoryRequest, __: Table, paths: list[str]) -> list[HistoryPoint]:
        opened.extend(paths)
        return []

    monkeypatch.setattr(history_query, "points_of", record_paths)
    query_history(request(LAG), lake)
    assert len(opened) == 1, "the table has four files"


def test_without_points_without_a_table_and_with_too_many_files(
    lake: LakeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert query_history(request(("cluster", "offline")), lake).points == []
    absent = query_history(request(RATE), LakeSettings.of_folder(tmp_path / "absent"))
    assert absent.error is QueryError.NO_TABLE
    monkeypatch.setattr(history_query, "HISTORY_FILES_MAX", 1)
    assert query_history(request(RATE, LAG), lake).error is QueryError.FAILED


def test_files_that_pyarrow_reads_have_the_same_points(lake: LakeSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = query_history(request(RATE), lake).points
    monkeypatch.setattr(duckdb_files, "LOCAL", "of no file")
    assert expected and query_history(request(RATE), lake).points == expected
    monkeypatch.setattr(duckdb_files, "PyArrowFileIO", str)
    assert query_history(request(RATE), lake).error is QueryError.NOT_READABLE


def test_memory_is_limited(lake: LakeSettings) -> None:
    limited = HistoryRequest((RATE,), BEGIN, BEGIN + 86_400, 120, "", memory_mb=1)
    assert query_history(limited, lake).error is QueryError.FAILED
