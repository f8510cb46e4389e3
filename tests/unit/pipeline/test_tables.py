"""The lake's directory after a crash at every step between staging and manifest. No Spark: the test writes the staged files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.offsets import Range
from pipeline.tables import Contradiction, JobFolder
from weir_common.archive_manifest import ManifestLine

PLANNED = [Range("flights", 0, 0, 10), Range("flights", 1, 5, 8), Range("orders", 0, 0, 4)]


def stage(job: JobFolder, batch: int, planned: list[Range], without: tuple[int, ...] = ()) -> None:
    (job.checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    for r in planned:
        folder = job.staging_path(batch) / f"topic={r.topic}"
        folder.mkdir(parents=True, exist_ok=True)
        offsets = [o for o in range(r.first, r.next) if o not in without]
        table = pa.table({"partition": pa.array([r.partition] * len(offsets), pa.int32()), "offset": offsets})
        pq.write_table(table, folder / f"part-{r.partition}.parquet")


def read_rows(folder: Path) -> list[tuple[str, int, int]]:
    """The rows that a reader of the lake gets, sorted."""
    out = []
    for path in folder.glob("topic=*/batch=*/*.parquet"):
        topic = path.parts[-3].removeprefix("topic=")
        table = pq.ParquetFile(path).read()
        out += [(topic, p, o) for p, o in zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)]
    return sorted(out)


def planned_rows(planned: list[Range]) -> list[tuple[str, int, int]]:
    return sorted((r.topic, r.partition, o) for r in planned for o in range(r.first, r.next))


def attempt(folder: Path, batch: int, planned: list[Range]) -> None:
    with JobFolder(folder, "job") as job:
        if not job.already_published(batch, planned):
            stage(job, batch, planned)
        job.publish(batch, planned)


class ProcessKilled(BaseException):
    pass


def kill_at_call(monkeypatch: pytest.MonkeyPatch, name: str, at: int) -> Callable[[], int]:
    """Make the `at`-th call of os.<name> the last action of the process (before the call takes effect)."""
    real, calls = getattr(os, name), 0

    def call(*arguments: object, **more: object) -> object:
        nonlocal calls
        calls += 1
        if calls == at:
            raise ProcessKilled
        return real(*arguments, **more)

    monkeypatch.setattr(os, name, call)
    return lambda: calls


@pytest.mark.parametrize("name", ["rename", "fsync"])
def test_a_batch_killed_at_any_step_is_written_exactly_once_by_the_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    reached = 0
    for at in range(1, 30):
        lake = tmp_path / str(at)
        with monkeypatch.context() as patch:
            calls = kill_at_call(patch, name, at)
            try:
                attempt(lake, 0, PLANNED)
            except ProcessKilled:
                reached += 1
            else:
                assert calls() < at
                break
        attempt(lake, 0, PLANNED)
        assert read_rows(lake / "job") == planned_rows(PLANNED)
        with JobFolder(lake, "job") as job:
            assert [(w.topic, w.partition, w.first_offset, w.next_offset, w.rows) for w in job.lines()] == [
                (r.topic, r.partition, r.first, r.next, r.next - r.first) for r in PLANNED
            ]
    assert reached >= 2


def test_a_torn_last_line_of_the_manifest_is_truncated_and_rewritten(tmp_path: Path) -> None:
    attempt(tmp_path, 0, PLANNED)
    manifest = tmp_path / "job" / "manifest.jsonl"
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[:-20])
    attempt(tmp_path, 0, PLANNED)
    assert manifest.read_bytes() == whole


def test_offsets_without_records_are_counted_separately(tmp_path: Path) -> None:
    with JobFolder(tmp_path, "job") as job:
        stage(job, 0, PLANNED[:1], without=(3, 9))
        assert job.publish(0, PLANNED[:1]) == [ManifestLine(0, "flights", 0, 0, 10, 8)]


def test_a_range_with_only_transaction_markers_is_published_without_rows(tmp_path: Path) -> None:
    with JobFolder(tmp_path, "job") as job:
        assert job.publish(0, [Range("flights", 0, 7, 8)]) == [ManifestLine(0, "flights", 0, 7, 8, 0)]


def test_a_written_batch_with_an_offset_outside_its_plan_is_never_published(tmp_path: Path) -> None:
    with JobFolder(tmp_path, "job") as job:
        stage(job, 0, [Range("flights", 0, 0, 11)])
        with pytest.raises(Contradiction, match="offsets 0 to 10"):
            job.publish(0, PLANNED[:1])
        assert read_rows(job.folder) == []


def test_a_written_batch_with_an_offset_twice_is_never_published(tmp_path: Path) -> None:
    with JobFolder(tmp_path, "job") as job:
        stage(job, 0, PLANNED[:1])
        staged = job.staging_path(0) / "topic=flights"
        (staged / "part-9.parquet").write_bytes((staged / "part-0.parquet").read_bytes())
        with pytest.raises(Contradiction, match="in two files"):
            job.publish(0, PLANNED[:1])


def test_a_checkpoint_older_than_the_lake_stops_the_job(tmp_path: Path) -> None:
    attempt(tmp_path, 0, PLANNED)
    with JobFolder(tmp_path, "job") as job, pytest.raises(Contradiction, match="checkpoint is older"):
        job.already_published(0, [Range("flights", 0, 0, 12), *PLANNED[1:]])


def test_a_lost_checkpoint_stops_the_job_before_it_repeats_anything(tmp_path: Path) -> None:
    attempt(tmp_path, 0, PLANNED)
    (tmp_path / "job" / "_checkpoint" / "offsets").rmdir()
    with pytest.raises(Contradiction, match="no checkpoint"), JobFolder(tmp_path, "job"):
        pass


def test_a_second_driver_on_the_same_folder_is_rejected(tmp_path: Path) -> None:
    with JobFolder(tmp_path, "job"), pytest.raises(Contradiction, match="another process"), JobFolder(tmp_path, "job"):
        pass


def test_the_status_file_is_replaced_atomically(tmp_path: Path) -> None:
    with JobFolder(tmp_path, "job") as job:
        job.write_status({"phase": "running"})
        assert json.loads((job.folder / "status.json").read_text()) == {"phase": "running"}
