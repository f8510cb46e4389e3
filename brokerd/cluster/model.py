"""Data model of brokers and control plane: clock readings, ISR members, endpoints, brokers, topics, partitions.

Values only. Does not contain I/O, clocks or policy (`election` elects leaders, `placement` places replicas).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

NO_LEADER = -1
NO_BROKER_EPOCH = -1
REPLACED = -1
"""Id in `last_isr` after the last member. It means that the directory of that member was replaced by an older copy. No broker has this id, so it is never
elected."""

TOPIC_NAME_LENGTH_MAX = 249
"""Maximum number of characters, as in Kafka: the directory is named `<topic>-<partition>`, and file names have at most 255 bytes."""

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+\Z")

GROUP_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"
SHARE_STATE_TOPIC = "__share_group_state"
STARTUP_TOPIC_CONFIGS = {
    GROUP_OFFSETS_TOPIC: {"cleanup.policy": "compact"},
    TRANSACTION_STATE_TOPIC: {"cleanup.policy": "compact"},
    # The records are changes, which compaction would delete. The share coordinator deletes the records below the oldest snapshot.
    SHARE_STATE_TOPIC: {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"},
}
STARTUP_TOPICS = tuple(STARTUP_TOPIC_CONFIGS)
"""Internal topics of every cluster. `__remote_log_metadata` is created by the first broker with tiered storage."""
INTERNAL_TOPICS = frozenset({*STARTUP_TOPICS, REMOTE_LOG_METADATA_TOPIC})
INTERNAL_TOPIC_DEFAULTS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(100 * 1024 * 1024),
    "compression.type": "producer",
}


def internal_topic_configs(name: str) -> dict[str, str]:
    """The configs that an internal topic has unless its row sets others. Empty for other topics."""
    return {**INTERNAL_TOPIC_DEFAULTS, **STARTUP_TOPIC_CONFIGS.get(name, {})} if name in INTERNAL_TOPICS else {}


class ProcessStart(NamedTuple):
    """The start of a broker process, Unix ms. `unclean`: the run before it ended without a clean shutdown."""

    at_ms: int
    unclean: bool


class Now(NamedTuple):
    """The time of both clocks. Timers use `mono_ms` (monotonic); retention and record timestamps use `wall_ms` (Unix time in ms)."""

    mono_ms: int
    wall_ms: int


class TopicPartition(NamedTuple):
    """Identifies a partition by topic *id*, so that a recreated topic has different partitions."""

    topic_id: UUID
    partition: int


class ReplicaIncarnation(NamedTuple):
    """An ISR member: one incarnation of a broker (KIP-903). `broker_epoch` is the czxid of the broker's registration znode."""

    broker_id: int
    broker_epoch: int


