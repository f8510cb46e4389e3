"""Configs of groups over REST."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.models import AccessEntry
from tests.unit.controlplane.config_broker import ConfigBroker
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
PATH = "/api/v1/group-configs/team/workers"
LOCK = "share.record.lock.duration.ms"


@pytest.fixture(autouse=True)
def patch_responses(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    ConfigBroker({"team/workers": {LOCK: "20000"}}).replace_connections(monkeypatch)


def test_configs_are_listed_and_changed(operator: APIClient, viewer_client: APIClient) -> None:
    shown = viewer_client.get(PATH).json()
    (own,) = (r for r in shown["configs"] if r["own"])
    assert (shown["group_id"], shown["own"], own["name"], own["value"], own["default"], own["kind"]) == (
        "team/workers",
        1,
        LOCK,
        "20000",
        "30000",
        "share",
    )
    body = {"configs": {"weir.share.key.order.enable": "true"}, "comment": "accounts"}
    assert viewer_client.patch(PATH, body, format="json").status_code == 403
    assert operator.patch(PATH, body, format="json").status_code == 204
    assert AccessEntry.objects.get(kind="group", key="team/workers").value == {"weir.share.key.order.enable": "true"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"configs": {LOCK: "30000"}}, "comment"),
        ({"comment": "x"}, "configs"),
        ({"configs": {LOCK: "x"}, "comment": "x"}, "configs"),
    ],
)
def test_bad_input(operator: APIClient, body: object, field: str) -> None:
    response = operator.patch(PATH, body, format="json")
    assert (response.status_code, response.json()["field"]) == (400, field)
    assert not AccessEntry.objects.exists()
