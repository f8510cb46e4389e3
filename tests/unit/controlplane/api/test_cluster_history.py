"""GET /api/v1/cluster-history."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import pytest
from rest_framework.test import APIClient

from tests.unit.controlplane.metadata_log import KeptLog, flights, time_at

pytestmark = pytest.mark.django_db


def iso(minute: float) -> str:
    return time_at(minute).isoformat()


@pytest.fixture
def flights_in_kept_log(db: None) -> None:
    flights(KeptLog())


def get(client: APIClient, path: str = "", status: int = 200, **query: Any) -> Any:
    response = client.get(f"/api/v1/cluster-history{path}?{urlencode(query)}")
    assert response.status_code == status, response.content
    return response.json()


def test_viewers_read_the_kept_time_and_a_state(flights_in_kept_log: None, viewer_client: APIClient) -> None:
    body = get(viewer_client)
    assert [datetime.fromisoformat(s["since"]) for s in body["spans"]] == [time_at(0)]
    state = get(viewer_client, "/state", at=iso(12))
    assert (state["partitions"], state["under_replicated"], state["offline"]) == (2, 2, 0)
    assert [b["alive"] for b in state["brokers"]] == [True, False, True]


def test_partitions_and_configs_of_a_time(flights_in_kept_log: None, viewer_client: APIClient) -> None:
    body = get(viewer_client, "/partitions", at=iso(12), broker=3)
    assert [(r["topic"], r["index"], r["leader"], r["isr"]) for r in body["rows"]] == [("flights", 1, 3, [3])]
    assert get(viewer_client, "/partitions", at=iso(5), state="problems")["total"] == 0
    assert get(viewer_client, "/configs", at=iso(12))["rows"] == [
        {"subject": "topic:flights", "name": "retention.ms", "value": "60000"}
    ]


def test_the_difference_of_two_times(flights_in_kept_log: None, viewer_client: APIClient) -> None:
    body = get(viewer_client, "/difference", since=iso(5), until=iso(15), kind="leader")
    assert {k["kind"]: k["count"] for k in body["kinds"]} == {"broker": 1, "leader": 1, "isr_shrink": 2}
    assert [(r["topic"], r["partition"], r["before"], r["after"]) for r in body["rows"]] == [("flights", 1, "2", "3")]
    each = get(viewer_client, "/difference", since=iso(5), until=iso(25), each="true", topic="flights")
    assert [datetime.fromisoformat(r["at"]) for r in each["rows"]] == [
        time_at(10),
        time_at(10),
        time_at(10),
        time_at(20),
    ]


def test_unknown_times_and_parameters_are_rejected(flights_in_kept_log: None, viewer_client: APIClient) -> None:
    rejected = get(viewer_client, "/state", status=400, at=iso(-10))
    assert "known from 2026-01-20 12:00:00 UTC" in str(rejected)
    assert get(viewer_client, "/state", status=400)
    assert get(viewer_client, "/difference", status=400, since=iso(1), until=iso(2), kind="x")
    assert get(viewer_client, "/difference", status=400, since=iso(2), until=iso(1))
    assert get(viewer_client, "/partitions", status=400, at=iso(1), brokers=1)
