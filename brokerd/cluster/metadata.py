"""The metadata log: its records, its entries, and the image they build.

Law: the image changes by `apply` alone, in log order; after every entry `validate` holds. Written by the acting controller,
read by brokers, standby controllers and the console. Must not come in: ZooKeeper, sockets, decisions.
Safety: docs/flows.md; absence never deletes (only TopicDeleted does); an unknown type, version, field or level halts the reader (`levels`).
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar
from uuid import UUID

from brokerd.cluster.levels import LEVEL_MIN, level_problem, version_of
from brokerd.cluster.model import (
    NO_LEADER,
    BrokerState,
    Endpoint,
    PartitionState,
    Seat,
    TopicPartition,
    TopicState,
)

ENTRY_BYTES_MAX = 64 * 1024
"""Bytes, compressed. ZooKeeper keeps hundreds of recent proposals in its heap; larger entries killed small servers."""

TOMBSTONES_MAX = 100_000
"""Deleted topic ids remembered, so that a restored database cannot bring a deleted topic back."""

GENESIS_HASH = "0" * 64


class MetadataError(Exception):
    """The log cannot be read further: an unknown type, a broken chain, a record that does not fit the image."""


@dataclass(frozen=True, slots=True)
class Record:
    """`VERSION` is the highest that is read; a field that a later one brought says so: `field(default=.., metadata={"version": 2, "level": 3})`.

    `LEVEL`: from which level of the log on this type is written.
    """

    VERSION: ClassVar[int] = 1
    LEVEL: ClassVar[int] = LEVEL_MIN

    @property
    def raises_to(self) -> int:
        return LEVEL_MIN


@dataclass(frozen=True, slots=True)
class ClusterCreated(Record):
    """`metadata_version` is the level that the log begins at; what raises it says so to who cannot follow, by its type."""

    cluster_id: str
    metadata_version: int = LEVEL_MIN


@dataclass(frozen=True, slots=True)
class MetadataLevelRaised(Record):
    """From here on records of `level` may follow. Its type is unknown to programs of level 1: they halt here rather than at the first of those."""

    LEVEL: ClassVar[int] = 2
    level: int

    @property
    def raises_to(self) -> int:
        return self.level


@dataclass(frozen=True, slots=True)
class BrokerUp(Record):
    """`tail_intact` is what the broker proved at registration (safety 3); the controller used it for the same entry's elections."""

    VERSION: ClassVar[int] = 2
    broker_id: int
    incarnation: int
    broker_uuid: str
    host: str
    port: int
    rack: str | None = None
    failure_domain: str | None = None
    tail_intact: bool = True
    endpoints: tuple[Endpoint, ...] = field(default=(), metadata={"version": 2, "level": 3})


@dataclass(frozen=True, slots=True)
class BrokerDown(Record):
    broker_id: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class TopicCreated(Record):
    """Opens a topic; hidden from clients until TopicReady. Its partitions follow as PartitionChanged, in as many entries as needed."""

    topic_id: UUID
    name: str
    generation: int
    configs: Mapping[str, str]
    partition_count: int


@dataclass(frozen=True, slots=True)
class TopicReady(Record):
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class TopicDeleted(Record):
    """The tombstone: the only thing that lets a broker remove this topic's folders."""

    topic_id: UUID
    name: str
    generation: int


@dataclass(frozen=True, slots=True)
class PartitionsGrown(Record):
    """`partition_count` is the new total; the new partitions follow as PartitionChanged in the same entry."""

    topic_id: UUID
    generation: int
    partition_count: int


@dataclass(frozen=True, slots=True)
class PartitionChanged(Record):
    """The whole new state of one partition; `state.partition_epoch` is the old one plus 1 (or 0 for a new partition)."""

    topic_id: UUID
    partition: int
    state: PartitionState


