"""Following one leader broker: what to fetch next, what to do with the answer. A sans-IO core.

Laws (safety.md section 3; KIP-101, KIP-279, KIP-595's diverging epochs):
  - an answer that belongs to another epoch than the follower's present one is dropped;
  - a log is truncated by epoch only, never to the high watermark;
  - one fetch is in flight per leader; a partition with an error waits, the others go on;
  - a fetch names what has changed since the leader was last told (a fetch session, KIP-227): who is not named says that its log stands where
    it stood. So whoever cuts or resets a log outside an answer calls `look`.
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
"""Partitions named in one fetch; the rest take their turn in the next one. Bounds the size of a request."""
SESSION_LOST = frozenset({70, 71, 106})
"""FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR: begin anew at once."""
NO_SESSION = 0
EPOCH_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Position:
    """Where a follower's log stands: its end, the epoch of its last batch (-1 when empty), its start. `unseeded`: an observer's that is to
    begin in the middle, and wants to hear what is known there."""

    fetch_offset: int
    last_epoch: int
    log_start: int
    unseeded: bool = False


@dataclass(frozen=True, slots=True)
class PartitionFetch:
    tp: TopicPartition
    leader_epoch: int
    position: Position


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """`diverging` is (epoch, end offset) when the leader's log parts from ours; `records` then counts for nothing. `seed`: what an unseeded
    log begins with."""

    tp: TopicPartition
    error: int
    high_watermark: int
    log_start: int
    records: bytes | memoryview
    diverging: tuple[int, int] | None = None
    seed: bytes = b""


# -- what it hears -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Answered:
    """`error` and `session_id` are of the whole answer; a leader that keeps no session says NO_SESSION."""

    answers: tuple[PartitionAnswer, ...]
    error: int = ERROR_NONE
    session_id: int = NO_SESSION


@dataclass(frozen=True, slots=True)
class Failed:
    """The connection was lost or timed out: nothing is known of the request."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The shell may send: connected, and the time has come."""


# -- what it says ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class SendFetch:
    """`session_epoch` 0 names everything and begins a session, ending that of `session_id`. `wait`: whether the leader may wait for
    something to tell; not while there is more to name."""

    partitions: tuple[PartitionFetch, ...]
    forgotten: tuple[TopicPartition, ...] = ()
    session_id: int = NO_SESSION
    session_epoch: int = 0
    wait: bool = True


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
class Begin:
    """Our log holds nothing and is to begin with this."""

    tp: TopicPartition
    seed: bytes
    high_watermark: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    mono_ms: int


Effect = SendFetch | AppendFetched | Diverged | OutOfRange | Begin | WakeAt


@dataclass(slots=True)
class Followed:
    leader_epoch: int
    not_before_ms: int = 0
    errors: int = 0
    held_until_ms: int = 0
    """By a throttle, which may be lifted; what `not_before_ms` says after an error stands."""


