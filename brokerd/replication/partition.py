"""The state machine of one partition on one broker: role, ISR, high watermark. A sans-IO core.

Invariants (safety.md section 3):
  - The high watermark is the smallest log end offset of the *maximal* ISR. A new member counts as soon as it is proposed. A removed member counts until the
    controller has accepted the removal. The high watermark never falls. It does not rise while the accepted ISR is smaller than the effective
    min.insync.replicas, or while a replica outside the ISR may be elected (ELR).
  - With majority acknowledgements it is the offset that a majority of the voters has reached (`quorum`), above the start of the leader epoch.
  - Every event and effect belongs to an epoch. An event of an older epoch is dropped.
  - Effects have a fixed order: FailWaiters before leadership is given up, ProposeIsr before RaiseHighWatermark.
Does not contain: files, sockets, clocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from brokerd.cluster.model import NO_LEADER, Now, PartitionState, ReplicaIncarnation, TopicPartition
from brokerd.replication.follower import UNKNOWN_OFFSET, Follower
from brokerd.replication.partition_events import (
    Effect,
    Event,
    FailWaiters,
    FetchSessionDropped,
    Follow,
    FollowerFetched,
    IsrProposalRejected,
    Lead,
    LeaderAppended,
    LogStartRaised,
    PartitionStateChanged,
    PartitionTick,
    ProposeIsr,
    RaiseHighWatermark,
    RaiseLowWatermark,
    StopFollowing,
)
from brokerd.replication.quorum import committed_end


class Role(Enum):
    OFFLINE = "offline"
    LEADER = "leader"
    FOLLOWER = "follower"
    HISTORY = "history"
    """A history replica of the partition: the leader reads from it, and it receives no records."""


@dataclass(slots=True)
class Partition:
    broker_id: int
    tp: TopicPartition
    lag_ms_max: int
    """replica.lag.time.max.ms: a follower that has not been caught up for this time leaves the ISR."""
    proposal_retry_ms: int = 500
    """Milliseconds between a rejected proposal and the next one. Limits the rate of proposals when leader and controller disagree."""
    late_ms_max: int = 310_000
    """Time after which a follower with a too high log start offset is reset. Until then retention may raise the leader's log start offset. If retention can
    delete nothing, the follower is reset after lag_ms_max."""

    role: Role = Role.OFFLINE
    state: PartitionState | None = None
    min_insync: int = 1
    """The effective min.insync.replicas: at most the number of replicas."""
    retention_deletes: bool = True
    high_watermark: int = 0
    leader_high_watermark: int = 0
    """Only on a follower: the high watermark that its leader sent last. It may exceed the follower's log end."""
    log_end: int = 0
    acknowledgeable_end: int = 0
    log_start: int = 0
    epoch_start: int = 0
    proposal: ProposeIsr | None = None
    proposal_not_before_ms: int = 0
    followers: dict[int, Follower] = field(default_factory=dict)
    followers_to_reset: tuple[ReplicaIncarnation, ...] = ()
    """Only on a leader: followers whose replicas must be rebuilt. The shell sends this to the controller, for this leader epoch (decision 037)."""

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch if self.state is not None else -1

    @property
    def leader(self) -> int:
        return self.state.leader if self.state is not None else NO_LEADER

    @property
    def isr_size(self) -> int:
        return len(self.state.isr) if self.state is not None else 0

    @property
    def low_watermark(self) -> int:
        """The lowest log start offset of the maximal ISR. UNKNOWN_OFFSET until every member has fetched in this epoch."""
        low = self.log_start
        for isr_member in self.maximal_isr():
            if isr_member.broker_id == self.broker_id:
                continue
            follower = self.followers.get(isr_member.broker_id)
            if follower is None or follower.broker_epoch != isr_member.broker_epoch:
                return UNKNOWN_OFFSET
            low = min(low, follower.log_start)
        return low

    @property
    def late_starts(self) -> list[int]:
        """Sorted log start offsets of the followers whose log start offset is the only reason why they are not in the ISR."""
        return sorted({f.log_start for f in self.followers.values() if f.log_start_late_since_ms is not None})

    @property
    def has_other_replicas(self) -> bool:
        """True when another broker is a replica or a member of the ISR."""
        return self.state is not None and (len(self.state.replicas) > 1 or len(self.state.isr) > 1)

    @property
    def serves_latest(self) -> bool:
        """True if the latest offset may be returned to clients. It must not be lower than before the election (KIP-207). So it is returned only after the high
        watermark has reached the start offset of the leader epoch."""
        return self.high_watermark >= self.epoch_start

    @property
    def all_followers_caught_up_to_epoch(self) -> bool:
        """True when every other member of the maximal ISR has fetched from the start offset of this epoch or a later offset. Before that, a member may
        still have records of an earlier epoch that this log lacks. The election of this member would commit records that were never replicated."""
        return all(
            (f := self.followers.get(isr_member.broker_id)) is not None
            and f.broker_epoch == isr_member.broker_epoch
            and f.log_end >= self.epoch_start
            for isr_member in self.maximal_isr()
            if isr_member.broker_id != self.broker_id
        )

    def maximal_isr(self) -> frozenset[ReplicaIncarnation]:
        assert self.state is not None
        accepted = frozenset(self.state.isr)
        return accepted | frozenset(self.proposal.isr) if self.proposal is not None else accepted

    def unresponsive_followers(self, now: Now, longest_ms: int | None = None) -> list[int]:
        """Members of the accepted ISR without a fetch for longer than `longest_ms` (default: lag_ms_max). Nothing can be committed
        without them."""
        longest_ms = self.lag_ms_max if longest_ms is None else longest_ms
        assert self.state is not None
        followers = (
            (isr_member, self.followers.get(isr_member.broker_id))
            for isr_member in self.state.isr
            if isr_member.broker_id != self.broker_id
        )
        return [m.broker_id for m, f in followers if f is None or now.mono_ms - f.last_fetch_ms > longest_ms]

    # -- handling --------------------------------------------------------------------------------------------------
    def handle(self, event: Event, now: Now) -> list[Effect]:
        match event:
            case PartitionStateChanged():
                return self._on_state_changed(event, now)
            case LeaderAppended():
                if self.role is not Role.LEADER:
                    return []
                self._apply_session_liveness()  # before the log end changes, because fetch sessions refer to the current end
                self.log_end = event.log_end
                acknowledgeable_end = event.acknowledgeable_end
                self.acknowledgeable_end = event.log_end if acknowledgeable_end is None else acknowledgeable_end
                return self._raise_high_watermark()
            case FollowerFetched():
                return self._follower_fetched(event, now)
            case FetchSessionDropped():
                follower = self.followers.get(event.replica.broker_id)
                if follower is not None and follower.broker_epoch == event.replica.broker_epoch:
                    follower.apply_session_liveness(self.log_end)
                    if follower.session_liveness is event.session_liveness:
                        follower.session_liveness = None
                return []
            case IsrProposalRejected():
                return self._on_proposal_rejected(event, now)
            case LogStartRaised():
                self.log_start = max(self.log_start, event.log_start)
                return []
            case PartitionTick():
                if self.role is not Role.LEADER:
                    return []
                proposed = self._propose(now)
                self.followers_to_reset = tuple(self._followers_to_reset(now))
                return proposed

    def _apply_session_liveness(self) -> None:
        for follower in self.followers.values():
            if follower.session_liveness is not None:
                follower.apply_session_liveness(self.log_end)

    def _on_state_changed(self, event: PartitionStateChanged, now: Now) -> list[Effect]:
        old, new = self.state, event.state
        if old is not None and new.partition_epoch < old.partition_epoch:
            return []  # older than the image that was applied: a reload was in progress
        effects: list[Effect] = []
        was_leader, was_epoch = self.role is Role.LEADER, self.leader_epoch
        previous_leader = self.leader if self.role is Role.FOLLOWER else NO_LEADER
        self.state, self.min_insync = new, new.effective_min_insync(event.min_insync)
        self.retention_deletes = event.retention_deletes
        self.acknowledgeable_end = event.log_end if event.acknowledgeable_end is None else event.acknowledgeable_end
        if event.leads:
            if was_leader and was_epoch == new.leader_epoch:
                assert old is not None
                if old.partition_epoch != new.partition_epoch:
                    self.proposal = None  # the partition epoch has changed, so the proposal is accepted or invalid
                self._forget_removed_replicas()
                # Update the high watermark first. A follower that has just left the ISR has reached the old high watermark, so it would be proposed again
                # immediately, and would count again.
                raised = self._raise_high_watermark()
                return [*self._propose(now), *raised]
            if was_leader:
                effects.append(FailWaiters())
            if previous_leader != NO_LEADER:
                effects.append(StopFollowing())
            self._lead(event, now)
            effects.append(Lead(new.leader_epoch, self.epoch_start))
            effects += self._raise_high_watermark()
            return effects
        if was_leader:
            effects.append(FailWaiters())
        self.proposal, self.followers_to_reset = None, ()
        self.followers.clear()
        self.log_end, self.log_start = event.log_end, event.log_start
        if self.broker_id not in new.replicas + new.observers:
            self.role = Role.HISTORY
            if previous_leader != NO_LEADER:
                effects.append(StopFollowing())
        elif new.leader in (NO_LEADER, self.broker_id) or not event.leader_alive:
            # An earlier incarnation of this broker is the leader. The controller will elect again.
            self.role = Role.OFFLINE
            if previous_leader != NO_LEADER:
                effects.append(StopFollowing())
        else:
            self.role = Role.FOLLOWER
            if previous_leader != new.leader or was_epoch != new.leader_epoch:
                effects.append(Follow(new.leader, new.leader_epoch))
        return effects

    def _lead(self, event: PartitionStateChanged, now: Now) -> None:
        self.role, self.proposal, self.proposal_not_before_ms, self.followers_to_reset = Role.LEADER, None, 0, ()
        self.log_end, self.log_start, self.epoch_start = event.log_end, event.log_start, event.log_end
        self.followers = {
            isr_member.broker_id: Follower(isr_member.broker_epoch, caught_up_ms=now.mono_ms, fetched_ms=now.mono_ms)
            for isr_member in event.state.isr
            if isr_member.broker_id != self.broker_id
        }

    def _forget_removed_replicas(self) -> None:
        assert self.state is not None
        for broker_id in [b for b in self.followers if b not in self.state.replicas]:
            del self.followers[broker_id]

    def _follower_fetched(self, event: FollowerFetched, now: Now) -> list[Effect]:
        if self.role is not Role.LEADER:
            return []
        assert self.state is not None
        if event.replica.broker_id not in self.state.replicas:
            return []  # an observer has no state here: when it becomes a replica, a new epoch starts and it reports everything again
        follower = self.followers.get(event.replica.broker_id)
        if follower is None or follower.broker_epoch != event.replica.broker_epoch:
            follower = self.followers[event.replica.broker_id] = Follower(event.replica.broker_epoch)
        follower.apply_session_liveness(self.log_end)
        if event.fetch_offset >= self.log_end:
            follower.caught_up_ms = now.mono_ms
        elif event.fetch_offset >= follower.leader_end_at_fetch:
            follower.caught_up_ms = max(follower.caught_up_ms, follower.fetched_ms)
        log_start_raised = event.log_start > follower.log_start
        follower.log_end, follower.log_start = event.fetch_offset, event.log_start
        follower.remote_start = event.remote_start
        follower.fetched_ms, follower.leader_end_at_fetch = now.mono_ms, self.log_end
        follower.session_liveness = event.session_liveness
        # Proposed before the high watermark rises: the new member counts from here on.
        effects = [*self._propose(now), *self._raise_high_watermark()]
        return [*effects, RaiseLowWatermark()] if log_start_raised else effects

    def _on_proposal_rejected(self, event: IsrProposalRejected, now: Now) -> list[Effect]:
        p = self.proposal
        if p is not None and (p.leader_epoch, p.partition_epoch) == (event.leader_epoch, event.partition_epoch):
            # The new member counts until the partition epoch changes: another controller could still accept the proposal.
            self.proposal_not_before_ms = now.mono_ms + self.proposal_retry_ms
        return []

    # -- decisions: ISR members, high watermark ------------------------------------------------------------------------
    def _desired_isr(self, now: Now) -> tuple[ReplicaIncarnation, ...]:
        assert self.state is not None
        accepted = {isr_member.broker_id: isr_member for isr_member in self.state.isr}
        desired: list[ReplicaIncarnation] = []
        for broker_id in self.state.replicas:
            isr_member = accepted.get(broker_id)
            if broker_id == self.broker_id:
                if isr_member is not None:
                    desired.append(isr_member)
                continue
            follower = self.followers.get(broker_id)
            if follower is None:
                continue
            if isr_member is not None and isr_member.broker_epoch == follower.broker_epoch:
                if now.mono_ms - follower.caught_up_ms <= self.lag_ms_max:
                    desired.append(isr_member)
            elif self._may_join_isr(broker_id, follower, now):
                desired.append(ReplicaIncarnation(broker_id, follower.broker_epoch))
        return tuple(desired)

    def _isr_is_current(self, now: Now) -> bool:
        """True when every replica is in the ISR and caught up, so that the ISR does not change. Runs at each fetch of a follower."""
        assert self.state is not None
        if len(self.state.isr) != len(self.state.replicas):
            return False
        for isr_member in self.state.isr:
            if isr_member.broker_id == self.broker_id:
                continue
            follower = self.followers.get(isr_member.broker_id)
            if follower is None or follower.broker_epoch != isr_member.broker_epoch:
                return False
            if now.mono_ms - follower.caught_up_ms > self.lag_ms_max:
                return False
        return True

    def _may_join_isr(self, broker_id: int, follower: Follower, now: Now) -> bool:
        """Return whether the follower may join the ISR: it is caught up and its log start is in the allowed range. A lower log start would
        make deleted records visible again when it leads."""
        assert self.state is not None
        return (
            self._is_caught_up(follower, now)
            and follower.log_start <= self._log_start_max(broker_id)
            and (follower.log_start >= self.log_start or self.state.handover_offset >= 0)
        )

    def _is_caught_up(self, follower: Follower, now: Now) -> bool:
        """Return whether the follower's log end is at or above the high watermark and the start of this epoch, and the follower was caught up recently. The
        last condition excludes a follower that no longer fetches while the high watermark waits for it. With majority acknowledgements it
        must have a record of this epoch, and then has all committed records."""
        assert self.state is not None
        return (
            follower.caught_up_ms > 0
            and now.mono_ms - follower.caught_up_ms <= self.lag_ms_max
            and follower.log_end >= self.high_watermark
            and follower.log_end >= self.epoch_start + bool(self.state.voters)
        )

    def _followers_to_reset(self, now: Now) -> Iterator[ReplicaIncarnation]:
        """Followers whose log start offset has been the only reason to be out of the ISR for long enough. Only a reset can bring them into the ISR. The
        controller resets one of them at a time; in the next leader epoch the others wait again."""
        assert self.state is not None
        in_sync = self.state.isr_ids
        wait_ms = self.late_ms_max if self.retention_deletes else self.lag_ms_max
        for broker_id, follower in self.followers.items():
            if (
                broker_id in in_sync
                or not self._is_caught_up(follower, now)
                or follower.log_start <= self._log_start_max(broker_id)
            ):
                follower.log_start_late_since_ms = None
            elif follower.log_start_late_since_ms is None:
                follower.log_start_late_since_ms = now.mono_ms
            elif now.mono_ms - follower.log_start_late_since_ms > wait_ms:
                yield ReplicaIncarnation(broker_id, follower.broker_epoch)

    def _log_start_max(self, broker_id: int) -> int:
        """The highest log start offset of a follower that joins the ISR: the leader's log start. With history replicas it is the hand-over
        offset. A history replica must reach below the hand-over offset, even if the leader's log does not."""
        state = self.state
        assert state is not None
        # No history replicas, or records above the hand-over offset were deleted.
        if self.log_start > state.handover_offset:
            return self.log_start
        if broker_id not in state.history_replicas:
            return state.handover_offset
        return self.log_start if self.broker_id in state.history_replicas else state.handover_offset - 1

    def _propose(self, now: Now) -> list[Effect]:
        assert self.state is not None
        self._apply_session_liveness()
        if self.proposal is not None or now.mono_ms < self.proposal_not_before_ms or self._isr_is_current(now):
            return []
        desired = self._desired_isr(now)
        if set(desired) == set(self.state.isr):
            return []
        self.proposal = ProposeIsr(self.state.leader_epoch, self.state.partition_epoch, desired)
        return [self.proposal]

    def _raise_high_watermark(self) -> list[Effect]:
        assert self.state is not None
        if self.state.voters:
            counted, isr = self.acknowledgeable_end, self.maximal_isr()
            low = committed_end(self.state, self.broker_id, counted, self.followers, isr)
            # A record of an earlier epoch is committed only together with one of this epoch. Otherwise a later vote may elect a replica without it.
            return self._set_high_watermark(low) if low > self.epoch_start else []
        if len(self.state.isr) < self.min_insync:
            return []
        if self.state.elr:
            return []  # a replica of the ELR may be elected and would lack records that are committed without it
        if self.acknowledgeable_end <= self.high_watermark:
            return []
        low = self.acknowledgeable_end
        for isr_member in self.maximal_isr() if self.proposal is not None else self.state.isr:
            if isr_member.broker_id == self.broker_id:
                continue
            follower = self.followers.get(isr_member.broker_id)
            if follower is None or follower.broker_epoch != isr_member.broker_epoch:
                return []
            low = min(low, follower.log_end)
        return self._set_high_watermark(low)

    def _set_high_watermark(self, offset: int) -> list[Effect]:
        if offset <= self.high_watermark:
            return []
        self.high_watermark = offset
        return [RaiseHighWatermark(offset)]

    # -- for the shell of a follower ---------------------------------------------------------------------------------
    def update_follower_high_watermark(self, offset: int, log_end: int) -> None:
        """Apply the leader's high watermark, limited to the follower's own log end."""
        if self.role is Role.FOLLOWER:
            self.leader_high_watermark = offset
            self.high_watermark = max(self.high_watermark, min(offset, log_end))

    def on_truncated(self, log_end: int) -> None:
        """The follower's log was truncated to `log_end`. Truncated records were never below a correct high watermark."""
        self.log_end = log_end
        self.high_watermark = min(self.high_watermark, log_end)

    def on_bootstrapped(self, log_end: int) -> None:
        """The observer's log was bootstrapped in the middle of the partition: its former state is invalid."""
        self.log_end = self.high_watermark = log_end

    def validate(self) -> None:
        if self.role is Role.LEADER:
            assert self.state is not None, f"leader without a state: {self.tp}"
            assert self.state.leader == self.broker_id, (
                f"this broker leads, but the leader is {self.state.leader}: {self.tp}"
            )
            assert self.high_watermark <= self.log_end, (
                f"HW {self.high_watermark} above the log end {self.log_end}: {self.tp}"
            )
            if self.proposal is not None:
                assert self.proposal.partition_epoch == self.state.partition_epoch, (
                    f"proposal of another partition epoch: {self.tp}"
                )

    def describe(self) -> dict[str, object]:
        return {
            "role": self.role.value,
            "leader": self.leader,
            "leader_epoch": self.leader_epoch,
            "high_watermark": self.high_watermark,
            "log_end": self.log_end,
            "epoch_start": self.epoch_start,
            "isr": list(self.state.isr_ids) if self.state else [],
            "proposal": [s.broker_id for s in self.proposal.isr] if self.proposal else None,
            "followers": {b: f.log_end for b, f in sorted(self.followers.items())},
        }
