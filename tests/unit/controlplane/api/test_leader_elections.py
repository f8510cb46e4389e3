"""Elections of preferred leaders in REST."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.clients.connection import NoResponse
from tests.unit.controlplane.election_responses import Elections, electing
from tests.unit.controlplane.world import World

PATH = "/api/v1/leader-elections"


@pytest.fixture
def responses(monkeypatch: pytest.MonkeyPatch, world: World) -> Elections:
    return electing(monkeypatch, world)


def test_the_preview_and_the_election(operator: APIClient, viewer_client: APIClient, responses: Elections) -> None:
    preview = viewer_client.get(f"{PATH}?topic=orders").json()
    assert (preview["electable"], preview["blocked"]) == (2, [{"verdict": "not_in_isr", "partitions": 1}])
    assert preview["rows"][0] == {
        "topic": "orders",
        "index": 0,
        "leader": 2,
        "preferred": 1,
        "verdict": "electable",
        "reason": "Broker 1 becomes the leader.",
    }
    assert viewer_client.post(PATH, {"topic": "orders"}, format="json").status_code == 403
    response = operator.post(PATH, {"topic": "orders", "comment": "after the restart"}, format="json")
    assert (
        response.status_code == 200 and response.json()["confirmed"] == 2 and response.json()["outcome"] == "confirmed"
    )
    assert operator.post(PATH, {"topic": "orders"}, format="json").status_code == 409, "only a blocked one is left"
    assert operator.post(PATH, {"topic": "orders", "partition": 0}, format="json").json()["outcome"] == "unchanged"


def test_invalid_scopes_and_silence(operator: APIClient, responses: Elections) -> None:
    for wrong, status in (("partition=0", 400), ("topic=none", 404), ("topic=orders&partition=9", 404), ("x=1", 400)):
        assert operator.get(f"{PATH}?{wrong}").status_code == status, wrong
    assert operator.post(PATH, {"partition": 0}, format="json").status_code == 400
    assert operator.post(PATH, {"topic": "none"}, format="json").status_code == 404
    responses.error = NoResponse("it is frozen")
    response = operator.post(PATH, {}, format="json")
    assert response.status_code == 202 and response.json()["unknown"] == 2
