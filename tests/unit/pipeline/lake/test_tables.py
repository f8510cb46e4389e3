"""Commits against concurrent commits of other processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.types import LongType, StringType

from pipeline.lake import columns, tables
from pipeline.lake.tables import Batch, TooManyColumns, add_columns, commit, positions, topic_table
from pipeline.offsets import Range
from pipeline.tables import Contradiction
from weir_common.lake_catalog import LakeSettings

BATCH = Batch("job", [Range("t", 0, 0, 3)], 0, [], [])


@pytest.fixture
def table(tmp_path: Path) -> Any:
    return topic_table(LakeSettings.of_folder(tmp_path).open(), "t")


def test_a_commit_is_repeated_after_the_commit_of_another_process(table: Any, tmp_path: Path) -> None:
    other = topic_table(LakeSettings.of_folder(tmp_path).open(), "t")

    def concurrent(step: str) -> None:
        if step == "prepared" and "x" not in other.properties:
            with other.transaction() as transaction:
                transaction.set_properties({"x": "1"})

    commit(table, BATCH, {}, concurrent)
    table.refresh()
    assert positions(table) == {0: 3} and table.properties["x"] == "1"


def test_a_commit_with_an_unknown_outcome_is_not_repeated(table: Any) -> None:
    commit(table, BATCH, {})
    commit(table, BATCH, {})
    with pytest.raises(Contradiction):
        commit(table, Batch("job", [Range("t", 0, 0, 2)], 0, [], []), {})


def test_commits_that_always_conflict_fail(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "RETRY_SECONDS", 0)

    def conflict(_: str) -> None:
        raise CommitFailedException("conflict")

    with pytest.raises(CommitFailedException):
        commit(table, BATCH, {}, conflict)


def test_typed_columns_have_a_limit(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "COLUMNS_MAX", 2)
    add_columns(table, columns.struct({"a": LongType(), "b": LongType()}))
    with pytest.raises(TooManyColumns):
        add_columns(table, columns.struct({"c": LongType()}))


def test_a_present_column_keeps_its_type_if_only_new_names_are_added(table: Any) -> None:
    add_columns(table, columns.struct({"a": LongType()}))
    add_columns(table, columns.struct({"a": StringType(), "b": StringType()}), only_new_names=True)
    found = tables.typed_columns(table)
    assert found is not None and [(f.name, str(f.field_type)) for f in found.fields] == [("a", "long"), ("b", "string")]
