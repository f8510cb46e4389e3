"""A move without old data in rows: what it orders, what it waits for, what the operator's cut deletes, and every way back."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.controller.events import DesiredAssignment
from controlplane.controller.forwarded import placed
from controlplane.models import Change, ConsumerGroup, GroupPartition, Move, Partition, Proposal, Replica
from controlplane.selectors import moves as selectors
from controlplane.selectors.proposals import ProposalRow, proposal_row
from controlplane.services import Refused, advancing, comparing, moves, proposals, tails
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
TO_23 = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3]}]}
WEEK_MS = str(7 * 24 * 3_600_000)


def orders() -> list[DesiredAssignment]:
    return [placed(row) for row in advancing.ordered_parts()]


def advance(move: Move) -> str:
    """The part's state after one look."""
    advancing.advance_move(move.pk)
    return str(move.parts.get().state)


def offsets(start: int, end: int, lag: int | None = None) -> None:
    Partition.objects.update(start_offset=start, end_offset=end)
    Replica.objects.filter(broker_id=3).update(lag_records=lag, sampled_at=timezone.now())


def begun(world: World) -> Move:
    world.topic("flights", (1, 2), configs={"retention.ms": WEEK_MS})
    move = moves.plan_move(TO_23, who="alice", mode="tail")
    moves.start_move(move.pk, who="alice")
    assert advance(move) == "seeding"
    (order,) = orders()
    assert (order.replicas, order.observers, order.cut_at, order.read_generation) == ((1, 2), (3,), None, 0)
    world.put("flights", 0, observers=(3,), assignment_generation=1)
    assert advance(move) == "following" and orders() == []
    return move


def ready(world: World) -> Move:
    move = begun(world)
    world.put("flights", 0, tail_start=500)
    offsets(0, 600, None)
    assert advance(move) == "following" and "has not begun yet" in move.parts.get().note
    offsets(0, 600, 90_000)
    assert advance(move) == "following" and "lacks 90000 records" in move.parts.get().note
    offsets(0, 600, 3)
    assert advance(move) == "ready"
    part = move.parts.get()
    assert (part.tail_start, part.tail_at is not None) == (500, True) and "still starts at 0" in part.note
    return move


def test_it_joins_by_itself_once_retention_has_passed(world: World) -> None:
    move = ready(world)
    assert orders() == []
    offsets(499, 900, 0)
    assert advance(move) == "ready"
    offsets(500, 900, 0)
    assert advance(move) == "ordered"
    (order,) = orders()
    assert (order.replicas, order.observers, order.cut_at, order.read_generation) == ((1, 2, 3), (), None, 1)
    switched(world, move)
    move.refresh_from_db()
    assert move.state == "done"


def beside(world: World, move: Move) -> None:
    """All copies stand side by side in the ISR, and are compared before the old one goes."""
    world.put("flights", 0, observers=(), tail_start=-1)
    world.begin_move("flights", 0, (1, 2, 3))
    assert advance(move) == "copying"
    world.end_move("flights", 0)
    assert advance(move) == "verifying" and orders() == []
    assert move.parts.get().pk in comparing.due()


def switched(world: World, move: Move) -> None:
    beside(world, move)
    move.parts.update(compared={"equal": True, "text": "Offsets 500 to 900 are equal on 3 copies."})
    assert advance(move) == "ordered"
    (order,) = orders()
    assert (order.replicas, order.observers, order.cut_at) == ((2, 3), (), None)
    world.begin_move("flights", 0, (2, 3))
    assert advance(move) == "copying"
    world.end_move("flights", 0)
    assert advance(move) == "done"


@pytest.mark.parametrize("meanwhile", ["nothing", "an old copy is in sync again"])
def test_paused_after_its_copies_were_compared_it_goes_on_from_there(world: World, meanwhile: str) -> None:
    move = ready(world)
    offsets(500, 900, 0)
    advance(move)
    beside(world, move)
    move.parts.update(compared={"equal": True, "text": "equal"})
    assert advance(move) == "ordered"
    moves.pause_move(move.pk, who="alice")
    assert orders() == [] and advance(move) == "waiting"
    if meanwhile != "nothing":
        world.put("flights", 0, assignment_generation=world.state("flights", 0).assignment_generation + 1)
    moves.resume_move(move.pk, who="alice")
    assert advance(move) == "ordered"
    (order,) = orders()
    assert (order.replicas, order.observers) == ((2, 3), ())
    assert order.read_generation == world.state("flights", 0).assignment_generation


