"""The filter `state` of lists: one state, a group of states, and the rejection of unknown ones."""

from __future__ import annotations

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.domain.offset_reset_types import ResetSpec, ResetTarget
from controlplane.models import ArchiveJob, ConsumerGroup, OffsetReset, RollingRestart
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def rows(world: World) -> None:
    spec, now = ResetSpec(ResetTarget.EARLIEST), timezone.now()
    for number, state in enumerate(("running", "done", "cancelled")):
        RollingRestart.objects.create(actor="a", by_supervisor=False, turn=number, state=state)
    for state in ("running", "failed"):
        ArchiveJob.objects.create(actor="a", topics=["t"], state=state)
        ConsumerGroup.objects.create(group_id=state, state={"running": "Stable"}.get(state, "Empty"), observed_at=now)
    for state in ("previewed", "applied"):
        OffsetReset.objects.create(group_id="g", actor="a", spec=spec, computed_at=now, state=state)


@pytest.mark.parametrize(
    ("path", "state", "states"),
    [
        ("restarts", "", ["cancelled", "done", "running"]),
        ("restarts", "unfinished", ["running"]),
        ("restarts", "finished", ["cancelled", "done"]),
        ("restarts", "cancelled", ["cancelled"]),
        ("archives", "", ["failed", "running"]),
        ("archives", "failed", ["failed"]),
        ("groups", "Empty", ["Empty"]),
        ("groups", "", ["Empty", "Stable"]),
        ("offset-resets", "applied", ["applied"]),
        ("offset-resets", "", ["applied", "previewed"]),
    ],
)
def test_a_list_has_the_rows_of_the_state(
    rows: None, operator: APIClient, path: str, state: str, states: list[str]
) -> None:
    found = operator.get(f"/api/v1/{path}", {"state": state} if state else {}).json()
    assert sorted(r["state"] for r in found["rows"]) == states
    assert found["total"] == len(states)


@pytest.mark.parametrize("path", ["restarts", "archives", "groups", "offset-resets"])
def test_an_unknown_state_is_rejected(rows: None, operator: APIClient, path: str) -> None:
    response = operator.get(f"/api/v1/{path}", {"state": "odd"})
    assert response.status_code == 400 and response.json()["field"] == "state"
