"""The page of a move: throttles, time left, totals, end of a drain."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.domain.wait_reason import Wait, WaitReason
from controlplane.models import Alert, Move, MovePartition
from controlplane.monitoring import live_selectors
from controlplane.monitoring.hub import UpdateBuffer, hub
from controlplane.services import brokers as broker_services
from tests.unit.controlplane.world import World


def test_a_throttle_is_set_and_removed_by_its_form(seeded_cluster: dict[str, Any], operator: Client) -> None:
    page = operator.post("/moves/1/throttle/", {"throttle_bytes_per_s": "1.5", "comment": "night"}, follow=True)
    assert "1.5 MB/s per broker" in page.content.decode()
    assert operator.get("/api/v1/moves/1").json()["throttle_bytes_per_s"] == 1_500_000
    low = operator.post("/moves/1/throttle/", {"throttle_bytes_per_s": "0.0001"})
    assert (low.status_code, "too low" in low.content.decode()) == (409, True)
    operator.post("/moves/1/throttle/", {"throttle_bytes_per_s": ""})
    assert operator.get("/api/v1/moves/1").json()["throttle_bytes_per_s"] is None


def test_an_adaptive_throttle_is_set_by_its_form(seeded_cluster: dict[str, Any], operator: Client) -> None:
    page = operator.post("/moves/1/throttle/", {"throttle_bytes_per_s": "50", "adaptive": "on"}, follow=True)
    text = page.content.decode()
    assert "adaptive, up to 50.0 MB/s per broker" in text and "Adaptive throttle, up to" in text
    row = operator.get("/api/v1/moves/1").json()
    assert (row["throttle_bytes_per_s"], row["adaptive"]["cap"]) == (1_000_000, 50_000_000)
    none = operator.post("/moves/1/throttle/", {"throttle_bytes_per_s": "", "adaptive": "on"})
    assert (none.status_code, "needs a maximum" in none.content.decode()) == (409, True)


def test_the_page_of_a_paused_move_says_that_active_reassignments_continue(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    """Only the message after the click said so: a paused move continued to copy."""
    for state, shown in (("running", False), ("paused", True)):
        Move.objects.filter(pk=1).update(state=state)
        assert ("Paused: active reassignments finish" in operator.get("/moves/1/").content.decode()) is shown


def test_a_move_without_an_eta_shows_the_reason(seeded_cluster: dict[str, Any], operator: Client) -> None:
    Move.objects.filter(pk=seeded_cluster["move"]).update(waits_for=(Wait(WaitReason.RETENTION, 1),))
    text = operator.get("/moves/").content.decode()
    assert '">waits for retention (1 partition)</span>' in text
    assert (
        'title="The move waits for retention (1 partition)."'
        in operator.get(f"/moves/{seeded_cluster['move']}/").content.decode()
    )
    assert 'title="The move has not started."' in text, "move 2 is planned"
    Move.objects.filter(pk=seeded_cluster["move"]).update(
        state="cancelled", started_at=timezone.now() - timedelta(seconds=90), finished_at=timezone.now()
    )
    MovePartition.objects.filter(move=seeded_cluster["move"]).update(state="reverted")
    text = operator.get(f"/moves/{seeded_cluster['move']}/").content.decode()
    assert "<dt>Duration</dt><dd>1 min 30 s</dd>" in text
    assert "Roll back" not in text, "nothing has stayed where it was going"


def test_a_failed_move_is_rolled_back_only_if_a_partition_has_other_replicas(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    """Rejected partitions whose replicas differ have their old and new replicas: the button said "Roll back (0)"."""
    Move.objects.filter(pk=seeded_cluster["move"]).update(state="failed", finished_at=timezone.now())
    parts = MovePartition.objects.filter(move=seeded_cluster["move"])
    again = f"Plan move {seeded_cluster['move']} again"
    parts.update(state="rejected", active=True)
    text = operator.get(f"/moves/{seeded_cluster['move']}/").content.decode()
    assert "Roll back 1 partition<" in text.replace(" <", "<") and again in text
    parts.update(active=False)
    text = operator.get(f"/moves/{seeded_cluster['move']}/").content.decode()
    assert "Roll back 0" not in text and again in text
    Move.objects.filter(pk=seeded_cluster["move"]).update(state="cancelled")
    assert again not in operator.get(f"/moves/{seeded_cluster['move']}/").content.decode()


def test_the_note_of_a_blocked_move_has_the_count_first_and_the_next_step(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    note = "Target down: broker 2 is not alive. Start it, or cancel the move."
    MovePartition.objects.filter(move=seeded_cluster["move"]).update(state="copying", cause="target_down", note=note)
    text = operator.get(f"/moves/{seeded_cluster['move']}/").content.decode()
    shown = text.partition('id="move-causes"')[2].partition("</p>")[0]
    assert 'class="note red"' in shown and "Blocked:" in shown and note in shown


def test_the_list_names_the_number_of_throttles_that_change(seeded_cluster: dict[str, Any], operator: Client) -> None:
    active = Move.objects.filter(finished_at=None).count()
    Move.objects.filter(pk=seeded_cluster["move"]).update(comment="one of them")
    assert f"Change the throttle of {active} active moves" in " ".join(operator.get("/moves/").content.decode().split())
    found = " ".join(operator.get("/moves/?q=one of them").content.decode().split())
    assert "Change the throttle of 1 active move<" in found.replace(" <", "<")
    assert "Change the throttle" not in operator.get("/moves/?state=finished").content.decode()


def test_an_override_without_approval_is_a_rejection(seeded_cluster: dict[str, Any], operator: Client) -> None:
    for state, shown in (("planned", True), ("running", False)):
        Move.objects.filter(pk=1).update(state=state, overrides=["A rack would have no replica."])
        text = operator.get("/moves/1/").content.decode()
        assert ("It starts only after a second operator" in text) is shown
        assert ("This move overrides a safety check" in text) is not shown


@pytest.mark.parametrize("asked", ["", "?state=waiting&sort=-bytes_total"])
def test_the_page_of_a_move_computes_its_totals_once(
    seeded_cluster: dict[str, Any], operator: Client, asked: str
) -> None:
    with CaptureQueriesContext(connection) as read:
        operator.get(f"/moves/{seeded_cluster['move']}/{asked}")
    of_parts = [q["sql"] for q in read.captured_queries if 'FROM "controlplane_movepartition"' in q["sql"]]
    grouped = [q for q in of_parts if "SUM(" in q or "GROUP BY" in q]
    assert len(grouped) == 1, grouped
    assert len(of_parts) <= 4, "besides it the list: how many, which, and these"


def test_a_page_has_the_update_number_from_before_its_rows_were_read(
    seeded_cluster: dict[str, Any], operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The socket must send an update that is published while the page is rendered: the page may show older data."""
    from console.views import moves as view

    read = view.moves.move_history

    def read_slowly(move_id: int) -> Any:
        found = read(move_id)
        hub.publish("moves", {"moves": [], "listed": False})
        return found

    monkeypatch.setattr(view.moves, "move_history", read_slowly)
    monkeypatch.setattr(live_selectors, "received", UpdateBuffer())
    _, before = hub.latest()
    text = operator.get(f"/moves/{seeded_cluster['move']}/").content.decode()
    assert f'data-seq="{before}"' in text
    assert hub.latest()[1] > before


