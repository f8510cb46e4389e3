"""The wizard of a new move: scope, review, rejection, approval request."""

from __future__ import annotations

import json
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import F
from django.test import Client

from controlplane.domain.scope import to_json
from controlplane.models import Broker, Change, Move, MovePartition, ObservedPartition


def test_a_pasted_plan_is_reviewed_and_nothing_is_written(seeded_cluster: dict[str, Any], operator: Client) -> None:
    before = operator.get("/api/v1/moves").json()["total"]
    plan = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [4, 2, 1]}]}'
    response = operator.post("/moves/new/", {"plan": plan})
    assert response.status_code == 200
    assert "Review move" in response.content.decode() and "orders-0" in response.content.decode()
    for nonsense, word in (("[1]", "partitions"), ("{", "Invalid JSON"), ("", "kafka-reassign-partitions")):
        rejected = operator.post("/moves/new/", {"plan": nonsense})
        assert (rejected.status_code, word in rejected.content.decode()) == (400, True), nonsense
    assert operator.get("/api/v1/moves").json()["total"] == before


def test_a_review_that_a_safety_check_rejects_offers_an_approval_request(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    operator.post("/moves/2/cancel/", {"comment": "again"})
    address = "/moves/new/?kind=partitions&topic=ledger&step=review&p=0&r0=4"
    assert "Request approval to override" in operator.get(address).content.decode()
    assert "Request approval to override" not in operator.get(address.replace("r0=4", "r0=9")).content.decode()
    assert (
        operator.get("/moves/2/propose/").headers["Location"].startswith("/proposals/new/?kind=move.approve&target=2")
    )


def test_an_early_hand_over_is_chosen_in_the_wizard_and_a_partition_shows_its_history_replicas(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    review = operator.get("/moves/new/?kind=partitions&topic=orders&step=review&p=0&r0=1,2,4").content.decode()
    assert "leadership moves immediately" in review and 'value="tail_early"' in review
    scope = {"kind": "partitions", "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 4]}]}
    form = {
        "scope": json.dumps(scope),
        "mode": "tail_early",
        "parts_in_flight_max": 8,
        "parts_per_broker_max": 4,
        "act": "start",
        "comment": "room",
    }
    rejected = operator.post("/moves/new/", {**form, "deadline_hours": 5})
    assert rejected.status_code == 409 and "does not wait for retention" in rejected.content.decode()
    move = operator.post("/moves/new/", form, follow=True).redirect_chain[-1][0].rstrip("/").rpartition("/")[2]
    row = operator.get(f"/api/v1/moves/{move}").json()
    assert (row["mode"], row["handover"], row["state"]) == ("tail", "early", "running")
    assert "New data only, switch leaders now" in operator.get(f"/moves/{move}/").content.decode()
    ObservedPartition.objects.filter(topic__name="orders", index=0).update(
        archive_start=500, archive_epoch=1, holders=[1, 2]
    )
    shown = operator.get("/topics/orders/0/").content.decode()
    assert "records below offset 500 are read from" in shown


def test_a_rejected_move_shows_its_problems_first(seeded_cluster: dict[str, Any], operator: Client) -> None:
    """The focus of the reason scrolled the note with the problems out of sight."""
    address = "/moves/new/?kind=partitions&topic=orders&step=review&p=0&r0="
    possible, rejected = (operator.get(address + brokers).content.decode() for brokers in ("1,2,4", "9"))
    assert "autofocus" in possible and "autofocus" not in rejected and "note red" in rejected


def test_a_tail_move_is_chosen_in_the_wizard_and_its_deletion_of_records_is_typed(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    """First no new replica is in sync, so the page rejects the deletion. Then one operator requests it and another approves."""
    review = operator.get("/moves/new/?kind=partitions&topic=orders&step=review&p=0&r0=1,2,4").content.decode()
    assert "Only new records are copied" in review and 'name="mode"' in review
    scope = {"kind": "partitions", "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 4]}]}
    form = {
        "scope": json.dumps(scope),
        "mode": "tail",
        "parts_in_flight_max": 8,
        "parts_per_broker_max": 4,
        "act": "start",
        "comment": "room",
    }
    page = operator.post("/moves/new/", form, follow=True)
    move = page.redirect_chain[-1][0].rstrip("/").rpartition("/")[2]
    row = operator.get(f"/api/v1/moves/{move}").json()
    assert (row["mode"], row["state"]) == ("tail", "running") and "delete_records" in row["can"]
    assert "Delete old records of 0 partitions…" in operator.get(f"/moves/{move}/").content.decode()
    cut = operator.get(f"/moves/{move}/delete_records/")
    assert cut.status_code == 409 and "are unknown" in cut.content.decode()
    rejected = operator.post(f"/moves/{move}/delete_records/", {"confirm_name": "orders", "comment": "room"})
    assert rejected.status_code == 409 and "no old records" in rejected.content.decode()
    rows = ObservedPartition.objects.filter(topic__name="orders", index=0)
    rows.update(observers=[4], tail_start=500, start_offset=100, assignment_generation=F("assignment_generation") + 1)
    MovePartition.objects.filter(move_id=move).update(state="ready", read_generation=rows.get().assignment_generation)
    shown = operator.get(f"/moves/{move}/delete_records/")
    assert shown.status_code == 200 and "400 records, offsets 100 to 499" in shown.content.decode()
    typed = {"confirm_name": "order", "comment": "room", "shown_hash": shown.context["form"].initial["shown_hash"]}
    wrong = operator.post(f"/moves/{move}/delete_records/", typed)
    assert wrong.status_code == 409 and "does not match" in wrong.content.decode()
    rows.update(tail_start=600)
    late = operator.post(f"/moves/{move}/delete_records/", {**typed, "confirm_name": "orders"})
    assert late.status_code == 409 and "have changed" in late.content.decode()
    rows.update(tail_start=500)
    proposal = operator.post(f"/moves/{move}/delete_records/", {**typed, "confirm_name": "orders"}, follow=True)
    text = proposal.content.decode()
    assert "every record below offset 500 is deleted" in text and "400 records, offsets 100 to 499" in text
    assert MovePartition.objects.get(move_id=move).state == "ready"
    where = proposal.redirect_chain[-1][0]
    assert operator.post(where, {"act": "approve", "comment": ""}).status_code == 409
    bea = Client()
    bea.force_login(get_user_model().objects.create_user("bea", is_staff=True))
    assert ": done. " in bea.post(where, {"act": "approve", "comment": ""}, follow=True).content.decode()
    assert MovePartition.objects.get(move_id=move).state == "truncating"


def test_a_whole_rack_is_drained_by_the_wizard_and_its_brokers_show_the_drain(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    Move.objects.exclude(state__in=["done", "cancelled", "rolled_back", "failed"]).update(state="cancelled")
    MovePartition.objects.update(active=False)
    assert "rack:" not in operator.get("/moves/new/?kind=drain").content.decode(), "no broker names a rack"
    Broker.objects.filter(broker_id=1).update(rack="row & 1")
    choose = operator.get("/moves/new/?kind=drain&broker=rack:row+%26+1").content.decode()
    assert '<option value="rack:row &amp; 1" selected>rack row &amp; 1</option>' in choose
    review = operator.get("/moves/new/?kind=drain&broker=rack:row+%26+1&step=review").content.decode()
    scope = {"kind": "drain", "rack": "row & 1"}
    assert "row &amp; 1" in review
    form = {"scope": json.dumps(scope), "parts_in_flight_max": "8", "parts_per_broker_max": "4", "comment": "the floor"}
    rejected = operator.post("/moves/new/", form)
    assert rejected.status_code == 409
    assert "flights-0 has 4 replicas, and no other live broker" in rejected.content.decode(), "above the form, not lost"
    ObservedPartition.objects.filter(topic__name="flights").delete()
    response = operator.post("/moves/new/", form, follow=True)
    move = Move.objects.latest("id")
    assert to_json(move.scope) == scope and "Drain rack row &amp; 1" in response.content.decode()
    assert all(1 in p.replicas_from and 1 not in p.replicas_to for p in move.parts.all()) and move.parts.exists()
    assert operator.get("/api/v1/brokers/1/drain").json()["move_id"] == move.pk


def test_a_rejection_that_was_not_recorded_does_not_link_to_the_audit_log(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    before = Change.objects.count()
    response = operator.get("/proposals/new/")
    text = response.content.decode()
    assert response.status_code == 409
    assert "The kind of approval request is missing; use" in text
    assert "The rejection is in the" not in text
    assert Change.objects.count() == before
