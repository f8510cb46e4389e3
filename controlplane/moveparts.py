"""The nouns of a move: what its rows say, what was observed, what one step changes. Values only; what is done with them is `moves` and, for
moves without old data, `tails`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controlplane import pace

ORDER_UNTAKEN_SECONDS = 10.0
"""Seconds after which an order that no controller took is shown as such. A controller failover takes about 3."""

NO_PROGRESS_SECONDS = 60.0
"""Seconds without a copied byte after which a cause is looked for and shown."""

NO_SPACE_BYTES = 64 * 1024 * 1024
"""A target with less than this free is called full: a broker refuses writes before the last byte is gone."""

HELD_BACK_BYTES_PER_S = 1024 * 1024
"""A throttle of less may be why a copy stands still for NO_PROGRESS_SECONDS: one of more lets dozens of the largest batches through in that time."""

IN_FLIGHT = ("ordered", "copying", "verifying")
TAIL_BUSY = ("seeding", "following")
"""Of a part that moves without its old data, while its new copies are made."""
TAIL = (*TAIL_BUSY, "ready", "cutting")
COPYING = (*IN_FLIGHT, *TAIL_BUSY)
"""Of parts that occupy brokers."""
UNDER_WAY = (*IN_FLIGHT, *TAIL)
"""Something of it is in the cluster, or may be."""
ENDED = ("done", "untouched", "put_back", "stuck")
FINAL = ("done", "cancelled", "rolled_back", "failed")
COMPARING = "Its copies are being compared before the old ones go."
GONE = "The partition is gone from the cluster."


@dataclass(frozen=True, slots=True)
class ObservedPart:
    """One partition as the observer mirrored it. Sizes in bytes per broker; a broker that did not answer is absent. `sampled_at`: when sizes
    were told last, Unix seconds. `throttled`: its topic names a new replica of it as throttled, whoever wanted that.

    `observers`, `tail_start`, `log_start_floor` and `archive_start` as the metadata log has them, None = nothing is said; `log_start` is the leader's own. `lags`: records
    that a broker's copy lacks, as it said itself; who does not know is absent. `unfit`: why its topic cannot move without its old data."""

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
    lags: Mapping[int, int] = field(default_factory=dict)
    unfit: str = ""

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(b for b in self.replicas if b not in self.removing)

    @property
    def reassigning(self) -> bool:
        return bool(self.adding or self.removing)


@dataclass(frozen=True, slots=True)
class PartView:
    """One MovePartition row. Times are Unix seconds. `compared`: whether its copies are equal, and a sentence; None = not known yet.
    `cut_at`: below it the operator has had everything deleted. `hand_over_at`: below it the old replicas hold what they have."""

    id: int
    name: str
    state: str
    replicas_from: tuple[int, ...]
    replicas_to: tuple[int, ...]
    wanted: tuple[int, ...]
    read_generation: int
    ordered_at: float | None
    progress_at: float | None
    bytes_done: int | None
    observed: ObservedPart | None
    bytes_total: int | None = None
    note: str = ""
    cause: str = ""
    samples: tuple[pace.Sample, ...] = ()
    compared: tuple[bool, str] | None = None
    tail_start: int | None = None
    cut_at: int | None = None
    hand_over_at: int | None = None

    @property
    def forward(self) -> tuple[tuple[int, ...], ...]:
        """Placements that an order of the way there may have made: all copies side by side, and the old ones gone."""
        return self.replicas_to, beside(self.replicas_from, self.replicas_to)

    @property
    def going_back(self) -> bool:
        return self.wanted == self.replicas_from

    @property
    def copies_to(self) -> tuple[int, ...]:
        """Brokers that get a copy in this direction."""
        origin = self.replicas_to if self.going_back else self.replicas_from
        return tuple(b for b in self.wanted if b not in origin)

    @property
    def tail_copies(self) -> tuple[int, ...]:
        """Who observes on the way there: brokers that have no copy yet."""
        return tuple(b for b in self.replicas_to if b not in self.replicas_from)

    @property
    def burdens(self) -> frozenset[int]:
        """Brokers that a copy of this part occupies: those that write it and the one that reads it."""
        leader = self.observed.leader if self.observed is not None else None
        to = self.copies_to
        return frozenset(to if leader is None or not to else (*to, leader))