def test_a_new_copy_that_differs_does_not_take_the_place_of_the_old_one(world: World) -> None:
    move = ready(world)
    offsets(500, 900, 0)
    advance(move)
    beside(world, move)
    told = "Broker 3 and the leader 2 differ in offsets 500 to 900."
    move.parts.update(compared={"equal": False, "text": told})
    assert advance(move) == "stuck" and told in move.parts.get().note
    assert orders() == [] and world.state("flights", 0).isr_ids == (1, 2, 3)
    moves.roll_back_move(move.pk, who="alice", why="broker 3 lies")
    assert advance(move) == "ordered"
    assert orders()[0].replicas == (1, 2)


def reader(group: str, committed: int | None) -> None:
    now = timezone.now()
    row = ConsumerGroup.objects.create(
        group_id=group, state="Stable", protocol_type="consumer", assignor="range", coordinator=1, members=[], member_count=0,
        lag_records=0, lag_ms_max=0, partitions_unknown=0, verdict="ok", observed_at=now,
    )  # fmt: skip
    GroupPartition.objects.create(
        group=row, topic="flights", index=0, committed=committed, end_offset=600, lag_records=0, lag_ms=0, verdict="ok",
        member_id="", client_id="", host="", observed_at=now,
    )  # fmt: skip


def test_a_cut_says_what_it_deletes_and_who_has_not_read_it(world: World) -> None:
    move = ready(world)
    offsets(100, 600, 0)
    reader("behind", 400)
    reader("never", None)
    reader("through", 500)
    preview = tails.cut_preview(move.pk)
    assert preview.problem is None and preview.confirm == "flights"
    (part,) = preview.parts
    assert (part.start, part.end, part.records) == (100, 500, 400)
    assert part.retention_at is not None and part.retention_at > timezone.now().timestamp() + 6 * 24 * 3600
    assert [(g.group_id, g.records) for g in preview.groups] == [("behind", 100), ("never", 400)]
    for confirm, why in (("flight", "disk is full"), ("flights", " ")):
        with pytest.raises(Refused):
            proposals.propose("move.cut", str(move.pk), {"confirm": confirm}, who="alice", why=why)
    assert (move.parts.get().state, Proposal.objects.count()) == ("ready", 0)
    assert Change.objects.filter(verb="proposal.propose", outcome="refused").count() == 2
    row = proposals.propose("move.cut", str(move.pk), {"confirm": "flights"}, who="alice", why="disk is full")
    assert row.shown["lines"][:3] == [
        "flights-0: every record below offset 500 is deleted, for everybody, as by DeleteRecords.",
        "Group behind has not read all of it.",
        "Group never has not read all of it.",
    ]
    assert "400 records, offsets 100 to 499" in row.shown["figures"][0]
    with pytest.raises(Refused, match="another operator must approve it"):
        proposals.approve(row.pk, who="alice")
    assert (move.parts.get().state, orders()) == ("ready", [])
    assert proposals.approve(row.pk, who="bea").state == "done"
    (order,) = orders()
    assert (order.replicas, order.observers, order.cut_at, order.read_generation) == ((1, 2), (), 500, 1)
    told = Change.objects.get(verb="move.cut", outcome="pending")
    assert told.after["not read by groups"] == {"behind": 100, "never": 400}
    assert (told.who, told.why) == ("alice", f"disk is full (proposal {row.pk}, approved by bea)")
    with pytest.raises(Refused, match="nothing takes back"):
        moves.cancel_move(move.pk, who="alice")
    world.put("flights", 0, log_start_floor=500, assignment_generation=2)
    assert advance(move) == "ready"
    assert tails.cut_preview(move.pk).parts == [], "the leader's figure is of before: once is enough"
    assert advance(move) == "ready" and "and cut there" in move.parts.get().note
    with pytest.raises(Refused, match="nothing to cut"):
        proposals.propose("move.cut", str(move.pk), {"confirm": "flights"}, who="alice", why="disk is full")
    offsets(500, 600, 0)
    assert advance(move) == "ordered"


def cut(move: Move) -> Proposal:
    row = proposals.propose("move.cut", str(move.pk), {"confirm": "flights"}, who="alice", why="disk")
    return proposals.approve(row.pk, who="bea")


