"""What consumers say inside the classic protocol, next to kafka-python's own codec of it."""

from __future__ import annotations

import pytest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from brokerd.coordinator import embedded
from tests.unit.coordinator.topics import A, B, FakeTopics, share

TOPICS = FakeTopics()


@pytest.mark.parametrize("version", range(4))
def test_a_subscription_of_every_version(version: int) -> None:
    part = ConsumerProtocolSubscription.TopicPartition
    theirs = ConsumerProtocolSubscription(
        version=version, topics=["a", "b"], user_data=b"x",
        owned_partitions=[part(topic="a", partitions=[1, 3])] if version >= 1 else [],
        **({"generation_id": 7} if version >= 2 else {}), **({"rack_id": "r"} if version >= 3 else {}),
    )  # fmt: skip
    said = embedded.read_subscription(bytes(theirs.encode()))
    assert (said.topics, said.user_data) == (["a", "b"], b"x")
    assert embedded.share_of(said.owned_partitions, TOPICS) == (share(A, 1, 3) if version >= 1 else frozenset())
    assert (said.generation_id, said.rack_id) == (7 if version >= 2 else -1, "r" if version >= 3 else None)


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_both_ways(version: int) -> None:
    given = share(A, 2, 0) | share(B, 1)
    ours = embedded.assignment(given, ["a", "b", "gone"], TOPICS, version)
    theirs = ConsumerProtocolAssignment.decode(ours)
    assert {(t.topic, p) for t in theirs.assigned_partitions for p in t.partitions} == {("a", 0), ("a", 2), ("b", 1)}
    assert embedded.read_assignment(bytes(theirs.encode()), TOPICS) == given


def test_what_is_no_more_is_left_out() -> None:
    ours = embedded.assignment(share(A, 0) | share(B, 0), ["a"], TOPICS, 1)
    assert embedded.read_assignment(ours, TOPICS) == share(A, 0)
    shrunk = FakeTopics({"a": (A, 1)})
    grown = embedded.assignment(share(A, 0, 3), ["a"], TOPICS, 1)
    assert embedded.read_assignment(grown, shrunk) == share(A, 0)
    assert embedded.read_assignment(b"", TOPICS) == frozenset(), "nothing was assigned yet"


def test_a_version_that_names_what_is_left_out_and_one_of_the_future() -> None:
    body = bytes.fromhex("00000001 0001 61 ffffffff")
    assert embedded.read_subscription(b"\0\1" + body).topics == ["a"]
    newer = body + bytes.fromhex("00000000 00000005 0001 72") + b"more"
    said = embedded.read_subscription(b"\0\x09" + newer)
    assert (said.topics, said.rack_id) == (["a"], "r")
    assert embedded.version_of(b"\0\x09") == 3


@pytest.mark.parametrize(
    "data", ["", "00", "ffff00000000ffffffff", "0000", "000000000005", "00007fffffff", "0000ffffffff"]
)
def test_what_cannot_be_read(data: str) -> None:
    with pytest.raises(ValueError):
        embedded.read_subscription(bytes.fromhex(data))
    if data:
        with pytest.raises(ValueError):
            embedded.read_assignment(bytes.fromhex(data), TOPICS)