@dataclass(frozen=True, slots=True)
class MoveView:
    """`parts` may leave out what has no step to take: ended parts, and waiting ones far down the line; `rest` counts those by state.
    `busy`: copies of other moves per broker. `free`: bytes free per broker. `throttle`: bytes/s per broker, None = none. `throttle_left`:
    what the metadata log still holds of it beyond what is wanted, as a phrase. `overdue`: its deadline for retention has passed. `early`: it does not
    wait for retention."""

    state: str
    parts: tuple[PartView, ...]
    parts_in_flight_max: int
    alive: frozenset[int]
    parts_per_broker_max: int = 64
    rest: Mapping[str, int] = field(default_factory=dict)
    busy: Mapping[int, int] = field(default_factory=dict)
    free: Mapping[int, int] = field(default_factory=dict)
    throttle: int | None = None
    throttle_left: str = ""
    mode: str = "copy"
    overdue: bool = False
    early: bool = False


@dataclass(frozen=True, slots=True)
class PartStep:
    """The new values of one part; None = leave as it is. `active` False frees the partition for other moves. `tail_start`: where its new copies
    begin, from this moment on."""

    part_id: int
    state: str
    wanted: tuple[int, ...] | None = None
    read_generation: int | None = None
    bytes_total: int | None = None
    bytes_done: int | None = None
    progressed: bool = False
    ordered: bool = False
    active: bool | None = None
    note: str | None = None
    cause: str | None = None
    samples: tuple[pace.Sample, ...] | None = None
    tail_start: int | None = None
    cut_at: int | None = None
    hand_over_at: int | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """Part changes first, then the move's own state (None = stays). `needs`: bytes/s per broker without which it will not finish; None: it
    will, as far as is known. `waits_for`: a phrase where no part of it goes on (`waits`), else ""."""

    parts: tuple[PartStep, ...]
    state: str | None
    note: str | None = None
    needs: int | None = None
    waits_for: str = ""


def beside(replicas_from: Sequence[int], replicas_to: Sequence[int]) -> tuple[int, ...]:
    """The placement with every copy, old and new, where copies are compared before the old ones go: the old ones first, so that none of the new ones is
    preferred as leader before it was compared."""
    return (*replicas_from, *(b for b in replicas_to if b not in replicas_from))


def difference(part: PartView, seen: ObservedPart) -> str:
    return (
        f"Refused: the placement changed since it was read (generation {part.read_generation}, now {seen.generation}; "
        f"replicas now {list(seen.replicas)}, adding {list(seen.adding)}, removing {list(seen.removing)}). Plan it again."
    )


def no_leader(seen: ObservedPart) -> str:
    last = f": broker {' or '.join(map(str, seen.isr))}" if seen.isr else ""
    return f"Source down: the partition has no leader. Bring back one of its in-sync replicas{last}."


def untaken(part: PartView, seen: ObservedPart, alive: frozenset[int], now: float) -> PartStep | None:
    """An order that is not carried out yet: why, once that takes longer than it should. What a controller said of it itself (`REFUSED`) stays."""
    if part.ordered_at is None or now - part.ordered_at <= ORDER_UNTAKEN_SECONDS:
        return None
    cause, text = pace.CONTROLLER, "No controller has taken the order yet; see the controllers' state."
    if down := [b for b in part.copies_to if b not in alive and b not in seen.replicas]:
        cause, text = pace.TARGET_DOWN, f"Target down: broker {down[0]} is not alive. Start it, or cancel the move."
    elif part.cause == pace.REFUSED:
        return None
    return PartStep(part.id, part.state, note=text, cause=cause) if text != part.note else None
