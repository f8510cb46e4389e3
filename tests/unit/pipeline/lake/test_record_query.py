"""Look-ups by key in the tables of a topic: which records match, their order, and the files that are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.lake import duckdb_files, record_query
from pipeline.lake.record_query import query_records
from tests.unit.pipeline.lake.records import NOON, archive_of, record, write_and_commit
from weir_common.lake import ValueFormat
from weir_common.lake_catalog import LakeSettings
from weir_common.lake_queries import QueryError
from weir_common.lake_records import FIELD_BYTES_MAX, LakeLookup, LakeRecords

NOON_MS = int(NOON.timestamp() * 1000)
DAY_MS = 86_400_000
BIG = b'{"n": "' + b"x" * FIELD_BYTES_MAX + b'"}'


def keyed_record(offset: int, key: bytes | None, value: bytes | None = b'{"n": 1}', **more: Any) -> dict[str, Any]:
    headers = more.pop("headers", None)
    return {**record(offset, value, **more), "key": key, "headers": headers}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LakeSettings:
    archive = archive_of(tmp_path_factory.mktemp("lake"), ValueFormat.JSON)
    tagged = [{"key": "id", "value": b"7"}, {"key": "id", "value": None}]
    write_and_commit(
        archive,
        [
            keyed_record(0, b"a"),
            keyed_record(1, b"b", headers=tagged),
            keyed_record(2, b"a", BIG, day=2),
            keyed_record(3, b"a", day=1),
        ],
    )
    write_and_commit(
        archive,
        [
            keyed_record(0, b"a", partition=1, day=1),
            keyed_record(1, None, partition=1),
            keyed_record(2, b"a", b"no JSON", partition=1),
        ],
    )
    return archive.lake


@pytest.fixture(autouse=True, params=["duckdb", "pyarrow"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads the files: pyarrow does if they are not on a file system."""
    if request.param == "pyarrow":
        monkeypatch.setattr(duckdb_files, "LOCAL", "of no file")


def find_records(lake: LakeSettings, key: bytes = b"a", **more: Any) -> LakeRecords:
    default: dict[str, Any] = {
        "topic": "t",
        "header": "",
        "before": {0: 100, 1: 100},
        "from_ms": None,
        "to_ms": None,
        "rows_max": 10,
    }
    request = LakeLookup(key=key, lake_folder="", **{**default, **more})
    assert LakeLookup.parse(request.text()) == request
    result = query_records(request, lake)
    assert LakeRecords.parse(result.text()) == result
    return result


def partitions_and_offsets(result: LakeRecords) -> list[tuple[int, int]]:
    assert result.error is None, result.detail
    return [(r.partition, r.offset) for r in result.records]


def test_records_of_both_tables_are_newest_first_and_descend_in_each_partition(lake: LakeSettings) -> None:
    result = find_records(lake)
    assert partitions_and_offsets(result) == [(0, 3), (0, 2), (1, 2), (1, 0), (0, 0)], (
        "3 is written after 2, whose time is later"
    )
    assert not result.truncated and result.files == 5, "the file without the key is not read"
    dead = result.records[2]
    assert (dead.value, dead.timestamp_ms) == (b"no JSON", NOON_MS)


def test_only_records_below_the_offset_of_their_partition_are_found(lake: LakeSettings) -> None:
    assert partitions_and_offsets(find_records(lake, before={0: 3})) == [(0, 2), (0, 0)]
    assert partitions_and_offsets(find_records(lake, before={0: 0, 1: 1})) == [(1, 0)]
    assert partitions_and_offsets(find_records(lake, before={})) == []


def test_the_range_of_times_includes_both_ends(lake: LakeSettings) -> None:
    assert partitions_and_offsets(find_records(lake, from_ms=NOON_MS + DAY_MS, to_ms=NOON_MS + DAY_MS)) == [
        (0, 3),
        (1, 0),
    ]
    assert partitions_and_offsets(find_records(lake, from_ms=NOON_MS + DAY_MS + 1)) == [(0, 2)]


def test_rows_are_limited_and_more_are_said(lake: LakeSettings) -> None:
    result = find_records(lake, rows_max=2)
    assert partitions_and_offsets(result) == [(0, 3), (0, 2)] and result.truncated


def test_a_record_is_found_by_a_header(lake: LakeSettings) -> None:
    result = find_records(lake, b"7", header="id")
    assert partitions_and_offsets(result) == [(0, 1)] and result.records[0].headers == (("id", b"7"), ("id", None))
    assert partitions_and_offsets(find_records(lake, b"8", header="id")) == []


def test_long_values_are_cut_and_absent_fields_are_null(lake: LakeSettings) -> None:
    [long] = [r for r in find_records(lake).records if r.offset == 2 and r.partition == 0]
    assert long.value == BIG[:FIELD_BYTES_MAX] and long.value_size == len(BIG) and long.key_size == 1
    assert partitions_and_offsets(find_records(lake, b"absent")) == []


def test_files_without_the_key_are_not_read(lake: LakeSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert partitions_and_offsets(find_records(lake, b"zz")) == [] and find_records(lake, b"zz").files == 0
    monkeypatch.setattr(record_query, "RECORDS_FILES_MAX", 1)
    assert find_records(lake).error is QueryError.FAILED


def test_a_topic_without_a_table(tmp_path: Path) -> None:
    assert find_records(archive_of(tmp_path).lake, topic="absent").error is QueryError.NO_TABLE