def test_the_end_of_a_drain_shows_that_its_broker_stays_out_of_service(world: World, operator: Client) -> None:
    world.topic("flights", (1, 2))
    move = broker_services.drain(1, actor="alice", comment="new disk")
    assert move is not None
    world.apply_rows()
    review = operator.get(f"/moves/{move.pk}/cancel/").content.decode()
    assert "Broker 1 stays cordoned and demoted, unless you uncordon below." in review
    assert "Uncordon broker 1 and restore leadership" in review
    assert 'id="id_uncordon" checked' not in review
    assert "checked" in operator.get(f"/moves/{move.pk}/roll_back/").content.decode()
    operator.post(f"/moves/{move.pk}/cancel/", {"comment": "not today"})
    Move.objects.filter(pk=move.pk).update(state="cancelled")
    page = operator.get(f"/moves/{move.pk}/").content.decode()
    assert "cordoned, and its leadership is off" in page and "/brokers/1/restore/" in page
    assert "Uncordon and restore leadership" in operator.get("/brokers/1/").content.decode()
    operator.post("/brokers/1/restore/")
    world.apply_rows()
    assert "/brokers/1/restore/" not in operator.get(f"/moves/{move.pk}/").content.decode()


def test_the_page_leads_to_the_open_alerts_of_the_move(seeded_cluster: dict[str, Any], viewer: Client) -> None:
    Alert.objects.all().delete()
    assert "<table" in viewer.get("/moves/1/").content.decode()
    for kind, subject in (("move_stuck", "1"), ("move_stuck", "11"), ("broker_down", "1")):
        text = f"{kind} {subject}: see it"
        Alert.objects.create(kind=kind, subject=subject, severity="degraded", text=text, do="", since=timezone.now())
    page = viewer.get("/moves/1/").content.decode()
    assert "move_stuck 1: see it" in page and "move_stuck 11" not in page and "broker_down" not in page


def test_the_list_begins_with_the_active_partitions_and_its_header_says_so(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    """Sorted by topic, the partitions that were copied could be on a later page."""
    copied = MovePartition.objects.filter(move_id=1).get()
    for topic, state in (("aaa", "done"), ("bbb", "waiting"), ("zzz", "rejected")):
        row = MovePartition.objects.get(pk=copied.pk)
        row.pk, row.topic_id, row.topic_name, row.state, row.active = None, uuid4(), topic, state, False
        row.save()
    page = operator.get("/moves/1/").content.decode()
    places = [page.index(f">{name}-0</a></td>") for name in ("zzz", copied.topic_name, "bbb", "aaa")]
    assert places == sorted(places)
    assert re.search(r'<th scope="col" aria-sort="ascending">\s*<a id="sort-state"', page)
    by_name = operator.get("/moves/1/?sort=topic").content.decode()
    assert by_name.index(">aaa-0</a></td>") < by_name.index(">zzz-0</a></td>")
    assert re.search(r'<th scope="col" aria-sort="ascending">\s*<a id="sort-topic"', by_name)
