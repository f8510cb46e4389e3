"""Queries on the lake: limits and the audit log."""

from __future__ import annotations

import pytest

from controlplane.clients import lake as client
from controlplane.models import Change
from controlplane.services import Rejected, lake
from weir_common.lake_queries import SQL_LENGTH_MAX, QueryError, QueryResult

pytestmark = pytest.mark.django_db


def test_each_query_is_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    results = iter([QueryResult(rows=[[1]]), QueryResult(error=QueryError.FAILED, detail="no table")])
    monkeypatch.setattr(client, "query", lambda sql: next(results))
    assert lake.query_lake("SELECT 1", actor="alice").rows == [[1]]
    lake.query_lake("SELECT 2", actor="alice")
    rows = Change.objects.filter(verb="lake.query").order_by("id")
    assert [(r.after["sql"], r.outcome, r.detail) for r in rows] == [
        ("SELECT 1", "confirmed", ""),
        ("SELECT 2", "refused", "no table"),
    ]


@pytest.mark.parametrize("sql", ["", " ", "x" * (SQL_LENGTH_MAX + 1)])
def test_an_invalid_text_is_rejected(sql: str) -> None:
    with pytest.raises(Rejected):
        lake.query_lake(sql, actor="alice")


def test_queries_at_a_time_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_nested_query(sql: str) -> QueryResult:
        if len(sql) <= lake.QUERIES_MAX:
            return lake.query_lake(sql + "x", actor="alice")
        return QueryResult()

    monkeypatch.setattr(client, "query", run_nested_query)
    with pytest.raises(Rejected, match="maximum"):
        lake.query_lake("x", actor="alice")
    assert lake.query_lake("xxx", actor="alice").error is None
