"""Every page opens, for whoever may, and says what it does not know."""

from __future__ import annotations

import io
import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.models import Broker, Change, Move, MovePartition, Partition, Topic

PAGES = [
    "/", "/brokers/", "/brokers/1/", "/brokers/1/drain/", "/brokers/restarts/", "/brokers/restarts/new/", "/brokers/restarts/new/?b=2&b=1", "/brokers/restarts/1/", "/brokers/rebalance/",
    "/brokers/rebalance/?goal=leaders&goal=disk&tolerance=0.05", "/moves/new/?kind=rebalance&step=review&goal=leaders", "/topics/", "/topics/?only=problems&internal=1", "/topics/?only=drift", "/topics/orders/",
    "/topics/orders/?tab=configs", "/topics/orders/?tab=groups", "/topics/orders/?tab=changes", "/topics/orders/1/",
    "/topics/orders/alter/", "/topics/orders/delete/", "/topics/orders/0/recover/1/", "/new/topic/", "/groups/", "/groups/slow-reader/",
    "/delete/group/nightly/", "/moves/", "/moves/?tab=recoveries", "/moves/?tab=damage", "/moves/?tab=damage&only=all", "/moves/1/", "/moves/1/cancel/", "/moves/1/roll_back/", "/moves/1/throttle/", "/moves/new/",
    "/moves/new/?kind=partitions&topic=orders", "/moves/new/?kind=partitions&topic=orders&step=where&p=0&p=2",
    "/moves/new/?kind=partitions&topic=orders&step=review&p=0&r0=1,2,4", "/moves/new/?kind=drain", "/moves/new/?kind=plan", "/moves/new/?kind=drain&broker=1&step=review",
    "/moves/new/?kind=topic&topic=orders&over=1&over=2&over=3&step=review", "/moves/new/?kind=replication_factor&topic=orders&factor=2&step=review",
    "/plans/", "/plans/?only=dropped&q=x", "/plans/1/", "/plans/1/difference/", "/plans/1/difference/?other=2", "/plans/2/approve/", "/plans/1/move/", "/plans/2/drop/",
    "/moves/1/schedule/", "/alerts/", "/alerts/?only=ended", "/proposals/", "/proposals/?state=open&q=ledger", "/proposals/1/", "/proposals/new/?kind=move.approve&target=2",
    "/messages/", "/acls/", "/acls/new/", "/acls/1/delete/", "/pipeline/", "/pipeline/new/", "/pipeline/1/", "/audit/", "/audit/?outcome=refused",
    "/audit/1/", "/search/?q=or",
]  # fmt: skip


@pytest.mark.parametrize("address", PAGES)
def test_every_page_opens_on_a_busy_cluster(seeded: dict[str, Any], operator: Client, address: str) -> None:
    answer = operator.get(address)
    assert answer.status_code == 200, answer.content.decode()[:2000]
    text = answer.content.decode()
    assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
    assert not re.search(r"<script(?![^>]*\bsrc=)", text) and not re.search(r"\sstyle=|\son[a-z]+=", text)


@pytest.mark.parametrize(
    "address",
    ["/", "/brokers/", "/topics/", "/groups/", "/moves/", "/acls/", "/pipeline/", "/alerts/", "/audit/", "/messages/"],
)
def test_every_list_opens_on_an_empty_database(db: None, operator: Client, address: str) -> None:
    answer = operator.get(address)
    assert answer.status_code == 200
    assert "The observer has not read the cluster yet." in answer.content.decode()


