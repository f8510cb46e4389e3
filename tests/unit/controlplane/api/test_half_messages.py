"""The REST resource of undecided half messages: its filters and its error."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.unit.controlplane.half_responses import patch_responses
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
REST = "/api/v1/topics/orders/half-messages"


def test_filters_select_rows(monkeypatch: pytest.MonkeyPatch, world: World, viewer_client: Client) -> None:
    patch_responses(monkeypatch, world)
    for query, offsets in (
        ("", [3, 5, 9]),
        ("?checks_min=4", [5, 9]),
        ("?id_contains=c", [5]),
        ("?partition=0&from_offset=4", [9]),
        ("?age_ms_min=99999999999999", []),
    ):
        found = viewer_client.get(REST + query).json()
        assert [r["offset"] for r in found["rows"]] == offsets
    assert found["searched"] == 3
    assert viewer_client.get(REST + "?checks_min=-1").status_code == 400
    assert "weir.half.enable" in viewer_client.get("/api/v1/topics/none/half-messages").content.decode()
