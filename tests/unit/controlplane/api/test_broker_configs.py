"""Broker settings over REST."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.clients.all_brokers import BrokerResponse
from controlplane.domain.broker_config import BrokerConfigSource, ReportedConfig
from controlplane.models import AccessEntry
from controlplane.selectors import broker_configs as selectors
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
CONFIGS = "/api/v1/brokers/1/configs"


@pytest.fixture(autouse=True)
def patch_responses(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    config = ReportedConfig("max.connections", "9", BrokerConfigSource.FILE, "100", False, False, "Limit.")
    secret = ReportedConfig("ssl.key.password", None, BrokerConfigSource.FILE, None, True, True, "Password.")
    values = {c.name: c for c in (config, secret)}
    monkeypatch.setattr(
        selectors, "call_brokers", lambda brokers, call: [BrokerResponse(b.broker_id, values) for b in brokers]
    )


def test_settings_are_listed_and_changed(operator: APIClient, viewer_client: APIClient) -> None:
    shown = viewer_client.get(CONFIGS, {"other_id": 2, "only": "changed"}).json()
    assert [(r["name"], r["value"], r["source"], r["editable"]) for r in shown["rows"]] == [
        ("max.connections", "9", "file", True),
        ("ssl.key.password", None, "file", False),
    ]
    body = {"configs": {"max.connections": "5"}, "comment": "leak"}
    assert viewer_client.patch(CONFIGS, body, format="json").status_code == 403
    assert operator.patch(CONFIGS, body, format="json").status_code == 204
    everywhere = {"configs": {"log.retention.ms": "60000"}, "cluster_wide": True, "comment": "disk"}
    assert operator.patch(CONFIGS, everywhere, format="json").status_code == 204
    assert dict(AccessEntry.objects.values_list("key", "value")) == {
        "1": {"max.connections": "5"},
        "-1": {"log.retention.ms": "60000"},
    }


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"configs": {"max.connections": "5"}}, "comment"),
        ({"comment": "x"}, "configs"),
        ({"configs": {"max.connections": "x"}, "comment": "x"}, "configs.max.connections"),
    ],
)
def test_bad_input(operator: APIClient, body: object, field: str) -> None:
    response = operator.patch(CONFIGS, body, format="json")
    assert (response.status_code, response.json()["field"]) == (400, field)
    assert operator.get(CONFIGS, {"only": "nonsense"}).status_code == 400
    assert operator.get("/api/v1/brokers/99/configs").status_code == 404
    assert not AccessEntry.objects.exists()
