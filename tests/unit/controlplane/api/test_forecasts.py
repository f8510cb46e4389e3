"""GET /api/v1/forecasts."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from tests.unit.controlplane.forecast_runs import finished_run

pytestmark = pytest.mark.django_db


def test_viewers_read_the_forecasts(viewer_client: APIClient) -> None:
    assert viewer_client.get("/api/v1/forecasts").json() == {"run": None, "rows": [], "accuracy": []}
    finished_run()
    body = viewer_client.get("/api/v1/forecasts").json()
    assert body["rows"][0]["median"].startswith("2026-12-03T08:00:00") and body["rows"][0]["high"] is None
    assert body["accuracy"] == [
        {"metric": "disk_used_bytes", "decided": 40, "inside_pct": 82.5, "stated_pct": 80, "error_pct": 7.1}
    ]
