from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
API = "/api/v1"


@pytest.mark.parametrize("path", ["moves/1/dance", "brokers/1/cordon/again", "nothing"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_an_unknown_path_gets_the_error_shape(world: World, operator: APIClient, method: str, path: str) -> None:
    answer = getattr(operator, method)(f"{API}/{path}", format="json")
    assert (answer.status_code, answer.json()["field"]) == (404, "")
    assert "no such path" in answer.json()["detail"]


def test_an_action_rejects_get(world: World, operator: APIClient) -> None:
    assert operator.get(f"{API}/brokers/1/cordon").status_code == 405


def test_a_missing_object_is_named(world: World, operator: APIClient) -> None:
    answer = operator.get(f"{API}/topics/nope")
    assert (answer.status_code, answer.json()["detail"]) == (404, "There is no topic 'nope'.")