def test_what_moves_by_itself_is_shown_anew_and_does_not_undo_a_proposal(world: World) -> None:
    move = ready(world)
    reader("behind", 400)
    row = proposals.propose("move.cut", str(move.pk), {"confirm": "flights"}, who="alice", why="disk")
    offsets(50, 900, 0)
    GroupPartition.objects.update(committed=410)
    now = shown_to("bea", row)
    assert (now.differs, now.may_not) == ("", "")
    assert now.figures[0].startswith("flights-0: 450 records, offsets 50 to 499") and "90 of them" in now.figures[1]
    assert "500 records" in now.shown["figures"][0], "what its author saw stays written down"
    assert proposals.approve(row.pk, who="bea").state == "done"


@pytest.mark.parametrize("change", ["start", "group", "behind", "ended"])
def test_a_cut_is_not_approved_once_it_would_delete_something_else(world: World, change: str) -> None:
    move = ready(world)
    row = proposals.propose("move.cut", str(move.pk), {"confirm": "flights"}, who="alice", why="disk")
    said = {"start": r"deleted_below was \{'flights-0': 500\}, now \{'flights-0': 700\}", "group": r"groups_behind was \[\], now \['late'\]",
            "behind": "not in step", "ended": "only one that runs"}[change]  # fmt: skip
    if change == "start":
        world.put("flights", 0, tail_start=700)
    elif change == "group":
        reader("late", 300)
    elif change == "behind":
        offsets(0, 90_000, 80_000)
        advance(move)
    else:
        moves.cancel_move(move.pk, who="alice", why="x")
    assert shown_to("bea", row).differs
    with pytest.raises(Refused, match=said):
        proposals.approve(row.pk, who="bea")
    assert Proposal.objects.get().state == "open" and not Change.objects.filter(verb="move.cut").exists()


