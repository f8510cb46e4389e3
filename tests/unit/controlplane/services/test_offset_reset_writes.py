"""The write of an offset reset: rejections before it, lost and partial responses, and offsets that read back different."""

from __future__ import annotations

import pytest

from brokerd.wire.errors import ErrorCode
from controlplane.domain.offset_reset_types import (
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


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> GroupWorld:
    return group_world(monkeypatch)


def preview() -> OffsetReset:
    return services.preview("g", ResetSpec(ResetTarget.EARLIEST), actor="alice")


def apply(row: OffsetReset) -> OffsetReset:
    return services.apply(row.pk, actor="alice", comment="replay")


def audit() -> list[tuple[str, str]]:
    return list(Change.objects.order_by("id").values_list("verb", "outcome"))


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


def test_a_member_that_joins_before_the_commit_is_rejected_by_the_coordinator(group: GroupWorld) -> None:
    row = preview()
    group.before_commit = lambda: group.members.append(member())
    with pytest.raises(Rejected, match="active"):
        apply(row)
    row.refresh_from_db()
    assert (row.state, row.cause) == ("previewed", "active") and group.offsets["g"] == OFFSETS
    assert audit() == [("group.reset_offsets", "refused")], "one entry, of the intent"


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
