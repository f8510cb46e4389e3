"""GET /api/v1/history."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from urllib.parse import urlencode

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.domain.history import METRICS
from controlplane.monitoring.history import HistoryRecorder
from tests.cluster.local import ROOT
from tests.unit.controlplane.history_rows import record

pytestmark = pytest.mark.django_db
NOW = int(timezone.now().timestamp()) // 10 * 10


def address(**query: str) -> str:
    return f"/api/v1/history?{urlencode({'subject': 'topic:flights', 'metric': 'records_per_s', **query})}"


def iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


@pytest.fixture
def rows(db: None) -> None:
    times = (NOW - 120, NOW - 100)
    record(HistoryRecorder(), {at: {("topic:flights", "records_per_s"): 5} for at in times})


def test_viewers_read_points_with_gaps(rows: None, viewer_client: APIClient) -> None:
    body = viewer_client.get(address(since=iso(NOW - 120), until=iso(NOW - 90))).json()
    assert [(r["value"], r["peak"]) for r in body["rows"]] == [(5, 5), (None, None), (5, 5)]
    assert (body["step_s"], body["unit"], body["total"]) == (10, "records/s", 3)
    assert datetime.fromisoformat(body["rows"][0]["at"]).timestamp() == NOW - 120


def test_points_are_available_as_csv(rows: None, viewer_client: APIClient) -> None:
    response = viewer_client.get(address(since=iso(NOW - 120), until=iso(NOW - 100), format="csv"))
    lines = response.content.decode().split("\r\n")
    assert (response.headers["Content-Type"].split(";")[0], response.headers["X-Total-Count"]) == ("text/csv", "2")
    assert lines[0] == "at,value,peak" and lines[1].endswith(",5.0,5.0") and lines[2].endswith(",,")


@pytest.mark.parametrize(
    ("query", "field", "sentence"),
    [
        ({"metric": "speed"}, "metric", "records_per_s, bytes_in_per_s"),
        ({"subject": "topics:flights"}, "subject", "topic:NAME"),
        ({"since": "yesterday"}, "since", "since"),
        ({"since": "2001-01-01T00:00:00Z"}, "since", "at most 366 days"),
        ({"until": "2001-01-01T00:00:00Z", "since": "2001-01-02T00:00:00Z"}, "since", "before its end"),
        ({"step": "10"}, "step", "no such query parameter"),
    ],
)
def test_a_fault_of_the_query_is_named(
    rows: None, viewer_client: APIClient, query: dict[str, str], field: str, sentence: str
) -> None:
    response = viewer_client.get(address(**query))
    assert (response.status_code, response.json()["field"]) == (400, field)
    assert sentence in response.json()["detail"]
    assert response.headers["Content-Type"] == "application/problem+json"


def test_a_metric_that_was_never_recorded_is_not_found(rows: None, viewer_client: APIClient) -> None:
    assert viewer_client.get(address(subject="topic:other")).status_code == 404


def test_a_login_is_required(rows: None) -> None:
    assert APIClient().get(address()).status_code == 401


def test_the_document_lists_every_metric() -> None:
    text = (ROOT / "docs" / "rest.md").read_text()
    for kind, metrics in METRICS.items():
        (row,) = re.findall(rf"^\| `{kind}(?::[^`]*)?` \| (.*) \|$", text, re.M)
        assert re.findall(r"`(\w+)`", row) == [f.name for f in metrics]
