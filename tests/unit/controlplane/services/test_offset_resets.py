"""Offset resets: the preview, what cannot be applied, the written offsets, the audit rows, the wait, the undo."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta

import pytest
from django.db.models import F
from django.utils import timezone

from controlplane.domain.log_ends import RecordAge
from controlplane.domain.offset_reset_types import UNDO_DAYS, CommittedOffset, Key, ResetSpec, ResetState, ResetTarget
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


def test_an_undo_has_the_times_of_its_reset(group: GroupWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    ms_per_record = iter((10, 1_000))

    def other_ages(_: Iterable[Key]) -> Callable[[Key, int], RecordAge | None]:
        ms = next(ms_per_record)
        return lambda key, offset: RecordAge(ms * (200 - offset))

    monkeypatch.setattr(services, "_ages", other_ages)
    row = preview()
    undo = services.undo(apply(row).pk, actor="bob")
    spans = {r.key: r.span_ms for r in row.rows if r.changes}
    assert spans == {r.key: r.span_ms for r in undo.rows} and set(spans.values()) == {10 * 40, 10 * 90}


def test_an_undo_ends_after_seven_days(group: GroupWorld) -> None:
    row = apply(preview())
    OffsetReset.objects.filter(pk=row.pk).update(finished_at=timezone.now() - timedelta(days=UNDO_DAYS, seconds=1))
    with pytest.raises(Rejected, match="older than 7 days"):
        services.undo(row.pk, actor="alice")
    with pytest.raises(Rejected, match="only an applied one"):
        services.undo(preview(ResetSpec(ResetTarget.LATEST)).pk, actor="alice")


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
