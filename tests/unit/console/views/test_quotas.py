"""The pages of client quotas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from controlplane.clients.all_brokers import BrokerResponse
from controlplane.clients.quota_use import MeasuredRate
from controlplane.models import AccessEntry, Change
from controlplane.selectors import quotas as selectors

FORM = {"applies_to": "user", "user": "ann", "producer_byte_rate": "2", "comment": "noisy"}


@pytest.fixture(autouse=True)
def two_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = [MeasuredRate('{"user":"ann"}', "producer_byte_rate", 2_400_000.0)]
    responses: Any = [BrokerResponse(1, rates), BrokerResponse(2, None, "it is down")]
    monkeypatch.setattr(selectors, "call_brokers", lambda brokers, call: responses)


def test_a_quota_is_created_shown_with_its_use_edited_and_deleted(operator: Client) -> None:
    page = operator.post("/new/quota/", FORM, follow=True).content.decode()
    number = AccessEntry.objects.get().pk
    assert "Quota set." in page and "120" in page and "2.4 MB/s" in page and "Brokers without a response: 2." in page
    assert "user ann" in operator.get("/quotas/").content.decode()
    edit = operator.get(f"/quotas/{number}/edit/").content.decode()
    assert 'value="2.0"' in edit
    operator.post(f"/quotas/{number}/edit/", {"producer_byte_rate": "3", "comment": "more"})
    assert AccessEntry.objects.get().value == {"producer_byte_rate": 3_000_000}
    same = operator.post(f"/quotas/{number}/edit/", {"producer_byte_rate": "3", "comment": "more"})
    assert same.status_code == 400 and "already" in same.content.decode()
    deletion = operator.get(f"/quotas/{number}/delete/").content.decode()
    assert (
        "The limit producer_byte_rate of 3.0 MB/s per broker no longer applies." in deletion
        and "consumer_byte_rate" not in deletion
    )
    gone = operator.post(f"/quotas/{number}/delete/", {"comment": "done"}, follow=True).content.decode()
    assert "No client quotas." in gone and AccessEntry.objects.get().value is None
    assert [c.verb for c in Change.objects.order_by("id")] == ["quota.set", "quota.set", "quota.set", "quota.delete"]


def test_without_a_response_the_use_is_unknown(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page said that the brokers that answered report no clients. No broker had answered."""
    monkeypatch.setattr(selectors, "call_brokers", lambda brokers, call: [BrokerResponse(1, None, "it is down")])
    page = operator.post("/new/quota/", FORM, follow=True).content.decode()
    assert "No broker responded: the current use is unknown." in page and "report no clients" not in page
    assert "not applied yet" in page


def test_limits_that_another_operator_changed_are_not_overwritten(operator: Client) -> None:
    """The form sends all limits: it restored those that another operator had changed since it was opened."""
    operator.post("/new/quota/", FORM)
    number = AccessEntry.objects.get().pk
    seen = {"producer_byte_rate": 2_000_000.0}
    assert "2000000.0" in operator.get(f"/quotas/{number}/edit/").content.decode()
    operator.post(f"/quotas/{number}/edit/", {"producer_byte_rate": "3", "comment": "x", "seen": json.dumps(seen)})
    late = {"producer_byte_rate": "2.5", "comment": "x", "seen": json.dumps(seen)}
    response = operator.post(f"/quotas/{number}/edit/", late)
    assert response.status_code == 400 and "after this form was opened" in response.content.decode()
    assert AccessEntry.objects.get().value == {"producer_byte_rate": 3_000_000}


def test_a_quota_whose_last_limit_is_removed_leaves_the_list(operator: Client) -> None:
    operator.post("/new/quota/", FORM)
    number = AccessEntry.objects.get().pk
    response = operator.post(f"/quotas/{number}/edit/", {"producer_byte_rate": "", "comment": "x"}, follow=True)
    assert "No client quotas." in response.content.decode()


def test_errors_are_beside_their_fields(operator: Client) -> None:
    wrong = {**FORM, "applies_to": "ip", "user": "", "ip": "host", "producer_byte_rate": ""}
    response = operator.post("/new/quota/", {**wrong, "connection_creation_rate": "5"})
    assert response.status_code == 400 and "not an IP address" in response.content.decode()
    negative = operator.post("/new/quota/", {**FORM, "producer_byte_rate": "-1"})
    assert negative.status_code == 400 and "must be greater than 0" in negative.content.decode()


def test_a_viewer_sees_quotas_and_changes_none(operator: Client, viewer: Client) -> None:
    operator.post("/new/quota/", FORM)
    number = AccessEntry.objects.get().pk
    assert viewer.get(f"/quotas/{number}/").status_code == 200
    for address in ("/new/quota/", f"/quotas/{number}/edit/", f"/quotas/{number}/delete/"):
        assert viewer.post(address, FORM).status_code == 403
