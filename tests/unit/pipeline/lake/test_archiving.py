"""Batches of an archive: what is committed, cut, rejected; dead letters; files by day and bucket."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.lake.archiving import WrittenFile, check, clip_ranges, existing_table
from pipeline.lake.tables import topic_table, typed_columns
from pipeline.offsets import Range
from pipeline.tables import Contradiction
from tests.unit.pipeline.lake.records import archive_of, offsets, record, write_and_commit, write_files
from weir_common import lake as names
from weir_common.lake import ValueFormat


def test_rows_and_positions_are_one_commit(tmp_path: Path) -> None:
    archive = archive_of(tmp_path)
    assert write_and_commit(archive, [record(3), record(4), record(0, partition=1)]) == 3
    assert archive.open() == {"t": {"0": 5, "1": 1}}
    table = existing_table(archive.lake.open(), "t")
    assert table is not None and (snapshot := table.current_snapshot()) is not None and snapshot.summary is not None
    assert snapshot.summary[names.OFFSETS] == '{"0": [3, 5], "1": [0, 1]}'
    assert (snapshot.summary[names.ROWS], snapshot.summary[names.JOB]) == ("3", "job-1")


def test_a_batch_that_was_committed_before_is_cut(tmp_path: Path) -> None:
    write_and_commit(archive_of(tmp_path), [record(0), record(1)])
    again = archive_of(tmp_path)
    assert write_and_commit(again, [record(0), record(1), record(2)]) == 1
    assert write_and_commit(again, [record(1), record(2)]) == 0
    assert offsets(again) == [(0, 0), (0, 1), (0, 2)]


def test_a_batch_after_the_position_is_rejected(tmp_path: Path) -> None:
    archive = archive_of(tmp_path)
    write_and_commit(archive, [record(0)])
    with pytest.raises(Contradiction, match="would be lost"):
        write_and_commit(archive, [record(2)])


def test_another_job_with_the_same_topic_is_rejected(tmp_path: Path) -> None:
    first, second = archive_of(tmp_path), archive_of(tmp_path)
    write_and_commit(first, [record(0)])
    files = write_files(second, [record(0), record(1)])
    with pytest.raises(Contradiction, match="another job"):
        second.commit([Range("t", 0, 0, 2)], files)
    assert offsets(first) == [(0, 0)]


@pytest.mark.parametrize("value", [b'{"n": 1}', b"no JSON"])
def test_a_commit_between_the_check_of_another_job_and_its_commit_is_not_undone(tmp_path: Path, value: bytes) -> None:
    """Without rows that fit, the commit had properties only. The catalogue accepted them after a later position, and records were archived again."""
    second = archive_of(tmp_path, ValueFormat.JSON)

    def on_step(name: str) -> None:
        if name == "prepared" and not second.rows + second.dead_letters:
            write_and_commit(second, [record(0, value), record(1, value)])

    first = archive_of(tmp_path, ValueFormat.JSON, step=on_step)
    with pytest.raises(Contradiction):
        write_and_commit(first, [record(0, value)])
    assert archive_of(tmp_path, ValueFormat.JSON).open() == {"t": {"0": 2}}


def test_a_range_without_records_advances_the_position(tmp_path: Path) -> None:
    archive = archive_of(tmp_path)
    assert write_and_commit(archive, [], Range("t", 0, 0, 7)) == 0
    assert archive.open() == {"t": {"0": 7}}


def test_files_are_split_by_day_and_bucket(tmp_path: Path) -> None:
    archive = archive_of(tmp_path, key_buckets=2)
    write_and_commit(archive, [record(n, day=n % 2) for n in range(40)])
    table = topic_table(archive.lake.open(), "t")
    paths = [task.file.file_path for task in table.scan().plan_files()]
    assert len(paths) == 4
    assert all("timestamp_day=2026-01-0" in p and "key_bucket=" in p for p in paths)
    assert len(list(table.scan(row_filter="timestamp >= '2026-01-02T00:00:00+00:00'").plan_files())) == 2
    assert len(offsets(archive)) == 40


def test_records_that_do_not_fit_are_dead_letters_with_the_reason(tmp_path: Path) -> None:
    archive = archive_of(tmp_path, ValueFormat.JSON)
    values = [b'{"a": 1}', b'{"a": 1.5}', b"{", None, b'{"A": 1}', b'{"b": "x"}']
    assert write_and_commit(archive, [record(n, v) for n, v in enumerate(values)]) == 3
    assert archive.dead_letters == 3
    dead = existing_table(archive.lake.open(), "t__dead_letters")
    assert dead is not None
    rows = sorted(dead.scan().to_arrow().to_pylist(), key=lambda r: int(r["offset"]))
    assert [(r["offset"], r["reason"]) for r in rows] == [(1, "type_mismatch"), (2, "not_json"), (4, "column_name")]
    assert [r["value"] for r in rows] == [values[n] for n in (1, 2, 4)]
    columns = typed_columns(topic_table(archive.lake.open(), "t"))
    assert columns is not None and [f.name for f in columns.fields] == ["a", "b"]


def test_dead_letters_of_an_interrupted_commit_are_published_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(tmp_path, ValueFormat.JSON)
    with monkeypatch.context() as patch:
        patch.setattr("pipeline.lake.archiving.publish_dead_letters", lambda *_: 0)
        write_and_commit(archive, [record(0, b"{"), record(1, b'{"a": 1}')])
    assert offsets(archive, "t__dead_letters") == []
    archive_of(tmp_path, ValueFormat.JSON)
    archive_of(tmp_path, ValueFormat.JSON)
    assert offsets(archive, "t__dead_letters") == [(0, 0)]


def test_columns_that_two_writers_add_at_the_same_time_are_both_there(tmp_path: Path) -> None:
    first, second = archive_of(tmp_path, ValueFormat.JSON), archive_of(tmp_path, ValueFormat.JSON)
    write_files(first, [record(0, b'{"a": 1}')])
    assert write_and_commit(second, [record(0, b'{"b": "x", "a": 2}')]) == 1
    assert write_and_commit(second, [record(1, b'{"a": 3, "c": true}')]) == 1
    found = typed_columns(topic_table(second.lake.open(), "t"))
    assert found is not None and [(f.name, str(f.field_type)) for f in found.fields] == [
        ("a", "long"),
        ("b", "string"),
        ("c", "boolean"),
    ]


def test_a_topic_named_like_dead_letters_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="dead letters"):
        archive_of(tmp_path, topics=["t__dead_letters"])


def test_cut_begins_at_the_position() -> None:
    planned = [Range("t", 0, 5, 9), Range("t", 1, 0, 3), Range("u", 0, 0, 1)]
    assert clip_ranges(planned, "t", {0: 7}) == [Range("t", 0, 7, 9), Range("t", 1, 0, 3)]
    assert clip_ranges(planned, "t", {0: 12}) == [Range("t", 0, 12, 12), Range("t", 1, 0, 3)]


@pytest.mark.parametrize("offsets_of_file", [((0, 4, 6, 2),), ((0, 5, 9, 2),), ((1, 5, 6, 2),), ((0, 5, 6, 9),)])
def test_files_with_other_offsets_than_planned_are_rejected(
    offsets_of_file: tuple[tuple[int, int, int, int], ...],
) -> None:
    with pytest.raises(Contradiction):
        check([Range("t", 0, 5, 8)], [WrittenFile("t", False, b"", "f", offsets_of_file, 2)])