@pytest.mark.parametrize("address", ["/", "/topics/x/", "/moves/new/"])
def test_a_stranger_is_asked_to_log_in_and_comes_back(db: None, client: Client, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 302 and answer.headers["Location"].startswith("/login/?next=")


def test_a_part_of_a_page_sends_a_stranger_to_the_login_too(db: None, client: Client) -> None:
    answer = client.get("/topics/", headers={"HX-Request": "true"})
    assert answer.status_code == 204 and answer.headers["HX-Redirect"].startswith("/login/")


def test_the_login_lets_in_and_refuses(db: None, client: Client) -> None:
    from django.contrib.auth import get_user_model

    get_user_model().objects.create_user("carol", password="a long password")
    assert "correct username" in client.post("/login/", {"username": "carol", "password": "no"}).content.decode()
    answer = client.post(
        "/login/?next=/topics/", {"username": "carol", "password": "a long password", "next": "/topics/"}
    )
    assert answer.headers["Location"] == "/topics/"


@pytest.mark.parametrize(
    "address",
    [
        "/topics/nope/",
        "/topics/orders/99/",
        "/brokers/77/",
        "/groups/nope/",
        "/moves/99/",
        "/plans/99/",
        "/plans/1/difference/?other=99",
        "/proposals/99/",
        "/pipeline/99/",
        "/audit/999/",
    ],
)
def test_what_is_not_there_is_said_with_a_way_back(seeded: dict[str, Any], operator: Client, address: str) -> None:
    answer = operator.get(address)
    assert answer.status_code == 404 and "Back to the list" in answer.content.decode()


def test_an_onlooker_sees_the_acts_disabled_with_the_permission_he_lacks(
    seeded: dict[str, Any], onlooker: Client
) -> None:
    text = onlooker.get("/topics/orders/").content.decode()
    assert 'aria-disabled="true" title="Your login may look but not act.' in text
    assert 'href="/topics/orders/delete/"' not in text


@pytest.mark.parametrize(
    "address", ["/new/topic/", "/topics/orders/delete/", "/moves/1/pause/", "/acls/new/", "/pipeline/1/stop/"]
)
def test_an_onlooker_cannot_act(seeded: dict[str, Any], onlooker: Client, address: str) -> None:
    before = Change.objects.count()
    answer = onlooker.post(address, {"name": "x", "confirm_name": "orders", "why": "no"})
    assert answer.status_code == 403 and Change.objects.count() == before


def test_every_act_wants_a_token_of_the_session(seeded: dict[str, Any]) -> None:
    from django.contrib.auth import get_user_model

    strict = Client(enforce_csrf_checks=True)
    strict.force_login(get_user_model().objects.create_user("eve", is_staff=True))
    answer = strict.post("/new/topic/", {"name": "forged", "partitions": "1"})
    assert answer.status_code == 403 and "expired" in answer.content.decode()
    assert not Topic.objects.filter(name="forged").exists()


def test_a_list_keeps_its_filter_order_and_page_in_its_links(seeded: dict[str, Any], operator: Client) -> None:
    text = operator.get("/topics/?q=o&sort=-size_bytes&per_page=1&internal=1").content.decode()
    assert 'aria-sort="descending"' in text
    assert "page=2" in text and "q=o" in text and "of 2 topics" in text


def test_unknown_is_a_dash_with_its_reason_and_not_a_zero(seeded: dict[str, Any], operator: Client) -> None:
    text = operator.get("/groups/nightly/").content.decode()
    assert '<span class="unk" title="Not known yet' in text


def test_the_theme_is_remembered_and_leads_nowhere_else(db: None, operator: Client) -> None:
    answer = operator.post("/theme/", {"theme": "dark", "next": "https://evil.example/"})
    assert answer.headers["Location"] == "/"
    assert 'data-theme="dark"' in operator.get("/").content.decode()


def test_a_pasted_plan_is_reviewed_and_nothing_is_written(seeded: dict[str, Any], operator: Client) -> None:
    before = operator.get("/api/v1/moves").json()["total"]
    plan = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [4, 2, 1]}]}'
    answer = operator.post("/moves/new/", {"plan": plan})
    assert answer.status_code == 200
    assert "Review the move" in answer.content.decode() and "orders-0" in answer.content.decode()
    for nonsense, word in (("[1]", "partitions"), ("{", "not JSON"), ("", "kafka-reassign-partitions")):
        refused = operator.post("/moves/new/", {"plan": nonsense})
        assert (refused.status_code, word in refused.content.decode()) == (400, True), nonsense
    assert operator.get("/api/v1/moves").json()["total"] == before


