"""Records of share partitions in __share_group_state, in Kafka's formats, so that Kafka's tools can read them. Pure.

A snapshot holds the whole state of a share partition, an update the changes since. In Kafka both have different keys, so compaction would keep the last record
of each kind. The snapshot epoch of an update identifies its snapshot. An invalid record raises ValueError.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from brokerd.coordinator.share_state.state import ShareState, StateBatch, StateUpdate
from brokerd.wire.schema import Struct, array, f, packer, unpacker

ELEMENTS_MAX = 1_000_000


class ShareStateKind(IntEnum):
    """Kafka's key types."""

    SNAPSHOT = 0
    UPDATE = 1


class SharePartitionKey(NamedTuple):
    group_id: str
    topic_id: UUID
    partition: int


@dataclass(slots=True)
class ShareSnapshotKey(Struct):
    group_id: str = f("string")
    topic_id: UUID = f("uuid")
    partition: int = f("int32")


@dataclass(slots=True)
class ShareSnapshotValue(Struct):
    @dataclass(slots=True)
    class StateBatch(Struct):
        first_offset: int = f("int64")
        last_offset: int = f("int64")
        delivery_state: int = f("int8")
        delivery_count: int = f("int16")

    snapshot_epoch: int = f("int32")
    state_epoch: int = f("int32")
    leader_epoch: int = f("int32")
    start_offset: int = f("int64")
    delivery_complete_count: int = f("int32", tag=0, tagged="0+", default=-1)
    create_timestamp: int = f("int64")
    write_timestamp: int = f("int64")
    state_batches: list[ShareSnapshotValue.StateBatch] = f(array("StateBatch"))


@dataclass(slots=True)
class ShareUpdateValue(Struct):
    @dataclass(slots=True)
    class StateBatch(Struct):
        first_offset: int = f("int64")
        last_offset: int = f("int64")
        delivery_state: int = f("int8")
        delivery_count: int = f("int16")

    snapshot_epoch: int = f("int32")
    leader_epoch: int = f("int32")
    start_offset: int = f("int64")
    delivery_complete_count: int = f("int32", tag=0, tagged="0+", default=-1)
    state_batches: list[ShareUpdateValue.StateBatch] = f(array("StateBatch"))


def key(kind: ShareStateKind, place: SharePartitionKey) -> bytes:
    out = bytearray(struct.pack(">h", kind))
    packer(ShareSnapshotKey, 0, False)(ShareSnapshotKey(*place), out, [])
    return bytes(out)


def read_key(data: bytes) -> tuple[ShareStateKind, SharePartitionKey]:
    try:
        kind = ShareStateKind(int.from_bytes(data[:2], "big"))
        found, _ = unpacker(ShareSnapshotKey, 0, False)(memoryview(data), 2, len(data), [ELEMENTS_MAX])
    except (struct.error, IndexError) as e:
        raise ValueError(f"the record is incomplete: {e}") from e
    return kind, SharePartitionKey(found.group_id, found.topic_id, found.partition)


def snapshot(state: ShareState) -> bytes:
    batch = ShareSnapshotValue.StateBatch
    body = ShareSnapshotValue(
        state.snapshot_epoch,
        state.state_epoch,
        state.leader_epoch,
        state.start,
        state.complete_count,
        state.created_wall_ms,
        state.written_wall_ms,
        [batch(*b) for b in state.batches],
    )
    out = bytearray(2)  # version 0
    packer(ShareSnapshotValue, 0, True)(body, out, [])
    return bytes(out)


def update(snapshot_epoch: int, change: StateUpdate) -> bytes:
    batch = ShareUpdateValue.StateBatch
    body = ShareUpdateValue(
        snapshot_epoch, change.leader_epoch, change.start, change.complete_count, [batch(*b) for b in change.batches]
    )
    out = bytearray(2)  # version 0
    packer(ShareUpdateValue, 0, True)(body, out, [])
    return bytes(out)


def _decode(cls: type, data: bytes) -> object:
    if data[:2] != b"\0\0":
        raise ValueError(f"unsupported value version {int.from_bytes(data[:2], 'big')}")
    try:
        found, _ = unpacker(cls, 0, True)(memoryview(data), 2, len(data), [ELEMENTS_MAX])
    except (struct.error, IndexError) as e:
        raise ValueError(f"the record is incomplete: {e}") from e
    return found


def read_snapshot(data: bytes) -> ShareState:
    stored = _decode(ShareSnapshotValue, data)
    assert isinstance(stored, ShareSnapshotValue)
    return ShareState(
        stored.state_epoch,
        stored.leader_epoch,
        stored.start_offset,
        tuple(
            StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in stored.state_batches
        ),
        stored.delivery_complete_count,
        stored.snapshot_epoch,
        stored.create_timestamp,
        stored.write_timestamp,
    )


def read_update(data: bytes) -> tuple[int, StateUpdate]:
    """(snapshot epoch, the update)."""
    v = _decode(ShareUpdateValue, data)
    assert isinstance(v, ShareUpdateValue)
    batches = tuple(
        StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in v.state_batches
    )
    return v.snapshot_epoch, StateUpdate(v.leader_epoch, v.start_offset, batches, v.delivery_complete_count)
