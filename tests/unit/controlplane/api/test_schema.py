from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.api.reference import openapi_schema
from tests.unit.controlplane.world import World
from weir.cli.generate import schema

pytestmark = pytest.mark.django_db
API = "/api/v1"


def test_the_schema_names_every_operation_once(world: World, operator: APIClient) -> None:
    response = operator.get(f"{API}/schema", HTTP_ACCEPT="application/vnd.oai.openapi+json")
    assert response.status_code == 200
    schema = json.loads(response.content)
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
        "state",
        "cursor",
        "limit",
        "sort",
        "format",
    }
    assert not [p for p in paths if "{act}" in p]


def test_if_match_is_offered_only_where_a_tag_is_compared(world: World, operator: APIClient) -> None:
    paths = json.loads(operator.get(f"{API}/schema", HTTP_ACCEPT="application/vnd.oai.openapi+json").content)["paths"]
    names = {
        path.removeprefix(f"{API}/"): {verb for verb, op in operations.items() if has_header(op, "If-Match")}
        for path, operations in paths.items()
    }
    assert names["topics/{name}"] == {"patch", "delete"}
    assert names["notification-channels/{channel_id}"] == {"patch", "delete"}
    for path in ("records", "record-copies", "record-copies/preview"):
        assert names[f"topics/{{name}}/{path}"] == set(), "the request waits for a broker"
        assert "412" not in paths[f"{API}/topics/{{name}}/{path}"]["post"]["responses"]
    assert names["notification-channels/{channel_id}/test"] == set(), "the request waits for the receiver"


def has_header(operation: dict[str, Any], name: str) -> bool:
    return any(p["name"] == name for p in operation.get("parameters", ()))


def test_bodies_of_requests_have_no_other_fields(world: World, operator: APIClient) -> None:
    schema = json.loads(operator.get(f"{API}/schema", HTTP_ACCEPT="application/vnd.oai.openapi+json").content)
    body = schema["paths"][f"{API}/topics"]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    assert schema["components"]["schemas"][body.rpartition("/")[2]]["additionalProperties"] is False
    response = schema["paths"][f"{API}/transactions"]["get"]["responses"]["200"]["content"]["application/json"][
        "schema"
    ]
    assert response["$ref"].endswith("/TransactionPage"), "one page, not a list of pages"


def test_no_two_components_have_the_same_name(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    schema()
    assert "identical names" not in capsys.readouterr().err


def test_no_component_has_a_generated_number_in_its_name() -> None:
    """drf-spectacular adds a part of a hash if fields of one name have several sets of choices: ENUM_NAME_OVERRIDES of the settings names them."""
    numbered = re.compile(r"[0-9A-F][0-9a-f]{2}Enum$")
    names = openapi_schema()["components"]["schemas"]
    assert numbered.search("KeyFormatC40Enum") and len(names) > 100
    assert not [name for name in names if numbered.search(name)]


def test_each_operation_has_a_description_of_its_own(world: World, operator: APIClient) -> None:
    """53 of 251 operations had none, and 21 had that of another operation."""
    paths = json.loads(operator.get(f"{API}/schema", HTTP_ACCEPT="application/vnd.oai.openapi+json").content)["paths"]
    found = [op.get("description", "") for path in paths.values() for op in path.values() if "operationId" in op]
    assert len(found) > 200 and all(found)
    assert len(set(found)) == len(found)
    assert paths[f"{API}/recoveries"]["get"]["description"].startswith("List the recoveries")


GENERATED = re.compile(r"^\w+\(\w+: '|\* `")
"""The docstring that Python gives a dataclass without one, and the list of choices of drf-spectacular, whose labels repeat the values."""


def descriptions(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(text := schema.get("description"), str):
            yield text
        for value in schema.values():
            yield from descriptions(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from descriptions(value)


def test_no_description_is_generated_from_the_code() -> None:
    assert GENERATED.search("BatchRow(batch: 'int', topic: 'str')") and GENERATED.search("* `topic` - topic")
    found = list(descriptions(openapi_schema()))
    assert len(found) > 1000 and not [text for text in found if GENERATED.search(text)]
