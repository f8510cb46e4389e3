"""Maintenance of a table: small files merged, old snapshots expired, files deleted that no snapshot uses.

Invariants: merged files have the rows of the files that they replace, or nothing is committed. A file is deleted only if no kept snapshot, no metadata and no
list of dead letters names it. It must also be older than any run that may still write it.
"""

from __future__ import annotations

import pickle
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, PyArrowFileIO
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from pipeline.lake.tables import COMMITS_MAX, RETRY_SECONDS
from pipeline.lake.writing import write_arrow
from pipeline.tables import Contradiction
from weir_common import lake as names
from weir_common.lake import DeadLetterFiles
from weir_common.lake_catalog import LakeSettings

SMALL = 0.75
"""A file below this part of the target size is merged."""

COMPACTION = "weir.compaction"
"""Property in the summary of a snapshot that only merges files."""


@dataclass(frozen=True, slots=True)
class MergeGroup:
    """Files of one partition of the table that become one file. Picklable: a Spark task merges it."""

    table: tuple[str, ...]
    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        return sum(int(f.record_count) for f in self.files)


@dataclass(frozen=True, slots=True)
class MergedGroup:
    old: tuple[DataFile, ...]
    new: tuple[DataFile, ...]


def groups(table: Table, target_bytes: int) -> list[MergeGroup]:
    """Groups of at least two small files of one partition, of about the target size together. Files with deletes of another engine are not merged."""
    by_partition: dict[tuple[int, str], list[DataFile]] = defaultdict(list)
    for task in table.scan().plan_files():
        if not task.delete_files and task.file.file_size_in_bytes < SMALL * target_bytes:
            by_partition[task.file.spec_id, repr(task.file.partition)].append(task.file)
    out = []
    for files in by_partition.values():
        chosen: list[DataFile] = []
        size = 0
        for file in sorted(files, key=lambda f: str(f.file_path)):
            if chosen and size + file.file_size_in_bytes > target_bytes:
                out.append(chosen)
                chosen, size = [], 0
            chosen.append(file)
            size += file.file_size_in_bytes
        out.append(chosen)
    return [MergeGroup(tuple(table.name()), tuple(files)) for files in out if len(files) > 1]


def merge(table: Table, group: MergeGroup) -> MergedGroup:
    """Write the rows of the group as new files, in the order of partition and offset. Raises Contradiction."""
    scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
    rows = scan.to_table([FileScanTask(file) for file in group.files])
    if {"partition", "offset"} <= set(rows.column_names):
        rows = rows.sort_by([("partition", "ascending"), ("offset", "ascending")])
    new = tuple(file for _, file in write_arrow(table, rows))
    if sum(int(f.record_count) for f in new) != group.rows:
        raise Contradiction(f"{'.'.join(group.table)}: {group.rows} rows were read as {rows.num_rows}")
    return MergedGroup(group.files, new)


@dataclass(frozen=True, slots=True)
class GroupMerger:
    """The function that Spark's tasks run: pickled groups in, pickled results out, in the column `group`."""

    lake: LakeSettings

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for data in batch["group"].to_pylist():
                group: MergeGroup = pickle.loads(data)  # noqa: S301 - written by our own driver.
                merged = merge(self.lake.open().load_table(group.table), group)
                yield pa.RecordBatch.from_pydict({"group": pa.array([pickle.dumps(merged)], pa.binary())})


def replace(table: Table, merged: Sequence[MergedGroup], job: str) -> bool:
    """Replace the old files by the new ones in one commit. False if another process has replaced one of them; the new files are then unused."""
    summary = {names.JOB: job, COMPACTION: "true"}
    for attempt in range(COMMITS_MAX):
        table.refresh()
        try:
            with (
                table.transaction() as transaction,
                transaction.update_snapshot(snapshot_properties=summary).overwrite() as overwrite,
            ):
                for group in merged:
                    for file in group.old:
                        overwrite.delete_data_file(file)
                    for file in group.new:
                        overwrite.append_data_file(file)
            return True
        except ValidationException:
            return False
        except CommitFailedException:
            if attempt == COMMITS_MAX - 1:
                raise
            time.sleep(RETRY_SECONDS)
    return False


def expire(table: Table, days: int, now: datetime | None = None) -> int:
    """Expire snapshots that are older than `days`; the current one is kept. Returns their number."""
    table.refresh()
    before = len(table.snapshots())
    limit = (now or datetime.now(UTC)) - timedelta(days=days)
    for attempt in range(COMMITS_MAX):
        try:
            table.maintenance.expire_snapshots().older_than(limit.replace(tzinfo=None)).commit()
            break
        except CommitFailedException:
            if attempt == COMMITS_MAX - 1:
                raise
            time.sleep(RETRY_SECONDS)
            table.refresh()
    table.refresh()
    return before - len(table.snapshots())


def used_files(table: Table) -> set[str]:
    """Paths of all files that the table's metadata names: data, manifests, metadata."""
    metadata = table.metadata
    used = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    used |= {s.statistics_path for s in metadata.statistics}
    seen: set[str] = set()
    for snapshot in metadata.snapshots:
        used.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in seen:
                continue
            seen.add(manifest.manifest_path)
            used.add(manifest.manifest_path)
            used |= {e.data_file.file_path for e in manifest.fetch_manifest_entry(table.io, discard_deleted=False)}
    letters = DeadLetterFiles.parse(metadata.properties.get(names.DEAD_LETTERS))
    return used | set(letters.files if letters is not None else ())


def delete_unused(tables: Iterable[Table], days: int, now: datetime | None = None) -> tuple[int, int]:
    """Delete the files below the tables' locations that none of the tables uses and that are older than `days`. Returns their number and bytes.
    `tables`: a topic's table together with that of its dead letters, because one may name files of the other."""
    found = list(tables)
    used = {_key(path) for table in found for path in used_files(table)}
    limit = (now or datetime.now(UTC)) - timedelta(days=days)
    count = size = 0
    for table in found:
        filesystem, root = _filesystem(table)
        for info in filesystem.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True)):
            if info.type != fs.FileType.File or _key(info.path) in used or info.mtime is None or info.mtime >= limit:
                continue
            filesystem.delete_file(info.path)
            count, size = count + 1, size + info.size
    return count, size


def _key(path: str) -> str:
    """A path without scheme, so that names in metadata and in listings are equal."""
    return path.partition("://")[2] if "://" in path else path


def _filesystem(table: Table) -> tuple[fs.FileSystem, str]:
    io = table.io
    assert isinstance(io, PyArrowFileIO)
    parts = urlsplit(table.location())
    return io.fs_by_scheme(parts.scheme or "file", parts.netloc), parts.netloc + parts.path
