"""One partition on one broker: leader or follower, its ISR, its high watermark. A sans-IO core.

Laws (safety.md section 3):
  - the high watermark is the smallest log end of the *maximal* ISR: a proposed grower counts from the proposal on, a
    shrunk member until the shrinking is accepted; it never falls, and it stands still while the accepted ISR is below
    min.insync.replicas;
  - nothing is done without an epoch: what belongs to an older one is dropped;
  - effects come out in the promised order: FailWaiters before leadership is given up, ProposeIsr before RaiseHighWatermark.
Called by `partitions` (the place where partitions live) and by the simulation. Must not come in: files, sockets, clocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from brokerd.cluster.model import NO_LEADER, Now, PartitionState, Seat, TopicPartition
from brokerd.partition_events import (
    Appended,
    Changed,
    Effect,
    Event,
    FailWaiters,
    Follow,
    FollowerFetched,
    IsrRefused,
    Lead,
    LogStartRaised,
    ProposeIsr,
    Pulse,
    RaiseHighWatermark,
    RaiseLowWatermark,
    StopFollowing,
    Tick,
    Unheard,
)

UNKNOWN_OFFSET = -1


class Role(Enum):
    OFFLINE = "offline"
    LEADER = "leader"
    FOLLOWER = "follower"
    HOLDER = "holder"
    """Its copy is of an archive: it is read by the leader, and takes nothing."""


@dataclass(slots=True)
class Follower:
    """What the leader knows of a follower. `caught_up_ms` is the last time (mono) it held all the leader had."""

    incarnation: int
    log_end: int = UNKNOWN_OFFSET
    log_start: int = UNKNOWN_OFFSET
    caught_up_ms: int = 0
    fetched_ms: int = 0
    leader_end_at_fetch: int = 0
    pulse: Pulse | None = None
    late_since_ms: int | None = None
    """Since when it has lacked for the ISR nothing but what lies below its log's start."""

    def heard(self, leader_end: int) -> None:
        """Take over what its session's fetches have said without naming this partition: that it stands where it stood.

        Who holds all there is has been caught up at each of them. Of who does not, nothing is taken over: what it held at its last
        fetch that named the partition is older, and errs on the safe side.
        """
        if self.pulse is not None and self.log_end >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, self.pulse.ms)
            self.fetched_ms, self.leader_end_at_fetch = self.pulse.ms, leader_end

    @property
    def asked_ms(self) -> int:
        return self.fetched_ms if self.pulse is None else max(self.fetched_ms, self.pulse.ms)


