"""The schema registry over REST."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from rest_framework.test import APIClient

from tests.unit.controlplane.world import World
from tests.unit.registry_server import RegistryState, running_registry

ADDRESS = "/api/v1/schema-subjects"


@pytest.fixture
def state(settings: Any, world: World) -> Iterator[RegistryState]:
    with running_registry() as found:
        settings.WEIR = replace(settings.WEIR, schema_registry_url=found.url)
        yield found


def test_subjects_a_version_and_a_difference(state: RegistryState, operator: APIClient) -> None:
    state.add("a/b-value", '"int"')
    state.add("a/b-value", '"long"')
    listed = operator.get(f"{ADDRESS}?query=b-").json()
    assert listed["rows"][0]["name"] == "a/b-value" and listed["rows"][0]["versions"] == 2 and listed["configured"]
    one = operator.get(f"{ADDRESS}/version?name=a/b-value&version=1").json()
    assert (one["version"], one["definition"]) == (1, '"int"')
    assert operator.get(f"{ADDRESS}/version?name=gone").status_code == 404
    lines = operator.get(f"{ADDRESS}/difference?name=a/b-value&version=2&other=1").json()["lines"]
    assert lines[-2:] == ['-"int"', '+"long"']
    assert operator.get(f"{ADDRESS}/difference?name=a/b-value&version=2&other=7").status_code == 404
    assert operator.get(f"{ADDRESS}/difference?name=a").status_code == 400


def test_a_registry_that_does_not_respond(settings: Any, world: World, operator: APIClient) -> None:
    settings.WEIR = replace(settings.WEIR, schema_registry_url="http://127.0.0.1:9")
    assert "did not respond" in operator.get(ADDRESS).json()["problem"]
    assert operator.get(f"{ADDRESS}/version?name=a").status_code == 409


def test_check_register_and_delete(state: RegistryState, operator: APIClient) -> None:
    body = {"subject": "a", "type": "AVRO", "definition": '"int"'}
    assert operator.post(f"{ADDRESS}/check", body, format="json").json()["compatible"] is True
    made = operator.post(f"{ADDRESS}/register", {**body, "comment": "first"}, format="json")
    assert made.status_code == 201 and made.json() == {"subject": "a", "version": 1, "id": 1}
    bad = {**body, "definition": '"incompatible"', "references": [{"name": "n", "subject": "b", "version": 1}]}
    assert operator.post(f"{ADDRESS}/check", bad, format="json").json()["compatible"] is False
    rejected = operator.post(f"{ADDRESS}/register", {**bad, "comment": "x"}, format="json")
    assert rejected.status_code == 400 and rejected.json()["errors"][0]["field"] == "definition"
    operator.post(f"{ADDRESS}/register", {**body, "definition": '"long"', "comment": "x"}, format="json")
    gone = operator.post(f"{ADDRESS}/delete", {"name": "a", "version": 1, "comment": "x"}, format="json")
    assert gone.status_code == 204 and state.subjects["a"][0] is None
    assert operator.post(f"{ADDRESS}/delete", {"name": "a", "comment": "x"}, format="json").status_code == 204
    assert operator.get(ADDRESS).json()["rows"] == []
