"""Two operators decide a half message: what they see, what is rejected, and the outcome."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.clients import producer
from controlplane.domain.produce import NewRecord, ProducedRecord
from controlplane.models import Change, Proposal
from controlplane.services import Rejected, proposals
from tests.unit.controlplane.half_responses import HalfResponses, message, patch_responses
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
COMMIT, ROLLBACK = "half.commit", "half.rollback"


@pytest.fixture
def responses(monkeypatch: pytest.MonkeyPatch, world: World) -> HalfResponses:
    return patch_responses(monkeypatch, world)


@pytest.fixture
def produced_records(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, NewRecord]]:
    found: list[tuple[str, NewRecord]] = []

    def produce(topic: str, records: list[NewRecord], **rest: Any) -> list[ProducedRecord]:
        found.extend((topic, r) for r in records)
        return [ProducedRecord(r.partition, 100) for r in records]

    monkeypatch.setattr(producer, "produce", produce)
    return found


def respond_with(monkeypatch: pytest.MonkeyPatch, result: ProducedRecord) -> None:
    monkeypatch.setattr(producer, "produce", lambda topic, records: [result])


def propose_and_approve(kind: str, target: str) -> Proposal:
    row = proposals.propose(kind, target, actor="alice", comment="the shop is gone")
    with pytest.raises(Rejected, match="another operator must approve"):
        proposals.approve(row.pk, actor="alice")
    return proposals.approve(row.pk, actor="bea")


@pytest.mark.parametrize(("kind", "decision"), [(COMMIT, b"commit"), (ROLLBACK, b"rollback")])
def test_a_decision_is_written_after_the_approval(
    kind: str, decision: bytes, responses: HalfResponses, produced_records: list[tuple[str, NewRecord]]
) -> None:
    shown, _ = proposals.render_target(kind, "orders-0@9", {})
    assert "partition 0 of orders.half, offset 9" in shown.lines[0] and shown.facts["half_id_hex"] == "ff"
    row = propose_and_approve(kind, "orders-0@9")
    assert row.state == "done"
    assert produced_records == [
        ("orders.half", NewRecord(headers=(("x-half-id", b"\xff"), ("x-half", decision)), partition=0))
    ]
    change = Change.objects.get(verb=kind)
    assert (change.actor, change.object_name, change.outcome) == ("alice", "orders", "confirmed")
    assert proposals.carry_out(row.pk).state == "done" and len(produced_records) == 1


def test_what_is_not_undecided_is_rejected(responses: HalfResponses) -> None:
    for target, reason in (
        ("orders-0", "is not topic-partition@offset"),
        ("plain-0@1", "has no half messages"),
        ("orders-0@4", "it was decided or has expired"),
    ):
        with pytest.raises(Rejected, match=reason):
            proposals.propose(COMMIT, target, actor="alice", comment="x")
    responses.rejected = {0}
    with pytest.raises(Rejected, match="unknown now: Its leader rejected"):
        proposals.propose(COMMIT, "orders-0@3", actor="alice", comment="x")


def test_an_approval_needs_the_message_that_was_shown(responses: HalfResponses) -> None:
    row = proposals.propose(COMMIT, "orders-0@3", actor="alice", comment="x")
    responses.messages = {0: [message(3, b"b")]}
    with pytest.raises(Rejected, match="half_id_hex was 61, now 62"):
        proposals.approve(row.pk, actor="bea")


def test_a_producer_that_decides_first_wins(responses: HalfResponses, monkeypatch: pytest.MonkeyPatch) -> None:
    def reject(topic: str, records: Any) -> list[ProducedRecord]:
        responses.messages = {}
        return [ProducedRecord(0, None, "The broker rejected the record.")]

    monkeypatch.setattr(producer, "produce", reject)
    row = propose_and_approve(COMMIT, "orders-0@3")
    assert row.state == "done" and "was decided or has expired" in row.detail
    assert Change.objects.get(verb=COMMIT).outcome == "unchanged"


@pytest.mark.parametrize(("unknown", "outcome"), [(True, "unknown"), (False, "refused")])
def test_a_failed_write_is_not_a_success(
    unknown: bool, outcome: str, responses: HalfResponses, monkeypatch: pytest.MonkeyPatch
) -> None:
    respond_with(monkeypatch, ProducedRecord(0, None, "No response.", unknown))
    assert propose_and_approve(ROLLBACK, "orders-0@3").state == "failed"
    assert Change.objects.get(verb=ROLLBACK).outcome == outcome
