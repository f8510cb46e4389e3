"""The pages of transactions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.test import Client

from controlplane.domain.transactions import DescribedTransaction
from controlplane.models import Proposal
from tests.unit.controlplane.transaction_responses import HANGING, TransactionResponses, patch_responses
from tests.unit.controlplane.world import World

OPEN = DescribedTransaction("team/billing", "Ongoing", 1, 2, 60_000, 1_700_000_000_000, (("orders", 0), ("orders", 1)))


@pytest.fixture(autouse=True)
def responses(monkeypatch: pytest.MonkeyPatch, world: World) -> TransactionResponses:
    found = patch_responses(monkeypatch, world)
    found.coordinators, found.open = {1: [OPEN]}, {2: [HANGING]}
    return found


def text(client: Client, address: str, status: int = 200) -> str:
    response = client.get(address)
    assert response.status_code == status
    return response.content.decode()


def test_the_list_has_filters_and_names_silent_brokers(viewer: Client, responses: TransactionResponses) -> None:
    page = text(viewer, "/transactions/")
    assert "team/billing" in page and "orders-0, orders-1" in page and "brokers answered" not in page
    assert "No matching transactional IDs." in text(viewer, "/transactions/?q=nothing&state=Odd&minutes=x")
    page = text(viewer, "/transactions/?state=open&minutes=5")
    assert "team/billing" in page and 'name="minutes" min="0" max="999999" value="5"' in page
    responses.silent, responses.coordinators = {3}, {}
    page = text(viewer, "/transactions/")
    assert "2 of 3 brokers answered." in page and "Broker 3: it is frozen" in page and "No transactional IDs." in page


def test_one_transactional_id_offers_the_request_to_fence(
    operator: Client, viewer: Client, responses: TransactionResponses
) -> None:
    page = text(operator, "/transactions/team/billing/")
    assert "/proposals/new/?kind=transaction.fence&amp;target=team%2Fbilling" in page and "orders-1" in page
    assert "kind=transaction.fence" not in text(viewer, "/transactions/team/billing/"), "a viewer requests nothing"
    assert "aborted this transaction" in page and "request to fence the producer" in page, "it is overdue"
    responses.coordinators = {1: [replace(OPEN, state="CompleteCommit", started_ms=None, partitions=())]}
    page = text(operator, "/transactions/team/billing/")
    assert "kind=transaction.fence" not in page and "no open transaction" in page
    assert "aborted this transaction" not in page
    assert "nobody" in text(operator, "/transactions/nobody/", 404)
    responses.silent = {1}
    assert "2 of 3 brokers answered." in text(operator, "/transactions/team/billing/")


def test_a_search_runs_only_on_request(operator: Client, responses: TransactionResponses) -> None:
    page = text(operator, "/hanging-transactions/")
    assert responses.requests == [] and "<table" not in page
    page = text(operator, "/hanging-transactions/?topic=orders")
    assert "1 hanging transaction." in page and "No coordinator has a transactional ID" in page
    assert "unknown producer" in page and "/proposals/new/?kind=transaction.abort&amp;target=orders-1%401234" in page
    assert "2 of 2 partitions read" in page and "15 min" in page
    assert "unknown producer" in text(operator, "/hanging-transactions/?all=1")
    assert "There is no topic “none”" in text(operator, "/hanging-transactions/?topic=none")
    responses.silent = {3}
    page = text(operator, "/hanging-transactions/?topic=orders")
    assert ">undetermined<" in page and "kind=transaction.abort" not in page


def test_an_abort_is_requested_with_the_shown_facts(operator: Client) -> None:
    address = "/proposals/new/?kind=transaction.abort&target=orders-1%401234"
    page = text(operator, address)
    assert "gets an abort marker" in page
    digest = page.split('name="shown_hash" value="')[1].split('"')[0]
    response = operator.post(address, {"comment": "consumers wait", "shown_hash": digest}, follow=True)
    assert Proposal.objects.get().target == "orders-1@1234" and "Approve and run now" in response.content.decode()
    operator.post("/proposals/1/", {"act": "reject", "comment": "wrong one"})
    response = operator.post(
        "/proposals/new/?kind=transaction.fence&target=team/billing", {"comment": "stuck"}, follow=True
    )
    assert 'href="/transactions/team/billing/"' in response.content.decode()
