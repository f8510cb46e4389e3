"""The worker's part of offset resets: the wait, the end of a reset whose process died, and cleaning up."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.domain.offset_reset_types import CommittedOffset, ResetSpec, ResetState, ResetTarget
from controlplane.models import Change, OffsetReset
from controlplane.models.offset_reset import ResetCause
from controlplane.services import offset_reset_worker as worker
from controlplane.services import offset_resets as services
from tests.unit.controlplane.group_world import GroupWorld, group_world, member

pytestmark = pytest.mark.django_db


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> GroupWorld:
    return group_world(monkeypatch)


def create_waiting_reset(group: GroupWorld, spec: ResetSpec) -> OffsetReset:
    group.members = [member()]
    row = services.preview("g", spec, actor="alice")
    return services.apply(row.pk, actor="alice", comment="replay", wait_minutes=5)


def advance_reset(row: OffsetReset) -> OffsetReset:
    worker.advance_reset(row.pk)
    row.refresh_from_db()
    return row


def test_a_waiting_reset_is_computed_again_when_the_group_is_empty(group: GroupWorld) -> None:
    row = create_waiting_reset(group, ResetSpec(ResetTarget.SHIFT, shift=-10))
    assert worker.working_resets() == [row.pk]
    group.commit(60)  # members commit until they leave
    assert advance_reset(row).state == ResetState.WAITING
    group.members = []
    assert advance_reset(row).state == ResetState.APPLIED
    assert group.offsets["g"]["orders", 0] == CommittedOffset(50)
    assert Change.objects.get(verb="group.reset_offsets").before == {"orders-0": 60, "orders-1": 100}
    assert worker.working_resets() == [] and advance_reset(row).state == ResetState.APPLIED


def test_the_wait_has_an_end(group: GroupWorld) -> None:
    row = create_waiting_reset(group, ResetSpec(ResetTarget.EARLIEST))
    OffsetReset.objects.filter(pk=row.pk).update(wait_until=timezone.now() - timedelta(seconds=1))
    row = advance_reset(row)
    assert (row.state, row.cause) == (ResetState.EXPIRED, ResetCause.ACTIVE) and "commit" not in group.calls
    assert Change.objects.get(verb="group.reset_offsets").outcome == "refused"


def test_a_member_that_joins_in_between_prolongs_the_wait(group: GroupWorld) -> None:
    row = create_waiting_reset(group, ResetSpec(ResetTarget.EARLIEST))
    group.members = []
    group.before_commit = lambda: group.members.append(member("m-2"))
    assert advance_reset(row).state == ResetState.WAITING
    group.members, group.before_commit = [], lambda: None
    assert advance_reset(row).state == ResetState.APPLIED


def test_a_silent_cluster_prolongs_the_wait_and_is_noted(group: GroupWorld) -> None:
    row = create_waiting_reset(group, ResetSpec(ResetTarget.EARLIEST))
    group.silent = {"status"}
    row = advance_reset(advance_reset(row))
    assert (row.state, row.cause, row.version) == (ResetState.WAITING, ResetCause.NO_RESPONSE, 4)


def test_a_reset_that_has_nothing_left_to_change_ends(group: GroupWorld) -> None:
    row = create_waiting_reset(group, ResetSpec(ResetTarget.LATEST, partitions=(("orders", 0),)))
    group.members = []
    group.commit(100)
    assert advance_reset(row).state == ResetState.CANCELLED


@pytest.mark.parametrize(
    ("after_crash", "state", "outcome"),
    [
        ({0: 10, 1: 10}, ResetState.APPLIED, "confirmed"),
        ({}, ResetState.FAILED, "unchanged"),
        ({0: 10}, ResetState.FAILED, "unknown"),
    ],
)
def test_a_reset_whose_process_died_is_read_back_and_not_sent_again(
    group: GroupWorld, after_crash: dict[int, int], state: str, outcome: str
) -> None:
    row = services.preview("g", ResetSpec(ResetTarget.EARLIEST), actor="alice")
    group.silent = {"commit"}
    row = services.apply(row.pk, actor="alice", comment="replay")
    assert row.state == ResetState.APPLYING and worker.working_resets() == []
    OffsetReset.objects.filter(pk=row.pk).update(applying_at=timezone.now() - timedelta(seconds=31))
    assert worker.working_resets() == [row.pk]
    for index, offset in after_crash.items():
        group.commit(offset, index)
    group.silent, group.calls = set(), []
    assert advance_reset(row).state == state
    assert "commit" not in group.calls and Change.objects.get().outcome == outcome
    undo = services.undo(row.pk, actor="alice")
    assert undo.totals.changes == len(after_crash)


def test_old_resets_are_deleted(group: GroupWorld) -> None:
    kept = services.preview("g", ResetSpec(ResetTarget.EARLIEST), actor="alice")
    old = services.preview("g", ResetSpec(ResetTarget.EARLIEST), actor="alice")
    OffsetReset.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(days=3))
    applied = services.apply(kept.pk, actor="alice")
    assert worker.sweep() == 1 and list(OffsetReset.objects.all()) == [applied]
    OffsetReset.objects.filter(pk=kept.pk).update(finished_at=timezone.now() - timedelta(days=7, seconds=1))
    assert worker.sweep() == 1
