"""Offset commits to a classic group, in a transaction and without."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.cluster.model import Now
from brokerd.coordinator.classic import events as g
from brokerd.wire.errors import ErrorCode as E
from tests.unit.coordinator.classic.harness import GroupHarness, group_completing_rebalance, stable_group

COMMITS = [GroupHarness.commit, GroupHarness.commit_in_transaction]


@pytest.mark.parametrize("commit", COMMITS)
def test_a_commit_to_an_ended_group_is_rejected(commit: Any) -> None:
    harness = stable_group("a")
    harness.group.end()
    assert commit(harness, "a", 1).error == commit(harness).error == E.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("commit", COMMITS)
def test_a_commit_with_a_generation_needs_a_member(commit: Any) -> None:
    harness = GroupHarness()
    assert commit(harness, "a", 0).error == commit(harness, "", 0).error == E.UNKNOWN_MEMBER_ID
    assert commit(harness, "", -1) is None, "it is written"
    harness = stable_group("a", "s", static=("s",))
    for generation in (-1, 0, harness.group.generation):
        assert commit(harness, "x", generation).error == E.UNKNOWN_MEMBER_ID
    assert commit(harness, "", 0).error == E.UNKNOWN_MEMBER_ID
    assert commit(harness, "", -1, "i-s").error == E.FENCED_INSTANCE_ID
    assert commit(harness, "a", 0).error == E.ILLEGAL_GENERATION
    assert commit(harness, "a", harness.group.generation) is None


@pytest.mark.parametrize("commit", COMMITS)
def test_a_commit_without_offsets_is_answered_and_not_written(commit: Any) -> None:
    harness = stable_group("a")
    written = len(harness.stored)
    assert commit(harness, "a", harness.group.generation, offsets=0) == g.Completed(E.NONE)
    assert len(harness.stored) == written
    empty = GroupHarness()
    assert commit(empty, offsets=0) == g.Completed(E.NONE) and not empty.stored


def test_a_transaction_of_a_client_without_a_member_id_may_commit_nothing() -> None:
    assert stable_group("a").commit_in_transaction(offsets=0) == g.Completed(E.NONE)


def test_a_commit_between_join_and_assignment_is_rejected() -> None:
    harness = group_completing_rebalance("a")
    assert harness.commit("a", harness.group.generation).error == E.REBALANCE_IN_PROGRESS
    assert harness.commit("a", 0).error == E.ILLEGAL_GENERATION
    assert harness.commit("x", harness.group.generation).error == E.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("commit", COMMITS)
def test_a_group_is_empty_since_its_first_commit_or_its_last_member(commit: Any) -> None:
    harness = GroupHarness()
    harness.now = Now(0, 5_000)
    commit(harness)
    assert harness.group.empty_since_wall_ms == 5_000
    harness.now = Now(0, 6_000)
    commit(harness)
    assert harness.group.empty_since_wall_ms == 5_000
    harness = stable_group("a")
    harness.now = Now(0, 7_000)
    commit(harness, "a", harness.group.generation)
    assert harness.group.empty_since_wall_ms == 0


def test_an_offset_that_is_not_stored_is_rejected() -> None:
    harness = GroupHarness()
    assert harness.commit() is None
    harness.deliver(g.PersistFailed(harness.stored[-1].number, E.COORDINATOR_NOT_AVAILABLE))
    assert harness.responses[harness.serial] == g.Completed(E.COORDINATOR_NOT_AVAILABLE)


def test_a_deposed_leader_of_a_route_cannot_commit_after_its_successor() -> None:
    place = ("source", 0)

    def commit(harness: GroupHarness, epoch: int) -> Any:
        return harness.deliver(g.Commit(harness.next(), "", None, -1, {place: g.Offset(10, epoch, "", 0)}))

    route = GroupHarness()
    route.group.group_id = "weir.route.r"
    assert commit(route, 3) is None, "it is written"
    assert commit(route, 2) == g.Completed(E.NONE, {place: E.FENCED_LEADER_EPOCH}), (
        "the successor's commit is not replicated yet"
    )
    route.persist()
    assert commit(route, 2).partition_errors == {place: E.FENCED_LEADER_EPOCH}
    for epoch in (3, 4, -1):
        assert commit(route, epoch) is None
    other = GroupHarness()
    assert commit(other, 3) is None and commit(other, 2) is None
