"""The review of an election of preferred leaders, its buttons and its result."""

from __future__ import annotations

import pytest
from django.test import Client

from controlplane.clients.connection import NoResponse
from controlplane.models import Change
from tests.unit.controlplane.election_responses import Elections, electing
from tests.unit.controlplane.world import World

ALL, TOPIC, ONE = (
    "/brokers/leader-elections/",
    "/brokers/leader-elections/?topic=orders",
    "/brokers/leader-elections/?topic=orders&partition=0",
)


@pytest.fixture(autouse=True)
def responses(monkeypatch: pytest.MonkeyPatch, world: World) -> Elections:
    return electing(monkeypatch, world)


def test_topic_partition_and_brokers_offer_the_election(operator: Client, viewer: Client) -> None:
    page = operator.get("/brokers/").content.decode()
    assert f'href="{ALL}"' in page and "not led by their preferred replica" in page and ">3</b>" in page
    assert f'href="{TOPIC}"' in operator.get("/topics/orders/").content.decode()
    assert ONE.replace("&", "&amp;") in operator.get("/topics/orders/0/").content.decode()
    assert ONE.replace("&", "&amp;") not in viewer.get("/topics/orders/0/").content.decode()
    assert "not led by their preferred replica" in operator.get("/").content.decode()


def test_the_review_names_changes_and_reasons(operator: Client, viewer: Client) -> None:
    page = operator.get(TOPIC).content.decode()
    assert "2 of 3 partitions would change" in page and "Elect 2 preferred leaders" in page
    assert "The replica on broker 1 is not in the ISR." in page and "Broker 3 becomes the leader." in page
    assert "Elect 1 preferred leader<" in operator.get(ONE).content.decode()
    assert 'type="submit" class="primary"' not in viewer.get(TOPIC).content.decode()
    page = operator.get("/brokers/leader-elections/?topic=orders&partition=3").content.decode()
    assert "No election is needed" in page and "disabled" in page
    for missing in ("?topic=none", "?topic=orders&partition=9", "?topic=orders&partition=x", "?partition=0"):
        assert operator.get(f"/brokers/leader-elections/{missing}").status_code == 404, missing


def test_the_result_is_the_row_of_the_audit_log(operator: Client, viewer: Client, responses: Elections) -> None:
    assert viewer.post(TOPIC, {"comment": ""}).status_code == 403
    response = operator.post(TOPIC, {"comment": "after the restart"}, follow=True)
    page = response.content.decode()
    assert response.redirect_chain == [(f"/audit/{Change.objects.get().pk}/", 302)]
    assert "Preferred leaders: 2 elected, 1 rejected." in page and "orders-1" in page
    assert Change.objects.get().comment == "after the restart"
    rejected = operator.post(TOPIC, {"comment": ""})
    assert rejected.status_code == 409 and "No preferred leader can be elected" in rejected.content.decode()


def test_an_unknown_outcome_is_not_success(operator: Client, responses: Elections) -> None:
    responses.error = NoResponse("it is frozen")
    page = operator.post(ALL, {"comment": ""}, follow=True).content.decode()
    assert "2 with an unknown outcome" in page and "it is frozen" in page
