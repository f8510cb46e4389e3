from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.models import Broker, Change
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
API = "/api/v1"


@pytest.mark.parametrize("act", ["cordon", "uncordon", "demote", "restore_leadership", "restore"])
def test_each_act_is_audited_and_returns_the_broker(world: World, operator: APIClient, act: str) -> None:
    response = operator.post(f"{API}/brokers/1/{act}", {"comment": "disk"}, format="json")
    assert (response.status_code, response.json()["broker_id"]) == (200, 1)
    assert set(Change.objects.values_list("object_kind", "object_name", "comment")) <= {("broker", "1", "disk")}
    assert operator.post(f"{API}/brokers/77/{act}", {"comment": "disk"}, format="json").status_code == 404


def test_the_list_of_brokers_has_pages_and_orders(world: World, operator: APIClient) -> None:
    Broker.objects.filter(broker_id=2).update(size_bytes=5)
    page = operator.get(f"{API}/brokers?limit=2").json()
    assert ([b["broker_id"] for b in page["rows"]], page["total"], page["sort"]) == ([1, 2], 3, "broker_id")
    following = operator.get(f"{API}/brokers", {"limit": 2, "cursor": page["next_cursor"]}).json()
    assert ([b["broker_id"] for b in following["rows"]], following["next_cursor"]) == ([3], None)
    by_size = operator.get(f"{API}/brokers?sort=-size_bytes").json()
    assert [b["broker_id"] for b in by_size["rows"]] == [2, 1, 3], "unknown sizes are last"
    assert operator.get(f"{API}/brokers?format=csv&limit=1").headers["X-Total-Count"] == "3"
    assert operator.get(f"{API}/brokers?page=2").status_code == 400


def test_requests_of_a_broker_by_api(world: World, operator: APIClient) -> None:
    row = {
        "name": "Produce",
        "requests_per_s": 12.5,
        "p50_ms": 1.0,
        "p99_ms": 25.0,
        "greatest_ms": 1_234.0,
        "errors": {"6": 0.5, "31999": 2.0},
    }
    Broker.objects.filter(broker_id=1).update(requests=[row])
    (found,) = operator.get(f"{API}/brokers/1/requests").json()["rows"]
    assert (found["name"], found["p99_ms"], found["errors"][0]) == ("Produce", 25.0, {"code": "31999", "per_s": 2.0})
    assert operator.get(f"{API}/brokers/9/requests").status_code == 404


def test_rejected_requests_of_a_broker_by_reason(world: World, operator: APIClient) -> None:
    rows = [{"reason": "throttled", "total": 9, "per_s": 0.5}, {"reason": "too_large", "total": 20, "per_s": 0.0}]
    Broker.objects.filter(broker_id=1).update(refusals=rows)
    found = operator.get(f"{API}/brokers/1/refusals").json()
    assert (found["rows"], found["total"]) == (rows, 2)
    by_total = operator.get(f"{API}/brokers/1/refusals?sort=-total&limit=1").json()
    assert [r["reason"] for r in by_total["rows"]] == ["too_large"]
    assert operator.get(f"{API}/brokers/2/refusals").json()["rows"] == []
    assert operator.get(f"{API}/brokers/9/refusals").status_code == 404
