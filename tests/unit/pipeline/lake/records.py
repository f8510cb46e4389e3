"""Records as the Kafka source gives them, and an archive without Spark. For the tests of the lake."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline import schemas
from pipeline.lake.archiving import LakeArchive, WrittenFile
from pipeline.offsets import Range
from weir_common.lake import ValueFormat
from weir_common.lake_catalog import LakeSettings

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def record(
    offset: int, value: bytes | None = b"v", *, partition: int = 0, topic: str = "t", day: int = 0
) -> dict[str, Any]:
    return {
        "key": f"k{offset}".encode(),
        "value": value,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": NOON + dt.timedelta(days=day),
        "timestampType": 0,
        "headers": None,
    }


def archive_of(folder: Path, value_format: ValueFormat = ValueFormat.RAW, **more: Any) -> LakeArchive:
    archive = LakeArchive(LakeSettings.of_folder(folder), "job-1", more.pop("topics", ["t"]), value_format, **more)
    archive.open()
    return archive


def write_files(archive: LakeArchive, records: Sequence[dict[str, Any]]) -> list[WrittenFile]:
    batch = pa.RecordBatch.from_pylist(list(records), schema=schemas.ARROW_RECORD_WITH_HEADERS)
    return [WrittenFile.of_row(row) for out in archive.writer()(iter([batch])) for row in out.to_pylist()]


def write_and_commit(archive: LakeArchive, records: Sequence[dict[str, Any]], *ranges: Range) -> int:
    """Write and commit records; the ranges are those of the records if none are given."""
    partitions = {(r["topic"], r["partition"]) for r in records}
    planned = list(ranges) or [
        Range(t, p, min(o), max(o) + 1)
        for t, p in sorted(partitions)
        if (o := [r["offset"] for r in records if (r["topic"], r["partition"]) == (t, p)])
    ]
    return archive.commit(planned, write_files(archive, records))


def offsets(archive: LakeArchive, name: str = "t") -> list[tuple[int, int]]:
    """(partition, offset) of the rows of a table."""
    table = archive.lake.open().load_table(("topics", name))
    return sorted((r["partition"], r["offset"]) for r in table.scan().to_arrow().to_pylist())
