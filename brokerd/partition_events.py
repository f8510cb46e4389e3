"""What one partition's machine hears and says (`partition`).

Law: values only; each belongs to the epoch that it names, or to the one that the machine is in. Called by `partition` and whoever runs it.
Must not come in: what is made of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.cluster.model import PartitionState, Seat


# -- what it hears -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Changed:
    """The metadata log says this of the partition now. `leads` is true when leader and leader_incarnation are this broker's own.

    `leader_alive` tells whether a follower has somebody to follow. `log_end` is this replica's log end offset, `sure_end` (as in
    Appended) how much of it counts.
    """

    state: PartitionState
    leads: bool
    min_insync: int
    log_end: int
    log_start: int
    leader_alive: bool = True
    sure_end: int | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """The log has grown, or more of it is on the disk. Below `sure_end` the leader's own copy counts for the high watermark: None
    is all of it; a topic that asks for flushes has what is flushed."""

    log_end: int
    sure_end: int | None = None


@dataclass(slots=True)
class Pulse:
    """When (mono) a follower's fetch session was last heard. Whoever is in the session and not named says the same again."""

    ms: int = 0


@dataclass(frozen=True, slots=True)
class FollowerFetched:
    """Follower `seat` asks for `fetch_offset`, so it holds everything below it. The shell has checked that the seat is current.

    `pulse`: the session in which it goes on asking for the same, until the partition is named again, forgotten (`Unheard`), or the session ends.
    """

    seat: Seat
    fetch_offset: int
    log_start: int
    pulse: Pulse | None = None


@dataclass(frozen=True, slots=True)
class Unheard:
    """From here on the session's fetches say nothing of this partition. Told before the session is heard again."""

    seat: Seat


@dataclass(frozen=True, slots=True)
class IsrRefused:
    """The next proposal has to wait. The present one ends with the Changed that moves the partition epoch."""

    leader_epoch: int
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class LogStartRaised:
    log_start: int


@dataclass(frozen=True, slots=True)
class Tick:
    pass


# -- what it says ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class RaiseHighWatermark:
    offset: int


@dataclass(frozen=True, slots=True)
class RaiseLowWatermark:
    """Another replica has let old records go: fewer of those in sync keep them, or none."""


@dataclass(frozen=True, slots=True)
class ProposeIsr:
    """Ask the controller for this ISR. Bound to the epochs it was computed from."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[Seat, ...]


@dataclass(frozen=True, slots=True)
class FailWaiters:
    """Promises made under the old epoch cannot be kept any more."""


@dataclass(frozen=True, slots=True)
class Follow:
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class StopFollowing:
    pass


@dataclass(frozen=True, slots=True)
class Lead:
    """Leadership begins at `epoch_start`, the log end at that moment."""

    leader_epoch: int
    epoch_start: int


Event = Changed | Appended | FollowerFetched | Unheard | IsrRefused | LogStartRaised | Tick
Effect = RaiseHighWatermark | RaiseLowWatermark | ProposeIsr | FailWaiters | Follow | StopFollowing | Lead
