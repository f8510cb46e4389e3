"""Maintenance keeps every row: merged files, expired snapshots, deleted files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline.lake import maintenance
from pipeline.lake.tables import topic_table
from pipeline.tables import Contradiction
from tests.unit.pipeline.lake.records import archive_of, offsets, record, write_and_commit, write_files
from weir_common.lake import ValueFormat

LATER = datetime.now(UTC) + timedelta(days=30)


def files(table: Any) -> int:
    table.refresh()
    return len(list(table.scan().plan_files()))


def compact(table: Any) -> bool:
    merged = [maintenance.merge(table, g) for g in maintenance.groups(table, 10**8)]
    return maintenance.replace(table, merged, "job-2")


def test_small_files_of_a_day_become_one_and_positions_remain(tmp_path: Path) -> None:
    archive = archive_of(tmp_path, ValueFormat.JSON)
    for n in range(4):
        write_and_commit(archive, [record(n, b'{"a": 1, "b%d": 2}' % n, day=n // 3)])
    table = topic_table(archive.lake.open(), "t")
    assert compact(table) and files(table) == 2
    assert maintenance.groups(table, 10**8) == []
    assert offsets(archive) == [(0, n) for n in range(4)]
    assert archive_of(tmp_path, ValueFormat.JSON).open() == {"t": {"0": 4}}
    assert write_and_commit(archive_of(tmp_path, ValueFormat.JSON), [record(4, b'{"a": 2}')]) == 1
    rows = table.refresh().scan().to_arrow().to_pylist()
    assert sorted(r["data"]["a"] for r in rows) == [1, 1, 1, 1, 2]


def test_rows_that_are_archived_during_a_merge_are_kept(tmp_path: Path) -> None:
    archive = archive_of(tmp_path)
    for n in range(2):
        write_and_commit(archive, [record(n)])
    table = topic_table(archive.lake.open(), "t")
    merged = [maintenance.merge(table, g) for g in maintenance.groups(table, 10**8)]
    write_and_commit(archive, [record(2)])
    assert maintenance.replace(table, merged, "job-2")
    assert offsets(archive) == [(0, 0), (0, 1), (0, 2)]


def test_files_that_another_run_has_merged_are_not_merged_again(tmp_path: Path) -> None:
    archive = archive_of(tmp_path)
    for n in range(2):
        write_and_commit(archive, [record(n)])
    table = topic_table(archive.lake.open(), "t")
    merged = [maintenance.merge(table, g) for g in maintenance.groups(table, 10**8)]
    assert compact(table)
    assert not maintenance.replace(table, merged, "job-3")
    assert offsets(archive) == [(0, 0), (0, 1)]


def test_a_merge_that_read_other_rows_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = archive_of(tmp_path)
    for n in range(2):
        write_and_commit(archive, [record(n)])
    table = topic_table(archive.lake.open(), "t")
    write = maintenance.write_arrow
    monkeypatch.setattr(maintenance, "write_arrow", lambda t, rows: write(t, rows.slice(0, 1)))
    with pytest.raises(Contradiction):
        compact(table)


def test_snapshots_expire_and_only_unused_files_are_deleted(tmp_path: Path) -> None:
    archive = archive_of(tmp_path, ValueFormat.JSON)
    for n in range(3):
        write_and_commit(
            archive,
            [
                record(n, b'{"a": 1}'),
            ],
        )
    write_and_commit(archive, [record(3, b"{")])
    write_files(archive, [record(4, b'{"a": 2}')])  # files of a driver that was killed before its commit
    catalog = archive.lake.open()
    table, dead = topic_table(catalog, "t"), catalog.load_table(("topics", "t__dead_letters"))
    compact(table)
    assert maintenance.delete_unused([table, dead], 1) == (0, 0)
    assert maintenance.expire(table, 0, LATER) == 4
    count, _ = maintenance.delete_unused([table, dead], 1, LATER)
    assert count >= 4
    assert offsets(archive) == [(0, 0), (0, 1), (0, 2)]
    assert offsets(archive, "t__dead_letters") == [(0, 3)]
    again = archive_of(tmp_path, ValueFormat.JSON)
    assert again.open() == {"t": {"0": 4}} and write_and_commit(again, [record(4, b'{"a": 2}')]) == 1


def test_listed_dead_letters_are_kept_until_they_are_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = archive_of(tmp_path, ValueFormat.JSON)
    with monkeypatch.context() as patch:
        patch.setattr("pipeline.lake.archiving.publish_dead_letters", lambda *_: 0)
        write_and_commit(archive, [record(0, b"{")])
    catalog = archive.lake.open()
    maintenance.delete_unused([topic_table(catalog, "t"), catalog.load_table(("topics", "t__dead_letters"))], 1, LATER)
    archive_of(tmp_path, ValueFormat.JSON)
    assert offsets(archive, "t__dead_letters") == [(0, 0)]
