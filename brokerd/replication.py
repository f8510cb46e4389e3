"""Following one leader broker: what to fetch next, what to do with the answer. A sans-IO core.

Laws (safety.md section 3; KIP-101, KIP-279, KIP-595's diverging epochs):
  - an answer that belongs to another epoch than the follower's present one is dropped;
  - a log is truncated by epoch only, never to the high watermark;
  - one fetch is in flight per leader; a partition with an error waits, the others go on.
Called by `net/fetcher` and the simulation. Must not come in: sockets, files, clocks, the wire.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from brokerd.cluster.model import Now, TopicPartition

ERROR_NONE = 0
ERROR_OFFSET_OUT_OF_RANGE = 1

REFUSED_MS = 1_000
"""Pause after an answer that the log did not take: nothing is gained by asking a damaged leader, or for a full disk, more often."""
FETCH_PARTITIONS_MAX = 2_000
"""Partitions in one fetch; the rest take their turn in the next one. Bounds the size of a request."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where a follower's log stands: its end, the epoch of its last batch (-1 when empty), its start."""

    fetch_offset: int
    last_epoch: int
    log_start: int


@dataclass(frozen=True, slots=True)
class PartitionFetch:
    tp: TopicPartition
    leader_epoch: int
    position: Position


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """`diverging` is (epoch, end offset) when the leader's log parts from ours; `records` then counts for nothing."""

    tp: TopicPartition
    error: int
    high_watermark: int
    log_start: int
    records: bytes | memoryview
    diverging: tuple[int, int] | None = None


# -- what it hears -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Answered:
    answers: tuple[PartitionAnswer, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The connection was lost or timed out: nothing is known of the request."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The shell may send: connected, and the time has come."""


# -- what it says ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class SendFetch:
    partitions: tuple[PartitionFetch, ...]


@dataclass(frozen=True, slots=True)
class AppendFetched:
    tp: TopicPartition
    records: bytes | memoryview
    high_watermark: int
    log_start: int


@dataclass(frozen=True, slots=True)
class Diverged:
    """The leader's log of `epoch` ends at `end_offset`: cut ours there, or at the end of our own last epoch at or below."""

    tp: TopicPartition
    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """Our fetch offset lies outside the leader's log, which starts at `leader_log_start`."""

    tp: TopicPartition
    leader_log_start: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    mono_ms: int


Effect = SendFetch | AppendFetched | Diverged | OutOfRange | WakeAt


@dataclass(slots=True)
class Followed:
    leader_epoch: int
    not_before_ms: int = 0
    errors: int = 0


@dataclass(slots=True)
class Replication:
    """All partitions this broker follows at one leader broker.

    `position(tp)` reads where the local log stands; it is asked when a fetch is built, so it is never remembered.
    """

    position: Callable[[TopicPartition], Position | None]
    backoff_ms: int = 200
    followed: dict[TopicPartition, Followed] = field(default_factory=dict)
    in_flight: dict[TopicPartition, tuple[int, int]] | None = None
    """(leader epoch, fetch offset) per partition of the request under way; None when there is none."""
    _cursor: int = 0

    def follow(self, tp: TopicPartition, leader_epoch: int) -> None:
        self.followed[tp] = Followed(leader_epoch)

    def unfollow(self, tp: TopicPartition) -> None:
        self.followed.pop(tp, None)

    def refused(self, tp: TopicPartition, now: Now) -> None:
        """The log did not take an answer: damaged on its way or at the leader, or the disk is full. Asked again after a pause."""
        followed = self.followed.get(tp)
        if followed is not None:
            followed.errors += 1
            followed.not_before_ms = now.mono_ms + REFUSED_MS

    def handle(self, event: Answered | Failed | Ready, now: Now) -> list[Effect]:
        match event:
            case Ready():
                return self._send(now)
            case Failed():
                self.in_flight = None
                return [WakeAt(now.mono_ms + self.backoff_ms)]
            case Answered():
                return self._answered(event.answers, now)

    def _send(self, now: Now) -> list[Effect]:
        if self.in_flight is not None or not self.followed:
            return []
        fetches: list[PartitionFetch] = []
        soonest: int | None = None
        everyone = list(self.followed.items())
        start = self._cursor % len(everyone)
        for tp, followed in everyone[start:] + everyone[:start]:
            if followed.not_before_ms > now.mono_ms:
                soonest = min(soonest or followed.not_before_ms, followed.not_before_ms)
                continue
            position = self.position(tp)
            if position is None:
                continue
            fetches.append(PartitionFetch(tp, followed.leader_epoch, position))
            if len(fetches) >= FETCH_PARTITIONS_MAX:
                self._cursor = start + FETCH_PARTITIONS_MAX
                break
        if not fetches:
            return [WakeAt(soonest)] if soonest is not None else []
        self.in_flight = {f.tp: (f.leader_epoch, f.position.fetch_offset) for f in fetches}
        return [SendFetch(tuple(fetches))]

    def _answered(self, answers: tuple[PartitionAnswer, ...], now: Now) -> list[Effect]:
        asked, self.in_flight = self.in_flight or {}, None
        effects: list[Effect] = []
        for answer in answers:
            followed = self.followed.get(answer.tp)
            want = asked.get(answer.tp)
            if followed is None or want is None or want[0] != followed.leader_epoch:
                continue  # of another epoch: the follower has moved on since it asked
            position = self.position(answer.tp)
            if position is None or position.fetch_offset != want[1]:
                continue  # the log was cut or reset while the fetch was under way
            if answer.error == ERROR_OFFSET_OUT_OF_RANGE:
                effects.append(OutOfRange(answer.tp, answer.log_start))
                followed.not_before_ms = now.mono_ms + self.backoff_ms
            elif answer.error != ERROR_NONE:
                followed.errors += 1
                followed.not_before_ms = now.mono_ms + self.backoff_ms
            elif answer.diverging is not None:
                effects.append(Diverged(answer.tp, *answer.diverging))
            else:
                followed.errors = 0
                effects.append(AppendFetched(answer.tp, answer.records, answer.high_watermark, answer.log_start))
        return effects

    def validate(self) -> None:
        if self.in_flight is not None:
            assert len(self.in_flight) <= FETCH_PARTITIONS_MAX, "a fetch beyond its bound"

    def describe(self) -> Mapping[str, Any]:
        return {"followed": len(self.followed), "in_flight": len(self.in_flight or ())}


def truncation_point(
    local_end_of_epoch: Callable[[int], tuple[int, int]], log_end: int, epoch: int, end_offset: int
) -> int:
    """Where a follower cuts its log when the leader says: my log of `epoch` ends at `end_offset` (KIP-279).

    `local_end_of_epoch(e)` gives our largest epoch <= e and its end offset, (-1, -1) when there is none.
    """
    local_epoch, local_end = local_end_of_epoch(epoch)
    if local_epoch == -1:
        return min(end_offset if end_offset >= 0 else 0, log_end)
    if local_epoch < epoch:
        # The leader's epoch is unknown here: all that we have beyond our last epoch below it is foreign.
        return min(local_end, log_end)
    return min(local_end, end_offset, log_end)
