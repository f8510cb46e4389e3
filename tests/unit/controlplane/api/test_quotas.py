"""Client quotas over REST."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.models import AccessEntry, Change
from controlplane.selectors import quotas as selectors
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
QUOTAS = "/api/v1/quotas"


@pytest.fixture(autouse=True)
def no_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "call_brokers", lambda brokers, call: [])


def test_a_quota_is_set_changed_and_deleted(world: World, operator: APIClient) -> None:
    body = {"entity": {"user": "ann", "client-id": None}, "limits": {"producer_byte_rate": 1e6}, "comment": "noisy"}
    made = operator.post(QUOTAS, body, format="json")
    assert made.status_code == 201 and made.json()["entity"] == {"client-id": None, "user": "ann"}
    number = made.json()["id"]
    assert made.json()["limits"] == [{"quota": "producer_byte_rate", "value": 1e6, "unit": "bytes/s"}]
    changed = operator.patch(
        f"{QUOTAS}/{number}", {"limits": {"request_percentage": 50}, "comment": "more"}, format="json"
    )
    assert changed.status_code == 200 and len(changed.json()["limits"]) == 2
    shown = operator.get(f"{QUOTAS}/{number}").json()
    assert (shown["row"]["name"], shown["use"], shown["silent_brokers"]) == ("user ann, client-id <default>", [], [])
    assert operator.get(QUOTAS, {"entity_type": "client-id"}).json()["total"] == 1
    assert operator.delete(f"{QUOTAS}/{number}", {"comment": "done"}, format="json").status_code == 204
    assert operator.get(f"{QUOTAS}/{number}").status_code == 404
    assert [c.verb for c in Change.objects.order_by("id")] == ["quota.set", "quota.set", "quota.delete"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "field"),
    [
        ("post", "", {"limits": {"producer_byte_rate": 1}}, 400, "entity"),
        ("post", "", {"entity": {"user": "a", "ip": "::1"}, "limits": {"producer_byte_rate": 1}}, 400, "entity"),
        ("post", "", {"entity": {"user": "a"}}, 400, "limits"),
        ("post", "", {"entity": {"user": "a"}, "limits": {"nonsense": 1}}, 400, "limits.nonsense"),
        ("post", "", {"entity": {"user": "a"}, "limits": {"request_percentage": -1}}, 400, "limits.request_percentage"),
        ("patch", "/99", {"limits": {"request_percentage": 1}, "comment": "x"}, 404, ""),
        ("delete", "/99", {"comment": "x"}, 404, ""),
        ("get", "?entity_type=topic", None, 400, "entity_type"),
    ],
)
def test_bad_input(operator: APIClient, method: str, path: str, body: object, status: int, field: str) -> None:
    call = getattr(operator, method)
    response = call(f"{QUOTAS}{path}") if body is None else call(f"{QUOTAS}{path}", body, format="json")
    assert (response.status_code, response.json()["field"]) == (status, field), response.content
    assert not AccessEntry.objects.exists()


def test_a_viewer_reads_quotas_and_cannot_change_them(operator: APIClient, viewer_client: APIClient) -> None:
    body = {"entity": {"user": None}, "limits": {"producer_byte_rate": 5}, "comment": "x"}
    number = operator.post(QUOTAS, body, format="json").json()["id"]
    assert viewer_client.get(QUOTAS).status_code == viewer_client.get(f"{QUOTAS}/{number}").status_code == 200
    for method, path in (("post", ""), ("patch", f"/{number}"), ("delete", f"/{number}")):
        assert getattr(viewer_client, method)(f"{QUOTAS}{path}", body, format="json").status_code == 403
    assert AccessEntry.objects.get().generation == 1