def test_a_throttle_is_set_and_taken_off_by_its_form(seeded: dict[str, Any], operator: Client) -> None:
    said = operator.post("/moves/1/throttle/", {"throttle_bytes_per_s": "1.5", "why": "night"}, follow=True)
    assert "1.5 MB/s per broker" in said.content.decode()
    assert operator.get("/api/v1/moves/1").json()["throttle_bytes_per_s"] == 1_500_000
    low = operator.post("/moves/1/throttle/", {"throttle_bytes_per_s": "0.0001"})
    assert (low.status_code, "too low" in low.content.decode()) == (409, True)
    operator.post("/moves/1/throttle/", {"throttle_bytes_per_s": ""})
    assert operator.get("/api/v1/moves/1").json()["throttle_bytes_per_s"] is None


TO_4 = '{"kind": "partitions", "partitions": [{"topic": "ledger", "partition": 0, "replicas": [4]}]}'


def test_who_did_not_propose_it_approves_with_a_button(seeded: dict[str, Any], operator: Client) -> None:
    text = operator.get("/proposals/1/").content.decode()
    assert "fewer than its min.insync.replicas 2" in text and "proposals/1/approve" in text
    assert 'value="approve" disabled' not in " ".join(text.split())
    done = operator.post("/proposals/1/", {"act": "approve", "why": "seen"}, follow=True).content.decode()
    assert "Proposal 1 is done. Move 2 is approved and has begun." in done
    assert operator.get("/api/v1/moves/2").json()["state"] == "running"


def test_who_proposed_it_sees_why_the_button_is_not_his(seeded: dict[str, Any], operator: Client) -> None:
    operator.post("/moves/2/cancel/", {"why": "anew"})
    operator.post("/proposals/1/", {"act": "reject", "why": "anew"})
    form = {"scope": TO_4, "parts_in_flight_max": "8", "parts_per_broker_max": "4", "act": "propose"}
    silent = operator.post("/moves/new/", form)
    assert (silent.status_code, "Give a reason" in silent.content.decode()) == (409, True)
    said = operator.post("/moves/new/", {**form, "why": "disks"}, follow=True).content.decode()
    assert "Move 3 is planned and proposed" in said
    assert "alice has proposed this, so another operator must approve it" in said
    refused = operator.post("/proposals/2/", {"act": "approve", "why": "me"})
    assert (refused.status_code, operator.get("/api/v1/moves/3").json()["state"]) == (409, "planned")
    silent = operator.post("/proposals/2/", {"act": "reject"})
    assert (silent.status_code, "Give a reason" in silent.content.decode()) == (409, True)
    operator.post("/proposals/2/", {"act": "reject", "why": "wrong"})
    assert operator.get("/api/v1/proposals/2").json()["state"] == "withdrawn"


def test_a_review_that_safety_refuses_offers_to_propose_it(seeded: dict[str, Any], operator: Client) -> None:
    operator.post("/moves/2/cancel/", {"why": "anew"})
    address = "/moves/new/?kind=partitions&topic=ledger&step=review&p=0&r0=4"
    assert "Propose it against the refusal" in operator.get(address).content.decode()
    assert "Propose it against" not in operator.get(address.replace("r0=4", "r0=9")).content.decode()
    assert (
        operator.get("/moves/2/propose/").headers["Location"].startswith("/proposals/new/?kind=move.approve&target=2")
    )


def test_an_unclean_election_is_proposed_from_the_page_of_a_partition_without_a_leader(
    seeded: dict[str, Any], operator: Client
) -> None:
    assert "Propose an unclean election" not in operator.get("/topics/orders/2/").content.decode()
    seeded["world"].offline("orders", 2)
    text = operator.get("/topics/orders/2/").content.decode()
    address = "/proposals/new/?kind=election.unclean&amp;target=orders-2"
    assert address in text.replace("&target", "&amp;target")
    shown = operator.get(address.replace("&amp;", "&")).content.decode()
    assert "Unclean election of orders-2" in shown and "would be lost" in shown
    assert operator.post(address.replace("&amp;", "&"), {"why": ""}).status_code == 409
    digest = re.search(r'name="shown_hash" value="(\w+)"', shown)
    assert digest is not None
    seeded["world"].put("orders", 2, replicas=(3, 4, 1))
    late = operator.post(address.replace("&amp;", "&"), {"why": "burnt", "shown_hash": digest.group(1)})
    assert "has changed since; look at it again" in late.content.decode()


