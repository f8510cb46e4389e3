"""Kafka's ConsumerProtocol, versions 0 to 3: subscription and assignment in the opaque fields of the classic protocol. Pure.

A classic group does not read these fields, but a group with members of both protocols must read them (KIP-848). User data belongs to the client's assignor
and is ignored. Invalid data raises ValueError.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from brokerd.cluster.model import TopicPartition
from brokerd.coordinator.consumer.assignors import Assignment
from brokerd.coordinator.consumer.events import Topics
from brokerd.wire.schema import Struct, array, f, packer, unpacker

PROTOCOL_TYPE = "consumer"
VERSION_MAX = 3
ELEMENTS_MAX = 1_000_000


@dataclass(slots=True)
class ConsumerProtocolSubscription(Struct):
    @dataclass(slots=True)
    class TopicPartition(Struct):
        topic: str = f("string")
        partitions: list[int] = f(array("int32"))

    topics: list[str] = f(array("string"))
    user_data: bytes | None = f("bytes", nullable="0+", default=None)
    owned_partitions: list[ConsumerProtocolSubscription.TopicPartition] = f(array("TopicPartition"), "1+")
    generation_id: int = f("int32", "2+", default=-1)
    rack_id: str | None = f("string", "3+", nullable="3+", default=None)


@dataclass(slots=True)
class ConsumerProtocolAssignment(Struct):
    @dataclass(slots=True)
    class TopicPartition(Struct):
        topic: str = f("string")
        partitions: list[int] = f(array("int32"))

    assigned_partitions: list[ConsumerProtocolAssignment.TopicPartition] = f(array("TopicPartition"))
    user_data: bytes | None = f("bytes", nullable="0+", default=None)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """A newer version is read as the newest known version, because new fields are appended at the end. Some clients write a version but omit the fields that
    this version added: they join without owned partitions."""
    try:
        value: ConsumerProtocolSubscription = _decode(ConsumerProtocolSubscription, data, version_of(data))
    except ValueError:
        value = _decode(ConsumerProtocolSubscription, data, 0)
    return value


def read_assignment(data: bytes, topics: Topics) -> Assignment:
    """The existing partitions of an assignment by the group leader. Empty data is an empty assignment."""
    return (
        assignment_of(_decode(ConsumerProtocolAssignment, data, 0).assigned_partitions, topics) if data else frozenset()
    )


def assignment(share: Assignment, names: Iterable[str], topics: Topics, version: int) -> bytes:
    """`names`: the topics that the member is subscribed to. Other partitions belong to deleted topics and are omitted."""
    known = {found[0]: name for name in names if (found := topics.topic_named(name)) is not None}
    by_name: dict[str, list[int]] = {}
    for topic_id, partition in sorted(share):
        if topic_id in known:
            by_name.setdefault(known[topic_id], []).append(partition)
    one = ConsumerProtocolAssignment.TopicPartition
    out = bytearray(struct.pack(">h", version))
    packer(ConsumerProtocolAssignment, version, False)(
        ConsumerProtocolAssignment([one(name, partitions) for name, partitions in by_name.items()]), out, []
    )
    return bytes(out)


def version_of(data: bytes) -> int:
    """The version of a subscription. The member can also read assignments of this version."""
    return min(max(int.from_bytes(data[:2], "big", signed=True), 0), VERSION_MAX)


def assignment_of(
    listed: Iterable[ConsumerProtocolSubscription.TopicPartition | ConsumerProtocolAssignment.TopicPartition],
    topics: Topics,
) -> Assignment:
    return frozenset(
        TopicPartition(found[0], partition)
        for one in listed
        if (found := topics.topic_named(one.topic)) is not None
        for partition in one.partitions
        if 0 <= partition < found[1]
    )


def _decode(cls: type[Struct], data: bytes, version: int) -> Any:
    if len(data) < 2 or data[0] & 0x80:
        raise ValueError("version missing or negative")
    try:
        value, _ = unpacker(cls, version, False)(memoryview(data), 2, len(data), [ELEMENTS_MAX])
    except (struct.error, IndexError) as e:
        raise ValueError("the data is incomplete") from e
    return value
