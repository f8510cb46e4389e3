"""The leader's state of one follower: its log end, its log start and when it was caught up. Pure.

Does not contain: the rules of the ISR and of the high watermark (`partition`).
"""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.replication.partition_events import SessionLiveness

UNKNOWN_OFFSET = -1


@dataclass(slots=True)
class Follower:
    """The leader's state of one follower. `caught_up_ms`: the last time (mono) at which the follower had all records of the leader."""

    broker_epoch: int
    log_end: int = UNKNOWN_OFFSET
    log_start: int = UNKNOWN_OFFSET
    remote_start: int = UNKNOWN_OFFSET
    """The first offset, local or remote, that consumers can read from the follower, if it serves remote records."""
    caught_up_ms: int = 0
    fetched_ms: int = 0
    leader_end_at_fetch: int = 0
    session_liveness: SessionLiveness | None = None
    log_start_late_since_ms: int | None = None
    """The time since which the log start offset is the only reason why this follower is not in the ISR. None if it is not the reason."""

    def apply_session_liveness(self, leader_end: int) -> None:
        """Apply the fetches of the follower's session that did not contain this partition. They mean that the follower's position is unchanged. A follower at
        the leader's log end was caught up at each of these fetches. For any other follower nothing changes: its last fetch with this partition is older, which
        is safe.
        """
        if self.session_liveness is not None and self.log_end >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, self.session_liveness.ms)
            self.fetched_ms, self.leader_end_at_fetch = self.session_liveness.ms, leader_end

    @property
    def served_start(self) -> int:
        """The first offset that consumers can read from this follower."""
        return self.log_start if self.remote_start == UNKNOWN_OFFSET else min(self.log_start, self.remote_start)

    @property
    def last_fetch_ms(self) -> int:
        return self.fetched_ms if self.session_liveness is None else max(self.fetched_ms, self.session_liveness.ms)
