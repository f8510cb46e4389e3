"""Queries and results as JSON."""

from __future__ import annotations

from weir_common.lake_queries import LakeQuery, QueryError, QueryResult


def test_values_are_read_as_they_were_written() -> None:
    assert LakeQuery.parse(LakeQuery("SELECT 1", "/lake").text()) == LakeQuery("SELECT 1", "/lake")
    for result in (QueryResult(["a"], ["INT"], [[1]]), QueryResult(error=QueryError.TIME, detail="x")):
        assert QueryResult.parse(result.text()) == result
