"""Look-ups in the lake and their responses are the same after they were JSON."""

from __future__ import annotations

from weir_common.lake_queries import QueryError
from weir_common.lake_records import LakeLookup, LakeRecord, LakeRecords


def test_a_look_up_keeps_bytes_and_partitions() -> None:
    lookup = LakeLookup("t", b"\x00\xff", "id", {0: 5, 12: 2**40}, None, 7, 3, "/lake")
    assert LakeLookup.parse(lookup.text()) == lookup


def test_records_keep_bytes_and_nulls() -> None:
    plain = LakeRecord(0, 2**40, -1, b"\xff", 1, b"", 0, (("a", b"\x00"), ("a", None)))
    nulls = LakeRecord(1, 0, 5, None, -1, None, -1)
    records = LakeRecords([plain, nulls], truncated=True, files=2)
    assert LakeRecords.parse(records.text()) == records


def test_an_error_is_an_enum_again() -> None:
    failed = LakeRecords(error=QueryError.MEMORY, detail="too large")
    assert LakeRecords.parse(failed.text()) == failed and LakeRecords.parse(failed.text()).error is QueryError.MEMORY