@dataclass(slots=True)
class Partition:
    broker_id: int
    tp: TopicPartition
    lag_ms_max: int
    """replica.lag.time.max.ms: a follower that has not caught up for longer leaves the ISR."""
    proposal_retry_ms: int = 500
    """After a refusal the next proposal waits this long, so that a disagreement does not become a storm."""
    late_ms_max: int = 310_000
    """A follower whose log starts too late is begun anew after this: retention has had its turn, and may have passed there."""

    role: Role = Role.OFFLINE
    state: PartitionState | None = None
    min_insync: int = 1
    high_watermark: int = 0
    told_end: int = 0
    """A follower's: the high watermark that its leader told last, however far its own log goes."""
    log_end: int = 0
    sure_end: int = 0
    log_start: int = 0
    epoch_start: int = 0
    proposal: ProposeIsr | None = None
    proposal_not_before_ms: int = 0
    followers: dict[int, Follower] = field(default_factory=dict)
    late: tuple[Seat, ...] = ()
    """A leader's: whose copies are to be begun anew. The shell asks the controller for it, in this leader epoch (decision 037)."""

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
        """Below it nobody who may lead next keeps anything; UNKNOWN_OFFSET while one of them has not been heard in this epoch."""
        low = self.log_start
        for seat in self.maximal_isr():
            if seat.broker_id == self.broker_id:
                continue
            follower = self.followers.get(seat.broker_id)
            if follower is None or follower.incarnation != seat.incarnation:
                return UNKNOWN_OFFSET
            low = min(low, follower.log_start)
        return low

    @property
    def late_starts(self) -> list[int]:
        """Where the logs of followers begin that lack nothing for the ISR but what lies below."""
        return sorted({f.log_start for f in self.followers.values() if f.late_since_ms is not None})

    @property
    def has_others(self) -> bool:
        """Somebody else might hold a copy, or does."""
        return self.state is not None and (len(self.state.replicas) > 1 or len(self.state.isr) > 1)

    @property
    def serves_latest(self) -> bool:
        """KIP-207: after an election the visible end may not go back, so it is not told before HW reaches the epoch's start."""
        return self.high_watermark >= self.epoch_start

    @property
    def followed(self) -> bool:
        """Whether all who may lead next have asked this leader from its epoch's start on. Until then one of them may hold the end of an
        earlier epoch, lead with it, and have everybody follow: what nobody has replicated would count after all."""
        return all(
            (f := self.followers.get(seat.broker_id)) is not None
            and f.incarnation == seat.incarnation
            and f.log_end >= self.epoch_start
            for seat in self.maximal_isr()
            if seat.broker_id != self.broker_id
        )

    def maximal_isr(self) -> frozenset[Seat]:
        assert self.state is not None
        accepted = frozenset(self.state.isr)
        return accepted | frozenset(self.proposal.isr) if self.proposal is not None else accepted

    def silent(self, now: Now, longest_ms: int | None = None) -> list[int]:
        """Members of the accepted ISR that have asked a leader for nothing for longer than they may (or than `longest_ms`): nothing can
        be committed."""
        longest_ms = self.lag_ms_max if longest_ms is None else longest_ms
        assert self.state is not None
        followers = (
            (seat, self.followers.get(seat.broker_id)) for seat in self.state.isr if seat.broker_id != self.broker_id
        )
        return [s.broker_id for s, f in followers if f is None or now.mono_ms - f.asked_ms > longest_ms]

    # -- handling --------------------------------------------------------------------------------------------------
    def handle(self, event: Event, now: Now) -> list[Effect]:
        match event:
            case Changed():
                return self._changed(event, now)
            case Appended():
                if self.role is not Role.LEADER:
                    return []
                self._hear_sessions()  # while they still hold all there is
                self.log_end = event.log_end
                self.sure_end = event.log_end if event.sure_end is None else event.sure_end
                return self._raise_high_watermark()
            case FollowerFetched():
                return self._follower_fetched(event, now)
            case Unheard():
                follower = self.followers.get(event.seat.broker_id)
                if follower is not None and follower.incarnation == event.seat.incarnation:
                    follower.heard(self.log_end)
                    follower.pulse = None
                return []
            case IsrRefused():
                return self._refused(event, now)
            case LogStartRaised():
                self.log_start = max(self.log_start, event.log_start)
                return []
            case Tick():
                if self.role is not Role.LEADER:
                    return []
                proposed = self._propose(now)
                self.late = tuple(self._who_is_late(now))
                return proposed

    def _hear_sessions(self) -> None:
        for follower in self.followers.values():
            if follower.pulse is not None:
                follower.heard(self.log_end)

    def _changed(self, event: Changed, now: Now) -> list[Effect]:
        old, new = self.state, event.state
        if old is not None and new.partition_epoch < old.partition_epoch:
            return []  # an older image than the one already applied (a reload in flight)
        effects: list[Effect] = []
        was_leader, was_epoch = self.role is Role.LEADER, self.leader_epoch
        was_following = self.leader if self.role is Role.FOLLOWER else NO_LEADER
        self.state, self.min_insync = new, event.min_insync
        self.sure_end = event.log_end if event.sure_end is None else event.sure_end
        if event.leads:
            if was_leader and was_epoch == new.leader_epoch:
                if old is not None and old.partition_epoch != new.partition_epoch:
                    self.proposal = None  # answered, or overtaken: either way it was bound to the old partition epoch
                self._forget_strangers()
                # Raised first: who has just left stands at the old watermark, and would be proposed, and count, again at once.
                raised = self._raise_high_watermark()
                return [*self._propose(now), *raised]
            if was_leader:
                effects.append(FailWaiters())
            if was_following != NO_LEADER:
                effects.append(StopFollowing())
            self._lead(event, now)
            effects.append(Lead(new.leader_epoch, self.epoch_start))
            effects += self._raise_high_watermark()
            return effects
        if was_leader:
            effects.append(FailWaiters())
        self.proposal, self.late = None, ()
        self.followers.clear()
        self.log_end, self.log_start = event.log_end, event.log_start
        if self.broker_id not in (*new.replicas, *new.observers):
            self.role = Role.HOLDER
            if was_following != NO_LEADER:
                effects.append(StopFollowing())
        elif new.leader in (NO_LEADER, self.broker_id) or not event.leader_alive:
            # Own number but not own incarnation: an earlier life of this broker leads; the controller will elect again.
            self.role = Role.OFFLINE
            if was_following != NO_LEADER:
                effects.append(StopFollowing())
        else:
            self.role = Role.FOLLOWER
            if was_following != new.leader or was_epoch != new.leader_epoch:
                effects.append(Follow(new.leader, new.leader_epoch))
        return effects

    def _lead(self, event: Changed, now: Now) -> None:
        self.role, self.proposal, self.proposal_not_before_ms, self.late = Role.LEADER, None, 0, ()
        self.log_end, self.log_start, self.epoch_start = event.log_end, event.log_start, event.log_end
        self.followers = {
            seat.broker_id: Follower(seat.incarnation, caught_up_ms=now.mono_ms, fetched_ms=now.mono_ms)
            for seat in event.state.isr
            if seat.broker_id != self.broker_id
        }

    def _forget_strangers(self) -> None:
        assert self.state is not None
        for broker_id in [b for b in self.followers if b not in self.state.replicas]:
            del self.followers[broker_id]

    def _follower_fetched(self, event: FollowerFetched, now: Now) -> list[Effect]:
        if self.role is not Role.LEADER or self.state is None or event.seat.broker_id not in self.state.replicas:
            return []  # of an observer nothing is remembered: when it is added a new epoch begins, and it says all of it again
        follower = self.followers.get(event.seat.broker_id)
        if follower is None or follower.incarnation != event.seat.incarnation:
            follower = self.followers[event.seat.broker_id] = Follower(event.seat.incarnation)
        follower.heard(self.log_end)
        if event.fetch_offset >= self.log_end:
            follower.caught_up_ms = now.mono_ms
        elif follower.fetched_ms and event.fetch_offset >= follower.leader_end_at_fetch:
            follower.caught_up_ms = max(follower.caught_up_ms, follower.fetched_ms)
        lets_go = event.log_start > follower.log_start
        follower.log_end, follower.log_start = event.fetch_offset, event.log_start
        follower.fetched_ms, follower.leader_end_at_fetch = now.mono_ms, self.log_end
        follower.pulse = event.pulse
        # Proposed before the watermark rises: from here on the newcomer counts.
        effects = [*self._propose(now), *self._raise_high_watermark()]
        return [*effects, RaiseLowWatermark()] if lets_go else effects

    def _refused(self, event: IsrRefused, now: Now) -> list[Effect]:
        p = self.proposal
        if p is not None and (p.leader_epoch, p.partition_epoch) == (event.leader_epoch, event.partition_epoch):
            # The newcomer goes on counting until the partition epoch has moved: before that another controller could accept it.
            self.proposal_not_before_ms = now.mono_ms + self.proposal_retry_ms
        return []

    # -- the two leaves: who belongs to the ISR, and how far is everybody --------------------------------------------
    def _wanted_isr(self, now: Now) -> tuple[Seat, ...]:
        assert self.state is not None
        accepted = {seat.broker_id: seat for seat in self.state.isr}
        wanted: list[Seat] = []
        for broker_id in self.state.replicas:
            seat = accepted.get(broker_id)
            if broker_id == self.broker_id:
                if seat is not None:
                    wanted.append(seat)
                continue
            follower = self.followers.get(broker_id)
            if seat is not None:
                current = follower is not None and follower.incarnation == seat.incarnation
                if current and follower is not None and now.mono_ms - follower.caught_up_ms <= self.lag_ms_max:
                    wanted.append(seat)
                elif (
                    follower is not None
                    and follower.incarnation != seat.incarnation
                    and self._complete(broker_id, follower, now)
                ):
                    wanted.append(Seat(broker_id, follower.incarnation))
            elif follower is not None and self._complete(broker_id, follower, now):
                wanted.append(Seat(broker_id, follower.incarnation))
        return tuple(wanted)

    def _all_in_step(self, now: Now) -> bool:
        """Every replica sits in the ISR and keeps up, so that the ISR wanted is the present one. Asked at each fetch of a follower."""
        assert self.state is not None
        if len(self.state.isr) != len(self.state.replicas):
            return False
        for seat in self.state.isr:
            if seat.broker_id == self.broker_id:
                continue
            follower = self.followers.get(seat.broker_id)
            if follower is None or follower.incarnation != seat.incarnation:
                return False
            if now.mono_ms - follower.caught_up_ms > self.lag_ms_max:
                return False
        return True

    def _complete(self, broker_id: int, follower: Follower, now: Now) -> bool:
        """May it enter? It holds what it must, its log starts no later than it may, and no earlier: what is said to be deleted is not led again."""
        assert self.state is not None
        return (
            self._has_all(follower, now)
            and follower.log_start <= self._latest_start(broker_id)
            and (follower.log_start >= self.log_start or self.state.archive_start >= 0)
        )

    def _has_all(self, follower: Follower, now: Now) -> bool:
        """Log end at or above HW and this epoch's start, and in step of late: one that takes no records may stand at a watermark that waits
        for it."""
        return (
            follower.caught_up_ms > 0
            and now.mono_ms - follower.caught_up_ms <= self.lag_ms_max
            and follower.log_end >= self.high_watermark
            and follower.log_end >= self.epoch_start
        )

    def _who_is_late(self, now: Now) -> Iterator[Seat]:
        """Whose log has started too late for so long that nothing but beginning anew will bring it into the ISR."""
        assert self.state is not None
        in_sync = self.state.isr_ids
        for broker_id, follower in self.followers.items():
            if (
                broker_id in in_sync
                or not self._has_all(follower, now)
                or follower.log_start <= self._latest_start(broker_id)
            ):
                follower.late_since_ms = None
            elif follower.late_since_ms is None:
                follower.late_since_ms = now.mono_ms
            elif now.mono_ms - follower.late_since_ms > self.late_ms_max:
                yield Seat(broker_id, follower.incarnation)

    def _latest_start(self, broker_id: int) -> int:
        """Where the log of one that enters may begin at the latest: where the leader's does; of a partition with an archive, where that ends. But
        a holder's reaches below, also under a leader whose own does not."""
        state = self.state
        assert state is not None
        if self.log_start > state.archive_start:  # no archive, or the log has been let go beyond it
            return self.log_start
        if broker_id not in state.holders:
            return state.archive_start
        return self.log_start if self.broker_id in state.holders else state.archive_start - 1

    def _propose(self, now: Now) -> list[Effect]:
        assert self.state is not None
        self._hear_sessions()
        if self.proposal is not None or now.mono_ms < self.proposal_not_before_ms or self._all_in_step(now):
            return []
        wanted = self._wanted_isr(now)
        if set(wanted) == set(self.state.isr):
            return []
        self.proposal = ProposeIsr(self.state.leader_epoch, self.state.partition_epoch, wanted)
        return [self.proposal]

    def _raise_high_watermark(self) -> list[Effect]:
        if self.role is not Role.LEADER or self.state is None or len(self.state.isr) < self.min_insync:
            return []
        low = self.sure_end
        if low <= self.high_watermark:
            return []
        for seat in self.maximal_isr() if self.proposal is not None else self.state.isr:
            if seat.broker_id == self.broker_id:
                continue
            follower = self.followers.get(seat.broker_id)
            if follower is None or follower.incarnation != seat.incarnation:
                return []
            low = min(low, follower.log_end)
        if low <= self.high_watermark:
            return []
        self.high_watermark = low
        return [RaiseHighWatermark(low)]

    # -- for the shell of a follower ---------------------------------------------------------------------------------
    def told_high_watermark(self, offset: int, log_end: int) -> None:
        """A follower learns the leader's high watermark; it never believes beyond its own log."""
        if self.role is Role.FOLLOWER:
            self.told_end = offset
            self.high_watermark = max(self.high_watermark, min(offset, log_end))

    def truncated(self, log_end: int) -> None:
        """The follower's log was cut to `log_end`. What is cut was never below a true high watermark."""
        self.log_end = log_end
        self.high_watermark = min(self.high_watermark, log_end)

    def begun(self, log_end: int) -> None:
        """The observer's log begins in the middle: of what it was before nothing counts."""
        self.log_end = self.high_watermark = log_end

    def validate(self) -> None:
        if self.role is Role.LEADER:
            assert self.state is not None, f"leader without a state: {self.tp}"
            assert self.state.leader == self.broker_id, f"leads what belongs to {self.state.leader}: {self.tp}"
            assert self.high_watermark <= self.log_end, (
                f"HW {self.high_watermark} above the end {self.log_end}: {self.tp}"
            )
            if self.proposal is not None:
                assert self.proposal.partition_epoch == self.state.partition_epoch, (
                    f"proposal of another time: {self.tp}"
                )

    def describe(self) -> dict[str, Any]:
        return {
            "role": self.role.value, "leader": self.leader, "leader_epoch": self.leader_epoch,
            "high_watermark": self.high_watermark, "log_end": self.log_end, "epoch_start": self.epoch_start,
            "isr": list(self.state.isr_ids) if self.state else [],
            "proposal": [s.broker_id for s in self.proposal.isr] if self.proposal else None,
            "followers": {b: f.log_end for b, f in sorted(self.followers.items())},
        }  # fmt: skip
