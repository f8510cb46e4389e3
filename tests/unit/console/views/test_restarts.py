"""The pages of rolling restarts: the review, the operations of a state, and the buttons."""

from __future__ import annotations

from django.test import Client

from controlplane.models import RollingRestart
from tests.unit.controlplane.world import World


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
