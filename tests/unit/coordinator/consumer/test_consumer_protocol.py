"""The subscription and assignment formats of the classic protocol, compared with kafka-python's codec."""

from __future__ import annotations

import pytest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from brokerd.coordinator.consumer import consumer_protocol
from tests.unit.coordinator.topics import A, B, FakeTopics, share

TOPICS = FakeTopics()


@pytest.mark.parametrize("version", range(4))
def test_a_subscription_of_every_version(version: int) -> None:
    part = ConsumerProtocolSubscription.TopicPartition
    theirs = ConsumerProtocolSubscription(
        version=version,
        topics=["a", "b"],
        user_data=b"x",
        owned_partitions=[part(topic="a", partitions=[1, 3])] if version >= 1 else [],
        **({"generation_id": 7} if version >= 2 else {}),
        **({"rack_id": "r"} if version >= 3 else {}),
    )
    said = consumer_protocol.read_subscription(bytes(theirs.encode()))
    assert (said.topics, said.user_data) == (["a", "b"], b"x")
    assert consumer_protocol.assignment_of(said.owned_partitions, TOPICS) == (
        share(A, 1, 3) if version >= 1 else frozenset()
    )
    assert (said.generation_id, said.rack_id) == (7 if version >= 2 else -1, "r" if version >= 3 else None)


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_both_ways(version: int) -> None:
    given = share(A, 2, 0) | share(B, 1)
    ours = consumer_protocol.assignment(given, ["a", "b", "gone"], TOPICS, version)
    theirs = ConsumerProtocolAssignment.decode(ours)
    assert {(t.topic, p) for t in theirs.assigned_partitions for p in t.partitions} == {("a", 0), ("a", 2), ("b", 1)}
    assert consumer_protocol.read_assignment(bytes(theirs.encode()), TOPICS) == given


def test_deleted_topics_are_omitted() -> None:
    ours = consumer_protocol.assignment(share(A, 0) | share(B, 0), ["a"], TOPICS, 1)
    assert consumer_protocol.read_assignment(ours, TOPICS) == share(A, 0)
    shrunk = FakeTopics({"a": (A, 1)})
    grown = consumer_protocol.assignment(share(A, 0, 3), ["a"], TOPICS, 1)
    assert consumer_protocol.read_assignment(grown, shrunk) == share(A, 0)
    assert consumer_protocol.read_assignment(b"", TOPICS) == frozenset(), "nothing was assigned yet"


def test_a_version_with_ignored_fields_and_a_future_version_are_read() -> None:
    body = bytes.fromhex("00000001 0001 61 ffffffff")
    assert consumer_protocol.read_subscription(b"\0\1" + body).topics == ["a"]
    newer = body + bytes.fromhex("00000000 00000005 0001 72") + b"more"
    said = consumer_protocol.read_subscription(b"\0\x09" + newer)
    assert (said.topics, said.rack_id) == (["a"], "r")
    assert consumer_protocol.version_of(b"\0\x09") == 3


@pytest.mark.parametrize(
    "data", ["", "00", "ffff00000000ffffffff", "0000", "000000000005", "00007fffffff", "0000ffffffff"]
)
def test_malformed_data_is_rejected(data: str) -> None:
    with pytest.raises(ValueError):
        consumer_protocol.read_subscription(bytes.fromhex(data))
    if data:
        with pytest.raises(ValueError):
            consumer_protocol.read_assignment(bytes.fromhex(data), TOPICS)
