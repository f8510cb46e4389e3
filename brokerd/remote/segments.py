"""Values of the remote log metadata (KIP-405) and their bytes in the internal topic `__remote_log_metadata`.

Invariants: the stored names never change. An unknown field is ignored, a new field has a default. Each value has its own record key, so that compaction
keeps the newest state of each segment, each claim of a leader epoch and the newest log start offset. Does not contain: rules (`remote_log`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from enum import StrEnum
from uuid import UUID

from brokerd.cluster.model import TopicPartition


class SegmentState(StrEnum):
    """Kafka's states of a remote segment."""

    COPY_STARTED = "COPY_SEGMENT_STARTED"
    COPY_FINISHED = "COPY_SEGMENT_FINISHED"
    DELETE_STARTED = "DELETE_SEGMENT_STARTED"
    DELETE_FINISHED = "DELETE_SEGMENT_FINISHED"


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """One segment in the store, in one state. `end_offset` is exclusive. `author_epoch`: the leader epoch of the broker that wrote this state. `epochs`:
    (leader epoch, start offset) of its records. `size_bytes` and all later fields are known when the copy is finished."""

    tp: TopicPartition
    segment_id: str
    state: SegmentState
    author_epoch: int
    start_offset: int
    end_offset: int
    size_bytes: int = 0
    max_timestamp: int = -1
    created_ms: int = 0
    epochs: tuple[tuple[int, int], ...] = ()
    aborted_count: int = 0
    key_index_bytes: int = 0
    """Size of the object with the key index. 0: there is none."""
    key_index_seed: int = 0
    """The header seed of the key index (`storage/key_index.header_seed`)."""

    def with_state(self, state: SegmentState, author_epoch: int) -> RemoteSegment:
        return replace(self, state=state, author_epoch=author_epoch)

    @property
    def last_epoch(self) -> int:
        """The leader epoch of its last record, -1 if unknown."""
        return self.epochs[-1][0] if self.epochs else -1

    @property
    def name(self) -> str:
        """The name of its objects in the store, without a suffix."""
        return f"{self.tp.topic_id}/{self.tp.partition}/{self.start_offset:020d}-{self.segment_id}"


@dataclass(frozen=True, slots=True)
class LeaderClaim:
    """A broker leads the partition in this leader epoch. Later states of older epochs are ignored."""

    tp: TopicPartition
    author_epoch: int
    broker_id: int


@dataclass(frozen=True, slots=True)
class LogStart:
    """Records below `offset` are deleted: by retention, or by DeleteRecords."""

    tp: TopicPartition
    author_epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The tombstone of a record key. `key` is the part after the partition."""

    tp: TopicPartition
    key: str = field(default="")


MetadataChange = RemoteSegment | LeaderClaim | LogStart | Forgotten
LEADER, START, SEGMENT = "leader", "start", "segment"


class MalformedMetadata(Exception):
    """A record of the metadata topic that this version cannot read."""


def key_of(change: MetadataChange) -> bytes:
    tp = change.tp
    match change:
        case RemoteSegment():
            own = f"{SEGMENT}:{change.segment_id}"
        case LeaderClaim():
            own = f"{LEADER}:{change.author_epoch}"
        case LogStart():
            own = START
        case Forgotten():
            own = change.key
    return f"{tp.topic_id}:{tp.partition}:{own}".encode()


def value_of(change: MetadataChange) -> bytes | None:
    """The value of the record; None for a tombstone."""
    fields: dict[str, object]
    match change:
        case RemoteSegment() as s:
            fields = {
                "state": s.state,
                "epoch": s.author_epoch,
                "start": s.start_offset,
                "end": s.end_offset,
                "size": s.size_bytes,
                "max_timestamp": s.max_timestamp,
                "created_ms": s.created_ms,
                "epochs": s.epochs,
                "aborted": s.aborted_count,
            }
            if s.key_index_bytes:
                fields["key_index"] = [s.key_index_bytes, s.key_index_seed]
        case LeaderClaim():
            fields = {"epoch": change.author_epoch, "broker": change.broker_id}
        case LogStart():
            fields = {"epoch": change.author_epoch, "offset": change.offset}
        case Forgotten():
            return None
    return json.dumps(fields, separators=(",", ":")).encode()


def decode(key: bytes, value: bytes | None) -> MetadataChange:
    """Raises MalformedMetadata."""
    try:
        topic_id, partition, own = key.decode().split(":", 2)
        tp = TopicPartition(UUID(topic_id), int(partition))
        if value is None:
            return Forgotten(tp, own)
        fields = json.loads(value)
        kind, _, rest = own.partition(":")
        if kind == LEADER:
            return LeaderClaim(tp, int(rest), int(fields["broker"]))
        if kind == START:
            return LogStart(tp, int(fields["epoch"]), int(fields["offset"]))
        if kind != SEGMENT:
            raise MalformedMetadata(f"unknown kind of record {kind!r}")
        return RemoteSegment(
            tp,
            rest,
            SegmentState(fields["state"]),
            int(fields["epoch"]),
            int(fields["start"]),
            int(fields["end"]),
            int(fields.get("size", 0)),
            int(fields.get("max_timestamp", -1)),
            int(fields.get("created_ms", 0)),
            tuple((int(e), int(o)) for e, o in fields.get("epochs", ())),
            int(fields.get("aborted", 0)),
            *(int(number) for number in fields.get("key_index", (0, 0))),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise MalformedMetadata(f"key {key[:100]!r}: {e!r}") from e


def metadata_partition(tp: TopicPartition, count: int) -> int:
    """The partition of `__remote_log_metadata` that has the records of `tp`. The same for every broker and every run."""
    return (tp.topic_id.int % (2**31 - 1) + tp.partition) % count