def test_a_cut_whose_approvers_process_died_is_made_once_and_as_it_was_shown(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = ready(world)
    row = proposals.propose("move.cut", str(move.pk), {"confirm": "flights"}, who="alice", why="disk")
    with monkeypatch.context() as dying:
        dying.setattr(proposals, "carry_out", lambda pk: Proposal.objects.get(pk=pk))
        proposals.approve(row.pk, who="bea")
    Proposal.objects.update(decided_at=timezone.now() - timedelta(minutes=2))
    world.put("flights", 0, tail_start=700)
    proposals.sweep()
    row.refresh_from_db()
    assert (row.state, orders()) == ("failed", []) and "has changed since it was shown" in row.detail
    world.put("flights", 0, tail_start=500)
    assert cut(move).state == "done"
    last = Proposal.objects.latest("id")
    Proposal.objects.filter(pk=last.pk).update(state="approved")
    assert proposals.carry_out(last.pk).detail == f"Move {move.pk} was cut by this already."
    assert Change.objects.filter(verb="move.cut").exclude(outcome="refused").count() == 1


def shown_to(who: str, row: Proposal) -> ProposalRow:
    found = proposal_row(row.pk, who)
    assert found is not None
    return found


def test_a_cut_that_came_too_late_deletes_nothing_and_is_asked_for_again(world: World) -> None:
    move = ready(world)
    cut(move)
    world.put("flights", 0, tail_start=700)
    assert advance(move) == "following" and orders() == []
    assert "Nothing was deleted" in move.parts.get().note


@pytest.mark.parametrize("state", ["seeding", "following", "ready"])
def test_a_cancel_drops_the_new_copies_and_nothing_else(world: World, state: str) -> None:
    move = ready(world) if state == "ready" else begun(world)
    if state == "seeding":
        # As if nobody had seen yet that the order was carried out.
        move.parts.update(state="seeding", read_generation=0)
    moves.cancel_move(move.pk, who="alice")
    (order,) = orders()
    assert (order.replicas, order.observers, order.read_generation) == ((1, 2), (), 1)
    world.put("flights", 0, observers=(), tail_start=-1, assignment_generation=2)
    assert advance(move) == "copying"
    assert advance(move) == "put_back"
    move.refresh_from_db()
    assert move.state == "cancelled"


def test_an_order_that_was_carried_out_while_it_was_taken_back_is_taken_back_again(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(TO_23, who="alice", mode="tail")
    moves.start_move(move.pk, who="alice")
    assert advance(move) == "seeding"
    moves.cancel_move(move.pk, who="alice")
    world.put("flights", 0, observers=(3,), assignment_generation=1)
    assert advance(move) == "ordered"
    (order,) = orders()
    assert (order.replicas, order.observers, order.read_generation) == ((1, 2), (), 1)


def test_paused_it_follows_and_does_not_join(world: World) -> None:
    move = ready(world)
    moves.pause_move(move.pk, who="alice")
    offsets(500, 900, 0)
    assert advance(move) == "ready"
    moves.resume_move(move.pk, who="alice")
    assert advance(move) == "ordered"


@pytest.mark.parametrize(
    ("configs", "why"),
    [
        ({"cleanup.policy": "compact"}, "compacted"),
        ({"cleanup.policy": "compact,delete"}, "compacted"),
        ({"retention.ms": "-1"}, "keeps everything"),
    ],
    ids=["compact", "both", "for ever"],
)
def test_what_would_never_be_rid_of_its_old_data_is_refused(world: World, configs: dict[str, str], why: str) -> None:
    world.topic("flights", (1, 2), configs=configs)
    assert why in moves.preview_move(TO_23).tail.problems[0]
    with pytest.raises(Refused, match=why):
        moves.plan_move(TO_23, who="alice", mode="tail")
    assert moves.plan_move(TO_23, who="alice").mode == "copy"


def test_with_a_deadline_what_keeps_everything_moves_and_a_cut_is_asked_for_when_it_has_passed(world: World) -> None:
    world.topic("flights", (1, 2), configs={"retention.ms": "-1"})
    for hours in (0, 9_000):
        with pytest.raises(Refused, match="1 to 8760 h"):
            moves.plan_move(TO_23, who="alice", mode="tail", deadline_hours=hours)
    with pytest.raises(Refused, match="only mode tail"):
        moves.plan_move(TO_23, who="alice", deadline_hours=5)
    move = moves.plan_move(TO_23, who="alice", mode="tail", deadline_hours=5)
    moves.start_move(move.pk, who="alice")
    assert advance(move) == "seeding"
    world.put("flights", 0, observers=(3,), assignment_generation=1, tail_start=500)
    offsets(0, 600, 3)
    assert advance(move) == "following" and advance(move) == "ready"
    part = move.parts.get()
    assert part.cause == "" and "Waiting for retention" in part.note
    Move.objects.update(started_at=timezone.now() - timedelta(hours=5, seconds=1))
    assert advance(move) == "ready"
    part = move.parts.get()
    assert part.cause == "cut_due" and "Cut, or cancel" in part.note
    row = selectors.move_row(move.pk)
    assert row is not None and row.deadline is not None and row.deadline < timezone.now()
    assert cut(move).state == "done"
    world.put("flights", 0, log_start_floor=500, assignment_generation=2)
    offsets(500, 600, 0)
    assert advance(move) == "ready" and advance(move) == "ordered"
    assert move.parts.get().cause == ""


def test_a_topic_that_is_made_to_keep_everything_in_mid_move_is_said_to_be(world: World) -> None:
    move = ready(world)
    topic = world.image.topics[world.image.topic_ids["flights"]]
    topic.configs = {"cleanup.policy": "compact"}
    world.look()
    advance(move)
    part = move.parts.get()
    assert part.cause == "unfit" and "compacted" in part.note


def test_the_preview_says_both_costs(world: World) -> None:
    world.topic("flights", (1, 2), configs={"retention.ms": WEEK_MS})
    preview = moves.preview_move(TO_23)
    assert preview.bytes_to_copy == 1000
    assert (preview.tail.bytes_to_copy, preview.tail.ends_in_s, preview.tail.problems) == (0, 7 * 24 * 3600.0, [])
    world.topic("small", (1, 2), configs={"retention.ms": "-1", "retention.bytes": "1000"})
    small = {"kind": "partitions", "partitions": [{"topic": "small", "partition": 0, "replicas": [2, 3]}]}
    assert moves.preview_move(small).tail.ends_in_s is None


def test_what_only_changes_the_order_is_a_plain_reassignment(world: World) -> None:
    world.topic("flights", (1, 2))
    turned = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 1]}]}
    move = moves.plan_move(turned, who="alice", mode="tail")
    moves.start_move(move.pk, who="alice")
    assert advance(move) == "ordered"


def test_rolled_back_after_its_end_it_copies_what_is_kept(world: World) -> None:
    move = ready(world)
    offsets(500, 900, 0)
    advance(move)
    switched(world, move)
    moves.roll_back_move(move.pk, who="alice")
    assert advance(move) == "ordered"
    (order,) = orders()
    assert (order.replicas, order.observers) == ((1, 2), ())


def test_a_row_tells_its_mode_and_its_copies_bytes(world: World) -> None:
    move = ready(world)
    world.sized("flights", 1000, b3=40)
    advance(move)
    row = selectors.move_row(move.pk)
    assert row is not None and (row.mode, row.bytes_done) == ("tail", 40)
