"""Offset resets as rows: order of the partitions, and what each state allows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.domain.offset_reset_types import ResetSpec, ResetTarget
from controlplane.models import OffsetReset
from controlplane.selectors import offset_resets as selectors
from controlplane.services import offset_resets as services
from tests.unit.controlplane.group_world import GroupWorld, group_world

pytestmark = pytest.mark.django_db


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> GroupWorld:
    return group_world(monkeypatch)


def possible_actions(row: OffsetReset, **values: object) -> list[str]:
    OffsetReset.objects.filter(pk=row.pk).update(**values)
    found = selectors.reset_row(row.pk)
    assert found is not None
    return found.can


def test_problems_come_first_and_unchanged_partitions_last(group: GroupWorld) -> None:
    offsets = {("orders", 0): 50, ("orders", 1): 60, ("orders", 9): 1}
    row = services.preview("g", ResetSpec(ResetTarget.FILE, offsets=offsets), actor="alice")
    detail = selectors.reset_detail(row.pk)
    assert detail is not None
    assert [p.partition for p in selectors.partitions_page(detail).rows] == [9, 1, 0]
    second = selectors.partitions_page(detail, page=2, per_page=2)
    assert ([p.partition for p in second.rows], second.total, second.pages) == ([0], 3, 2)
    assert (detail.row.partitions, detail.row.changes, detail.row.problems) == (3, 1, 1)


def test_each_state_has_its_allowed_operations(group: GroupWorld) -> None:
    row = services.preview("g", ResetSpec(ResetTarget.EARLIEST), actor="alice")
    now = timezone.now()
    assert possible_actions(row) == ["apply", "cancel", "preview"]
    assert possible_actions(row, computed_at=now - timedelta(minutes=31)) == ["cancel", "preview"]
    assert possible_actions(row, state="waiting", wait_until=now) == ["cancel"]
    assert possible_actions(row, state="expired", finished_at=now) == ["preview"], "nothing was written: no undo"
    assert possible_actions(row, state="applying", applying_at=now, finished_at=None) == []
    assert possible_actions(row, state="failed", finished_at=now) == ["undo"]
    assert possible_actions(row, state="applied", finished_at=now - timedelta(days=8)) == []
    unchanged = services.preview("g", ResetSpec(ResetTarget.FILE, offsets={("orders", 0): 50}), actor="alice")
    assert "apply" not in possible_actions(unchanged)
    assert selectors.reset_row(10**6) is None and selectors.reset_detail(10**6) is None
