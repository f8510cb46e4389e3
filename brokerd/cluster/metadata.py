"""The metadata log: its records, its entries, and how they are written down.

Law: an unknown type, version, field or level halts the reader (`levels`). Written by the acting controller, read by brokers, standby
controllers and the console. Must not come in: ZooKeeper, sockets, decisions, what the records build (`image`).
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar
from uuid import UUID

from brokerd.cluster.levels import LEVEL_MIN, version_of
from brokerd.cluster.model import Endpoint, PartitionState, Seat

ENTRY_BYTES_MAX = 64 * 1024
"""Bytes, compressed. ZooKeeper keeps hundreds of recent proposals in its heap; larger entries killed small servers."""

BROKER = "broker"
"""Kind of the rows that want a broker's settings; they are carried as BrokerConfigChanged, everything else of their table as AccessChanged."""
GROUP = "group"
"""Kind of the rows that want a group's settings."""

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

    VERSION: ClassVar[int] = 3
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
class FeatureFinalised(Record):
    """All brokers offer this feature at this level from here on; 0 is none, whatever their files say."""

    LEVEL: ClassVar[int] = 4
    name: str
    feature_level: int


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
        TopicConfigChanged, BrokerConfigChanged, AccessChanged, FeatureFinalised, IsrRefused, ReplicaReset, RequestAnswered,
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
