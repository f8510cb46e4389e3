"""Maintenance of a table and of its dead letters, without files to merge."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.jobs.base import RunContext
from pipeline.jobs.compact import Compact
from tests.unit.pipeline.lake.records import archive_of, record, write_and_commit
from weir_common.lake import ValueFormat
from weir_common.spark_runs import RunDescription


def test_dead_letters_are_maintained_with_their_table(tmp_path: Path) -> None:
    write_and_commit(archive_of(tmp_path / "lake", ValueFormat.JSON), [record(0, b'{"a": 1}'), record(1, b"{")])
    context = RunContext(tmp_path, RunDescription("run-1", "compact", {}, "x:1", str(tmp_path / "lake")))
    Compact(["t"], 128, 7, 3).run(context)
    assert [row[0] for row in context.status["report"][0]["rows"]] == ["t", "t__dead_letters"]
    assert context.status["deleted_files"] == 0


def test_a_table_that_does_not_exist_is_rejected(tmp_path: Path) -> None:
    context = RunContext(tmp_path, RunDescription("run-1", "compact", {}, "x:1", str(tmp_path / "lake")))
    with pytest.raises(ValueError, match="no table absent"):
        Compact(["absent"], 128, 7, 3).run(context)
