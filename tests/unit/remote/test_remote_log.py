"""The remote log of a partition: states, fencing by the order of the records, and the same state after compaction."""

from __future__ import annotations

from uuid import UUID

from brokerd.cluster.model import TopicPartition
from brokerd.remote.remote_log import CLAIMS_KEPT, RemoteLog
from brokerd.remote.segments import (
    SEGMENT,
    Forgotten,
    LeaderClaim,
    LogStart,
    MetadataChange,
    RemoteSegment,
    SegmentState,
    key_of,
)

S = SegmentState
TP = TopicPartition(UUID(int=7), 3)


def segment(state: SegmentState, epoch: int = 1, start: int = 0, end: int = 10, own_id: str = "a") -> RemoteSegment:
    return RemoteSegment(TP, own_id, state, epoch, start, end, 100, 5, 6, ((epoch, start),), 2)


def replay_changes(*changes: MetadataChange) -> RemoteLog:
    log = RemoteLog(TP)
    for change in changes:
        log.apply(change)
    return log


def test_a_state_of_an_older_leader_after_a_newer_claim_is_ignored_and_written_again() -> None:
    log = replay_changes(LeaderClaim(TP, 1, 1), segment(S.COPY_STARTED), LeaderClaim(TP, 2, 2))
    assert not log.apply(segment(S.COPY_FINISHED))
    assert log.segments["a"].state is S.COPY_STARTED and list(log.stale) == ["a"]
    assert log.apply(segment(S.COPY_STARTED, epoch=2)) and not log.stale


def test_a_copy_that_only_a_deposed_leader_knows_is_deleted() -> None:
    log = replay_changes(LeaderClaim(TP, 2, 2), segment(S.COPY_FINISHED))
    assert log.segments["a"].state is S.DELETE_STARTED and list(log.stale) == ["a"]


def test_a_repeated_start_does_not_undo_a_finished_copy() -> None:
    log = replay_changes(
        LeaderClaim(TP, 1, 1), segment(S.COPY_STARTED), segment(S.COPY_FINISHED), segment(S.COPY_STARTED)
    )
    assert log.segments["a"].state is S.COPY_FINISHED and list(log.stale) == ["a"]


def test_the_log_start_never_goes_back() -> None:
    log = replay_changes(LogStart(TP, 1, 50), LeaderClaim(TP, 2, 2), LogStart(TP, 2, 40), LogStart(TP, 1, 90))
    assert log.log_start == 50 and log.start_stale


def test_a_late_lower_log_start_is_ignored_and_the_higher_one_written_again() -> None:
    log = replay_changes(LeaderClaim(TP, 1, 1), LogStart(TP, 1, 50))
    assert not log.apply(LogStart(TP, 1, 10))
    assert log.log_start == 50 and log.start_stale
    assert log.apply(LogStart(TP, 1, 50)) and not log.start_stale


def test_tombstones_remove_segments_and_claims() -> None:
    log = replay_changes(
        segment(S.DELETE_FINISHED), LeaderClaim(TP, 1, 1), LogStart(TP, 1, 5), Forgotten(TP, "segment:a")
    )
    assert log.empty and log.claims == {1}
    log.apply(Forgotten(TP, "leader:1"))
    log.apply(Forgotten(TP, "start"))
    assert not log.claims and not log.log_start


def test_the_newest_claims_are_kept() -> None:
    log = replay_changes(*(LeaderClaim(TP, e, 1) for e in range(CLAIMS_KEPT + 3)))
    assert log.old_claims == [0, 1, 2] and log.claim_epoch == CLAIMS_KEPT + 2


def test_compaction_changes_no_state() -> None:
    """The same state results from all records and from the newest record of each key, when the leader has repaired what was ignored."""
    changes: list[MetadataChange] = [
        LeaderClaim(TP, 1, 1),
        segment(S.COPY_STARTED),
        segment(S.COPY_FINISHED),
        segment(S.COPY_STARTED, own_id="b", start=10, end=20),
        LeaderClaim(TP, 2, 2),
        segment(S.DELETE_STARTED, epoch=2, own_id="b", start=10, end=20),
        segment(S.COPY_FINISHED, epoch=1, own_id="b", start=10, end=20),  # late
        segment(S.DELETE_STARTED, epoch=2, own_id="b", start=10, end=20),  # repaired
    ]
    newest = {key_of(c): i for i, c in enumerate(changes)}
    compacted = [c for i, c in enumerate(changes) if newest[key_of(c)] == i]
    assert replay_changes(*compacted).segments == replay_changes(*changes).segments


def test_finished_bytes_follow_the_states_of_the_segments() -> None:
    def bytes_of(log: RemoteLog) -> int:
        assert log.finished_bytes == sum(s.size_bytes for s in log.in_state(S.COPY_FINISHED))
        return log.finished_bytes

    log = replay_changes(segment(S.COPY_STARTED))
    assert bytes_of(log) == 0
    log.apply(segment(S.COPY_FINISHED))
    log.apply(segment(S.COPY_FINISHED))
    log.apply(segment(S.COPY_FINISHED, own_id="b", start=10, end=20))
    assert bytes_of(log) == 200
    log.apply(segment(S.DELETE_STARTED))
    assert bytes_of(log) == 100
    log.apply(segment(S.DELETE_FINISHED))
    log.apply(Forgotten(TP, f"{SEGMENT}:a"))
    assert bytes_of(log) == 100
    log.apply(Forgotten(TP, f"{SEGMENT}:b"))
    assert bytes_of(log) == 0
