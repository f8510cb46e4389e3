"""Tables of the lake over REST, without a lake and with a catalogue that is away. With tables: tests/unit/console/views/test_lake.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from rest_framework.test import APIClient

pytestmark = pytest.mark.django_db


@pytest.fixture
def api() -> APIClient:
    client = APIClient()
    client.force_authenticate(get_user_model().objects.create_user("alice", is_staff=True))
    return client


def test_a_read_creates_no_catalogue(api: APIClient, settings: Any, tmp_path: Path) -> None:
    settings.WEIR = replace(settings.WEIR, lake_dir=tmp_path / "lake")
    assert api.get("/api/v1/lake/tables").json() == []
    assert api.get("/api/v1/lake/tables/topics/t").status_code == 404
    assert not (tmp_path / "lake").exists()


def test_an_unavailable_catalogue_is_a_conflict(api: APIClient, settings: Any) -> None:
    settings.WEIR = replace(settings.WEIR, lake_catalog="postgresql://127.0.0.1:1/x")
    assert api.get("/api/v1/lake/tables").status_code == 409


def test_an_empty_query_is_rejected(api: APIClient) -> None:
    assert api.post("/api/v1/lake/query", {"sql": ""}, format="json").status_code == 400
