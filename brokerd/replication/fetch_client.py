"""The fetches of one connection to a leader broker: builds the next fetch request and interprets the response. A sans-IO core.

Invariants (safety.md section 3; KIP-101, KIP-279, KIP-595's diverging epochs):
  - A response for another leader epoch than the follower's current one is dropped.
  - A log is truncated by epoch only, never to the high watermark.
  - One fetch is in flight. A partition with an error waits; the other partitions continue.
  - A fetch contains only the partitions whose position has changed (a fetch session, KIP-227). The leader assumes that all other positions are unchanged. So
  code that truncates or resets a log outside of a response must call `mark_dirty`.
Does not contain: sockets, files, clocks, the wire format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from brokerd.cluster.model import Now, TopicPartition
from brokerd.wire.errors import ErrorCode

APPEND_REJECTED_MS = 1_000
"""Pause after a response whose records could not be appended. More frequent retries do not help if the leader's log is damaged or the disk is full."""
FIRST_BACKOFF_MS = 10
BACKOFF_DOUBLINGS_MAX = 16
"""Pause after the first error of a partition. It doubles with each further error up to `backoff_ms`. Most errors end within some ms: after an election or for a
new topic, a follower may read the metadata log earlier than the leader."""
FETCH_PARTITIONS_MAX = 2_000
"""Maximum number of partitions in one fetch. Further partitions are in the next fetch. Limits the request size."""
SESSION_LOST = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""Errors after which the follower opens a new fetch session immediately."""
NO_SESSION = 0
EPOCH_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a follower's log: its end offset, the epoch of its last batch (-1 when empty), its start offset. `awaits_bootstrap`: the
    log of an observer that needs the bootstrap snapshot. `remote_start`: the first offset that it serves over both tiers (-1: local records only)."""

    fetch_offset: int
    last_epoch: int
    log_start: int
    awaits_bootstrap: bool = False
    remote_start: int = -1


@dataclass(frozen=True, slots=True)
class PartitionFetch:
    tp: TopicPartition
    leader_epoch: int
    position: Position


@dataclass(frozen=True, slots=True)
class PartitionResponse:
    """`diverging`: (epoch, end offset) at which the leader's log diverges from the local one; `records` is then ignored.
    `bootstrap_snapshot`: for a log that awaits it, and with OFFSET_OUT_OF_RANGE the one at `log_start` (empty from a leader of an earlier version)."""

    tp: TopicPartition
    error: int
    high_watermark: int
    log_start: int
    records: bytes | memoryview
    diverging: tuple[int, int] | None = None
    bootstrap_snapshot: bytes = b""


# -- events ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class FetchResponseReceived:
    """A response. `error` and `session_id` belong to the whole response. A leader without a session sends NO_SESSION."""

    responses: tuple[PartitionResponse, ...]
    error: int = ErrorCode.NONE
    session_id: int = NO_SESSION


@dataclass(frozen=True, slots=True)
class Failed:
    """The connection was closed or timed out. Whether the leader received the request is unknown."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The shell can send a request: it is connected, and no pause is in progress."""


# -- effects -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class SendFetch:
    """With `session_epoch` 0 the request contains all partitions, starts a session and ends session `session_id`. `wait`: whether the leader may wait for
    data; it is False while more partitions must be sent."""

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
    """The leader's log of `epoch` ends at `end_offset`: truncate to it, or to the end of the local log's last epoch at or below."""

    tp: TopicPartition
    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """The fetch offset is outside the leader's log, which starts at `leader_log_start` with the state in `snapshot`."""

    tp: TopicPartition
    leader_log_start: int
    snapshot: bytes = b""


@dataclass(frozen=True, slots=True)
class MovedToTier:
    """The records at the fetch offset are only in the remote store. The leader's local log starts at `leader_log_start`."""

    tp: TopicPartition
    leader_log_start: int


@dataclass(frozen=True, slots=True)
class Begin:
    """Start the empty local log with this bootstrap snapshot."""

    tp: TopicPartition
    snapshot: bytes
    high_watermark: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    mono_ms: int


Effect = SendFetch | AppendFetched | Diverged | OutOfRange | MovedToTier | Begin | WakeAt


@dataclass(slots=True)
class FollowedPartition:
    leader_epoch: int
    not_before_ms: int = 0
    errors: int = 0
    throttled_until_ms: int = 0
    """The end of the wait because of a throttle. A changed throttle can end this wait earlier, but not the wait after an error (`not_before_ms`)."""


