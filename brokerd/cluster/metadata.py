"""The metadata log: records, entries and their encoding.

An unknown type, version, field or level halts the reader (`levels`). The active controller writes the log; brokers, standby controllers
and the cluster monitor read it. Does not contain ZooKeeper access, sockets, decisions or the image (`image`).
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from enum import StrEnum
from functools import lru_cache
from typing import Any, ClassVar
from uuid import UUID

from brokerd.cluster.access_values import AccessValue
from brokerd.cluster.levels import LEVEL_MIN, version_of
from brokerd.cluster.model import Endpoint, PartitionState, ReplicaIncarnation

ENTRY_BYTES_MAX = 64 * 1024
"""Maximum size of an entry in bytes, compressed. ZooKeeper keeps hundreds of recent proposals in its heap: larger entries exhausted small servers."""
TOPIC_IDS_KEPT = 16_384
"""Topic ids whose objects are reused when records are read: those of the topics that change most. An id needs 100 bytes."""

BROKER = "broker"
"""Kind of the database rows with broker settings. They are written as BrokerConfigChanged, all other kinds of that table as AccessChanged."""


class AccessKind(StrEnum):
    """Kind of an AccessChanged record."""

    ACL = "acl"
    SCRAM = "scram"
    QUOTA = "quota"
    GROUP = "group"
    ROUTE = "route"


GROUP = AccessKind.GROUP

GENESIS_HASH = "0" * 64


class MetadataError(Exception):
    """The log cannot be read further: an unknown type, a broken hash chain, or a record that does not apply to the image."""


@dataclass(frozen=True, slots=True)
class MetadataRecord:
    """`VERSION` is the highest supported version. A field of a later version has metadata: `field(default=.., metadata={"version": 2, "level": 3})`.

    `LEVEL` is the lowest level of a log that may contain this type. `STORED_TYPE` is its name in the log if the class has another one.
    """

    VERSION: ClassVar[int] = 1
    LEVEL: ClassVar[int] = LEVEL_MIN
    STORED_TYPE: ClassVar[str] = ""

    @property
    def raises_to(self) -> int:
        return LEVEL_MIN


@dataclass(frozen=True, slots=True)
class ClusterCreated(MetadataRecord):
    """`metadata_version` is the initial level of the log. Later levels follow as MetadataLevelRaised."""

    cluster_id: str
    metadata_version: int = LEVEL_MIN


@dataclass(frozen=True, slots=True)
class MetadataLevelRaised(MetadataRecord):
    """Records of `level` may follow. Programs of level 1 do not know this type and halt here."""

    LEVEL: ClassVar[int] = 2
    level: int

    @property
    def raises_to(self) -> int:
        return self.level


@dataclass(frozen=True, slots=True)
class BrokerUp(MetadataRecord):
    """`tail_intact`: the broker proved at registration that its logs are complete (safety 3). The elections of the same entry use it.

    `life` is the id of the broker's start, as in its `meta.properties`; the next start is compared with it. `tail_doubt` is the value of a
    `broker_lives.DirectoryDoubt` if the tail is not intact.
    """

    VERSION: ClassVar[int] = 3
    broker_id: int
    broker_epoch: int = field(metadata={"stored": "incarnation"})
    broker_uuid: str
    host: str
    port: int
    rack: str | None = None
    failure_domain: str | None = None
    tail_intact: bool = True
    endpoints: tuple[Endpoint, ...] = field(default=(), metadata={"version": 2, "level": 3})
    life: str = field(default="", metadata={"version": 3, "level": 7})
    tail_doubt: str = field(default="", metadata={"version": 3, "level": 7})


@dataclass(frozen=True, slots=True)
class BrokerDown(MetadataRecord):
    broker_id: int
    broker_epoch: int = field(metadata={"stored": "incarnation"})


@dataclass(frozen=True, slots=True)
class TopicCreated(MetadataRecord):
    """A new topic, hidden from clients until TopicReady. Its partitions follow as PartitionChanged, in several entries if necessary."""

    topic_id: UUID
    name: str
    generation: int
    configs: Mapping[str, str]
    partition_count: int


@dataclass(frozen=True, slots=True)
class TopicReady(MetadataRecord):
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class TopicDeleted(MetadataRecord):
    """The tombstone of a topic. Only this record allows a broker to delete the topic's directories."""

    topic_id: UUID
    name: str
    generation: int


@dataclass(frozen=True, slots=True)
class PartitionsGrown(MetadataRecord):
    """`partition_count` is the new total. The new partitions follow as PartitionChanged in the same entry."""

    topic_id: UUID
    generation: int
    partition_count: int


