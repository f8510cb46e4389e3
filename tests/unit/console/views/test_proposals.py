"""Approval requests: another operator approves, the requester cannot."""

from __future__ import annotations

import re
from typing import Any

from django.test import Client

TO_4 = '{"kind": "partitions", "partitions": [{"topic": "ledger", "partition": 0, "replicas": [4]}]}'


def test_another_operator_approves_a_request_with_a_button(seeded: dict[str, Any], operator: Client) -> None:
    text = operator.get("/proposals/1/").content.decode()
    assert "fewer than its min.insync.replicas 2" in text and "proposals/1/approve" in text
    assert 'value="approve" disabled' not in " ".join(text.split())
    done = operator.post("/proposals/1/", {"act": "approve", "comment": "seen"}, follow=True).content.decode()
    assert "Approval request 1: done. Move 2 is approved and has started." in done
    assert operator.get("/api/v1/moves/2").json()["state"] == "running"


def test_the_operator_of_a_request_sees_why_he_cannot_approve_it(seeded: dict[str, Any], operator: Client) -> None:
    operator.post("/moves/2/cancel/", {"comment": "again"})
    operator.post("/proposals/1/", {"act": "reject", "comment": "again"})
    form = {"scope": TO_4, "parts_in_flight_max": "8", "parts_per_broker_max": "4", "act": "propose"}
    silent = operator.post("/moves/new/", form)
    assert (silent.status_code, "Give a reason" in silent.content.decode()) == (409, True)
    page = operator.post("/moves/new/", {**form, "comment": "disks"}, follow=True).content.decode()
    assert "Move 3 planned, approval requested" in page
    assert "alice made this proposal, so another operator must approve it" in page
    rejected = operator.post("/proposals/2/", {"act": "approve", "comment": "me"})
    assert (rejected.status_code, operator.get("/api/v1/moves/3").json()["state"]) == (409, "planned")
    silent = operator.post("/proposals/2/", {"act": "reject"})
    assert (silent.status_code, "Give a reason" in silent.content.decode()) == (409, True)
    operator.post("/proposals/2/", {"act": "reject", "comment": "wrong"})
    assert operator.get("/api/v1/proposals/2").json()["state"] == "withdrawn"


def test_an_unclean_election_is_proposed_from_the_page_of_a_partition_without_a_leader(
    seeded: dict[str, Any], operator: Client
) -> None:
    assert "Request unclean leader election" not in operator.get("/topics/orders/2/").content.decode()
    seeded["world"].offline("orders", 2)
    text = operator.get("/topics/orders/2/").content.decode()
    address = "/proposals/new/?kind=election.unclean&amp;target=orders-2"
    assert address in text.replace("&target", "&amp;target")
    shown = operator.get(address.replace("&amp;", "&")).content.decode()
    assert "Unclean leader election of orders-2" in shown and "would be lost" in shown
    assert operator.post(address.replace("&amp;", "&"), {"comment": ""}).status_code == 409
    digest = re.search(r'name="shown_hash" value="(\w+)"', shown)
    assert digest is not None
    seeded["world"].put("orders", 2, replicas=(3, 4, 1))
    late = operator.post(address.replace("&amp;", "&"), {"comment": "burnt", "shown_hash": digest.group(1)})
    assert "have changed; reload and request the approval again" in late.content.decode()