@dataclass(slots=True)
class Replication:
    """All partitions this broker follows at one leader broker.

    `position(tp)` reads where the local log stands; it is asked when a fetch is built and when its answer comes.
    """

    position: Callable[[TopicPartition], Position | None]
    backoff_ms: int = 200
    followed: dict[TopicPartition, Followed] = field(default_factory=dict)
    in_flight: bool = False
    session_id: int = NO_SESSION
    session_epoch: int = 0
    """Of the next fetch; 0 begins anew."""
    held: dict[TopicPartition, tuple[int, Position] | None] = field(default_factory=dict)
    """(leader epoch, position) as the leader was last told; None is to be told again in any case."""
    _unsure: dict[TopicPartition, None] = field(default_factory=dict)
    """Where what the leader was told may not hold any more; the longest unnamed first."""

    def follow(self, tp: TopicPartition, leader_epoch: int) -> None:
        self.followed[tp] = Followed(leader_epoch)
        if tp in self.held:
            self.held[tp] = None  # an answer may have been dropped meanwhile: all of it is to be heard again
        self.look(tp)

    def unfollow(self, tp: TopicPartition) -> None:
        if self.followed.pop(tp, None) is not None:
            self.look(tp)

    def look(self, tp: TopicPartition) -> None:
        """Its position may be another, or known again."""
        self._unsure[tp] = None

    def refused(self, tp: TopicPartition, now: Now) -> None:
        """The log did not take an answer: damaged on its way or at the leader, or the disk is full. Asked again after a pause."""
        followed = self.followed.get(tp)
        if followed is not None:
            followed.errors += 1
            followed.not_before_ms = now.mono_ms + REFUSED_MS
            self.look(tp)

    def hold(self, tp: TopicPartition, until_mono_ms: int) -> None:
        """A throttle: nothing is asked for it before then."""
        followed = self.followed.get(tp)
        if followed is not None:
            followed.held_until_ms = until_mono_ms
            self.look(tp)

    def release(self) -> None:
        """Throttles may have changed: whoever is held back is asked for again, and held anew by what comes."""
        for tp, followed in self.followed.items():
            if followed.held_until_ms:
                followed.held_until_ms = 0
                self.look(tp)

    def handle(self, event: Answered | Failed | Ready, now: Now) -> list[Effect]:
        match event:
            case Ready():
                return self._send(now)
            case Failed():
                return self._failed(now)
            case Answered():
                return self._answered(event, now)

    def _begin_anew(self) -> None:
        self.in_flight, self.session_epoch = False, 0
        self.held.clear()
        self._unsure.update(dict.fromkeys(self.followed))

    def _failed(self, now: Now) -> list[Effect]:
        """Whether the leader heard the request is not known, so neither is what its session holds."""
        self._begin_anew()
        return [WakeAt(now.mono_ms + self.backoff_ms)]

    def _send(self, now: Now) -> list[Effect]:
        if self.in_flight or not self.followed:
            return []
        named: list[PartitionFetch] = []
        forgotten: list[TopicPartition] = []
        soonest: int | None = None
        wait = True
        for tp in list(self._unsure):
            followed = self.followed.get(tp)
            position = None
            not_before = max(followed.not_before_ms, followed.held_until_ms) if followed is not None else 0
            if followed is not None and not_before <= now.mono_ms:
                position = self.position(tp)
            if followed is not None and position is not None:
                asked = (followed.leader_epoch, position)
                if self.held.get(tp) != asked:
                    if len(named) >= FETCH_PARTITIONS_MAX:
                        wait = False
                        break
                    named.append(PartitionFetch(tp, followed.leader_epoch, position))
                    self.held[tp] = asked
                del self._unsure[tp]
                continue
            if tp in self.held:  # to ask for more is to say that one holds what came before
                del self.held[tp]
                forgotten.append(tp)
            if followed is None:
                del self._unsure[tp]
            elif not_before > now.mono_ms:
                soonest = min(soonest or not_before, not_before)
        if not self.held:
            self.session_epoch = 0  # a session of nothing is none
            return [] if soonest is None else [WakeAt(soonest)]
        self.in_flight = True
        if not self.session_epoch:
            forgotten.clear()
        return [SendFetch(tuple(named), tuple(forgotten), self.session_id, self.session_epoch, wait)]

    def _answered(self, event: Answered, now: Now) -> list[Effect]:
        self.in_flight = False
        if event.error in SESSION_LOST and self.session_epoch:
            self._begin_anew()
            return []
        if event.error != ERROR_NONE or (self.session_epoch and event.session_id != self.session_id):
            return self._failed(now)
        effects: list[Effect] = []
        for answer in event.answers:
            self.look(answer.tp)
            followed = self.followed.get(answer.tp)
            asked = self.held.get(answer.tp)
            if followed is None or asked is None or asked[0] != followed.leader_epoch:
                continue  # of another epoch: the follower has moved on since it asked
            position = self.position(answer.tp)
            if (
                position is None
                or position.fetch_offset != asked[1].fetch_offset
                or position.unseeded != asked[1].unseeded
            ):
                continue  # the log was cut, reset or begun while the fetch was under way
            if answer.error == ERROR_OFFSET_OUT_OF_RANGE:
                effects.append(OutOfRange(answer.tp, answer.log_start))
                followed.not_before_ms = now.mono_ms + self.backoff_ms
            elif answer.error != ERROR_NONE:
                followed.errors += 1
                followed.not_before_ms = now.mono_ms + self.backoff_ms
            elif asked[1].unseeded:
                if answer.seed:
                    effects.append(Begin(answer.tp, answer.seed, answer.high_watermark))
                else:
                    followed.not_before_ms = now.mono_ms + self.backoff_ms
            elif answer.diverging is not None:
                effects.append(Diverged(answer.tp, *answer.diverging))
            else:
                followed.errors = 0
                effects.append(AppendFetched(answer.tp, answer.records, answer.high_watermark, answer.log_start))
        self.session_id = event.session_id
        if event.session_id == NO_SESSION:
            self.held.clear()  # the leader remembers nothing: all take turns in full fetches
            self._unsure.update(dict.fromkeys(self.followed))
        else:
            self.session_epoch = 1 if self.session_epoch == EPOCH_MAX else self.session_epoch + 1
        return effects

    def validate(self) -> None:
        if not self.session_epoch and self.in_flight:
            assert len(self.held) <= FETCH_PARTITIONS_MAX, "a fetch beyond its bound"

    def describe(self) -> Mapping[str, Any]:
        return {"followed": len(self.followed), "held": len(self.held), "session": self.session_id}


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
