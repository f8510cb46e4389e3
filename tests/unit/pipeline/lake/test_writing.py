"""Files that a task writes: several topics, a limit of memory, picklable."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from pipeline.lake import writing
from tests.unit.pipeline.lake.records import archive_of, record, write_files


def test_records_of_several_topics_go_to_their_tables(tmp_path: Path) -> None:
    archive = archive_of(tmp_path, topics=["t", "u"])
    files = write_files(archive, [record(0), record(0, topic="u"), record(1)])
    assert {(f.topic, f.offsets) for f in files} == {("t", ((0, 0, 1, 2),)), ("u", ((0, 0, 0, 1),))}


def test_a_task_writes_before_its_memory_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "FILE_BYTES_MAX", 10)
    archive = archive_of(tmp_path)
    assert len(write_files(archive, [record(0, b"0123456789")]) + write_files(archive, [record(1, b"0123456789")])) == 2


def test_the_function_of_the_tasks_is_sent_without_the_catalogue(tmp_path: Path) -> None:
    writer = archive_of(tmp_path).writer()
    assert pickle.loads(pickle.dumps(writer)) == writer
