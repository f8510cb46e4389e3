"""Rows of proposals: what the second person sees, and how the current view differs."""

from __future__ import annotations

import pytest

from controlplane.models import Move, Proposal
from controlplane.services import moves, proposal_rows, proposals
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def proposal(world: World) -> Proposal:
    """A move below min.insync.replicas, proposed by alice."""
    world.topic("ledger", (1, 2), configs={"min.insync.replicas": "2"})
    scope = {"kind": "partitions", "partitions": [{"topic": "ledger", "partition": 0, "replicas": [3]}]}
    move = moves.plan_move(parse_scope(scope), actor="alice", comment="both disks go", override=True)
    return proposals.propose("move.approve", str(move.pk), actor="alice", comment="both disks go")


def row(proposal: Proposal, actor: str = "bea") -> proposal_rows.ProposalRow:
    found = proposal_rows.proposal_row(proposal.pk, actor)
    assert found is not None
    return found


def test_another_person_may_decide_and_the_author_may_not(proposal: Proposal) -> None:
    assert row(proposal).may_not == "" and row(proposal, "alice").may_not
    assert row(proposal).label and row(proposal).differs == ""
    assert proposal_rows.proposal_row(999, "bea") is None


def test_a_changed_view_is_shown_as_a_difference_while_the_proposal_is_open(proposal: Proposal, world: World) -> None:
    world.topic("ledger-2", (1, 2))
    assert row(proposal).differs == ""
    moves.cancel_move(int(proposal.target), actor="alice")
    assert row(proposal).differs
    proposals.reject(proposal.pk, actor="bea", comment="no")
    assert row(proposal).differs == "" and row(proposal).state == "rejected"


def test_a_deleted_target_is_shown_as_the_difference(proposal: Proposal) -> None:
    Move.objects.all().delete()
    assert "does not exist" in row(proposal).differs


def test_proposals_are_filtered_by_state_and_text(proposal: Proposal) -> None:
    def total(**options: str) -> int:
        return proposal_rows.proposal_list("bea", **options).total  # type: ignore[arg-type]

    assert (total(), total(state="open"), total(state="decided"), total(query="ali"), total(query="x")) == (
        1,
        1,
        0,
        1,
        0,
    )
    assert proposal_rows.open_count() == 1
    proposals.reject(proposal.pk, actor="bea", comment="no")
    assert (total(state="open"), total(state="decided"), proposal_rows.open_count()) == (0, 1, 0)