@dataclass(frozen=True, slots=True)
class TopicConfigChanged(Record):
    """`configs` is the whole new map of overrides."""

    topic_id: UUID
    generation: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class BrokerConfigChanged(Record):
    """`broker_id` -1 is the cluster-wide default (Kafka's empty broker name)."""

    broker_id: int
    generation: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AccessChanged(Record):
    """Who may do what, proves who he is how, and how much of it: one ACL, SCRAM credential or quota as a whole. `value` None: it is no more."""

    LEVEL: ClassVar[int] = 3
    kind: str
    key: str
    generation: int
    value: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class IsrRefused(Record):
    """Why an ISR proposal was not accepted. The PartitionChanged after it, the same ISR in the next partition epoch, is what ends it."""

    broker_id: int
    incarnation: int
    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class ReplicaReset(Record):
    """Broker `broker_id` (not leader, not in the ISR by now) throws its copy away and fetches it anew: replica recovery."""

    topic_id: UUID
    partition: int
    broker_id: int
    reset_id: str


@dataclass(frozen=True, slots=True)
class RequestAnswered(Record):
    """The answer to `/requests/<request_id>`. `error` is Kafka's code (0 = done); `result` depends on the request's kind."""

    request_id: str
    error: int
    message: str | None
    result: Mapping[str, Any]


RECORD_TYPES: dict[str, type[Record]] = {
    cls.__name__: cls
    for cls in (
        ClusterCreated, BrokerUp, BrokerDown, TopicCreated, TopicReady, TopicDeleted, PartitionsGrown, PartitionChanged,
        TopicConfigChanged, BrokerConfigChanged, AccessChanged, IsrRefused, ReplicaReset, RequestAnswered,
        MetadataLevelRaised,
    )
}  # fmt: skip


