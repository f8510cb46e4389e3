"""Deletion of old records for a move without old data: the preview, the approval, and the deletion itself."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.models import Change, ConsumerGroup, GroupPartition, Proposal
from controlplane.services import Rejected, moves, proposals, tails
from controlplane.services.proposal_rows import ProposalRow, proposal_row
from tests.unit.controlplane.tail_moves import advance, delete_old_records, offsets, orders, ready
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def reader(group: str, committed: int | None) -> None:
    now = timezone.now()
    row = ConsumerGroup.objects.create(
        group_id=group,
        state="Stable",
        protocol_type="consumer",
        assignor="range",
        coordinator=1,
        members=[],
        member_count=0,
        lag_records=0,
        lag_ms_max=0,
        partitions_unknown=0,
        status="healthy",
        observed_at=now,
    )
    GroupPartition.objects.create(
        group=row,
        topic="flights",
        index=0,
        committed=committed,
        end_offset=600,
        lag_records=0,
        lag_ms=0,
        status="healthy",
        member_id="",
        client_id="",
        host="",
        observed_at=now,
    )


def test_a_deletion_preview_shows_its_records_and_the_groups_that_have_not_read_them(world: World) -> None:
    move = ready(world)
    offsets(100, 600, 0)
    reader("behind", 400)
    reader("never", None)
    reader("through", 500)
    preview = tails.deletion_preview(move.pk)
    assert preview.problem is None and preview.confirm == "flights"
    (part,) = preview.parts
    assert (part.start, part.end, part.records) == (100, 500, 400)
    assert part.retention_at is not None and part.retention_at > timezone.now().timestamp() + 6 * 24 * 3600
    assert [(g.group_id, g.records) for g in preview.groups] == [("behind", 100), ("never", 400)]
    for confirm, comment in (("flight", "disk is full"), ("flights", " ")):
        with pytest.raises(Rejected):
            proposals.propose("move.delete_records", str(move.pk), {"confirm": confirm}, actor="alice", comment=comment)
    assert (move.parts.get().state, Proposal.objects.count()) == ("ready", 0)
    assert Change.objects.filter(verb="proposal.propose", outcome="refused").count() == 2
    row = proposals.propose(
        "move.delete_records", str(move.pk), {"confirm": "flights"}, actor="alice", comment="disk is full"
    )
    assert row.shown["lines"][:3] == [
        "flights-0: every record below offset 500 is deleted for all consumers, as by DeleteRecords.",
        "Group behind has not read all of these records.",
        "Group never has not read all of these records.",
    ]
    assert "400 records, offsets 100 to 499" in row.shown["current_values"][0]
    with pytest.raises(Rejected, match="another operator must approve it"):
        proposals.approve(row.pk, actor="alice")
    assert (move.parts.get().state, orders()) == ("ready", [])
    assert proposals.approve(row.pk, actor="bea").state == "done"
    (order,) = orders()
    assert (order.replicas, order.observers, order.delete_below, order.read_generation) == ((1, 2), (), 500, 1)
    reported = Change.objects.get(verb="move.delete_records", outcome="pending")
    assert reported.after["not read by groups"] == {"behind": 100, "never": 400}
    assert (reported.actor, reported.comment) == ("alice", f"disk is full (approval request {row.pk}, approved by bea)")
    with pytest.raises(Rejected, match="cannot be undone"):
        moves.cancel_move(move.pk, actor="alice")
    world.put("flights", 0, log_start_floor=500, assignment_generation=2)
    assert advance(move) == "ready"
    assert tails.deletion_preview(move.pk).parts == [], "the leader's metric is of before: once is enough"
    assert advance(move) == "ready" and "The old records were deleted" in move.parts.get().note
    with pytest.raises(Rejected, match="no old records"):
        proposals.propose(
            "move.delete_records", str(move.pk), {"confirm": "flights"}, actor="alice", comment="disk is full"
        )
    offsets(500, 600, 0)
    assert advance(move) == "submitted"


def test_offsets_that_advance_are_shown_again_and_keep_the_proposal_valid(world: World) -> None:
    move = ready(world)
    reader("behind", 400)
    row = proposals.propose("move.delete_records", str(move.pk), {"confirm": "flights"}, actor="alice", comment="disk")
    offsets(50, 900, 0)
    GroupPartition.objects.update(committed=410)
    now = shown_to("bea", row)
    assert (now.differs, now.may_not) == ("", "")
    assert (
        now.current_values[0].startswith("flights-0: 450 records, offsets 50 to 499")
        and "90 records of" in now.current_values[1]
    )
    assert "500 records" in now.shown["current_values"][0], "what its author saw stays written down"
    assert proposals.approve(row.pk, actor="bea").state == "done"


@pytest.mark.parametrize("change", ["start", "group", "behind", "ended"])
def test_a_deletion_is_not_approved_after_its_range_has_changed(world: World, change: str) -> None:
    move = ready(world)
    row = proposals.propose("move.delete_records", str(move.pk), {"confirm": "flights"}, actor="alice", comment="disk")
    said = {
        "start": r"deleted_below was \{'flights-0': 500\}, now \{'flights-0': 700\}",
        "group": r"groups_behind was \[\], now \['late'\]",
        "behind": "not in sync",
        "ended": "only while it runs",
    }[change]
    if change == "start":
        world.put("flights", 0, tail_start=700)
    elif change == "group":
        reader("late", 300)
    elif change == "behind":
        offsets(0, 90_000, 80_000)
        advance(move)
    else:
        moves.cancel_move(move.pk, actor="alice", comment="x")
    assert shown_to("bea", row).differs
    with pytest.raises(Rejected, match=said):
        proposals.approve(row.pk, actor="bea")
    assert Proposal.objects.get().state == "open" and not Change.objects.filter(verb="move.delete_records").exists()


def test_a_deletion_runs_once_and_as_shown_after_the_approver_s_process_died(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = ready(world)
    row = proposals.propose("move.delete_records", str(move.pk), {"confirm": "flights"}, actor="alice", comment="disk")
    with monkeypatch.context() as dying:
        dying.setattr(proposals, "carry_out", lambda pk: Proposal.objects.get(pk=pk))
        proposals.approve(row.pk, actor="bea")
    Proposal.objects.update(decided_at=timezone.now() - timedelta(minutes=2))
    world.put("flights", 0, tail_start=700)
    proposals.sweep()
    row.refresh_from_db()
    assert (row.state, orders()) == ("failed", []) and "has changed since it was shown" in row.detail
    world.put("flights", 0, tail_start=500)
    assert delete_old_records(move).state == "done"
    last = Proposal.objects.latest("id")
    Proposal.objects.filter(pk=last.pk).update(state="approved")
    assert (
        proposals.carry_out(last.pk).detail
        == f"The old records of move {move.pk} were already deleted by this approval request."
    )
    assert Change.objects.filter(verb="move.delete_records").exclude(outcome="refused").count() == 1


def shown_to(actor: str, row: Proposal) -> ProposalRow:
    found = proposal_row(row.pk, actor)
    assert found is not None
    return found


def test_a_deletion_that_is_too_late_deletes_nothing_and_needs_a_new_request(world: World) -> None:
    move = ready(world)
    delete_old_records(move)
    world.put("flights", 0, tail_start=700)
    assert advance(move) == "catching_up" and orders() == []
    assert "Nothing was deleted" in move.parts.get().note
