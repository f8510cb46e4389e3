"""Pages of the lake: tables, a table, the query box."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from controlplane.services import lake as services
from tests.unit.pipeline.lake.records import archive_of, record, write_and_commit
from weir_common.lake import ValueFormat
from weir_common.lake_queries import QueryError, QueryResult

pytestmark = pytest.mark.django_db


@pytest.fixture
def lake(tmp_path: Path, settings: Any) -> Path:
    settings.WEIR = replace(settings.WEIR, lake_dir=tmp_path)
    archive = archive_of(tmp_path, ValueFormat.JSON)
    write_and_commit(archive, [record(0, b'{"n": 1}'), record(1, b"{")])
    return tmp_path


def test_tables_and_a_table(operator: Client, lake: Path) -> None:
    page = operator.get("/lake/").content.decode()
    assert "t__dead_letters" in page and "dead letters" in page
    page = operator.get("/lake/topics/t/").content.decode()
    assert "data.n" in page and "timestamp_day=" in page and "job-1" in page
    chinese = operator.get("/lake/topics/t/", headers={"accept-language": "zh-hans"}).content.decode()
    assert "由生产者设置" in chinese and "set by the producer" not in chinese and "set by the producer" in page
    assert operator.get("/lake/topics/absent/").status_code == 404
    assert operator.get("/api/v1/lake/tables/topics/t").json()["positions"] == [{"partition": 0, "next_offset": 2}]
    assert operator.get("/api/v1/lake/tables/topics/absent").status_code == 404


def test_the_page_names_an_unavailable_catalogue(operator: Client, settings: Any) -> None:
    settings.WEIR = replace(settings.WEIR, lake_catalog="postgresql://127.0.0.1:1/x")
    assert "The catalogue of the lake" in operator.get("/lake/").content.decode()
    assert operator.get("/lake/topics/t/").status_code == 409
    assert operator.get("/api/v1/lake/tables").status_code == 409


def test_a_result_and_an_error_of_a_query(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    results = iter(
        [
            QueryResult(["n"], ["BIGINT"], [[7]], truncated=True),
            QueryResult(error=QueryError.FAILED, detail="no such table"),
            QueryResult(["n"], ["BIGINT"], [[7]]),
        ]
    )
    monkeypatch.setattr(services.lake, "query", lambda sql: next(results))
    page = operator.post("/lake/query/", {"sql": "SELECT 7"}).content.decode()
    assert "there are more" in page and ">7<" in page
    response = operator.post("/lake/query/", {"sql": "SELECT x"})
    assert response.status_code == 400 and "no such table" in response.content.decode()
    found = operator.post("/api/v1/lake/query", {"sql": "SELECT 7"}, content_type="application/json").json()
    assert found["rows"] == [[7]] and found["error"] is None


def test_a_viewer_reads_tables_and_sends_no_query(viewer: Client, lake: Path) -> None:
    assert viewer.get("/lake/topics/t/").status_code == 200
    assert viewer.get("/lake/query/").status_code == 403
    response = viewer.post("/api/v1/lake/query", {"sql": "SELECT 7"}, content_type="application/json")
    assert response.status_code == 403