@dataclass(slots=True)
class FetchClient:
    """Partitions that this broker follows on one leader broker and fetches through one connection.

    `position(tp)` reads the position of the local log. It is called when a fetch is built and when its response arrives.
    """

    position: Callable[[TopicPartition], Position | None]
    backoff_ms: int = 200
    followed: dict[TopicPartition, FollowedPartition] = field(default_factory=dict)
    in_flight: bool = False
    session_id: int = NO_SESSION
    session_epoch: int = 0
    """The epoch of the next fetch; 0 starts a new session."""
    sent_positions: dict[TopicPartition, tuple[int, Position] | None] = field(default_factory=dict)
    """(leader epoch, position) as last sent to the leader. None if it must be sent again."""
    _dirty: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions whose last sent position may be outdated. The partition that waits longest is first."""

    def follow(self, tp: TopicPartition, leader_epoch: int) -> None:
        self.followed[tp] = FollowedPartition(leader_epoch)
        if tp in self.sent_positions:
            self.sent_positions[tp] = None  # the response may have been dropped: the position is sent again
        self.mark_dirty(tp)

    def unfollow(self, tp: TopicPartition) -> None:
        if self.followed.pop(tp, None) is not None:
            self.mark_dirty(tp)

    def mark_dirty(self, tp: TopicPartition) -> None:
        """The position of this partition may have changed or become available."""
        self._dirty[tp] = None

    def append_rejected(self, tp: TopicPartition, now: Now) -> None:
        """The records of a response were not appended, because they are damaged or the disk is full. The partition is fetched again after a pause."""
        followed = self.followed.get(tp)
        if followed is not None:
            followed.errors += 1
            followed.not_before_ms = now.mono_ms + APPEND_REJECTED_MS
            self.mark_dirty(tp)

    def throttle(self, tp: TopicPartition, until_mono_ms: int) -> None:
        """Suspend fetches of this partition until the given monotonic time (ms), because of a throttle."""
        followed = self.followed.get(tp)
        if followed is not None:
            followed.throttled_until_ms = until_mono_ms
            self.mark_dirty(tp)

    def lift_throttles(self) -> None:
        """The throttles may have changed: fetch throttled partitions again. The next response applies the new rate."""
        for tp, followed in self.followed.items():
            if followed.throttled_until_ms:
                followed.throttled_until_ms = 0
                self.mark_dirty(tp)

    def handle(self, event: FetchResponseReceived | Failed | Ready, now: Now) -> list[Effect]:
        match event:
            case Ready():
                return self._send(now)
            case Failed():
                return self._on_fetch_failed(now)
            case FetchResponseReceived():
                return self._on_response(event, now)

    def _start_session(self) -> None:
        self.in_flight, self.session_epoch = False, 0
        self.sent_positions.clear()
        self._dirty.update(dict.fromkeys(self.followed))

    def _on_fetch_failed(self, now: Now) -> list[Effect]:
        """Start a new fetch session. It is unknown whether the leader received the request, so the state of the old session is unknown too."""
        self._start_session()
        return [WakeAt(now.mono_ms + self.backoff_ms)]

    def _send(self, now: Now) -> list[Effect]:
        if self.in_flight:
            return []
        if not self.followed:
            return self._end_session()
        named: list[PartitionFetch] = []
        forgotten: list[TopicPartition] = []
        soonest: int | None = None
        wait = True
        for tp in list(self._dirty):
            followed = self.followed.get(tp)
            position = None
            not_before = max(followed.not_before_ms, followed.throttled_until_ms) if followed is not None else 0
            if followed is not None and not_before <= now.mono_ms:
                position = self.position(tp)
            if followed is not None and position is not None:
                sent = (followed.leader_epoch, position)
                if self.sent_positions.get(tp) != sent:
                    if len(named) >= FETCH_PARTITIONS_MAX:
                        wait = False
                        break
                    named.append(PartitionFetch(tp, followed.leader_epoch, position))
                    self.sent_positions[tp] = sent
                del self._dirty[tp]
                continue
            # A fetch of the session confirms that earlier fetched records were appended. This is not the case for this partition, so it must leave the session.
            if tp in self.sent_positions:
                del self.sent_positions[tp]
                forgotten.append(tp)
            if followed is None:
                del self._dirty[tp]
            elif not_before > now.mono_ms:
                soonest = min(soonest or not_before, not_before)
        if not self.sent_positions:
            self.session_epoch = 0  # a session without partitions ends
            return [] if soonest is None else [WakeAt(soonest)]
        self.in_flight = True
        if not self.session_epoch:
            forgotten.clear()
        return [SendFetch(tuple(named), tuple(forgotten), self.session_id, self.session_epoch, wait)]

    def _end_session(self) -> list[Effect]:
        """Remove all partitions from the session, so that the leader ends it. Otherwise the leader would check the session at each append to them."""
        forgotten, session_epoch = tuple(self.sent_positions), self.session_epoch
        self.session_epoch = 0
        self.sent_positions.clear()
        self._dirty.clear()
        if not forgotten or not session_epoch:
            return []
        self.in_flight = True
        return [SendFetch((), forgotten, self.session_id, session_epoch, wait=False)]

    def _on_response(self, event: FetchResponseReceived, now: Now) -> list[Effect]:
        self.in_flight = False
        if event.error in SESSION_LOST and self.session_epoch:
            self._start_session()
            return []
        if event.error != ErrorCode.NONE or (self.session_epoch and event.session_id != self.session_id):
            return self._on_fetch_failed(now)
        effects: list[Effect] = []
        for response in event.responses:
            self.mark_dirty(response.tp)
            followed = self.followed.get(response.tp)
            sent = self.sent_positions.get(response.tp)
            if followed is None or sent is None or sent[0] != followed.leader_epoch:
                continue  # the response belongs to another leader epoch
            position = self.position(response.tp)
            if (
                position is None
                or position.fetch_offset != sent[1].fetch_offset
                or position.awaits_bootstrap != sent[1].awaits_bootstrap
            ):
                continue  # the log was truncated, reset or bootstrapped while the fetch was in flight
            if response.error == ErrorCode.OFFSET_OUT_OF_RANGE:
                effects.append(OutOfRange(response.tp, response.log_start, response.bootstrap_snapshot))
                followed.not_before_ms = now.mono_ms + self.backoff_ms
            elif response.error == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
                effects.append(MovedToTier(response.tp, response.log_start))
            elif response.error != ErrorCode.NONE:
                followed.not_before_ms = now.mono_ms + min(
                    self.backoff_ms, FIRST_BACKOFF_MS << min(followed.errors, BACKOFF_DOUBLINGS_MAX)
                )
                followed.errors += 1
            elif sent[1].awaits_bootstrap:
                if response.bootstrap_snapshot:
                    effects.append(Begin(response.tp, response.bootstrap_snapshot, response.high_watermark))
                else:
                    followed.not_before_ms = now.mono_ms + self.backoff_ms
            elif response.diverging is not None:
                effects.append(Diverged(response.tp, *response.diverging))
            else:
                followed.errors = 0
                effects.append(
                    AppendFetched(response.tp, response.records, response.high_watermark, response.log_start)
                )
        self.session_id = event.session_id
        if event.session_id == NO_SESSION:
            self.sent_positions.clear()  # the leader has created no session: each full fetch contains the next part of the partitions
            self._dirty.update(dict.fromkeys(self.followed))
        else:
            self.session_epoch = 1 if self.session_epoch == EPOCH_MAX else self.session_epoch + 1
        return effects

    def validate(self) -> None:
        if not self.session_epoch and self.in_flight:
            assert len(self.sent_positions) <= FETCH_PARTITIONS_MAX, (
                "fetch names more than FETCH_PARTITIONS_MAX partitions"
            )

    def describe(self) -> Mapping[str, Any]:
        return {"followed": len(self.followed), "in_session": len(self.sent_positions), "session": self.session_id}


def truncation_point(
    local_end_of_epoch: Callable[[int], tuple[int, int]], log_end: int, epoch: int, end_offset: int
) -> int:
    """The offset to which a follower truncates when the leader's log of `epoch` ends at `end_offset` (KIP-279).

    `local_end_of_epoch(e)` returns the largest local epoch <= e and its end offset, or (-1, -1).
    """
    local_epoch, local_end = local_end_of_epoch(epoch)
    if local_epoch == -1:
        return min(max(end_offset, 0), log_end)
    if local_epoch < epoch:
        # The leader's epoch is unknown here: all records after the local log's last epoch below it diverge.
        return min(local_end, log_end)
    return min(local_end, end_offset, log_end)
