"""The nouns both halves share: clocks, seats, brokers, topics, partitions.

Law: values only. No I/O, no clock, no policy (who is elected is `election`, where replicas go is `placement`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

NO_LEADER = -1
NO_INCARNATION = -1

TOPIC_NAME_LENGTH_MAX = 249
"""Characters. Kafka's limit: the folder is named `<topic>-<partition>` and file systems stop at 255 bytes."""

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+\Z")

GROUP_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC})


class Now(NamedTuple):
    """The two clocks. Timers use `mono_ms` (never jumps), retention and record timestamps use `wall_ms` (Unix ms)."""

    mono_ms: int
    wall_ms: int


class TopicPartition(NamedTuple):
    """A partition's name inside the house: by topic *id*, so that a recreated topic is another one."""

    topic_id: UUID
    partition: int


class Seat(NamedTuple):
    """A seat in an ISR: it belongs to one incarnation of a broker, not to its number.

    `incarnation` is the czxid of the broker's registration znode, Kafka's "broker epoch".
    """

    broker_id: int
    incarnation: int


class Endpoint(NamedTuple):
    """Where a broker is reached by one of its listeners, and how (Kafka's security protocols)."""

    listener: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class BrokerState:
    """A broker as the metadata log knows it. `alive` is false after BrokerDown; the last endpoint is kept for display.

    `host` and `port` are of a listener without security where there is one, else of the brokers' own; `endpoints` are all of them (none: an older broker with one).
    """

    broker_id: int
    incarnation: int
    broker_uuid: str
    host: str
    port: int
    rack: str | None = None
    failure_domain: str | None = None
    alive: bool = True
    endpoints: tuple[Endpoint, ...] = ()

    def address(self, listener: str) -> tuple[str, int] | None:
        """(host, port) for whoever comes by `listener`; None when this broker has none of that name."""
        if not self.endpoints:
            return self.host, self.port
        return next(((e.host, e.port) for e in self.endpoints if e.listener == listener), None)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What the metadata log says of one partition (KIP-497 and KIP-966 words).

    `replicas` is in preference order and includes `adding`; `removing` is a subset of it. `elr` lists brokers that left
    the ISR below min.insync.replicas and are still complete; `last_isr` the last of the ISR when both isr and elr
    ran empty of trustworthy logs. `leader` is NO_LEADER when offline. `leader_epoch` grows with every election,
    `partition_epoch` with every change. `assignment_generation` grows with every change of `replicas`, `adding` or
    `removing`: the number a move's step is bound to.

    `observers` hold a copy from offset `tail_start` on (-1: their leader has not said where yet) and count for nothing: not in the ISR,
    no high watermark waits for them, nobody elects them, clients hear nothing of them (safety section 8). Below `log_start_floor`
    (-1: none) a leader keeps nothing, once it is committed.

    `archive_start` (-1: none): who is no holder need keep nothing below it; the copies of `holders` reach below, down to where the log begins. Who
    holds and is no replica (any more, once a hand-over is through) takes nothing new and counts for nothing: its leader reads there. `archive_epoch`:
    records of this leader epoch or a later one lie above `archive_start`.
    """

    replicas: tuple[int, ...]
    isr: tuple[Seat, ...]
    leader: int = NO_LEADER
    leader_incarnation: int = NO_INCARNATION
    leader_epoch: int = 0
    partition_epoch: int = 0
    elr: tuple[int, ...] = ()
    last_isr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    assignment_generation: int = 0
    observers: tuple[int, ...] = field(default=(), metadata={"version": 2, "level": 5})
    tail_start: int = field(default=-1, metadata={"version": 2, "level": 5})
    log_start_floor: int = field(default=-1, metadata={"version": 2, "level": 5})
    archive_start: int = field(default=-1, metadata={"version": 3, "level": 6})
    archive_epoch: int = field(default=-1, metadata={"version": 3, "level": 6})
    holders: tuple[int, ...] = field(default=(), metadata={"version": 3, "level": 6})

    @property
    def isr_ids(self) -> tuple[int, ...]:
        return tuple(seat.broker_id for seat in self.isr)

    @property
    def hosts(self) -> tuple[int, ...]:
        """Every broker with a copy, whether it counts or not."""
        return (*self.replicas, *self.observers, *(b for b in self.holders if b not in self.replicas))

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas once a running reassignment is through."""
        return tuple(r for r in self.replicas if r not in self.removing)

    @property
    def reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def under_replicated(self) -> bool:
        return len(self.isr) < replicas_owed(self.replicas, self.adding, self.removing)


def replicas_owed(replicas: Sequence[int], adding: Sequence[int] = (), removing: Sequence[int] = ()) -> int:
    """How many replicas a partition is owed in sync. One that is only joining is not owed yet, one that is leaving not any more
    (KIP-455): a healthy move lacks nothing, one that loses a member does."""
    return len(replicas) - max(len(adding), len(removing))


@dataclass(slots=True)
class TopicState:
    """A topic in the image. `generation` echoes the generation of the database row that the log last applied (safety 1)."""

    topic_id: UUID
    name: str
    generation: int
    configs: Mapping[str, str]
    partition_count: int
    ready: bool = False
    partitions: dict[int, PartitionState] = field(default_factory=dict)

    @property
    def internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


def topic_name_problem(name: str) -> str | None:
    """Why `name` cannot name a topic (Kafka's rules), or None. The text goes to the client as it stands."""
    if not name:
        return "Topic name is empty; give 1 to 249 characters of a-z, A-Z, 0-9, '.', '_' and '-'."
    if name in (".", ".."):
        return f"Topic name {name!r} is a folder's name; choose another."
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return f"Topic name has {len(name)} characters; at most {TOPIC_NAME_LENGTH_MAX} are allowed."
    if not _TOPIC_NAME.match(name):
        return f"Topic name {name!r} has characters other than a-z, A-Z, 0-9, '.', '_' and '-'."
    return None


def topic_names_collide(one: str, other: str) -> bool:
    """True if the two differ only in '.' and '_' (Kafka: their metric names would be the same)."""
    return one.replace(".", "_") == other.replace(".", "_")
