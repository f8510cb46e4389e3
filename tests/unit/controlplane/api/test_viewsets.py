from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.models import ObservedTopic
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
API = "/api/v1"


@pytest.mark.parametrize("path", ["moves/1/dance", "brokers/1/cordon/again", "nothing"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_an_unknown_path_gets_the_error_shape(world: World, operator: APIClient, method: str, path: str) -> None:
    response = getattr(operator, method)(f"{API}/{path}", format="json")
    assert (response.status_code, response.json()["field"]) == (404, "")
    assert "no such path" in response.json()["detail"]


def test_an_action_rejects_get(world: World, operator: APIClient) -> None:
    assert operator.get(f"{API}/brokers/1/cordon").status_code == 405


def test_a_missing_object_is_named(world: World, operator: APIClient) -> None:
    response = operator.get(f"{API}/topics/nope")
    assert (response.status_code, response.json()["detail"]) == (404, "There is no topic 'nope'.")


@pytest.mark.parametrize("path", [f"moves/{2**63}", f"moves/{2**70}/parts", f"topics/flights/partitions/{2**63}"])
def test_a_number_that_no_row_can_have_is_not_found(world: World, operator: APIClient, path: str) -> None:
    response = operator.get(f"{API}/{path}")
    assert (response.status_code, response.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("topics?internal=932", "internal"),
        ("moves?state=perhaps", "state"),
        ("alerts?state=-1", "state"),
        ("partitions?broker=1.5", "broker"),
        ("partitions?broker=-1", "broker"),
        (f"partitions?broker={2**63}", "broker"),
    ],
)
def test_a_filter_with_a_wrong_value_is_rejected(world: World, operator: APIClient, path: str, field: str) -> None:
    response = operator.get(f"{API}/{path}")
    assert (response.status_code, response.json()["field"]) == (400, field)


@pytest.mark.parametrize(
    ("value", "names"),
    [("true", ["__x", "flights"]), ("1", ["__x", "flights"]), ("No", ["flights"]), ("", ["flights"])],
)
def test_a_filter_that_is_true_or_false(world: World, operator: APIClient, value: str, names: list[str]) -> None:
    world.topic("flights", (1, 2))
    world.topic("__x", (1, 2))
    ObservedTopic.objects.filter(name="__x").update(internal=True)
    rows = operator.get(f"{API}/topics?internal={value}&sort=name").json()["rows"]
    assert [row["name"] for row in rows] == names
