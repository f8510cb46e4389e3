"""Deletion of many groups: empty ones only, each with its own result."""

from __future__ import annotations

import pytest
from django.utils import timezone

from controlplane.models import ConsumerGroup, GroupPartition
from controlplane.models.change import Outcome
from controlplane.services import Rejected, bulk_groups

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def groups() -> None:
    now = timezone.now()
    for name, members in (("a", 0), ("b", 2), ("c", 0)):
        group = ConsumerGroup.objects.create(group_id=name, state="Empty", member_count=members, observed_at=now)
        for index, committed in ((0, 5), (1, None)):
            GroupPartition.objects.create(
                group=group, topic="flights", index=index, committed=committed, observed_at=now
            )


def test_a_preview_counts_the_offsets_that_are_lost() -> None:
    rows = bulk_groups.preview(["c", "b", "gone"])
    assert [(r.group_id, r.members, r.offsets) for r in rows] == [("c", 0, 1), ("b", 2, 1)]


def test_each_group_has_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def delete(group_id: str, *, actor: str, comment: str) -> Outcome:
        if group_id == "b":
            raise Rejected("It has members.")
        return Outcome.CONFIRMED if group_id == "a" else Outcome.UNKNOWN

    monkeypatch.setattr(bulk_groups, "delete_group", delete)
    results = bulk_groups.delete_groups(["a", "b", "c", "a"], actor="ada", comment="old")
    assert [(r.name, r.outcome.value, r.detail) for r in results] == [
        ("a", "done", ""),
        ("b", "rejected", "It has members."),
        ("c", "unknown", ""),
    ]


def test_too_many_groups_and_a_missing_reason_are_rejected() -> None:
    many = [str(i) for i in range(bulk_groups.GROUPS_MAX + 1)]
    with pytest.raises(Rejected, match="Narrow the filter"):
        bulk_groups.preview(many)
    with pytest.raises(Rejected, match="Narrow the filter"):
        bulk_groups.delete_groups(many, actor="ada", comment="old")
    with pytest.raises(Rejected, match="reason"):
        bulk_groups.delete_groups(["a"], actor="ada", comment=" ")