@pytest.mark.parametrize(
    "address",
    [
        "/moves/1/cancel/",
        "/moves/1/roll_back/",
        "/topics/orders/0/recover/1/",
        "/acls/1/delete/",
        "/topics/orders/delete/",
    ],
)
def test_a_costly_act_wants_a_reason(seeded: dict[str, Any], operator: Client, address: str) -> None:
    before = Change.objects.count()
    answer = operator.post(address, {"confirm_name": "orders", "why": " "})
    assert "Give a reason; it is kept in the audit." in answer.content.decode()
    assert Change.objects.count() == before


def test_a_plan_is_saved_from_its_review_approved_and_begun_in_a_window(
    seeded: dict[str, Any], operator: Client
) -> None:
    form = {"scope": '{"kind": "topic", "topic": "payments.audit", "brokers": [1, 2, 4]}', "parts_in_flight_max": "8",
            "parts_per_broker_max": "4", "why": "later", "act": "save"}  # fmt: skip
    said = operator.post("/moves/new/", form, follow=True).content.decode()
    assert "Plan 3 is saved" in said and "payments.audit-0" in said
    digest = operator.get("/api/v1/plans/3").json()["digest"]
    wrong = operator.post("/plans/3/approve/", {"digest": "0" * 64, "why": "ok"})
    assert (wrong.status_code, "has digest" in wrong.content.decode()) == (409, True)
    operator.post("/plans/3/approve/", {"digest": digest, "why": "ok"})
    asked = {"digest": digest, "parts_in_flight_max": "2", "parts_per_broker_max": "2", "why": "later"}
    bad = operator.post("/plans/3/move/", {**asked, "opens": "late", "stop_by": "05:30"})
    assert (bad.status_code, "no time of day" in bad.content.decode()) == (409, True)
    made = operator.post(
        "/plans/3/move/", {**asked, "opens": "22:00", "stop_by": "05:30", "days": ["0", "4"]}, follow=True
    )
    text = made.content.decode()
    assert "Move 3 is made of plan 3." in text and "22:00 to 05:30 UTC Mon Fri" in text
    assert operator.get("/api/v1/moves/3").json()["state"] == "approved"
    gone = operator.post("/moves/3/schedule/", {"why": "always"}, follow=True)
    assert "no window any more" in gone.content.decode()
    operator.post("/plans/3/drop/", {"why": "over"})
    assert "payments" not in operator.get("/plans/").content.decode()


