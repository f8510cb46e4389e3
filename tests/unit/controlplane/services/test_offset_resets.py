"""Offset resets: rejections before a write, the written offsets, their verification, the audit rows, the undo."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import F
from django.utils import timezone

from brokerd.wire.errors import ErrorCode
from controlplane.domain.offset_reset import (
    UNDO_DAYS,
    CommittedOffset,
    LogRange,
    ReportedDifference,
    ResetSpec,
    ResetState,
    ResetTarget,
)
from controlplane.models import Change, OffsetReset
from controlplane.models.offset_reset import ResetCause
from controlplane.services import Rejected
from controlplane.services import offset_resets as services
from tests.unit.controlplane.group_world import OFFSETS, GroupWorld, group_world, member

pytestmark = pytest.mark.django_db
EARLIEST = ResetSpec(ResetTarget.EARLIEST)


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> GroupWorld:
    return group_world(monkeypatch)


def preview(spec: ResetSpec = EARLIEST, name: str = "g") -> OffsetReset:
    return services.preview(name, spec, actor="alice")


def apply(row: OffsetReset, wait_minutes: int = 0) -> OffsetReset:
    return services.apply(row.pk, actor="alice", comment="replay", wait_minutes=wait_minutes)


def audit() -> list[tuple[str, str]]:
    return list(Change.objects.order_by("id").values_list("verb", "outcome"))


def test_a_reset_is_written_read_back_and_recorded(group: GroupWorld) -> None:
    row = preview()
    assert (row.state, row.totals.changes, row.totals.replayed) == ("previewed", 2, 40 + 90)
    assert "commit" not in group.calls and audit() == []
    done = apply(row)
    assert (done.state, done.cause) == (ResetState.APPLIED, ResetCause.NONE)
    assert group.offsets["g"] == dict.fromkeys(OFFSETS, CommittedOffset(10))
    (change,) = Change.objects.all()
    assert (change.actor, change.verb, change.object_name, change.outcome) == (
        "alice",
        "group.reset_offsets",
        "g",
        "confirmed",
    )
    assert change.before == {"orders-0": 50, "orders-1": 100} and change.after == {"orders-0": 10, "orders-1": 10}


def test_an_undo_restores_offset_epoch_and_metadata_and_can_be_undone(group: GroupWorld) -> None:
    row = apply(preview(ResetSpec(ResetTarget.EARLIEST, topics=("orders",))))
    assert len(group.offsets["g"]) == 3
    group.commit(77)  # the consumers have committed since then
    undo = services.undo(row.pk, actor="bob")
    assert undo.undo_of == row and apply(undo).state == ResetState.APPLIED
    assert group.offsets["g"] == OFFSETS
    assert apply(services.undo(undo.pk, actor="bob")).state == ResetState.APPLIED
    assert group.offsets["g"]["orders", 0] == CommittedOffset(77)


def test_an_undo_ends_after_seven_days(group: GroupWorld) -> None:
    row = apply(preview())
    OffsetReset.objects.filter(pk=row.pk).update(finished_at=timezone.now() - timedelta(days=UNDO_DAYS, seconds=1))
    with pytest.raises(Rejected, match="older than 7 days"):
        services.undo(row.pk, actor="alice")
    with pytest.raises(Rejected, match="only an applied one"):
        services.undo(preview(ResetSpec(ResetTarget.LATEST)).pk, actor="alice")


def test_a_commit_since_the_preview_is_rejected_with_the_difference(group: GroupWorld) -> None:
    row = preview()
    group.commit(60)
    with pytest.raises(Rejected, match=r"orders-0: 50 -> 60") as rejection:
        apply(row)
    assert rejection.value.field == ""
    row.refresh_from_db()
    assert (row.state, row.cause, row.differences) == (
        "previewed",
        "changed",
        (ReportedDifference("orders", 0, 50, 60),),
    )
    assert group.offsets["g"]["orders", 0] == CommittedOffset(60) and "commit" not in group.calls
    assert audit() == [("group.reset_offsets", "refused")]


def test_an_open_transaction_is_rejected(group: GroupWorld) -> None:
    row = preview()
    group.unstable = {("orders", 1)}
    with pytest.raises(Rejected, match="open transaction"):
        apply(row)
    assert {r.problem for r in preview().rows if r.key == ("orders", 1)} == {"open_transaction"}


def test_an_offset_that_retention_deleted_since_is_rejected(group: GroupWorld) -> None:
    row = preview()
    group.logs["orders", 1] = LogRange(11, 100)
    with pytest.raises(Rejected, match="orders-1 are no longer in the log"):
        apply(row)
    row.refresh_from_db()
    assert row.cause == ResetCause.OUT_OF_RANGE


def test_an_active_group_is_rejected_and_may_be_waited_for(group: GroupWorld) -> None:
    group.members = [member()]
    row = preview()
    with pytest.raises(Rejected, match=r"active \(1 member\)"):
        apply(row)
    row.refresh_from_db()
    assert (row.state, row.cause, row.applying_at) == ("previewed", "active", None)
    waiting = apply(row, wait_minutes=5)
    assert waiting.state == ResetState.WAITING and waiting.wait_until is not None
    assert timedelta(minutes=4) < waiting.wait_until - timezone.now() <= timedelta(minutes=5)
    assert services.cancel(row.pk, actor="bob").state == ResetState.CANCELLED
    assert audit() == [
        ("group.reset_offsets", "refused"),
        ("group.wait_reset", "confirmed"),
        ("group.cancel_reset", "confirmed"),
    ]
    with pytest.raises(Rejected, match="cancelled"):
        services.cancel(row.pk, actor="bob")


def test_a_member_that_joins_before_the_commit_is_rejected_by_the_coordinator(group: GroupWorld) -> None:
    row = preview()
    group.before_commit = lambda: group.members.append(member())
    with pytest.raises(Rejected, match="active"):
        apply(row)
    row.refresh_from_db()
    assert (row.state, row.cause) == ("previewed", "active") and group.offsets["g"] == OFFSETS
    assert audit() == [("group.reset_offsets", "refused")], "one entry, of the intent"


def test_the_deletion_of_offsets(group: GroupWorld) -> None:
    spec = ResetSpec(ResetTarget.DELETE, topics=("orders",))
    group.members = [member()]
    with pytest.raises(Rejected, match="active"):
        apply(preview(spec))
    group.members = []
    row = apply(preview(spec))
    assert row.state == ResetState.APPLIED and group.offsets["g"] == {}
    assert audit()[-1] == ("group.delete_offsets", "confirmed")
    assert apply(services.undo(row.pk, actor="alice")).state == ResetState.APPLIED
    assert group.offsets["g"] == OFFSETS and audit()[-1] == ("group.undo_reset", "confirmed")


def test_a_partial_rejection_is_a_failure_with_its_errors_and_can_be_undone(group: GroupWorld) -> None:
    group.errors = {("orders", 1): ErrorCode.OFFSET_METADATA_TOO_LARGE}
    row = apply(preview())
    assert (row.state, row.cause) == (ResetState.FAILED, ResetCause.DECLINED)
    assert row.errors == {("orders", 1): ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert row.differences == (ReportedDifference("orders", 1, 10, 100),)
    apply(services.undo(row.pk, actor="alice"))
    assert group.offsets["g"] == OFFSETS


def test_offsets_that_read_back_different_are_a_failure(group: GroupWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    row = preview()
    monkeypatch.setattr("tests.unit.controlplane.group_world.GroupWorldClient.commit", lambda self, offsets: {})
    done = apply(row)
    assert (done.state, done.cause) == (ResetState.FAILED, ResetCause.DIFFERENT)
    assert audit() == [("group.reset_offsets", "unknown")]


def test_a_lost_response_leaves_the_result_to_the_worker(group: GroupWorld) -> None:
    row = preview()
    group.drop_response = True
    done = apply(row)
    assert (done.state, done.cause, done.finished_at) == (ResetState.APPLYING, ResetCause.NO_RESPONSE, None)
    assert audit() == [("group.reset_offsets", "pending")]
    other = preview_of_another_row(row)
    with pytest.raises(Rejected, match="Another reset"):
        apply(other)


def preview_of_another_row(row: OffsetReset) -> OffsetReset:
    row.pk, row.state, row.version = None, ResetState.PREVIEWED, 0
    row.save(force_insert=True)
    return row


@pytest.mark.parametrize("silent", ["status", "committed", "log_ranges"])
def test_without_a_response_before_the_write_nothing_is_sent(group: GroupWorld, silent: str) -> None:
    row = preview()
    group.silent = {silent}
    with pytest.raises(Rejected, match="Nothing was written"):
        apply(row)
    row.refresh_from_db()
    assert (row.state, row.cause) == ("previewed", "no_response") and "commit" not in group.calls
    if silent != "status":
        with pytest.raises(Rejected, match="did not respond"):
            preview()


def test_an_old_empty_or_used_preview_is_rejected(group: GroupWorld) -> None:
    row = preview()
    OffsetReset.objects.filter(pk=row.pk).update(computed_at=F("computed_at") - timedelta(minutes=31))
    with pytest.raises(Rejected, match="older than 30 minutes"):
        apply(row)
    same = preview(ResetSpec(ResetTarget.SHIFT, partitions=(("orders", 2),), shift=1))
    with pytest.raises(Rejected, match="changes nothing"):
        apply(same)
    done = apply(preview())
    with pytest.raises(Rejected, match="only a preview"):
        apply(done)
    with pytest.raises(Rejected, match="There is no offset reset"):
        services.apply(10**6, actor="alice")
    with pytest.raises(Rejected) as rejection:
        apply(preview(ResetSpec(ResetTarget.LATEST)), wait_minutes=10**6)
    assert rejection.value.field == "wait_minutes"


def test_a_group_that_does_not_exist_yet_gets_offsets(group: GroupWorld) -> None:
    row = preview(ResetSpec(ResetTarget.LATEST, topics=("orders",)), "fresh")
    assert apply(row).state == ResetState.APPLIED and len(group.offsets["fresh"]) == 3
    copied = preview(ResetSpec(ResetTarget.GROUP, source_group="g"), "copy")
    assert [r.after and r.after.offset for r in copied.rows] == [50, 100]
    for spec, name, field in (
        (ResetSpec(ResetTarget.GROUP, source_group="absent"), "g", "source_group"),
        (ResetSpec(ResetTarget.LATEST, topics=("absent",)), "g", "topics"),
        (EARLIEST, "", "group_id"),
    ):
        with pytest.raises(Rejected) as rejection:
            preview(spec, name)
        assert rejection.value.field == field
