"""Overriding a safety rule needs two people, and only the reviewed content is approved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone
from rest_framework.authtoken.models import Token
from rest_framework.test import APIClient

from controlplane.models import Change, Move, Proposal
from controlplane.services import Rejected, moves, proposals
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
API = "/api/v1"
TO_3 = {"kind": "partitions", "partitions": [{"topic": "ledger", "partition": 0, "replicas": [3]}]}


@pytest.fixture
def second_operator(db: None) -> APIClient:
    user = get_user_model().objects.create_user("bea", is_staff=True)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {Token.objects.create(user=user).key}")
    return client


@pytest.fixture
def move_below_min_insync(world: World) -> Move:
    """A move to fewer replicas than min.insync.replicas."""
    world.topic("ledger", (1, 2), configs={"min.insync.replicas": "2"})
    return moves.plan_move(parse_scope(TO_3), actor="alice", comment="both disks go", override=True)


def changes() -> list[tuple[str, str, str]]:
    return [(c.actor, c.verb, c.outcome) for c in Change.objects.order_by("id")]


def test_a_plan_below_min_insync_replicas_is_rejected_and_two_people_can_override_it(world: World) -> None:
    world.topic("ledger", (1, 2), configs={"min.insync.replicas": "2"})
    with pytest.raises(Rejected, match=r"fewer than its min\.insync\.replicas 2"):
        moves.plan_move(parse_scope(TO_3), actor="alice", comment="x")
    assert moves.preview_move(parse_scope(TO_3)).overridable
    world.down(3)
    assert not moves.preview_move(parse_scope(TO_3)).overridable, "a dead target is no matter of courage"
    with pytest.raises(Rejected, match="not alive"):
        moves.plan_move(parse_scope(TO_3), actor="alice", comment="x", override=True)


def test_an_override_needs_the_approval_of_another_operator(move_below_min_insync: Move) -> None:
    for act in (moves.start_move, moves.approve_move):
        with pytest.raises(Rejected, match="from another operator"):
            act(move_below_min_insync.pk, actor="alice", comment="x")
        with pytest.raises(Rejected, match="from another operator"):
            act(move_below_min_insync.pk, actor="bea", comment="x")
    row = proposals.propose(
        "move.approve", str(move_below_min_insync.pk), {"start": True}, actor="alice", comment="both disks go"
    )
    assert Move.objects.get().state == "planned"
    with pytest.raises(Rejected, match="alice made this request, so another operator must approve it"):
        proposals.approve(row.pk, actor="alice")
    assert Move.objects.get().state == "planned"
    assert proposals.approve(row.pk, actor="bea", comment="seen").state == "done"
    assert Move.objects.get().state == "running"
    assert changes() == [
        ("alice", "move.plan", "confirmed"),
        *[(w, v, "refused") for v in ("move.start", "move.approve") for w in ("alice", "bea")],
        ("alice", "proposal.propose", "confirmed"),
        ("alice", "proposal.approve", "refused"),
        ("bea", "proposal.approve", "confirmed"),
        ("alice", "move.approve", "confirmed"),
        ("alice", "move.start", "pending"),
    ]
    assert "approved by bea" in Change.objects.get(verb="move.start", outcome="pending").comment
    assert Change.objects.get(verb="move.plan").detail.startswith("Overrides a safety check: ledger-0 would have 1")


def test_an_installation_with_one_operator_records_that_no_second_person_approved(
    move_below_min_insync: Move, settings: Any
) -> None:
    settings.WEIR = replace(settings.WEIR, second_person=False)
    row = proposals.propose("move.approve", str(move_below_min_insync.pk), actor="alice", comment="alone here")
    proposals.approve(row.pk, actor="alice")
    assert Move.objects.get().state == "approved"
    assert "WEIR_SECOND_PERSON is off" in Change.objects.get(verb="proposal.approve").detail


def test_the_approved_content_is_the_shown_content(move_below_min_insync: Move, world: World) -> None:
    row = proposals.propose("move.approve", str(move_below_min_insync.pk), actor="alice", comment="x")
    moves.throttle_move(move_below_min_insync.pk, 50_000, actor="alice")
    with pytest.raises(Rejected, match="throttle_bytes_per_s was None, now 50000"):
        proposals.approve(row.pk, actor="bea")
    assert (Proposal.objects.get().state, Move.objects.get().state) == ("open", "planned")
    with pytest.raises(Rejected, match=f"Approval request {row.pk} for this is open"):
        proposals.propose("move.approve", str(move_below_min_insync.pk), actor="carol", comment="x")
    proposals.reject(row.pk, actor="alice", comment="throttled now")
    again, digest = proposals.render_target("move.approve", str(move_below_min_insync.pk), {})
    assert again.facts["throttle_bytes_per_s"] == 50_000
    with pytest.raises(Rejected, match="facts have changed"):
        proposals.propose(
            "move.approve", str(move_below_min_insync.pk), actor="alice", comment="x", shown_hash=row.shown_hash
        )
    row = proposals.propose(
        "move.approve", str(move_below_min_insync.pk), actor="alice", comment="x", shown_hash=digest
    )
    assert proposals.approve(row.pk, actor="bea").state == "done"


def test_a_failed_execution_has_a_reason(move_below_min_insync: Move, world: World) -> None:
    row = proposals.propose("move.approve", str(move_below_min_insync.pk), {"start": True}, actor="alice", comment="x")
    world.begin_move("ledger", 0, (1, 3))
    world.end_move("ledger", 0)
    ended = proposals.approve(row.pk, actor="bea")
    assert ended.state == "failed" and "reassigned since the move was planned" in ended.detail
    assert Change.objects.get(verb="proposal.propose").outcome == "refused"


def test_a_rejection_needs_a_reason_and_an_author_can_withdraw(move_below_min_insync: Move) -> None:
    row = proposals.propose("move.approve", str(move_below_min_insync.pk), actor="alice", comment="x")
    with pytest.raises(Rejected, match="Give a reason"):
        proposals.reject(row.pk, actor="bea", comment=" ")
    assert proposals.reject(row.pk, actor="bea", comment="wait for the disks").state == "rejected"
    with pytest.raises(Rejected, match="is rejected"):
        proposals.approve(row.pk, actor="bea")
    row = proposals.propose("move.approve", str(move_below_min_insync.pk), actor="alice", comment="x")
    assert proposals.reject(row.pk, actor="alice", comment="mine was wrong").state == "withdrawn"


def test_a_proposal_expires(move_below_min_insync: Move) -> None:
    row = proposals.propose("move.approve", str(move_below_min_insync.pk), actor="alice", comment="x")
    assert proposals.sweep() == 0
    Proposal.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(Rejected, match="has expired"):
        proposals.approve(row.pk, actor="bea")
    assert proposals.sweep() == 1
    assert Proposal.objects.get().state == "expired"
    assert Change.objects.get(verb="proposal.propose").outcome == "refused"


def test_the_worker_carries_out_an_approved_proposal_after_a_process_failure(
    move_below_min_insync: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = proposals.propose("move.approve", str(move_below_min_insync.pk), actor="alice", comment="x")
    with monkeypatch.context() as dying:
        dying.setattr(proposals, "carry_out", lambda pk: Proposal.objects.get(pk=pk))
        assert proposals.approve(row.pk, actor="bea").state == "approved"
    assert proposals.sweep() == 0, "its own process may be at it"
    Proposal.objects.update(decided_at=timezone.now() - timedelta(minutes=2))
    assert proposals.sweep() == 1
    assert (Proposal.objects.get().state, Move.objects.get().state) == ("done", "approved")
    assert proposals.carry_out(row.pk).state == "done", "twice is once"


def test_concurrent_approvals_carry_out_once(move_below_min_insync: Move, monkeypatch: pytest.MonkeyPatch) -> None:
    row = proposals.propose("move.approve", str(move_below_min_insync.pk), {"start": True}, actor="alice", comment="x")
    real = proposals.difference

    def approve_in_the_meantime(seen: Proposal) -> str:
        monkeypatch.setattr(proposals, "difference", real)
        proposals.approve(row.pk, actor="carol")
        return ""

    monkeypatch.setattr(proposals, "difference", approve_in_the_meantime)
    with pytest.raises(Rejected, match="decided concurrently"):
        proposals.approve(row.pk, actor="bea")
    assert Change.objects.filter(verb="move.start").count() == 1


@pytest.mark.parametrize(
    ("kind", "target", "said"),
    [
        ("sideways", "1", "Unknown kind of approval request"),
        ("move.approve", "x", "Move 'x' does not exist"),
        ("move.approve", "99", "Move '99' does not exist"),
        ("election.unclean", "nope-0", "Partition 'nope-0' does not exist"),
        ("election.unclean", "ledger-0", "has leader 1"),
    ],
)
def test_an_impossible_proposal_is_rejected(move_below_min_insync: Move, kind: str, target: str, said: str) -> None:
    with pytest.raises(Rejected, match=said):
        proposals.propose(kind, target, actor="alice", comment="x")
    assert Change.objects.first().outcome == "refused"  # type: ignore[union-attr]


# -- unclean elections ---------------------------------------------------------------------------------------------------------


# -- over REST -----------------------------------------------------------------------------------------------------------------


def test_two_operators_override_over_rest(world: World, operator: APIClient, second_operator: APIClient) -> None:
    world.topic("ledger", (1, 2), configs={"min.insync.replicas": "2"})
    dry = operator.post(f"{API}/moves", {"scope": TO_3, "dry": True}, format="json").json()
    assert dry["overridable"] and len(dry["problems"]) == 1
    made = operator.post(f"{API}/moves", {"scope": TO_3, "comment": "x", "override": True}, format="json").json()
    assert made["state"] == "planned" and made["overrides"]
    body: Mapping[str, Any] = {"kind": "move.approve", "target": str(made["id"]), "arguments": {"start": True}}
    assert operator.post(f"{API}/proposals", body, format="json").json()["field"] == "comment"
    row = operator.post(f"{API}/proposals", {**body, "comment": "disks"}, format="json").json()
    assert (row["state"], "another operator" in row["may_not"]) == ("open", True)
    own = operator.post(f"{API}/proposals/{row['id']}/approve", {}, format="json")
    assert (own.status_code, "another operator" in own.json()["detail"]) == (409, True)
    assert second_operator.get(f"{API}/proposals/{row['id']}").json()["may_not"] == ""
    assert second_operator.get(f"{API}/proposals?state=open").json()["total"] == 1
    done = second_operator.post(f"{API}/proposals/{row['id']}/approve", {"comment": "seen"}, format="json").json()
    assert (done["state"], done["decided_by"]) == ("done", "bea")
    assert operator.get(f"{API}/moves/{made['id']}").json()["state"] == "running"
    assert second_operator.get(f"{API}/proposals?state=decided").json()["total"] == 1
    assert second_operator.post(f"{API}/proposals/77/reject", {"comment": "x"}, format="json").status_code == 404


def test_a_viewer_cannot_approve(move_below_min_insync: Move, viewer_client: APIClient) -> None:
    row = proposals.propose("move.approve", str(move_below_min_insync.pk), actor="alice", comment="x")
    assert viewer_client.post(f"{API}/proposals/{row.pk}/approve", {}, format="json").status_code == 403
    assert Proposal.objects.get().state == "open"