@dataclass(frozen=True, slots=True)
class PartitionChanged(MetadataRecord):
    """The complete new state of one partition. `state.partition_epoch` is the previous one plus 1, or 0 for a new partition."""

    VERSION: ClassVar[int] = 4
    topic_id: UUID
    partition: int
    state: PartitionState


@dataclass(frozen=True, slots=True)
class TopicConfigChanged(MetadataRecord):
    """`configs` is the complete new map of overrides."""

    topic_id: UUID
    generation: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class BrokerConfigChanged(MetadataRecord):
    """`broker_id` -1: cluster-wide settings (Kafka's empty broker name)."""

    broker_id: int
    generation: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AccessChanged(MetadataRecord):
    """One ACL, SCRAM credential, quota or group config, as a whole. `value` None: deleted."""

    LEVEL: ClassVar[int] = 3
    kind: str
    key: str
    generation: int
    value: AccessValue | None


@dataclass(frozen=True, slots=True)
class FeatureFinalised(MetadataRecord):
    """All brokers use this feature at this level. It overrides their settings files. 0: not finalised."""

    LEVEL: ClassVar[int] = 4
    name: str
    feature_level: int


@dataclass(frozen=True, slots=True)
class IsrRejected(MetadataRecord):
    """The reason why an ISR proposal was rejected. A PartitionChanged with the unchanged ISR and the next partition epoch follows and ends the proposal."""

    STORED_TYPE: ClassVar[str] = "IsrRefused"
    broker_id: int
    broker_epoch: int = field(metadata={"stored": "incarnation"})
    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class ReplicaReset(MetadataRecord):
    """Replica recovery: broker `broker_id`, which is neither leader nor ISR member, deletes its replica and fetches it again."""

    topic_id: UUID
    partition: int
    broker_id: int
    reset_id: str


@dataclass(frozen=True, slots=True)
class RequestCompleted(MetadataRecord):
    """The response to `/requests/<request_id>`. `error` is Kafka's error code (0: success). `result` depends on the kind of the request."""

    STORED_TYPE: ClassVar[str] = "RequestAnswered"

    request_id: str
    error: int
    message: str | None
    result: Mapping[str, object]


def stored_type(cls: type[MetadataRecord]) -> str:
    """The name of a record type in the metadata log. The stored name stays the same when the name of the class changes."""
    return cls.STORED_TYPE or cls.__name__


RECORD_TYPES: dict[str, type[MetadataRecord]] = {
    stored_type(cls): cls
    for cls in (
        ClusterCreated,
        BrokerUp,
        BrokerDown,
        TopicCreated,
        TopicReady,
        TopicDeleted,
        PartitionsGrown,
        PartitionChanged,
        TopicConfigChanged,
        BrokerConfigChanged,
        AccessChanged,
        FeatureFinalised,
        IsrRejected,
        ReplicaReset,
        RequestCompleted,
        MetadataLevelRaised,
    )
}


