from __future__ import annotations

import json

import pytest
from rest_framework.test import APIClient

from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
API = "/api/v1"


def test_the_schema_names_every_operation_once(world: World, operator: APIClient) -> None:
    answer = operator.get(f"{API}/schema", HTTP_ACCEPT="application/vnd.oai.openapi+json")
    assert answer.status_code == 200
    schema = json.loads(answer.content)
    names = [op["operationId"] for path in schema["paths"].values() for op in path.values() if "operationId" in op]
    assert len(names) == len(set(names))
    assert {"topics_list", "topics_create", "topics_partial_update", "moves_roll_back_create"} <= set(names)
    assert "isr" in schema["components"]["schemas"]["Partition"]["properties"]


def test_the_schema_has_each_act_and_its_errors(world: World, operator: APIClient) -> None:
    paths = json.loads(operator.get(f"{API}/schema", HTTP_ACCEPT="application/vnd.oai.openapi+json").content)["paths"]
    cancel = paths[f"{API}/moves/{{move_id}}/cancel"]["post"]
    assert {"200", "400", "401", "403", "404", "409", "412", "415", "422", "500", "503"} <= set(cancel["responses"])
    assert set(cancel["responses"]["409"]["content"]) == {"application/problem+json"}
    assert {p["name"] for p in cancel["parameters"]} == {"move_id", "Idempotency-Key", "If-Match"}
    assert cancel["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/MoveEnd")
    topics = paths[f"{API}/topics"]["get"]
    assert {p["name"] for p in topics["parameters"]} == {
        "query",
        "internal",
        "only",
        "page",
        "per_page",
        "sort",
        "format",
    }
    assert not [p for p in paths if "{act}" in p]