def test_a_long_plan_comes_in_as_a_file_and_is_saved_instead_of_reviewed(
    seeded: dict[str, Any], operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from console.views import move_new

    monkeypatch.setattr(move_new, "REVIEWED_MAX", 1)
    body = {"version": 1, "partitions": [{"topic": "orders", "partition": i, "replicas": [4, 2, 1]} for i in range(2)]}

    def file() -> io.BytesIO:
        return io.BytesIO(json.dumps(body).encode())

    too_long = operator.post("/moves/new/?kind=plan", {"plan": "", "file": file()})
    assert (too_long.status_code, "names 2 partitions: save it as a plan" in too_long.content.decode()) == (400, True)
    silent = operator.post("/moves/new/?kind=plan", {"plan": "", "file": file(), "act": "save"})
    assert (silent.status_code, "Give a reason" in silent.content.decode()) == (400, True)
    saved = operator.post("/moves/new/?kind=plan", {"plan": "", "file": file(), "act": "save", "why": "x"}, follow=True)
    assert "Plan 3 is saved" in saved.content.decode()


def test_a_throttle_that_follows_the_producers_is_asked_for_by_its_form(
    seeded: dict[str, Any], operator: Client
) -> None:
    said = operator.post("/moves/1/throttle/", {"throttle_bytes_per_s": "50", "adaptive": "on"}, follow=True)
    text = said.content.decode()
    assert "an adaptive throttle up to 50.0 MB/s per broker" in text and "up to 50.0 MB/s" in text
    row = operator.get("/api/v1/moves/1").json()
    assert (row["throttle_bytes_per_s"], row["adaptive"]["cap"]) == (1_000_000, 50_000_000)
    none = operator.post("/moves/1/throttle/", {"throttle_bytes_per_s": "", "adaptive": "on"})
    assert (none.status_code, "needs a cap" in none.content.decode()) == (409, True)


def test_an_early_hand_over_is_chosen_in_the_wizard_and_a_partition_says_where_its_old_records_lie(
    seeded: dict[str, Any], operator: Client
) -> None:
    review = operator.get("/moves/new/?kind=partitions&topic=orders&step=review&p=0&r0=1,2,4").content.decode()
    assert "leadership goes at once" in review and 'value="tail_early"' in review
    scope = {"kind": "partitions", "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 4]}]}
    form = {
        "scope": json.dumps(scope),
        "mode": "tail_early",
        "parts_in_flight_max": 8,
        "parts_per_broker_max": 4,
        "act": "start",
        "why": "room",
    }
    refused = operator.post("/moves/new/", {**form, "deadline_hours": 5})
    assert refused.status_code == 409 and "waits for no retention" in refused.content.decode()
    move = operator.post("/moves/new/", form, follow=True).redirect_chain[-1][0].rstrip("/").rpartition("/")[2]
    row = operator.get(f"/api/v1/moves/{move}").json()
    assert (row["mode"], row["handover"], row["state"]) == ("tail", "early", "running")
    assert "tail, early" in operator.get(f"/moves/{move}/").content.decode()
    Partition.objects.filter(topic__name="orders", index=0).update(archive_start=500, archive_epoch=1, holders=[1, 2])
    shown = operator.get("/topics/orders/0/").content.decode()
    assert "records below offset 500 are read from" in shown


def test_a_move_without_old_data_is_chosen_in_the_wizard_and_its_cut_is_typed(
    seeded: dict[str, Any], operator: Client
) -> None:
    """First nothing of it is in step, so that a cut says so; then it is proposed, and another approves."""
    review = operator.get("/moves/new/?kind=partitions&topic=orders&step=review&p=0&r0=1,2,4").content.decode()
    assert "Only what is written from now on travels" in review and 'name="mode"' in review
    scope = {"kind": "partitions", "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 4]}]}
    form = {
        "scope": json.dumps(scope),
        "mode": "tail",
        "parts_in_flight_max": 8,
        "parts_per_broker_max": 4,
        "act": "start",
        "why": "room",
    }
    page = operator.post("/moves/new/", form, follow=True)
    move = page.redirect_chain[-1][0].rstrip("/").rpartition("/")[2]
    row = operator.get(f"/api/v1/moves/{move}").json()
    assert (row["mode"], row["state"]) == ("tail", "running") and "cut" in row["can"]
    assert "Cut: delete the old records of 0" in operator.get(f"/moves/{move}/").content.decode()
    cut = operator.get(f"/moves/{move}/cut/")
    assert cut.status_code == 409 and "is unknown" in cut.content.decode()
    refused = operator.post(f"/moves/{move}/cut/", {"confirm_name": "orders", "why": "room"})
    assert refused.status_code == 409 and "nothing to cut" in refused.content.decode()
    rows = Partition.objects.filter(topic__name="orders", index=0)
    rows.update(observers=[4], tail_start=500, start_offset=100, assignment_generation=F("assignment_generation") + 1)
    MovePartition.objects.filter(move_id=move).update(state="ready", read_generation=rows.get().assignment_generation)
    shown = operator.get(f"/moves/{move}/cut/")
    assert shown.status_code == 200 and "400 records, offsets 100 to 499" in shown.content.decode()
    typed = {"confirm_name": "order", "why": "room", "shown_hash": shown.context["form"].initial["shown_hash"]}
    wrong = operator.post(f"/moves/{move}/cut/", typed)
    assert wrong.status_code == 409 and "is something else" in wrong.content.decode()
    rows.update(tail_start=600)
    late = operator.post(f"/moves/{move}/cut/", {**typed, "confirm_name": "orders"})
    assert late.status_code == 409 and "has changed since" in late.content.decode()
    rows.update(tail_start=500)
    proposal = operator.post(f"/moves/{move}/cut/", {**typed, "confirm_name": "orders"}, follow=True)
    text = proposal.content.decode()
    assert "every record below offset 500 is deleted" in text and "400 records, offsets 100 to 499" in text
    assert MovePartition.objects.get(move_id=move).state == "ready"
    where = proposal.redirect_chain[-1][0]
    assert operator.post(where, {"act": "approve", "why": ""}).status_code == 409
    bea = Client()
    bea.force_login(get_user_model().objects.create_user("bea", is_staff=True))
    assert "is done" in bea.post(where, {"act": "approve", "why": ""}, follow=True).content.decode()
    assert MovePartition.objects.get(move_id=move).state == "cutting"


def test_a_view_that_fails_says_where_and_when_and_asks_no_database(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from controlplane.selectors import moves

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(moves, "move_list", broken)
    operator.raise_request_exception = False
    answer = operator.get("/moves/")
    text = answer.content.decode()
    assert answer.status_code == 500 and "<code>/moves/</code>" in text and re.search(r"\d\d:\d\d:\d\d UTC", text)
    assert "script-src 'self'" in answer.headers["Content-Security-Policy"]


def test_why_a_move_has_no_end_is_said(seeded: dict[str, Any], operator: Client) -> None:
    Move.objects.filter(pk=seeded["move"]).update(waits_for="retention (1)")
    text = operator.get("/moves/").content.decode()
    assert '<span class="sub">waits for retention (1)</span>' in text
    assert 'title="It waits for retention (1)."' in operator.get(f"/moves/{seeded['move']}/").content.decode()
    assert 'title="It has not begun."' in text, "move 2 is planned"
    Move.objects.filter(pk=seeded["move"]).update(
        state="cancelled", started_at=timezone.now() - timedelta(seconds=90), finished_at=timezone.now()
    )
    MovePartition.objects.filter(move=seeded["move"]).update(state="put_back")
    text = operator.get(f"/moves/{seeded['move']}/").content.decode()
    assert "<dt>Took</dt><dd>1 min 30 s</dd>" in text
    assert "Roll back" not in text, "nothing has stayed where it was going"


def test_a_whole_rack_is_drained_by_the_wizard_and_its_brokers_say_so(seeded: dict[str, Any], operator: Client) -> None:
    Move.objects.exclude(state__in=["done", "cancelled", "rolled_back", "failed"]).update(state="cancelled")
    MovePartition.objects.update(active=False)
    assert "rack:" not in operator.get("/moves/new/?kind=drain").content.decode(), "no broker names a rack"
    Broker.objects.filter(broker_id=1).update(rack="row & 1")
    choose = operator.get("/moves/new/?kind=drain&broker=rack:row+%26+1").content.decode()
    assert '<option value="rack:row &amp; 1" selected>rack row &amp; 1</option>' in choose
    review = operator.get("/moves/new/?kind=drain&broker=rack:row+%26+1&step=review").content.decode()
    scope = {"kind": "drain", "rack": "row & 1"}
    assert "row &amp; 1" in review
    form = {"scope": json.dumps(scope), "parts_in_flight_max": "8", "parts_per_broker_max": "4", "why": "the floor"}
    refused = operator.post("/moves/new/", form)
    assert refused.status_code == 409
    assert "flights-0 has 4 replicas and no other living broker" in refused.content.decode(), "above the form, not lost"
    Partition.objects.filter(topic__name="flights").delete()
    answer = operator.post("/moves/new/", form, follow=True)
    move = Move.objects.latest("id")
    assert move.scope == scope and "Drain rack row &amp; 1" in answer.content.decode()
    assert all(1 in p.replicas_from and 1 not in p.replicas_to for p in move.parts.all()) and move.parts.exists()
    assert operator.get("/api/v1/brokers/1/drain").json()["move_id"] == move.pk


@pytest.mark.parametrize("asked", ["", "?only=waiting&sort=-bytes_total"])
def test_the_page_of_a_move_adds_its_partitions_up_once(seeded: dict[str, Any], operator: Client, asked: str) -> None:
    with CaptureQueriesContext(connection) as read:
        operator.get(f"/moves/{seeded['move']}/{asked}")
    of_parts = [q["sql"] for q in read.captured_queries if 'FROM "controlplane_movepartition"' in q["sql"]]
    grouped = [q for q in of_parts if "SUM(" in q or "GROUP BY" in q]
    assert len(grouped) == 1, grouped
    assert len(of_parts) <= 4, "besides it the list: how many, which, and these"