class Endpoint(NamedTuple):
    """Address and security protocol of one listener of a broker."""

    listener: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class BrokerState:
    """A broker in the metadata log. `alive` is false after BrokerDown; the last endpoints are kept for display.

    `host` and `port` belong to a PLAINTEXT listener if there is one, else to the inter-broker listener. `endpoints` contains all
    listeners. It is empty for a broker of an older version, which has one listener.
    """

    broker_id: int
    broker_epoch: int
    broker_uuid: str
    host: str
    port: int
    rack: str | None = None
    failure_domain: str | None = None
    alive: bool = True
    endpoints: tuple[Endpoint, ...] = ()
    life: str = ""
    """Id of the broker's last registered start; empty for an older program. The next start must prove that its directory continues this life."""
    tail_doubt: str = ""
    """The reason why that start may lack records: the value of a `broker_lives.DirectoryDoubt`. Empty: no doubt."""

    def address(self, listener: str) -> tuple[str, int] | None:
        """(host, port) of the broker for clients of `listener`. None if the broker has no listener of that name."""
        if not self.endpoints:
            return self.host, self.port
        return next(((e.host, e.port) for e in self.endpoints if e.listener == listener), None)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition in the metadata log, with the terms of KIP-497 and KIP-966.

    `replicas` is in preference order and includes `adding` and `removing`. `elr` are brokers that left the ISR below min.insync.replicas and
    are still complete. `last_isr` is the last ISR member, stored when ISR and ELR have no complete log left. REPLACED after it: the directory
    of that member was replaced by an older copy, so that only an unclean election makes the partition available. `leader` is NO_LEADER if the
    partition is offline. `leader_epoch` increases with every election, `partition_epoch` with every change. `assignment_generation`
    increases with every change of `replicas`, `adding` or `removing`. The steps of a move refer to it.

    `observers` replicate from offset `tail_start` on (-1: the leader has not chosen it yet). They are not in the ISR, do not affect the high
    watermark, are not electable and are not returned to clients (safety section 8). Below `log_start_floor` (-1: none) the leader deletes
    records as soon as the floor is committed.

    `handover_offset` (-1: none): only `history_replicas` keep records below it, down to the log start offset. A history replica that is not
    in `replicas` any more gets no new records and has no vote. The leader reads old records from the history replicas. `handover_epoch`:
    records of this leader epoch or a later one are at or above `handover_offset`.

    `voters` (majority acknowledgements, decision 102): a record is committed when a majority of these replicas has it, and a new leader needs the
    reports of enough of them (`majority`). Empty: a record is committed when the whole ISR has it. Replicas that are being added become voters when
    the reassignment ends. `elr` are then all members that left the ISR with an intact log.
    """

    replicas: tuple[int, ...]
    isr: tuple[ReplicaIncarnation, ...]
    leader: int = NO_LEADER
    leader_broker_epoch: int = field(default=NO_BROKER_EPOCH, metadata={"stored": "leader_incarnation"})
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
    handover_offset: int = field(default=-1, metadata={"version": 3, "level": 6, "stored": "archive_start"})
    handover_epoch: int = field(default=-1, metadata={"version": 3, "level": 6, "stored": "archive_epoch"})
    history_replicas: tuple[int, ...] = field(default=(), metadata={"version": 3, "level": 6, "stored": "holders"})
    voters: tuple[int, ...] = field(default=(), metadata={"version": 4, "level": 10})

    @property
    def isr_ids(self) -> tuple[int, ...]:
        # A list first: half the time of a generator, and the console reads it for each partition of the cluster.
        return tuple([isr_member.broker_id for isr_member in self.isr])

    @property
    def hosts(self) -> tuple[int, ...]:
        """Every broker that stores the partition: replicas, observers and history replicas."""
        return (*self.replicas, *self.observers, *(b for b in self.history_replicas if b not in self.replicas))

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after a running reassignment."""
        return tuple(r for r in self.replicas if r not in self.removing)

    @property
    def leader_id(self) -> int | None:
        """The broker id of the leader, or None."""
        return None if self.leader == NO_LEADER else self.leader

    @property
    def reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    def effective_min_insync(self, configured: int) -> int:
        """`configured` is the topic's min.insync.replicas. See the function `effective_min_insync`."""
        return effective_min_insync(configured, self.replicas, self.adding, self.removing, majority=bool(self.voters))

    @property
    def under_replicated(self) -> bool:
        return len(self.isr) < replicas_owed(self.replicas, self.adding, self.removing)


def replicas_owed(replicas: Sequence[int], adding: Sequence[int] = (), removing: Sequence[int] = ()) -> int:
    """The expected number of in-sync replicas. During a reassignment neither joining nor leaving replicas are expected (KIP-455). So a healthy
    reassignment is not under-replicated, and one that loses a replica is."""
    return len(replicas) - max(len(adding), len(removing))


def effective_min_insync(
    configured: int,
    replicas: Sequence[int],
    adding: Sequence[int] = (),
    removing: Sequence[int] = (),
    *,
    majority: bool = False,
) -> int:
    """Return the number of replicas that must be in sync for acks=all and for the high watermark: min.insync.replicas, but at most the number of replicas
    (Kafka: Partition.effectiveMinIsr). Leader, controller and console use this function (decision 038).

    During a reassignment the limit is `replicas_owed`. Otherwise a topic with one replica would reject writes during its reassignment. `majority`: the
    topic has majority acknowledgements, so fewer in-sync replicas than a majority commit nothing.
    """
    owed = replicas_owed(replicas, adding, removing)
    return max(owed // 2 + 1 if majority else 1, min(configured, owed))


@dataclass(slots=True)
class TopicState:
    """A topic in the image. `generation` is the generation of the database row that was last written to the log (safety 1)."""

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
    """Return the reason why `name` is not a valid topic name (Kafka's rules), or None. The client receives the text unchanged."""
    if not name:
        return "Topic name is empty; expected 1 to 249 characters of a-z, A-Z, 0-9, '.', '_' and '-'."
    if name in (".", ".."):
        return f"Topic name {name!r} is a directory name; choose another."
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return f"Topic name has {len(name)} characters; at most {TOPIC_NAME_LENGTH_MAX} are allowed."
    if not _TOPIC_NAME.match(name):
        return f"Topic name {name!r} has characters other than a-z, A-Z, 0-9, '.', '_' and '-'."
    return None


def topic_names_collide(one: str, other: str) -> bool:
    """True if the names differ only in '.' and '_' (Kafka: their metric names would be the same)."""
    return one.replace(".", "_") == other.replace(".", "_")