ENTRY_KEYS = frozenset({"seq", "epoch", "batch", "previous", "records", "unfinished"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One znode of the log. (`controller_epoch`, `batch_id`) is the writer's token: it settles unknown outcomes.

    `previous_hash` chains entries, so that an older or foreign log is recognised. `encode` gives at most ENTRY_BYTES_MAX.
    `unfinished`: what was decided at once did not fit; nothing of it counts before its last entry (docs/decisions/014).
    """

    seq: int
    controller_epoch: int
    batch_id: str
    previous_hash: str
    records: tuple[Record, ...]
    unfinished: bool = False

    def encode(self) -> bytes:
        body = {
            "seq": self.seq, "epoch": self.controller_epoch, "batch": self.batch_id, "previous": self.previous_hash,
            "records": [record_to_json(r) for r in self.records],
        }  # fmt: skip
        if self.unfinished:
            body["unfinished"] = True
        return zlib.compress(json.dumps(body, separators=(",", ":"), sort_keys=True).encode(), 6)

    @staticmethod
    def decode(data: bytes) -> Entry:
        try:
            body = json.loads(zlib.decompress(data))
            if strange := body.keys() - ENTRY_KEYS:
                raise MetadataError(f"metadata log entry {body['seq']} says {sorted(strange)}: newer than this program")
            return Entry(
                body["seq"], body["epoch"], body["batch"], body["previous"],
                tuple(record_from_json(r) for r in body["records"]), body.get("unfinished", False),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, zlib.error) as e:
            raise MetadataError(f"metadata log entry cannot be read: {e}") from e


def entry_hash(data: bytes) -> str:
    """The chain hash an entry leaves behind: over its encoded bytes, which contain the previous hash."""
    return hashlib.sha256(data).hexdigest()


def record_to_json(record: Record) -> dict[str, Any]:
    version = version_of(record)
    out: dict[str, Any] = {"type": type(record).__name__, "version": version}
    for f in fields(record):
        if f.metadata.get("version", 1) <= version:
            out[f.name] = _to_json(getattr(record, f.name), version)
    return out


def record_from_json(data: Mapping[str, Any]) -> Record:
    cls = RECORD_TYPES.get(data["type"])
    if cls is None or data["version"] > cls.VERSION:
        raise MetadataError(
            f"record type {data['type']!r} version {data['version']} is newer than this program; upgrade it"
        )
    values: dict[str, Any] = {}
    for f in fields(cls):
        if f.name not in data:
            continue
        value = data[f.name]
        if f.name == "topic_id":
            value = UUID(value)
        elif f.name == "state":
            value = partition_state_from_json(value)
        elif f.name == "endpoints":
            value = tuple(Endpoint(*e) for e in value)
        values[f.name] = value
    if len(values) + 2 < len(data):
        strange = sorted(data.keys() - values.keys() - {"type", "version"})
        raise MetadataError(f"record {data['type']} says {strange}, which this program does not know; upgrade it")
    try:
        return cls(**values)
    except TypeError as e:
        raise MetadataError(f"record {data['type']} cannot be read: {e}") from e


def _to_json(value: Any, version: int) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, PartitionState):
        return partition_state_to_json(value, version)
    if isinstance(value, Mapping):
        return dict(value)
    return value


def partition_state_to_json(state: PartitionState, version: int = PartitionChanged.VERSION) -> dict[str, Any]:
    """`version` is the record's around it."""
    out = {f.name: getattr(state, f.name) for f in fields(state) if f.metadata.get("version", 1) <= version}
    out["isr"] = [list(seat) for seat in state.isr]
    return out


def partition_state_from_json(data: Mapping[str, Any]) -> PartitionState:
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    try:
        values["isr"] = tuple(Seat(*seat) for seat in data["isr"])
        return PartitionState(**values)
    except (TypeError, KeyError) as e:
        raise MetadataError(f"the state of a partition cannot be read: {e}") from e


@dataclass(slots=True)
class Image:
    """The state the log has built up to entry `seq`. Mutable, changed by `apply_entry` only; readers never write.

    `topics` holds also topics not yet ready. `deleted` remembers tombstones (topic id -> generation). `held` are the records of
    unfinished entries: they count once the last one is there, and never when their author was deposed before it wrote that.
    """

    seq: int = 0
    chain_hash: str = GENESIS_HASH
    controller_epoch: int = 0
    cluster_id: str = ""
    metadata_version: int = 0
    brokers: dict[int, BrokerState] = field(default_factory=dict)
    topics: dict[UUID, TopicState] = field(default_factory=dict)
    topic_ids: dict[str, UUID] = field(default_factory=dict)
    deleted: dict[UUID, int] = field(default_factory=dict)
    broker_configs: dict[int, tuple[int, dict[str, str]]] = field(default_factory=dict)
    held: list[Record] = field(default_factory=list)
    access: dict[str, dict[str, tuple[int, Mapping[str, Any] | None]]] = field(default_factory=dict)
    """By kind (acl, scram, quota) and key: the generation and the value, None once deleted."""

    # -- reading ---------------------------------------------------------------------------------------------------
    def topic_named(self, name: str) -> TopicState | None:
        topic_id = self.topic_ids.get(name)
        return self.topics.get(topic_id) if topic_id is not None else None

    def partition(self, tp: TopicPartition) -> PartitionState | None:
        topic = self.topics.get(tp.topic_id)
        return topic.partitions.get(tp.partition) if topic is not None else None

    def alive(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.alive

    def live_brokers(self) -> list[BrokerState]:
        return [b for _, b in sorted(self.brokers.items()) if b.alive]

    def incarnation(self, broker_id: int) -> int | None:
        """The current incarnation of a live broker, else None."""
        broker = self.brokers.get(broker_id)
        return broker.incarnation if broker is not None and broker.alive else None

    def access_to(self, kind: str, key: str) -> tuple[int, Mapping[str, Any] | None]:
        """(generation, value); 0 and None for what never was."""
        return self.access.get(kind, {}).get(key, (0, None))

    def each_partition(self) -> Iterator[tuple[TopicState, int, PartitionState]]:
        for topic in self.topics.values():
            for index, state in topic.partitions.items():
                yield topic, index, state

    # -- changing --------------------------------------------------------------------------------------------------
    def apply_entry(self, entry: Entry, data_hash: str) -> tuple[Record, ...]:
        """Apply the next entry; the records that count from now on (none of an unfinished one).

        Raises MetadataError, leaving the image unchanged in seq, when it is not the next one.
        """
        if entry.seq != self.seq + 1:
            raise MetadataError(f"entry {entry.seq} does not follow {self.seq}")
        if entry.previous_hash != self.chain_hash:
            raise MetadataError(
                f"entry {entry.seq} belongs to another log: it follows {entry.previous_hash[:12]}, "
                f"here is {self.chain_hash[:12]}"
            )
        if entry.controller_epoch < self.controller_epoch:
            raise MetadataError(f"entry {entry.seq} was written by deposed controller epoch {entry.controller_epoch}")
        if entry.controller_epoch > self.controller_epoch:
            self.held.clear()
        applied: tuple[Record, ...] = ()
        if entry.unfinished:
            self.held += entry.records
        else:
            applied = (*self.held, *entry.records)
            self.held.clear()
            for record in applied:
                self.apply(record)
        self.seq, self.chain_hash, self.controller_epoch = entry.seq, data_hash, entry.controller_epoch
        return applied

    def apply(self, record: Record) -> None:
        match record:
            case ClusterCreated():
                self._reach(record.metadata_version)
                self.cluster_id = record.cluster_id
            case MetadataLevelRaised():
                self._reach(record.level)
            case BrokerUp():
                self.brokers[record.broker_id] = BrokerState(
                    record.broker_id, record.incarnation, record.broker_uuid, record.host, record.port,
                    record.rack, record.failure_domain, True, record.endpoints,
                )  # fmt: skip
            case BrokerDown():
                old = self.brokers.get(record.broker_id)
                if old is not None and old.incarnation == record.incarnation:
                    self.brokers[record.broker_id] = replace(old, alive=False)
            case TopicCreated():
                self.topics[record.topic_id] = TopicState(
                    record.topic_id, record.name, record.generation, dict(record.configs), record.partition_count
                )
                self.topic_ids[record.name] = record.topic_id
            case TopicReady():
                self._topic(record.topic_id).ready = True
            case TopicDeleted():
                topic = self.topics.pop(record.topic_id, None)
                if topic is not None and self.topic_ids.get(topic.name) == record.topic_id:
                    del self.topic_ids[topic.name]
                self.deleted[record.topic_id] = record.generation
                while len(self.deleted) > TOMBSTONES_MAX:
                    del self.deleted[next(iter(self.deleted))]
            case PartitionsGrown():
                topic = self._topic(record.topic_id)
                topic.generation, topic.partition_count = record.generation, record.partition_count
            case PartitionChanged():
                self._topic(record.topic_id).partitions[record.partition] = record.state
            case TopicConfigChanged():
                topic = self._topic(record.topic_id)
                topic.generation, topic.configs = record.generation, dict(record.configs)
            case BrokerConfigChanged():
                self.broker_configs[record.broker_id] = (record.generation, dict(record.configs))
            case AccessChanged():
                self.access.setdefault(record.kind, {})[record.key] = (record.generation, record.value)
            case IsrRefused() | ReplicaReset() | RequestAnswered():
                pass  # messages to their readers; they leave nothing in the image
            case _:
                raise MetadataError(f"no rule for record {type(record).__name__}")

    def _reach(self, level: int) -> None:
        problem = level_problem(level)
        if problem is not None:
            raise MetadataError(problem)
        self.metadata_version = level

    def _topic(self, topic_id: UUID) -> TopicState:
        topic = self.topics.get(topic_id)
        if topic is None:
            raise MetadataError(f"record names topic {topic_id}, which the log has not created")
        return topic

    def validate(self) -> None:
        """Every invariant of the image; raises AssertionError with the story."""
        for topic in self.topics.values():
            assert self.topic_ids.get(topic.name) == topic.topic_id, f"name {topic.name} does not lead to its topic"
            self._validate_topic(topic, topic.partitions)

    def validate_partitions(self, records: Iterable[Record]) -> None:
        """The invariants of the partitions that `records` changed: what an entry must not break."""
        for record in records:
            if isinstance(record, PartitionChanged) and record.topic_id in self.topics:
                self._validate_topic(self.topics[record.topic_id], (record.partition,))

    @staticmethod
    def _validate_topic(topic: TopicState, indexes: Iterable[int]) -> None:
        for index in indexes:
            p = topic.partitions[index]
            where = f"{topic.name}-{index}: {p}"
            assert 0 <= index < topic.partition_count, f"partition beyond the count, {where}"
            assert p.replicas and len(set(p.replicas)) == len(p.replicas), f"replicas empty or doubled, {where}"
            assert set(p.isr_ids) <= set(p.replicas), f"ISR outside the replicas, {where}"
            assert len(set(p.isr_ids)) == len(p.isr), f"a broker sits twice in the ISR, {where}"
            assert not set(p.elr) & set(p.isr_ids), f"ELR and ISR overlap, {where}"
            assert set(p.elr) <= set(p.replicas), f"ELR outside the replicas, {where}"
            assert set(p.adding) <= set(p.replicas) and set(p.removing) <= set(p.replicas), f"assignment, {where}"
            if p.leader != NO_LEADER:
                assert Seat(p.leader, p.leader_incarnation) in p.isr, f"leader without its seat in the ISR, {where}"
            else:
                assert p.isr or p.elr or p.last_isr, f"nothing left to elect from, {where}"

    # -- snapshots -------------------------------------------------------------------------------------------------
    def records(self) -> Iterator[Record]:
        """The shortest list of records that rebuilds this image (without seq, hash and epoch)."""
        yield ClusterCreated(self.cluster_id)
        if self.metadata_version > LEVEL_MIN:
            yield MetadataLevelRaised(self.metadata_version)
        for b in self.brokers.values():
            yield BrokerUp(
                b.broker_id, b.incarnation, b.broker_uuid, b.host, b.port, b.rack, b.failure_domain, True, b.endpoints
            )
            if not b.alive:
                yield BrokerDown(b.broker_id, b.incarnation)
        for topic_id, generation in self.deleted.items():
            yield TopicDeleted(topic_id, "", generation)
        for broker_id, (generation, configs) in self.broker_configs.items():
            yield BrokerConfigChanged(broker_id, generation, configs)
        for kind, entries in self.access.items():
            for key, (generation, value) in entries.items():
                yield AccessChanged(kind, key, generation, value)
        for topic in self.topics.values():
            yield TopicCreated(topic.topic_id, topic.name, topic.generation, topic.configs, topic.partition_count)
            for index, state in topic.partitions.items():
                yield PartitionChanged(topic.topic_id, index, state)
            if topic.ready:
                yield TopicReady(topic.topic_id)

    @staticmethod
    def from_records(records: Iterable[Record], seq: int, chain_hash: str, controller_epoch: int) -> Image:
        image = Image()
        for record in records:
            image.apply(record)
        image.seq, image.chain_hash, image.controller_epoch = seq, chain_hash, controller_epoch
        return image


def pack_chunks(records: Iterable[Record], bytes_max: int = ENTRY_BYTES_MAX) -> list[bytes]:
    """Records as compressed chunks of at most `bytes_max` bytes each, for snapshots and image checkpoints."""
    chunks: list[bytes] = []
    batch: list[dict[str, Any]] = []
    size = 0
    for record in records:
        data = record_to_json(record)
        # JSON text is an upper bound of its compressed size, short of a few bytes of header.
        length = len(json.dumps(data, separators=(",", ":"))) + 1
        if batch and size + length > bytes_max - 64:
            chunks.append(zlib.compress(json.dumps(batch, separators=(",", ":")).encode(), 6))
            batch, size = [], 0
        batch.append(data)
        size += length
    if batch:
        chunks.append(zlib.compress(json.dumps(batch, separators=(",", ":")).encode(), 6))
    return chunks


def unpack_chunks(chunks: Sequence[bytes]) -> Iterator[Record]:
    for chunk in chunks:
        try:
            data = json.loads(zlib.decompress(chunk))
        except (ValueError, zlib.error) as e:
            raise MetadataError(f"snapshot chunk cannot be read: {e}") from e
        for record in data:
            yield record_from_json(record)
