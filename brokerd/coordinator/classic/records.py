"""Records of classic groups and committed offsets in __consumer_offsets, in Kafka's formats, so that Kafka's tools can read them. Pure.

An invalid record raises ValueError. The coordinator logs and skips it when it loads.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from brokerd.coordinator.classic.events import Member, Offset, State
from brokerd.coordinator.classic.group import Group

OFFSET_KEY_VERSION, GROUP_KEY_VERSION = 1, 2
OFFSET_VALUE_VERSION, GROUP_VALUE_VERSION = 3, 3
BATCH_BYTES = 500_000
"""Target size of a batch. A larger change is split; its records are ordered so that each prefix is a valid group."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.pos = data, 0

    def number(self, code: str) -> int:
        s = struct.Struct(">" + code)
        if self.pos + s.size > len(self.data):
            raise ValueError("the record is incomplete")
        (value,) = s.unpack_from(self.data, self.pos)
        self.pos += s.size
        return int(value)

    def raw(self, length: int) -> bytes:
        if length < 0 or self.pos + length > len(self.data):
            raise ValueError("the record is incomplete")
        self.pos += length
        return self.data[self.pos - length : self.pos]

    def text(self) -> str | None:
        n = self.number("h")
        return None if n < 0 else self.raw(n).decode()

    def blob(self) -> bytes:
        n = self.number("i")
        return b"" if n < 0 else self.raw(n)


def _text(value: str | None) -> bytes:
    if value is None:
        return b"\xff\xff"
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def _blob(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return struct.pack(">h", OFFSET_KEY_VERSION) + _text(group_id) + _text(topic) + struct.pack(">i", partition)


def offset_value(o: Offset) -> bytes:
    return (
        struct.pack(">hqi", OFFSET_VALUE_VERSION, o.offset, o.leader_epoch)
        + _text(o.metadata)
        + struct.pack(">q", o.commit_wall_ms)
    )


def group_key(group_id: str) -> bytes:
    return struct.pack(">h", GROUP_KEY_VERSION) + _text(group_id)


def group_value(group: Group, assignments: Mapping[str, bytes], wall_ms: int) -> bytes:
    out = bytearray(struct.pack(">h", GROUP_VALUE_VERSION))
    out += _text(group.protocol_type or "") + struct.pack(">i", group.generation)
    out += _text(group.protocol) + _text(group.leader) + struct.pack(">qi", wall_ms, len(group.members))
    for m in group.members.values():
        out += _text(m.member_id) + _text(m.instance_id) + _text(m.client_id) + _text(m.client_host)
        out += struct.pack(">ii", m.rebalance_ms, m.session_ms)
        out += _blob(m.metadata(group.protocol or "")) + _blob(assignments.get(m.member_id, b""))
    return bytes(out)


@dataclass(frozen=True, slots=True)
class Key:
    """`topic` is None in the key of a group record."""

    group_id: str
    topic: str | None
    partition: int


def read_key(data: bytes) -> Key:
    r = _Reader(data)
    version = r.number("h")
    group_id = r.text() or ""
    if version in (0, 1):
        return Key(group_id, r.text(), r.number("i"))
    if version == GROUP_KEY_VERSION:
        return Key(group_id, None, -1)
    raise ValueError(f"unsupported key version {version}")


def read_offset(data: bytes) -> Offset:
    r = _Reader(data)
    version = r.number("h")
    if not 0 <= version <= 3:
        raise ValueError(f"unsupported value version {version} of an offset")
    offset = r.number("q")
    epoch = r.number("i") if version >= 3 else -1
    return Offset(offset, epoch, r.text() or "", r.number("q"))


def read_group(group: Group, data: bytes) -> None:
    """Apply a group record to `group`. Its offsets do not change."""
    reader = _Reader(data)
    version = reader.number("h")
    if not 0 <= version <= 3:
        raise ValueError(f"unsupported value version {version} of a group")
    group.protocol_type = reader.text() or None
    group.generation = reader.number("i")
    group.protocol, group.leader = reader.text(), reader.text()
    since = reader.number("q") if version >= 2 else 0
    group.members, group.static = {}, {}
    for _ in range(reader.number("i")):
        member_id = reader.text() or ""
        instance_id = reader.text() if version >= 3 else None
        client_id, host = reader.text() or "", reader.text() or ""
        rebalance = reader.number("i") if version >= 1 else 60_000
        session = reader.number("i")
        metadata, assignment = reader.blob(), reader.blob()
        group.members[member_id] = Member(
            member_id, instance_id, client_id, host, session, rebalance, ((group.protocol or "", metadata),), assignment
        )
        if instance_id is not None:
            group.static[instance_id] = member_id
    group.state = State.STABLE if group.members else State.EMPTY
    if not group.members:
        group.leader, group.empty_since_wall_ms = None, since


def batches_of(pairs: Iterable[tuple[bytes, bytes | None]]) -> Iterator[list[tuple[bytes, bytes | None]]]:
    """Split keys and values in order into batches of about `BATCH_BYTES`."""
    portion: list[tuple[bytes, bytes | None]] = []
    size = 0
    for key, value in pairs:
        portion.append((key, value))
        size += len(key) + len(value or b"")
        if size >= BATCH_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
