"""What overrides a safety refusal takes two people, and what is approved is what was shown."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone
from rest_framework.authtoken.models import Token
from rest_framework.test import APIClient

from controlplane import kafka
from controlplane.models import Change, Move, Proposal
from controlplane.services import Refused, moves, overrides, proposals
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
API = "/api/v1"
TO_3 = {"kind": "partitions", "partitions": [{"topic": "ledger", "partition": 0, "replicas": [3]}]}


@pytest.fixture
def second(db: None) -> APIClient:
    user = get_user_model().objects.create_user("bea", is_staff=True)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {Token.objects.create(user=user).key}")
    return client


@pytest.fixture
def risky(world: World) -> Move:
    """A move to fewer replicas than min.insync.replicas."""
    world.topic("ledger", (1, 2), configs={"min.insync.replicas": "2"})
    return moves.plan_move(TO_3, who="alice", why="both disks go", override=True)


def changes() -> list[tuple[str, str, str]]:
    return [(c.who, c.verb, c.outcome) for c in Change.objects.order_by("id")]


def test_a_plan_below_min_insync_replicas_is_refused_and_says_that_two_may_lift_it(world: World) -> None:
    world.topic("ledger", (1, 2), configs={"min.insync.replicas": "2"})
    with pytest.raises(Refused, match=r"fewer than its min\.insync\.replicas 2"):
        moves.plan_move(TO_3, who="alice", why="x")
    assert moves.preview_move(TO_3).overridable
    world.down(3)
    assert not moves.preview_move(TO_3).overridable, "a dead target is no matter of courage"
    with pytest.raises(Refused, match="not alive"):
        moves.plan_move(TO_3, who="alice", why="x", override=True)


def test_nobody_begins_alone_what_goes_against_a_safety_refusal(risky: Move) -> None:
    for act in (moves.start_move, moves.approve_move):
        with pytest.raises(Refused, match="another operator approves"):
            act(risky.pk, who="alice", why="x")
        with pytest.raises(Refused, match="another operator approves"):
            act(risky.pk, who="bea", why="x")
    row = proposals.propose("move.approve", str(risky.pk), {"start": True}, who="alice", why="both disks go")
    assert Move.objects.get().state == "planned"
    with pytest.raises(Refused, match="alice has proposed this, so another operator must approve it"):
        proposals.approve(row.pk, who="alice")
    assert Move.objects.get().state == "planned"
    assert proposals.approve(row.pk, who="bea", why="seen").state == "done"
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
    assert "approved by bea" in Change.objects.get(verb="move.start", outcome="pending").why
    assert Change.objects.get(verb="move.plan").detail.startswith("Overrides a safety refusal: ledger-0 would have 1")


def test_a_house_with_one_operator_says_so_and_the_record_does_too(risky: Move, settings: Any) -> None:
    settings.SECOND_PERSON = False
    row = proposals.propose("move.approve", str(risky.pk), who="alice", why="alone here")
    proposals.approve(row.pk, who="alice")
    assert Move.objects.get().state == "approved"
    assert "WEIR_SECOND_PERSON is off" in Change.objects.get(verb="proposal.approve").detail


def test_what_is_approved_is_what_was_shown(risky: Move, world: World) -> None:
    row = proposals.propose("move.approve", str(risky.pk), who="alice", why="x")
    moves.throttle_move(risky.pk, 50_000, who="alice")
    with pytest.raises(Refused, match="throttle_bytes_per_s was None, now 50000"):
        proposals.approve(row.pk, who="bea")
    assert (Proposal.objects.get().state, Move.objects.get().state) == ("open", "planned")
    with pytest.raises(Refused, match=f"proposed already as proposal {row.pk}"):
        proposals.propose("move.approve", str(risky.pk), who="carol", why="x")
    proposals.reject(row.pk, who="alice", why="throttled now")
    again, digest = proposals.shown("move.approve", str(risky.pk), {})
    assert again.facts["throttle_bytes_per_s"] == 50_000
    with pytest.raises(Refused, match="has changed since"):
        proposals.propose("move.approve", str(risky.pk), who="alice", why="x", shown_hash=row.shown_hash)
    row = proposals.propose("move.approve", str(risky.pk), who="alice", why="x", shown_hash=digest)
    assert proposals.approve(row.pk, who="bea").state == "done"


def test_what_fails_when_it_is_carried_out_says_why(risky: Move, world: World) -> None:
    row = proposals.propose("move.approve", str(risky.pk), {"start": True}, who="alice", why="x")
    world.begin_move("ledger", 0, (1, 3))
    world.end_move("ledger", 0)
    ended = proposals.approve(row.pk, who="bea")
    assert ended.state == "failed" and "placed anew since the move was planned" in ended.detail
    assert Change.objects.get(verb="proposal.propose").outcome == "refused"


def test_no_is_said_with_a_reason_and_its_author_withdraws(risky: Move) -> None:
    row = proposals.propose("move.approve", str(risky.pk), who="alice", why="x")
    with pytest.raises(Refused, match="Give a reason"):
        proposals.reject(row.pk, who="bea", why=" ")
    assert proposals.reject(row.pk, who="bea", why="wait for the disks").state == "rejected"
    with pytest.raises(Refused, match="is rejected"):
        proposals.approve(row.pk, who="bea")
    row = proposals.propose("move.approve", str(risky.pk), who="alice", why="x")
    assert proposals.reject(row.pk, who="alice", why="mine was wrong").state == "withdrawn"


def test_a_proposal_expires(risky: Move) -> None:
    row = proposals.propose("move.approve", str(risky.pk), who="alice", why="x")
    assert proposals.sweep() == 0
    Proposal.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(Refused, match="has expired"):
        proposals.approve(row.pk, who="bea")
    assert proposals.sweep() == 1
    assert Proposal.objects.get().state == "expired"
    assert Change.objects.get(verb="proposal.propose").outcome == "refused"


def test_what_was_approved_is_carried_out_by_the_worker_where_the_approvers_process_died(
    risky: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = proposals.propose("move.approve", str(risky.pk), who="alice", why="x")
    with monkeypatch.context() as dying:
        dying.setattr(proposals, "carry_out", lambda pk: Proposal.objects.get(pk=pk))
        assert proposals.approve(row.pk, who="bea").state == "approved"
    assert proposals.sweep() == 0, "its own process may be at it"
    Proposal.objects.update(decided_at=timezone.now() - timedelta(minutes=2))
    assert proposals.sweep() == 1
    assert (Proposal.objects.get().state, Move.objects.get().state) == ("done", "approved")
    assert proposals.carry_out(row.pk).state == "done", "twice is once"


def test_two_who_approve_at_once_do_it_once(risky: Move, monkeypatch: pytest.MonkeyPatch) -> None:
    row = proposals.propose("move.approve", str(risky.pk), {"start": True}, who="alice", why="x")
    real = proposals.difference

    def meanwhile(seen: Proposal) -> str:
        monkeypatch.setattr(proposals, "difference", real)
        proposals.approve(row.pk, who="carol")
        return ""

    monkeypatch.setattr(proposals, "difference", meanwhile)
    with pytest.raises(Refused, match="decided in this moment"):
        proposals.approve(row.pk, who="bea")
    assert Change.objects.filter(verb="move.start").count() == 1


@pytest.mark.parametrize(
    ("kind", "target", "said"),
    [
        ("sideways", "1", "nothing that can be proposed"),
        ("move.approve", "x", "no move 'x'"),
        ("move.approve", "99", "no move '99'"),
        ("election.unclean", "nope-0", "no partition 'nope-0'"),
        ("election.unclean", "ledger-0", "is led by broker 1"),
    ],
)
def test_what_cannot_be_proposed_is_refused(risky: Move, kind: str, target: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        proposals.propose(kind, target, who="alice", why="x")
    assert Change.objects.first().outcome == "refused"  # type: ignore[union-attr]


# -- unclean elections ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def headless(world: World) -> World:
    world.topic("orders", (1, 2, 3))
    world.offline("orders", 0)
    world.down(1)
    return world


@pytest.mark.parametrize(
    ("answer", "outcome", "state"),
    [
        (True, "confirmed", "done"),
        (False, "unchanged", "done"),
        (kafka.NoAnswer("gone"), "unknown", "failed"),
        (kafka.Declined("no"), "refused", "failed"),
    ],
)
def test_an_unclean_election_is_asked_of_the_controller_by_two(
    headless: World, monkeypatch: pytest.MonkeyPatch, answer: Any, outcome: str, state: str
) -> None:
    asked = []

    def elect(topic: str, partition: int) -> bool:
        asked.append((topic, partition))
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)

    monkeypatch.setattr(kafka, "elect_uncleanly", elect)
    row = proposals.propose("election.unclean", "orders-0", who="alice", why="broker 1 burnt")
    assert "were brokers [1]" in row.shown["lines"][0] and row.shown["facts"]["alive"] == [2, 3]
    assert asked == []
    assert proposals.approve(row.pk, who="bea").state == state
    assert asked == [("orders", 0)]
    assert Change.objects.get(verb="topic.elect").outcome == outcome
    assert Change.objects.get(verb="proposal.propose").outcome == outcome


def test_an_election_is_not_approved_once_another_could_lead(headless: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "elect_uncleanly", lambda *a: pytest.fail("elected"))
    row = proposals.propose("election.unclean", "orders-0", who="alice", why="broker 1 burnt")
    headless.down(2)
    with pytest.raises(Refused, match=r"alive was \[2, 3\], now \[3\]"):
        proposals.approve(row.pk, who="bea")
    headless.put("orders", 0, isr=(3,), leader=3, leader_incarnation=103)
    with pytest.raises(Refused, match="is led by broker 3"):
        proposals.approve(row.pk, who="bea")


def test_every_kind_shows_and_carries_out(risky: Move) -> None:
    for name, kind in overrides.KINDS.items():
        assert kind.label and callable(kind.show) and callable(kind.carry_out), name


# -- over REST -----------------------------------------------------------------------------------------------------------------


def test_two_operators_override_over_rest(world: World, operator: APIClient, second: APIClient) -> None:
    world.topic("ledger", (1, 2), configs={"min.insync.replicas": "2"})
    dry = operator.post(f"{API}/moves", {"scope": TO_3, "dry": True}, format="json").json()
    assert dry["overridable"] and len(dry["problems"]) == 1
    made = operator.post(f"{API}/moves", {"scope": TO_3, "why": "x", "override": True}, format="json").json()
    assert made["state"] == "planned" and made["overrides"]
    body: Mapping[str, Any] = {"kind": "move.approve", "target": str(made["id"]), "arguments": {"start": True}}
    assert operator.post(f"{API}/proposals", body, format="json").json()["field"] == "why"
    row = operator.post(f"{API}/proposals", {**body, "why": "disks"}, format="json").json()
    assert (row["state"], "another operator" in row["may_not"]) == ("open", True)
    own = operator.post(f"{API}/proposals/{row['id']}/approve", {}, format="json")
    assert (own.status_code, "another operator" in own.json()["reason"]) == (409, True)
    assert second.get(f"{API}/proposals/{row['id']}").json()["may_not"] == ""
    assert second.get(f"{API}/proposals?state=open").json()["total"] == 1
    done = second.post(f"{API}/proposals/{row['id']}/approve", {"why": "seen"}, format="json").json()
    assert (done["state"], done["decided_by"]) == ("done", "bea")
    assert operator.get(f"{API}/moves/{made['id']}").json()["state"] == "running"
    assert second.get(f"{API}/proposals?state=decided").json()["total"] == 1
    assert second.post(f"{API}/proposals/77/reject", {"why": "x"}, format="json").status_code == 404


def test_an_onlooker_approves_nothing(risky: Move, onlooker: APIClient) -> None:
    row = proposals.propose("move.approve", str(risky.pk), who="alice", why="x")
    assert onlooker.post(f"{API}/proposals/{row.pk}/approve", {}, format="json").status_code == 403
    assert Proposal.objects.get().state == "open"
