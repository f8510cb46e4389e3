"""Tiered storage in worlds of late and lost messages (`tier`), and mutations that the checkers must detect."""

from __future__ import annotations

from collections import Counter

import pytest

from brokerd.remote import leader, lineage, remote_log, view
from brokerd.remote.leader import LocalLog, LocalSegment
from brokerd.remote.lineage import Chain
from brokerd.remote.remote_log import FOLLOWS, RemoteLog
from brokerd.remote.segments import RemoteSegment, SegmentState
from tests.simulation.tier import TierViolation, TierWorld

SEEDS = (*range(16), 1019)
"""1019: a late log start record of the same leader, kept alone by compaction, would have shown deleted records again."""
MUTATION_SEEDS = 40


def test_no_order_of_events_loses_or_hides_a_committed_record() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += TierWorld(seed).run().reached
    for state in (
        "election",
        "state ignored",
        "copy ended after its leadership",
        "partial copy",
        "message lost",
        "local segment deleted",
        "record compacted",
        "follower asks its leader",
        "follower serves a remote record",
    ):
        assert reached[state], f"no world has reached: {state}"


def is_detected(first: int = 0) -> bool:
    for seed in range(first, first + MUTATION_SEEDS):
        try:
            TierWorld(seed).run()
        except TierViolation:
            return True
    return False


def test_deleting_local_segments_before_the_copy_is_finished_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutated_chain_of(segments: list[RemoteSegment], end: lineage.EpochEnd) -> Chain:
        finished = [
            s.with_state(SegmentState.COPY_FINISHED, s.author_epoch) if s.state is SegmentState.COPY_STARTED else s
            for s in segments
        ]
        return lineage.chain_of(finished, lambda epoch: (-1, -1))

    monkeypatch.setattr(leader, "chain_of", mutated_chain_of)
    assert is_detected()


def test_forgetting_the_leader_epoch_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RemoteLog, "claim_epoch", -1)
    assert is_detected()


def test_copying_beyond_the_last_stable_offset_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutated_next_to_copy(local: LocalLog, chain: Chain) -> LocalSegment | None:
        return next((s for s in local.segments if s.end_offset > chain.end), None)

    monkeypatch.setattr(leader, "next_to_copy", mutated_next_to_copy)
    assert is_detected(80)


def test_accepting_any_state_after_any_other_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_log, "FOLLOWS", dict.fromkeys(FOLLOWS, frozenset(SegmentState)))
    assert is_detected()


def test_deleting_locally_without_reading_the_remote_log_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view.RemoteView, "copied_end", lambda self, start: start + 10)
    assert is_detected()


def test_a_follower_that_takes_its_metadata_for_complete_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view.FollowerView, "reaches_below", view.RemoteView.reaches_below)
    monkeypatch.setattr(view.FollowerView, "start_offset", view.RemoteView.start_offset)
    assert is_detected()
