"""Chain of the remote segments that continue the log of this leader, and the records that can be read from them. Pure.

Invariants: a chain has no gap. A segment belongs to the chain only if its last record is in the leader's own history, by leader epoch (KIP-101). After
an unclean leader election a remote segment may contain records that the leader never had; it is not served.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from brokerd.remote.segments import RemoteSegment, SegmentState

EpochEnd = Callable[[int], tuple[int, int]]
"""The largest local leader epoch at or below an epoch and its end offset; (-1, -1) if the log has no epoch."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Finished segments in the order of their offsets. Neighbours may overlap."""

    segments: tuple[RemoteSegment, ...] = ()

    @property
    def start(self) -> int:
        return self.segments[0].start_offset if self.segments else -1

    @property
    def end(self) -> int:
        """The offset after the last remote record. -1: no record is remote."""
        return self.segments[-1].end_offset if self.segments else -1

    @property
    def size_bytes(self) -> int:
        return sum(s.size_bytes for s in self.segments)

    def from_offset(self, offset: int) -> tuple[RemoteSegment, ...]:
        """The segments from the one that contains `offset` on. Empty if none contains it."""
        i = bisect_right(self.segments, offset, key=lambda s: s.end_offset)
        found = self.segments[i:]
        return found if found and found[0].start_offset <= offset else ()

    def epochs(self, local: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """(leader epoch, start offset) of the remote records and of the local log, ascending."""
        starts: dict[int, int] = {}
        for segment in self.segments:
            for epoch, offset in segment.epochs:
                starts.setdefault(epoch, offset)
        for epoch, offset in local:
            starts.setdefault(epoch, offset)
        return sorted(starts.items())


def chain_of(segments: Sequence[RemoteSegment], local_end_of_epoch: EpochEnd) -> Chain:
    """The chain of the finished segments that continue the local log. After a gap (records that DeleteRecords deleted before they were copied) the chain
    starts again: older segments are not in it, and only a higher log start offset deletes them."""
    chain: list[RemoteSegment] = []
    finished = sorted(
        (s for s in segments if s.state is SegmentState.COPY_FINISHED and in_lineage(s, local_end_of_epoch)),
        key=lambda s: (s.start_offset, s.end_offset),
    )
    for segment in finished:
        if chain and segment.start_offset > chain[-1].end_offset:
            chain = []
        if not chain or segment.end_offset > chain[-1].end_offset:
            chain.append(segment)
    return Chain(tuple(chain))


def in_lineage(segment: RemoteSegment, local_end_of_epoch: EpochEnd) -> bool:
    epoch, end = local_end_of_epoch(segment.last_epoch)
    if epoch == -1 and end == -1:
        return True  # the local log has no records that could contradict
    return epoch == segment.last_epoch and segment.end_offset <= end