ENTRY_KEYS = frozenset({"seq", "epoch", "batch", "previous", "records", "unfinished"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One znode of the log. (`controller_epoch`, `batch_id`) is the writer's token, which resolves unknown outcomes.

    `previous_hash` chains the entries, so that an older or foreign log is detected. `unfinished`: the decision did not fit into one entry
    of at most ENTRY_BYTES_MAX. Its records take effect with its last entry (docs/decisions/014).
    """

    seq: int
    controller_epoch: int
    batch_id: str
    previous_hash: str
    records: tuple[MetadataRecord, ...]
    unfinished: bool = False

    def encode(self) -> bytes:
        body = {
            "seq": self.seq,
            "epoch": self.controller_epoch,
            "batch": self.batch_id,
            "previous": self.previous_hash,
            "records": [record_to_json(r) for r in self.records],
        }
        if self.unfinished:
            body["unfinished"] = True
        return zlib.compress(json.dumps(body, separators=(",", ":"), sort_keys=True).encode(), 6)

    @staticmethod
    def decode(data: bytes) -> Entry:
        try:
            body = json.loads(zlib.decompress(data))
            if unknown := body.keys() - ENTRY_KEYS:
                raise MetadataError(
                    f"unknown keys {sorted(unknown)} in metadata log entry {body['seq']}: upgrade this program"
                )
            return Entry(
                body["seq"],
                body["epoch"],
                body["batch"],
                body["previous"],
                tuple(record_from_json(r) for r in body["records"]),
                body.get("unfinished", False),
            )
        except (ValueError, KeyError, TypeError, zlib.error) as e:
            raise MetadataError(f"cannot read metadata log entry: {e}") from e


def stored_name(f: Field[object]) -> str:
    """The name under which a field is stored in the metadata log. The stored name stays the same when the Python name changes."""
    return str(f.metadata.get("stored", f.name))


STATE_FIELDS = {stored_name(f): f.name for f in fields(PartitionState)}
"""Stored name to Python name of the fields of `PartitionState`."""


def entry_hash(data: bytes) -> str:
    """The chain hash after an entry: SHA-256 of its encoded bytes, which contain the previous hash."""
    return hashlib.sha256(data).hexdigest()


def record_to_json(record: MetadataRecord) -> dict[str, object]:
    version = version_of(record)
    out: dict[str, object] = {"type": stored_type(type(record)), "version": version}
    for f in fields(record):
        if f.metadata.get("version", 1) <= version:
            out[stored_name(f)] = _to_json(getattr(record, f.name), version)
    return out


@lru_cache(maxsize=TOPIC_IDS_KEPT)
def _topic_id(text: str) -> UUID:
    """Return the same object for equal texts. So each id needs memory only once, and look-ups by topic id compare identities instead of calling
    `UUID.__eq__`."""
    return UUID(text)


def record_from_json(data: Mapping[str, Any]) -> MetadataRecord:
    cls = RECORD_TYPES.get(data["type"])
    if cls is None or data["version"] > cls.VERSION:
        raise MetadataError(f"unknown record type {data['type']!r} version {data['version']}: upgrade this program")
    values: dict[str, Any] = {}
    for field_ in fields(cls):
        name = stored_name(field_)
        if name not in data:
            continue
        value = data[name]
        if field_.name == "topic_id":
            value = _topic_id(value)
        elif field_.name == "state":
            value = partition_state_from_json(value)
        elif field_.name == "endpoints":
            value = tuple(Endpoint(*e) for e in value)
        values[field_.name] = value
    if len(values) + 2 < len(data):
        unknown = sorted(data.keys() - {stored_name(f) for f in fields(cls)} - {"type", "version"})
        raise MetadataError(f"unknown fields {unknown} in record {data['type']}: upgrade this program")
    try:
        return cls(**values)
    except TypeError as e:
        raise MetadataError(f"cannot read record {data['type']}: {e}") from e


def _to_json(value: object, version: int) -> object:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, PartitionState):
        return partition_state_to_json(value, version)
    if isinstance(value, Mapping):
        return dict(value)
    return value


def partition_state_to_json(state: PartitionState, version: int = PartitionChanged.VERSION) -> dict[str, object]:
    """`version` is the version of the record that contains the state. Some fields are stored under an older name (metadata key `stored`)."""
    out = {stored_name(f): getattr(state, f.name) for f in fields(state) if f.metadata.get("version", 1) <= version}
    out["isr"] = [list(isr_member) for isr_member in state.isr]
    return out


def partition_state_from_json(data: Mapping[str, Any]) -> PartitionState:
    try:
        values: dict[str, Any] = {STATE_FIELDS[k]: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        values["isr"] = tuple(ReplicaIncarnation(*isr_member) for isr_member in data["isr"])
        return PartitionState(**values)
    except (TypeError, KeyError) as e:
        raise MetadataError(f"cannot read partition state: {e}") from e


def pack_chunks(records: Iterable[MetadataRecord], bytes_max: int = ENTRY_BYTES_MAX) -> list[bytes]:
    """Records as compressed chunks of at most `bytes_max` bytes each, for snapshots."""
    chunks: list[bytes] = []
    batch: list[dict[str, object]] = []
    size = 0
    for record in records:
        data = record_to_json(record)
        # The length of the JSON text plus a few header bytes is an upper bound of the compressed size.
        length = len(json.dumps(data, separators=(",", ":"))) + 1
        if batch and size + length > bytes_max - 64:
            chunks.append(zlib.compress(json.dumps(batch, separators=(",", ":")).encode(), 6))
            batch, size = [], 0
        batch.append(data)
        size += length
    if batch:
        chunks.append(zlib.compress(json.dumps(batch, separators=(",", ":")).encode(), 6))
    return chunks


def unpack_chunks(chunks: Sequence[bytes]) -> Iterator[MetadataRecord]:
    for chunk in chunks:
        try:
            data = json.loads(zlib.decompress(chunk))
        except (ValueError, zlib.error) as e:
            raise MetadataError(f"cannot read snapshot chunk: {e}") from e
        for record in data:
            yield record_from_json(record)
