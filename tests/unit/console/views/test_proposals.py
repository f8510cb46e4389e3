"""Approval requests: another operator approves, the requester cannot."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from brokerd.cluster.model import REPLACED
from controlplane.models import Broker, Proposal, ReplicaTruncation

TO_4 = '{"kind": "partitions", "partitions": [{"topic": "ledger", "partition": 0, "replicas": [4]}]}'


def test_another_operator_approves_a_request_with_a_button(seeded_cluster: dict[str, Any], operator: Client) -> None:
    text = operator.get("/proposals/1/").content.decode()
    assert "fewer than its min.insync.replicas 2" in text and "proposals/1/approve" in text
    assert "Reason for the decision" in text and "The cluster has not changed since the request." in text
    assert 'value="approve" disabled' not in " ".join(text.split())
    done = operator.post("/proposals/1/", {"act": "approve", "comment": "seen"}, follow=True).content.decode()
    assert "Approval request 1: done. Move 2 is approved and has started." in done
    assert operator.get("/api/v1/moves/2").json()["state"] == "running"


def test_the_operator_of_a_request_sees_why_he_cannot_approve_it(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    operator.post("/moves/2/cancel/", {"comment": "again"})
    operator.post("/proposals/1/", {"act": "reject", "comment": "again"})
    form = {"scope": TO_4, "parts_in_flight_max": "8", "parts_per_broker_max": "4", "act": "propose"}
    silent = operator.post("/moves/new/", form)
    assert (silent.status_code, "Give a reason" in silent.content.decode()) == (409, True)
    page = operator.post("/moves/new/", {**form, "comment": "disks"}, follow=True).content.decode()
    assert "Move 3 planned, approval requested" in page
    assert "alice made this request, so another operator must approve it" in page
    rejected = operator.post("/proposals/2/", {"act": "approve", "comment": "me"})
    assert (rejected.status_code, operator.get("/api/v1/moves/3").json()["state"]) == (409, "planned")
    silent = operator.post("/proposals/2/", {"act": "reject"})
    assert (silent.status_code, "Give a reason" in silent.content.decode()) == (409, True)
    operator.post("/proposals/2/", {"act": "reject", "comment": "wrong"})
    assert operator.get("/api/v1/proposals/2").json()["state"] == "withdrawn"


@pytest.mark.parametrize(
    ("kind", "target", "address"),
    [
        ("election.unclean", "orders-a-2", "/topics/orders-a/2/"),
        (
            "half.commit",
            "shop-0@17",
            "/messages/?topic=shop.half&amp;partitions=0&amp;start=offset&amp;offset=17&amp;limit=1",
        ),
        ("transaction.fence", "billing-1", "/transactions/billing-1/"),
        ("transaction.abort", "orders-0@17", ""),
        ("half.rollback", "nonsense", ""),
    ],
)
def test_the_second_person_can_open_what_the_request_is_about(
    operator: Client, kind: str, target: str, address: str
) -> None:
    """The page of a request about a half message had no link to the record: it had to be approved unread."""
    row = Proposal.objects.create(
        kind=kind,
        target=target,
        proposed_by="ann",
        expires_at=timezone.now() + timedelta(hours=1),
        shown={"title": "x", "lines": [], "facts": {}},
    )
    page = operator.get(f"/proposals/{row.pk}/").content.decode()
    link = f'<a href="{address}">{target}</a>' if address else f"<dd>{target}</dd>"
    assert link in page


def test_a_partition_without_a_live_replica_has_no_election_and_no_replica_to_copy(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    """Both were offered on the page, and always rejected."""
    seeded_cluster["world"].offline("orders", 2)
    page = operator.get("/topics/orders/2/").content.decode()
    assert "No election is possible" not in page and "Request unclean leader election" in page
    assert ">Re-replicate<" not in page
    review = operator.get("/topics/orders/2/recover/2/").content.decode()
    assert "no leader to copy from" in review and "broker None" not in review
    Broker.objects.update(alive=False)
    page = operator.get("/topics/orders/2/").content.decode()
    assert "No election is possible: start one of these brokers" in page
    assert "nclean leader election" not in page


def test_an_unclean_election_is_proposed_from_the_page_of_a_partition_without_a_leader(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    assert "Request unclean leader election" not in operator.get("/topics/orders/2/").content.decode()
    seeded_cluster["world"].offline("orders", 2)
    text = operator.get("/topics/orders/2/").content.decode()
    assert "Start one of these brokers" in text and "– ago" not in text
    seeded_cluster["world"].put("orders", 2, last_isr=(1, REPLACED))
    assert "No replica is known to have all records" in operator.get("/topics/orders/2/").content.decode()
    seeded_cluster["world"].offline("orders", 2)
    address = "/proposals/new/?kind=election.unclean&amp;target=orders-2"
    assert address in text.replace("&target", "&amp;target")
    shown = operator.get(address.replace("&amp;", "&")).content.decode()
    assert "Unclean leader election of orders-2" in shown and "would be lost" in shown
    assert operator.post(address.replace("&amp;", "&"), {"comment": ""}).status_code == 409
    digest = re.search(r'name="shown_hash" value="(\w+)"', shown)
    assert digest is not None
    seeded_cluster["world"].put("orders", 2, replicas=(3, 4, 1))
    late = operator.post(address.replace("&amp;", "&"), {"comment": "burnt", "shown_hash": digest.group(1)})
    assert "have changed; reload and request the approval again" in late.content.decode()


def test_the_records_deleted_after_an_election_are_on_both_pages(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    at = timezone.now() - timedelta(minutes=5)
    row = Proposal.objects.create(
        kind="election.unclean",
        target="orders-2",
        proposed_by="ann",
        state="done",
        expires_at=at,
        decided_at=at,
        shown={"title": "x", "lines": [], "facts": {}},
    )
    partition, request = "/topics/orders/2/", f"/proposals/{row.pk}/"
    assert "Truncations" not in operator.get(partition).content.decode()
    truncation = ReplicaTruncation.objects.create(
        topic_id=seeded_cluster["world"].image.topic_ids["orders"],
        topic_name="orders",
        partition=2,
        broker_id=2,
        first_offset=538,
        end_offset=1_038,
        high_watermark=1_000,
        leader_epoch=4,
        truncated_at=timezone.now(),
    )
    for address in (partition, request):
        page = " ".join(operator.get(address).content.decode().split())
        assert "Broker 2 deleted 500 records (offsets 538 to 1,037) at" in page
        assert "At least 462 of them had been acknowledged." in page
    page = operator.get(partition).content.decode()
    assert f'href="{request}">approval request {row.pk}' in page
    assert 'href="/messages/?topic=orders&amp;partitions=2&amp;start=offset&amp;offset=538&amp;limit=1"' in page
    assert 'href="/topics/orders/produce/"' in page, "what the operator can do about the loss"
    truncation.high_watermark = 538
    truncation.save()
    assert "It is not known whether they had been acknowledged." in operator.get(request).content.decode()
    Proposal.objects.filter(pk=row.pk).update(state="failed")
    usual = operator.get(partition).content.decode()
    assert "Truncations" in usual and "deleted 500 records" not in usual
    assert "deleted 500 records" not in operator.get(request).content.decode()
