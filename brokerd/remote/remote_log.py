"""The remote log of one partition: the state that results from its records in `__remote_log_metadata`. Pure.

Invariants: every broker that reads the same records reaches the same state. The records have one order, so that order fences: a state that was written
in an older leader epoch than the newest claim before it is ignored by every reader, also by its author. A state that does not follow from the previous
one is ignored too. The leader then writes the valid state again (`stale`), because compaction would keep the ignored record.
Does not contain: decisions of the leader (`leader`).
"""

from __future__ import annotations

from brokerd.cluster.model import TopicPartition
from brokerd.remote.segments import (
    LEADER,
    SEGMENT,
    START,
    Forgotten,
    LeaderClaim,
    LogStart,
    MetadataChange,
    RemoteSegment,
    SegmentState,
)

S = SegmentState
FOLLOWS: dict[SegmentState | None, frozenset[SegmentState]] = {
    # After compaction a segment may appear in any state.
    None: frozenset(S),
    S.COPY_STARTED: frozenset({S.COPY_STARTED, S.COPY_FINISHED, S.DELETE_STARTED}),
    S.COPY_FINISHED: frozenset({S.COPY_FINISHED, S.DELETE_STARTED}),
    S.DELETE_STARTED: frozenset({S.DELETE_STARTED, S.DELETE_FINISHED}),
    S.DELETE_FINISHED: frozenset({S.DELETE_FINISHED}),
}
"""The states that may follow a state. A state may be repeated, because an append may be retried."""
CLAIMS_KEPT = 8
"""Claims of older leader epochs that stay in the topic. They fence a late record also after compaction."""


class RemoteLog:
    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.segments: dict[str, RemoteSegment] = {}
        """{segment id: newest valid state}, in the order of their first records."""
        self.finished_bytes = 0
        """Bytes of the segments with a finished copy."""
        self.claim: LeaderClaim | None = None
        """The claim with the highest leader epoch."""
        self.claims: set[int] = set()
        """Leader epochs of the claims in the topic."""
        self.log_start = 0
        """Records below are deleted."""
        self.stale: dict[str, None] = {}
        """Segments whose newest record in the topic was ignored, so that it must be written again."""
        self.start_stale = False
        """The newest log start record in the topic was ignored (late, or of an older leader), so that the offset must be written again."""

    @property
    def claim_epoch(self) -> int:
        return self.claim.author_epoch if self.claim is not None else -1

    def apply(self, change: MetadataChange) -> bool:
        """Apply the next record of the topic. Returns whether it is valid. An invalid one changes nothing, except `stale`."""
        match change:
            case LeaderClaim():
                self.claims.add(change.author_epoch)
                if change.author_epoch < self.claim_epoch:
                    return False
                self.claim = change
                return True
            case LogStart():
                # A late request may also bring a lower offset of the same leader.
                self.start_stale = change.author_epoch < self.claim_epoch or change.offset < self.log_start
                if not self.start_stale:
                    self.log_start = change.offset
                return not self.start_stale
            case RemoteSegment():
                return self._apply_segment(change)
            case Forgotten():
                self._forget(change.key)
                return True

    def _apply_segment(self, segment: RemoteSegment) -> bool:
        before = self.segments.get(segment.segment_id)
        fenced = segment.author_epoch < self.claim_epoch
        if fenced or segment.state not in FOLLOWS[before.state if before is not None else None]:
            self.stale[segment.segment_id] = None
            if before is None:
                # No reader has used the segment. It is deleted with its objects, like an unfinished copy.
                self.segments[segment.segment_id] = segment.with_state(S.DELETE_STARTED, segment.author_epoch)
            return False
        self.stale.pop(segment.segment_id, None)
        self.finished_bytes += _finished_bytes(segment) - _finished_bytes(before)
        self.segments[segment.segment_id] = segment
        return True

    def _forget(self, key: str) -> None:
        kind, _, rest = key.partition(":")
        if kind == SEGMENT:
            self.finished_bytes -= _finished_bytes(self.segments.pop(rest, None))
            self.stale.pop(rest, None)
        elif kind == LEADER:
            self.claims.discard(int(rest))
        elif kind == START:
            self.log_start, self.start_stale = 0, False

    @property
    def old_claims(self) -> list[int]:
        """Leader epochs whose claims need not be kept."""
        return sorted(self.claims)[:-CLAIMS_KEPT]

    def in_state(self, state: SegmentState) -> list[RemoteSegment]:
        return [s for s in self.segments.values() if s.state is state]

    @property
    def empty(self) -> bool:
        return not self.segments


def _finished_bytes(segment: RemoteSegment | None) -> int:
    return segment.size_bytes if segment is not None and segment.state is S.COPY_FINISHED else 0
