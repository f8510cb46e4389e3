from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.models import Change
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
API = "/api/v1"


@pytest.mark.parametrize("act", ["cordon", "uncordon", "demote", "restore_leadership", "restore"])
def test_each_act_is_audited_and_returns_the_broker(world: World, operator: APIClient, act: str) -> None:
    answer = operator.post(f"{API}/brokers/1/{act}", {"comment": "disk"}, format="json")
    assert (answer.status_code, answer.json()["broker_id"]) == (200, 1)
    assert set(Change.objects.values_list("object_kind", "object_name", "comment")) <= {("broker", "1", "disk")}
    assert operator.post(f"{API}/brokers/77/{act}", {"comment": "disk"}, format="json").status_code == 404


def test_brokers_are_one_list_without_pages(world: World, operator: APIClient) -> None:
    assert [b["broker_id"] for b in operator.get(f"{API}/brokers").json()] == [1, 2, 3]
