"""Two operators end a transaction: the shown effects, rejections, and the outcome that is read back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.domain.transactions import DescribedTransaction
from controlplane.models import Change, Proposal
from controlplane.services import Rejected, proposals
from tests.unit.controlplane.transaction_responses import (
    HANGING,
    TransactionResponses,
    patch_responses,
    rejects,
    stays_silent,
)
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
ABORT, FENCE = "transaction.abort", "transaction.fence"
OPEN = DescribedTransaction("billing", "Ongoing", 4711, 2, 60_000, 1_700_000_000_000, (("orders", 1),))


@pytest.fixture
def responses(monkeypatch: pytest.MonkeyPatch, world: World) -> TransactionResponses:
    found = patch_responses(monkeypatch, world)
    found.open = {2: [HANGING]}
    return found


def propose_and_approve(kind: str, target: str) -> Proposal:
    row = proposals.propose(kind, target, actor="alice", comment="consumers wait")
    with pytest.raises(Rejected, match="another operator must approve"):
        proposals.approve(row.pk, actor="alice")
    return proposals.approve(row.pk, actor="bea")


def outcomes(verb: str) -> list[tuple[str, str, str]]:
    return [(c.actor, c.object_name, c.outcome) for c in Change.objects.filter(verb=verb)]


def test_a_hanging_transaction_is_aborted_after_the_approval(responses: TransactionResponses) -> None:
    shown, _ = proposals.render_target(ABORT, HANGING.target, {})
    assert shown.facts["verdict"] == "unknown_producer" and "from offset 1234 of orders-1" in shown.lines[0]
    row = propose_and_approve(ABORT, HANGING.target)
    assert (row.state, responses.requests.count(("marker", 2))) == ("done", 1)
    assert outcomes("transaction.abort") == [("alice", "orders-1@1234", "confirmed")]
    assert Change.objects.get(verb="transaction.abort").after["producer_id"] == 4711


def test_a_transaction_that_does_not_hang_is_not_aborted(responses: TransactionResponses) -> None:
    for target, reason in (
        ("orders-1", "is not topic-partition@start offset"),
        ("orders-9@1", "does not exist"),
        ("orders-1@7", "it has ended"),
    ):
        with pytest.raises(Rejected, match=reason):
            proposals.propose(ABORT, target, actor="alice", comment="x")
    responses.silent = {3}
    with pytest.raises(Rejected, match="silent brokers: 3"):
        proposals.propose(ABORT, HANGING.target, actor="alice", comment="x")
    responses.silent = {2}
    with pytest.raises(Rejected, match="leader of orders-1 does not respond"):
        proposals.propose(ABORT, HANGING.target, actor="alice", comment="x")
    responses.silent, responses.coordinators = set(), {1: [replace(OPEN, started_ms=None)]}
    with pytest.raises(Rejected, match=r"does not hang.*fence 'billing'"):
        proposals.propose(ABORT, HANGING.target, actor="alice", comment="x")
    assert not Proposal.objects.exists()


def test_an_approval_needs_the_transaction_that_was_shown(responses: TransactionResponses) -> None:
    row = proposals.propose(ABORT, HANGING.target, actor="alice", comment="x")
    responses.open = {2: [replace(HANGING, producer_epoch=3)]}
    with pytest.raises(Rejected, match="producer_epoch was 2, now 3"):
        proposals.approve(row.pk, actor="bea")
    responses.open = {2: []}
    with pytest.raises(Rejected, match="it has ended"):
        proposals.approve(row.pk, actor="bea")
    assert ("marker", 2) not in responses.requests


@pytest.mark.parametrize(
    ("before", "outcome", "said"),
    [
        (rejects, "refused", "INVALID_PRODUCER_EPOCH"),
        (stays_silent, "unknown", "No response"),
    ],
)
def test_a_marker_that_is_not_confirmed_has_its_reason(
    responses: TransactionResponses, before: object, outcome: str, said: str
) -> None:
    responses.on_marker = before  # type: ignore[assignment]
    row = propose_and_approve(ABORT, HANGING.target)
    assert row.state == "failed" and said in row.detail
    assert outcomes("transaction.abort")[0][2] == outcome


def test_an_abort_that_is_carried_out_again_writes_nothing(responses: TransactionResponses) -> None:
    row = propose_and_approve(ABORT, HANGING.target)
    Proposal.objects.filter(pk=row.pk).update(state="approved")
    again = proposals.carry_out(row.pk)
    assert again.state == "done" and "already ended" in again.detail
    assert responses.requests.count(("marker", 2)) == 1
    Proposal.objects.filter(pk=row.pk).update(state="approved")
    responses.open = {2: [replace(HANGING, producer_epoch=9)]}
    assert "epoch 9" in proposals.carry_out(row.pk).detail
    Proposal.objects.filter(pk=row.pk).update(state="approved")
    responses.silent = {2}
    assert "Nothing was written" in proposals.carry_out(row.pk).detail
    assert responses.requests.count(("marker", 2)) == 1


def test_a_marker_that_does_not_end_the_transaction_is_not_a_success(
    responses: TransactionResponses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.clients.transactions.write_abort_marker", lambda *_: None)
    assert "still reports" in propose_and_approve(ABORT, HANGING.target).detail
    assert outcomes("transaction.abort")[0][2] == "unknown"


def test_the_producer_of_an_open_transaction_is_fenced(responses: TransactionResponses) -> None:
    responses.coordinators = {3: [OPEN]}
    shown, _ = proposals.render_target(FENCE, "billing", {})
    assert shown.facts["producer_epoch"] == 2 and any("Open for" in f for f in shown.current_values)
    row = propose_and_approve(FENCE, "billing")
    assert row.state == "done" and "epoch 9" in row.detail and ("fence", 60_000) in responses.requests
    assert outcomes("transaction.fence") == [("alice", "billing", "confirmed")]
    Proposal.objects.filter(pk=row.pk).update(state="approved")
    assert "Another producer" in proposals.carry_out(row.pk).detail, "a repeated operation does nothing"
    assert [r for r, _ in responses.requests].count("fence") == 1


def test_only_an_ongoing_transaction_is_fenced(responses: TransactionResponses) -> None:
    responses.coordinators = {3: [replace(OPEN, state="PrepareCommit")]}
    for target, reason in (
        ("", "Name a"),
        ("x" * 301, "Name a"),
        ("nobody", "no transactional id"),
        ("billing", "PrepareC"),
    ):
        with pytest.raises(Rejected, match=reason):
            proposals.propose(FENCE, target, actor="alice", comment="x")
    responses.silent = {3}
    with pytest.raises(Rejected, match="does not respond"):
        proposals.propose(FENCE, "billing", actor="alice", comment="x")


def test_a_failed_fencing_reports_the_reason(responses: TransactionResponses) -> None:
    responses.coordinators = {3: [OPEN]}
    responses.on_fence = rejects
    assert "rejected the fencing" in propose_and_approve(FENCE, "billing").detail
    responses.on_fence = stays_silent
    row = propose_and_approve(FENCE, "billing")
    assert "No response" in row.detail and outcomes("transaction.fence")[0][2] == "unknown"
    Proposal.objects.filter(pk=row.pk).update(state="approved")
    responses.coordinators = {3: [replace(OPEN, state="CompleteCommit")]}
    assert "already ended" in proposals.carry_out(row.pk).detail
    Proposal.objects.filter(pk=row.pk).update(state="approved")
    responses.silent = {3}
    assert "Nothing was changed" in proposals.carry_out(row.pk).detail
