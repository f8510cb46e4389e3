"""Requests and answers survive their JSON."""

from __future__ import annotations

from weir_common.lake_history import HistoryPoint, HistoryRequest, HistoryResult
from weir_common.lake_queries import QueryError


def test_values_survive_their_text() -> None:
    request = HistoryRequest((("cluster", "offline"), ("group:ü", "lag_s")), 0, 60, 60, "/lake")
    assert HistoryRequest.parse(request.text()) == request
    for response in (
        HistoryResult([HistoryPoint("cluster", "offline", 0, 1.5, 2)]),
        HistoryResult(error=QueryError.TIME, detail="x"),
    ):
        assert HistoryResult.parse(response.text()) == response
