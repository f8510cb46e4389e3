"""Values of a move: its rows, the observed state, the changes of one step. Its states are in `move_states`. The decisions are in `move` and, for mode `tail`,
in `tail_move`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.domain import move_phrases as texts
from controlplane.domain import progress
from controlplane.domain.compare import StoredComparison
from controlplane.domain.move_states import MoveMode, MoveState, PartState
from controlplane.domain.wait_reason import Wait
from weir_common.phrases import sentence

ORDER_UNAPPLIED_SECONDS = 10.0
"""Seconds until an order without a controller's reaction is reported. A controller failover takes about 3."""

OBSERVATION_SECONDS = 60.0
"""For this time after an order, an observation with an earlier generation counts as old. After that time, it means that the metadata log was created again."""
NO_PROGRESS_SECONDS = 60.0
"""Seconds without a copied byte until a cause is determined and shown."""

NO_SPACE_BYTES = 64 * 1024 * 1024
"""A target with less free space counts as full: a broker rejects writes before its disk is completely full."""

HELD_BACK_BYTES_PER_S = 1024 * 1024
"""A lower throttle can explain NO_PROGRESS_SECONDS without progress; a higher one lets dozens of the largest batches pass in that time."""


GONE = sentence(texts.GONE)


@dataclass(frozen=True, slots=True)
class ObservedPart:
    """One partition as the monitor observed it. Sizes are in bytes per broker, without brokers that did not respond. `sampled_at`: time of
    the last sizes, Unix seconds. `throttled`: the topic configs list a new replica of the partition as throttled.

    `observers`, `tail_start`, `log_start_floor` and `archive_start` are those of the metadata log, None = unset; `log_start` is that of the leader's local
    log, None = unknown. `tiered`: the topic has tiered storage.
    `lags`: missing records per broker as reported by it, without brokers that do not know. `unfit`: why the topic cannot move in mode `tail`."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    leader: int | None
    generation: int
    sizes: Mapping[int, int]
    sampled_at: float | None = None
    throttled: bool = False
    observers: tuple[int, ...] = ()
    tail_start: int | None = None
    log_start_floor: int | None = None
    archive_start: int | None = None
    log_start: int | None = None
    tiered: bool = False
    lags: Mapping[int, int] = field(default_factory=dict)
    unfit: str = ""

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(b for b in self.replicas if b not in self.removing)

    @property
    def reassigning(self) -> bool:
        return bool(self.adding or self.removing)


@dataclass(frozen=True, slots=True)
class PlacementBefore:
    """The placement of a partition when its move was planned. `replicas`: in order; `leader`: None = no leader."""

    replicas: tuple[int, ...]
    leader: int | None
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PartView:
    """One MovePartition row. Times are Unix seconds. `compared`: the finished comparison of the replicas; None = unknown yet.
    `delete_below`: an operator deleted all records below this offset. `hand_over_at`: the old replicas keep the records below this offset."""

    id: int
    name: str
    state: PartState
    replicas_from: tuple[int, ...]
    replicas_to: tuple[int, ...]
    desired_replicas: tuple[int, ...]
    read_generation: int
    submitted_at: float | None
    progress_at: float | None
    bytes_done: int | None
    observed: ObservedPart | None
    bytes_total: int | None = None
    note: str = ""
    cause: str = ""
    samples: tuple[progress.Sample, ...] = ()
    compared: StoredComparison | None = None
    tail_start: int | None = None
    delete_below: int | None = None
    hand_over_at: int | None = None

    @property
    def forward(self) -> tuple[tuple[int, ...], ...]:
        """Placements that a forward order can have made: old and new replicas together, and the new ones alone."""
        return self.replicas_to, with_old_replicas(self.replicas_from, self.replicas_to)

    @property
    def going_back(self) -> bool:
        return self.desired_replicas == self.replicas_from

    @property
    def copies_to(self) -> tuple[int, ...]:
        """Brokers that get a new replica in this direction."""
        origin = self.replicas_to if self.going_back else self.replicas_from
        return tuple(b for b in self.desired_replicas if b not in origin)

    @property
    def tail_copies(self) -> tuple[int, ...]:
        """Observers of the forward direction: brokers without a replica so far."""
        return tuple(b for b in self.replicas_to if b not in self.replicas_from)

    @property
    def burdens(self) -> frozenset[int]:
        """Brokers that are busy while this part is copied: the targets and the leader."""
        leader = self.observed.leader if self.observed is not None else None
        to = self.copies_to
        return frozenset(to if leader is None or not to else (*to, leader))


@dataclass(frozen=True, slots=True)
class MoveSnapshot:
    """`parts` may omit ended parts and waiting parts at the end of the queue; `omitted` counts the omitted parts by state. `busy`: copies of other moves per
    broker. `free`: bytes free per broker. `throttle`: bytes/s per broker, None = none. `throttle_left`: what the metadata log still contains of
    the throttle, as a phrase. `overdue`: the deadline for retention has passed. `early`: hand-over without waiting for retention."""

    state: MoveState
    parts: tuple[PartView, ...]
    parts_in_flight_max: int
    alive: frozenset[int]
    parts_per_broker_max: int = 64
    omitted: Mapping[PartState, int] = field(default_factory=dict)
    busy: Mapping[int, int] = field(default_factory=dict)
    free: Mapping[int, int] = field(default_factory=dict)
    throttle: int | None = None
    throttle_left: str = ""
    mode: MoveMode = MoveMode.COPY
    overdue: bool = False
    early: bool = False


@dataclass(frozen=True, slots=True)
class PartStep:
    """The new values of one part; None = unchanged. `active` False releases the partition for other moves. `tail_start`: the new start offset
    of its new replicas."""

    part_id: int
    state: PartState
    desired_replicas: tuple[int, ...] | None = None
    read_generation: int | None = None
    bytes_total: int | None = None
    bytes_done: int | None = None
    progressed: bool = False
    submits: bool = False
    active: bool | None = None
    note: str | None = None
    cause: str | None = None
    samples: tuple[progress.Sample, ...] | None = None
    tail_start: int | None = None
    delete_below: int | None = None
    hand_over_at: int | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """Changes of parts, then the state of the move (None = unchanged). `needs`: bytes/s per broker that the move needs to finish; None = it is
    expected to finish. `waits_for`: the reasons, if no part makes progress (`move_wait`)."""

    parts: tuple[PartStep, ...]
    state: MoveState | None
    note: str | None = None
    needs: int | None = None
    waits_for: tuple[Wait, ...] = ()


def with_old_replicas(replicas_from: Sequence[int], replicas_to: Sequence[int]) -> tuple[int, ...]:
    """The placement with old and new replicas, in which they are compared. The old ones are first: no new replica is the preferred leader
    before the comparison."""
    return (*replicas_from, *(b for b in replicas_to if b not in replicas_from))


def difference(part: PartView, observed: ObservedPart) -> str:
    return sentence(
        texts.DIFFERENCE,
        read=part.read_generation,
        now=observed.generation,
        replicas=str(list(observed.replicas)),
        adding=str(list(observed.adding)),
        removing=str(list(observed.removing)),
    )


def no_leader(observed: ObservedPart) -> str:
    if not observed.isr:
        return sentence(texts.NO_LEADER)
    brokers = str(observed.isr[0])
    for broker in observed.isr[1:]:
        brokers = sentence(texts.BROKER_OR, first=brokers, second=broker)
    return sentence(texts.NO_LEADER_OF, brokers=brokers)


def step_for_unapplied_order(
    part: PartView, observed: ObservedPart, alive: frozenset[int], now: float
) -> PartStep | None:
    """Return the reason why an order is not carried out after ORDER_UNAPPLIED_SECONDS. The reason that a controller gave (`REJECTED`) is kept."""
    if part.submitted_at is None or now - part.submitted_at <= ORDER_UNAPPLIED_SECONDS:
        return None
    cause, text = progress.StallCause.CONTROLLER, sentence(texts.NOT_TAKEN)
    if down := [b for b in part.copies_to if b not in alive and b not in observed.replicas]:
        cause, text = (
            progress.StallCause.TARGET_DOWN,
            sentence(texts.TARGET_DOWN, broker=down[0]),
        )
    elif part.cause == progress.StallCause.REJECTED:
        return None
    return PartStep(part.id, part.state, note=text, cause=cause) if text != part.note else None
