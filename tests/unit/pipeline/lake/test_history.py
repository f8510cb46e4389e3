"""Rows of chunks, and commits of the tables of the job `history`."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException

from pipeline.history_rows import MinuteChunk, RecordedChange, Series
from pipeline.lake import history
from pipeline.lake.writing import write_arrow
from weir_common.history_codes import MISSING, code_of, pack
from weir_common.lake_catalog import LakeSettings

AT = datetime(2026, 3, 1, tzinfo=UTC)
CHANGE = RecordedChange("change", 7, AT, "ann", "topic.create", "topic", "orders", "confirmed", "")


@pytest.fixture
def table(tmp_path: Path) -> Any:
    return history.points_table(LakeSettings.of_folder(tmp_path).open())


def test_rows_are_in_the_order_of_series_and_time_and_have_no_gaps() -> None:
    begin = int(AT.timestamp())
    codes = pack([code_of(1.5), MISSING, code_of(3)] + [MISSING] * 357)
    series = [Series(9, "group:a", "lag_s"), Series(2, "topic:b", "size_bytes")]
    rows = history.points_rows(
        series, [MinuteChunk(2, begin, codes), MinuteChunk(9, begin + 21_600, codes), MinuteChunk(9, begin, codes)]
    )
    found = [(r["subject"], int(r["timestamp"].timestamp()) - begin, r["value"]) for r in rows.to_pylist()]
    assert found == [
        *[("group:a", 0, 1.5), ("group:a", 120, 3), ("group:a", 21_600, 1.5), ("group:a", 21_720, 3)],
        *[("topic:b", 0, 1.5), ("topic:b", 120, 3)],
    ]


def test_a_commit_has_rows_and_position(table: Any, tmp_path: Path) -> None:
    assert history.next_day(table) is None
    assert history.commit(table, None, "2026-03-02", [], "run-1")
    assert not history.commit(table, None, "2026-03-02", [], "run-2"), "another run was faster"
    again = history.points_table(LakeSettings.of_folder(tmp_path).open())
    assert history.next_day(again) == date(2026, 3, 2)


def test_a_commit_is_repeated_after_a_conflict(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "RETRY_SECONDS", 0)
    conflicts = iter([True, False])

    def on_step(name: str) -> None:
        if name == "prepared" and next(conflicts):
            raise CommitFailedException("conflict")

    assert history.commit(table, None, "2026-03-02", [], "run-1", on_step)


def test_commits_that_always_conflict_fail(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "RETRY_SECONDS", 0)

    def conflict(_: str) -> None:
        raise CommitFailedException("conflict")

    with pytest.raises(CommitFailedException):
        history.commit(table, None, "2026-03-02", [], "run-1", conflict)


def test_changes_have_a_position_of_each_source(tmp_path: Path) -> None:
    changes = history.changes_table(LakeSettings.of_folder(tmp_path).open())
    files = [file for _, file in write_arrow(changes, history.changes_rows([CHANGE]))]
    assert history.commit(changes, None, history.ids_text({"change": 7, "event": 2}), files, "run-1")
    changes.refresh()
    assert history.last_ids(changes) == {"change": 7, "event": 2}
    assert changes.scan().to_arrow().to_pylist()[0] == {
        **{n: getattr(CHANGE, n) for n in history.CHANGES_ARROW.names if n != "timestamp"},
        "timestamp": AT,
    }
