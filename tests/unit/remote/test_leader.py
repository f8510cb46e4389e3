"""Decisions of the leader of a remote log: one at a time, repeated until read back."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from brokerd.cluster.model import Now
from brokerd.remote.leader import (
    APPEND_RETRY_MS,
    COPY_RETRY_MS,
    AppendRemoteMetadata,
    Copied,
    CopySegment,
    DeleteObjects,
    Effect,
    LocalLog,
    LocalSegment,
    RaiseLocalStart,
    RemoteLeader,
    local_start_for,
)
from brokerd.remote.remote_log import RemoteLog
from brokerd.remote.segments import Forgotten, LeaderClaim, LogStart, RemoteSegment, SegmentState
from tests.unit.remote.test_lineage import finished_segment, local
from tests.unit.remote.test_remote_log import TP

S = SegmentState
COPIED = Copied(10, 7, ((1, 0),), 0)


class Scene:
    """A leader in epoch 2 with segments [0, 10), [10, 20) and the active one from 20 on. Appends are read back at once."""

    def __init__(self, *before: RemoteSegment) -> None:
        self.log = RemoteLog(TP)
        for segment in before:
            self.log.apply(segment)
        ids = count(1)
        self.leader = RemoteLeader(TP, 2, 1, self.log, lambda: f"new-{next(ids)}")
        segments = (LocalSegment(0, 10, 10), LocalSegment(10, 20, 10))
        self.local = LocalLog(0, 25, 25, segments, 5, local(25, (1, 0)).end_offset_for)
        self.ms = 0

    def decide(self) -> list[Effect]:
        effects = self.leader.decide(self.local, Now(self.ms, self.ms))
        for effect in effects:
            if isinstance(effect, AppendRemoteMetadata):
                for change in effect.changes:
                    self.log.apply(change)
        return effects

    def until_at_rest(self) -> list[Effect]:
        out: list[Effect] = []
        for _ in range(20):
            effects = self.decide()
            out += effects
            for effect in effects:
                if isinstance(effect, CopySegment):
                    result = replace(COPIED, epochs=((1, effect.segment.start_offset),))
                    assert self.leader.copied(effect.segment.segment_id, result, Now(self.ms, self.ms))
                if isinstance(effect, DeleteObjects):
                    self.leader.objects_deleted(effect.segment.segment_id, True, Now(self.ms, self.ms))
        return out


def appended_changes(effects: list[Effect]) -> list[object]:
    return [c for e in effects if isinstance(e, AppendRemoteMetadata) for c in e.changes]


def test_the_first_decision_is_the_claim_and_it_is_repeated() -> None:
    scene = Scene()
    claim = LeaderClaim(TP, 2, 1)
    assert appended_changes(scene.leader.decide(scene.local, Now(0, 0))) == [claim]
    assert scene.leader.decide(scene.local, Now(10, 10)) == []
    assert appended_changes(scene.leader.decide(scene.local, Now(APPEND_RETRY_MS, 0))) == [claim]
    assert not scene.leader.view.loaded


def test_closed_segments_are_copied_in_order() -> None:
    scene = Scene()
    copies = [e for e in scene.until_at_rest() if isinstance(e, CopySegment)]
    assert [(c.segment.start_offset, c.segment.end_offset) for c in copies] == [(0, 10), (10, 20)]
    assert copies[0].previous is None and copies[1].previous is not None and copies[1].previous.start_offset == 0
    assert (scene.leader.view.chain.start, scene.leader.view.chain.end) == (0, 20)
    assert scene.decide() == []


def test_segments_above_the_last_stable_offset_are_not_copied() -> None:
    scene = Scene()
    scene.local = replace(scene.local, last_stable=15)
    assert [e.segment.start_offset for e in scene.until_at_rest() if isinstance(e, CopySegment)] == [0]


def test_nothing_is_copied_when_copies_are_disabled() -> None:
    scene = Scene()
    scene.local = replace(scene.local, copies=False)
    assert not [e for e in scene.until_at_rest() if isinstance(e, CopySegment)]


def test_a_failed_copy_is_deleted_and_begun_again_under_another_id() -> None:
    scene = Scene()
    scene.decide()
    scene.decide()
    (copy,) = [e for e in scene.decide() if isinstance(e, CopySegment)]
    assert scene.leader.copied("new-1", None, Now(0, 0)) and scene.leader.failures == 1
    effects = scene.decide() + scene.decide()
    assert [e.segment.segment_id for e in effects if isinstance(e, DeleteObjects)] == [copy.segment.segment_id]
    scene.leader.objects_deleted("new-1", True, Now(0, 0))
    effects = scene.decide() + scene.decide() + scene.decide()
    assert Forgotten(TP, "segment:new-1") in appended_changes(effects) and "new-1" not in scene.log.segments
    scene.ms = COPY_RETRY_MS
    assert next(e.segment.segment_id for e in scene.until_at_rest() if isinstance(e, CopySegment)) == "new-2"


def test_an_unfinished_copy_of_an_earlier_leader_is_deleted() -> None:
    scene = Scene(finished_segment(0, 10, own_id="old").with_state(S.COPY_STARTED, 1))
    effects = scene.until_at_rest()
    assert [e.segment.segment_id for e in effects if isinstance(e, DeleteObjects)] == ["old"]
    assert scene.leader.view.chain.end == 20 and "old" not in scene.log.segments


def test_an_unfinished_copy_is_kept_if_it_has_the_only_copy_of_its_records() -> None:
    scene = Scene(finished_segment(0, 10, own_id="only").with_state(S.COPY_STARTED, 1))
    scene.local = replace(scene.local, start_offset=10, segments=scene.local.segments[1:])
    assert not [e for e in scene.until_at_rest() if isinstance(e, DeleteObjects)]


def test_a_result_of_another_attempt_is_not_used() -> None:
    scene = Scene()
    assert not scene.leader.copied("unknown", COPIED, Now(0, 0))


def test_a_deposed_leader_does_nothing() -> None:
    scene = Scene()
    scene.decide()
    scene.log.apply(LeaderClaim(TP, 3, 2))
    assert scene.leader.deposed and scene.decide() == []


def test_retention_raises_the_log_start_then_deletes() -> None:
    scene = Scene()
    scene.until_at_rest()
    scene.local = replace(scene.local, start_offset=20, segments=(), retention_bytes=15)
    effects = scene.until_at_rest()
    assert LogStart(TP, 2, 10) in appended_changes(effects)
    assert [e.segment.start_offset for e in effects if isinstance(e, DeleteObjects)] == [0]
    assert scene.leader.view.start_offset(20) == 10


def test_deleted_records_are_deleted_in_both_tiers() -> None:
    scene = Scene()
    scene.until_at_rest()
    scene.leader.requested_start = 12
    effects = scene.until_at_rest()
    assert LogStart(TP, 2, 12) in appended_changes(effects) and RaiseLocalStart(12) in effects
    assert [e.segment.start_offset for e in effects if isinstance(e, DeleteObjects)] == [0]


def test_a_disabled_topic_deletes_all_remote_segments() -> None:
    scene = Scene()
    scene.until_at_rest()
    scene.local = replace(scene.local, copies=False, deletes_all=True, start_offset=10)
    effects = scene.until_at_rest()
    assert len([e for e in effects if isinstance(e, DeleteObjects)]) == 2 and scene.log.empty


def test_a_failed_deletion_is_repeated_later() -> None:
    scene = Scene(finished_segment(0, 10, own_id="old").with_state(S.DELETE_STARTED, 1))
    effects = scene.decide() + scene.decide()
    assert [e.segment.segment_id for e in effects if isinstance(e, DeleteObjects)] == ["old"]
    scene.leader.objects_deleted("old", False, Now(0, 0))
    assert not [e for e in scene.decide() if isinstance(e, DeleteObjects)]
    scene.ms = COPY_RETRY_MS
    assert [e for e in scene.decide() if isinstance(e, DeleteObjects)]


def test_an_ignored_state_is_written_again() -> None:
    scene = Scene()
    scene.until_at_rest()
    own_id = next(iter(scene.log.segments))
    scene.log.apply(replace(scene.log.segments[own_id], author_epoch=1, state=S.DELETE_STARTED))
    assert own_id in scene.log.stale
    scene.decide()
    assert own_id not in scene.log.stale and scene.log.segments[own_id].state is S.COPY_FINISHED


def test_the_local_log_starts_where_new_replicas_start_as_soon_as_the_records_below_are_copied() -> None:
    scene = Scene()
    scene.local = replace(scene.local, replica_starts=(20,))
    begun = scene.decide()
    while not any(isinstance(e, CopySegment) for e in begun):
        begun = scene.decide()
    assert RaiseLocalStart(20) not in begun + scene.decide()
    (first,) = [e.segment for e in begun if isinstance(e, CopySegment)]
    assert scene.leader.copied(first.segment_id, COPIED, Now(0, 0))
    assert RaiseLocalStart(20) not in scene.decide(), "[10, 20) is only local"
    assert RaiseLocalStart(20) in scene.until_at_rest()
    assert scene.log.log_start == 0, "nothing is deleted"


@pytest.mark.parametrize(
    ("starts", "copied_end", "start"), [((), 30, -1), ((31,), 30, -1), ((30,), 30, 30), ((10, 25, 31), 30, 25)]
)
def test_the_highest_start_of_a_new_replica_that_copies_reach_is_chosen(
    starts: tuple[int, ...], copied_end: int, start: int
) -> None:
    assert local_start_for(starts, copied_end) == start
