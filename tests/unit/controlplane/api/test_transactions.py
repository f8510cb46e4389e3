"""Transactions in REST."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.domain.transactions import DescribedTransaction
from tests.unit.controlplane.transaction_responses import HANGING, TransactionResponses, patch_responses
from tests.unit.controlplane.world import World

OPEN = DescribedTransaction("team/billing", "Ongoing", 1, 2, 60_000, 1_700_000_000_000, (("orders", 1),))


@pytest.fixture
def responses(monkeypatch: pytest.MonkeyPatch, world: World) -> TransactionResponses:
    found = patch_responses(monkeypatch, world)
    found.coordinators, found.open = {1: [OPEN]}, {2: [HANGING]}
    return found


def test_a_list_has_pages_filters_and_csv(operator: APIClient, responses: TransactionResponses) -> None:
    found = operator.get("/api/v1/transactions?state=open&sort=-producer_id&limit=10").json()
    assert (found["total"], found["brokers_asked"], found["brokers_silent"]) == (1, 3, [])
    assert found["rows"][0]["transactional_id"] == "team/billing" and found["rows"][0]["partitions"] == ["orders-1"]
    lines = operator.get("/api/v1/transactions", headers={"Accept": "text/csv"}).content.decode().splitlines()
    assert lines[0].startswith("transactional_id,state") and len(lines) == 2
    for wrong in ("state=Odd", "open_longer_minutes=-1", "nonsense=1", "limit=9999"):
        assert operator.get(f"/api/v1/transactions?{wrong}").status_code == 400, wrong


def test_one_id_may_contain_slashes(operator: APIClient, responses: TransactionResponses) -> None:
    found = operator.get("/api/v1/transactions/team/billing").json()
    assert found["row"]["state"] == "Ongoing" and found["partition_count"] == 1
    assert operator.get("/api/v1/transactions/nobody").status_code == 404
    responses.silent = {1}
    unknown = operator.get("/api/v1/transactions/team/billing")
    assert unknown.status_code == 200 and unknown.json()["row"] is None, "silence is not absence"


def test_a_search_for_hanging_transactions(
    operator: APIClient, viewer_client: APIClient, responses: TransactionResponses
) -> None:
    found = viewer_client.get("/api/v1/hanging-transactions?topic=orders").json()
    assert [(r["target"], r["verdict"]) for r in found["rows"]] == [("orders-1@1234", "unknown_producer")]
    assert operator.get("/api/v1/hanging-transactions?topic=orders&partition=0").json()["rows"] == []
    assert operator.get("/api/v1/hanging-transactions?partition=0").status_code == 400
    assert operator.get("/api/v1/hanging-transactions?topic=none").status_code == 404
    body = {"kind": "transaction.abort", "target": "orders-1@1234", "comment": "consumers wait"}
    assert viewer_client.post("/api/v1/proposals", body, format="json").status_code == 403
    assert operator.post("/api/v1/proposals", body, format="json").status_code == 201
