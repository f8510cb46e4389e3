"""What consumers put into the opaque fields of the classic protocol: Kafka's ConsumerProtocol, versions 0 to 3.

Law: pure; what cannot be read raises ValueError. The coordinator of a classic group never looks inside; one that has members of both
protocols in one group must (KIP-848). Called by `hosted` and `conversion`. User data belongs to the client's assignor and is passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from brokerd.cluster.model import TopicPartition
from brokerd.coordinator.assignors import Share
from brokerd.coordinator.consumer_events import Topics
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
    """A newer version is read as the newest known here: what it adds stands behind what was there. Some clients name a version and leave
    out what it added to the first: they own nothing when they join."""
    try:
        value: ConsumerProtocolSubscription = _read(ConsumerProtocolSubscription, data, version_of(data))
    except ValueError:
        value = _read(ConsumerProtocolSubscription, data, 0)
    return value


def read_assignment(data: bytes, topics: Topics) -> Share:
    """What a leader has given a member, as far as it exists. Nothing at all is no assignment yet."""
    return share_of(_read(ConsumerProtocolAssignment, data, 0).assigned_partitions, topics) if data else frozenset()


def assignment(share: Share, names: Iterable[str], topics: Topics, version: int) -> bytes:
    """`names` are those that the member is subscribed to: others of the share are topics that are no more."""
    known = {found[0]: name for name in names if (found := topics.named(name)) is not None}
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
    """The version that a subscription was written in, which its owner can read."""
    return min(max(int.from_bytes(data[:2], "big", signed=True), 0), VERSION_MAX)


def share_of(
    listed: Iterable[ConsumerProtocolSubscription.TopicPartition | ConsumerProtocolAssignment.TopicPartition],
    topics: Topics,
) -> Share:
    return frozenset(
        TopicPartition(found[0], partition)
        for one in listed
        if (found := topics.named(one.topic)) is not None
        for partition in one.partitions
        if 0 <= partition < found[1]
    )


def _read(cls: type[Struct], data: bytes, version: int) -> Any:
    if len(data) < 2 or data[0] & 0x80:
        raise ValueError("no version")
    try:
        value, _ = unpacker(cls, version, False)(memoryview(data), 2, len(data), [ELEMENTS_MAX])
    except (struct.error, IndexError) as e:
        raise ValueError("cut off") from e
    return value
