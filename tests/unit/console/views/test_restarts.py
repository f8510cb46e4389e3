"""The pages of rolling restarts: the review, the operations of a state, and the buttons."""

from __future__ import annotations

from django.test import Client

from controlplane.domain.restart import blocker
from controlplane.domain.restart_phrases import NOT_SAFE
from controlplane.models import RollingRestart
from tests.unit.controlplane.world import World
from weir_common.phrases import phrase_to_json, sentence


def test_the_chosen_brokers_are_restarted_in_their_order(world: World, operator: Client) -> None:
    page = operator.get("/brokers/restarts/new/?b=3&b=1&b=x&b=77").content.decode()
    assert "Restart 2 brokers, one at a time" in page
    assert operator.post("/brokers/restarts/new/", {"b": ["3", "1"]}).status_code == 409
    done = operator.post("/brokers/restarts/new/", {"b": ["3", "1"], "comment": "new kernel"}, follow=True)
    row = RollingRestart.objects.get()
    assert f"Rolling restart {row.pk} started." in done.content.decode()
    assert list(row.steps.order_by("place").values_list("broker_id", flat=True)) == [3, 1]
    again = operator.post("/brokers/restarts/new/", {"b": ["2"], "comment": "x"})
    assert again.status_code == 409 and RollingRestart.objects.count() == 1, "one restart at a time"


def test_without_a_choice_all_live_brokers_are_restarted(world: World, operator: Client) -> None:
    world.down(2)
    assert "Restart 2 brokers, one at a time" in operator.get("/brokers/restarts/new/").content.decode()


def test_a_restart_that_cannot_continue_is_amber_in_the_list_and_on_its_page(world: World, operator: Client) -> None:
    """It looked like a healthy one: the broker was "queued" in grey, and the list showed no wait at all."""
    operator.post("/brokers/restarts/new/", {"b": ["1", "2"], "comment": "x"})
    row = RollingRestart.objects.get()
    page = operator.get(f"/brokers/restarts/{row.pk}/").content.decode()
    assert "waiting: not safe" not in page and "Restart a broker process when its note says so." in page
    note = sentence(NOT_SAFE, reasons=blocker(1, "orders", 0, [1, 2], 2))
    row.steps.filter(broker_id=1).update(note=note, note_phrase=phrase_to_json(note))
    page = operator.get(f"/brokers/restarts/{row.pk}/").content.decode()
    assert page.count('<span class="st st-amber">waiting: not safe</span>') == 2, (
        "in the head and in the row of broker 1"
    )
    assert '<a href="/topics/orders/0/">orders-0</a>' in page
    listed = operator.get("/brokers/restarts/").content.decode()
    assert "waiting: not safe" in listed and "0 of 2" in listed
    assert f"Open rolling restart {row.pk}" in operator.get("/brokers/restarts/new/").content.decode()


def test_the_operations_follow_the_state(world: World, operator: Client) -> None:
    operator.post("/brokers/restarts/new/", {"b": ["1", "2"], "comment": "x"})
    here = f"/brokers/restarts/{RollingRestart.objects.get().pk}/"
    page = operator.get(here).content.decode()
    assert "Pause (2 queued)" in page and "Cancel (2 not restarted)" in page and "Resume" not in page
    assert operator.get(f"{here}pause/").headers["Location"] == here
    paused = operator.post(f"{here}pause/", follow=True).content.decode()
    assert "no further broker is restarted." in paused and "Resume (2 queued)" in paused
    assert operator.post(f"{here}pause/").status_code == 409
    assert operator.post(f"{here}explode/").status_code == operator.get("/brokers/restarts/99/").status_code == 404
