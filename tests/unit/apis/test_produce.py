"""Produce requests: topics named by id (version 13), and successive batches while the coordinator verifies the first.

Does not test what is written: tests/unit/storage and the cluster tests do.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

from brokerd.apis.produce import ProduceApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.replication.transaction_verification import TransactionVerification
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ProduceRequest
from brokerd.wire.records import Record
from tests.simulation.disk import SimDisk
from tests.unit.apis.requests import FakeRequest, immediate_background_work
from tests.unit.replication.test_relocations import TP, Harness

NO_PRINCIPAL: Any = None


def produce_to_topics(harness: Harness, version: int, *named: tuple[str, UUID]) -> list[tuple[str, UUID, int, int]]:
    """(name, id, error, base offset) of partition 0 of each topic."""
    r = ProduceRequest
    batch = lambda: memoryview(bytearray(records.build([Record(0, 1_000, b"k", b"v")])))  # noqa: E731
    topics = [
        r.TopicProduceData(
            name=name, topic_id=topic_id, partition_data=[r.PartitionProduceData(index=0, records=batch())]
        )
        for name, topic_id in named
    ]
    responses: list[Any] = []
    request: Any = FakeRequest(r(acks=1, timeout_ms=1_000, topic_data=topics), version, responses.append)
    loop: Any = SimpleNamespace(now=harness.now)
    ProduceApi(loop, harness.replica_manager, NO_PRINCIPAL, immediate_background_work(), ALLOW_ALL).handle(request)
    return [
        (t.name, t.topic_id, p.error_code, p.base_offset) for t in responses[0].responses for p in t.partition_responses
    ]


def test_a_topic_is_found_by_its_id_and_an_unknown_id_is_in_the_error() -> None:
    harness, strange = Harness(SimDisk()), uuid4()
    assert produce_to_topics(harness, 13, ("", TP.topic_id), ("", strange)) == [
        ("", TP.topic_id, 0, 0),
        ("", strange, ErrorCode.UNKNOWN_TOPIC_ID, -1),
    ]


def test_versions_without_topic_ids_use_the_name() -> None:
    harness, zero = Harness(SimDisk()), UUID(int=0)
    assert produce_to_topics(harness, 12, ("t", zero), ("u", zero)) == [
        ("t", zero, 0, 0),
        ("u", zero, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]


def test_a_recreated_topic_rejects_batches_with_the_id_of_the_old_topic() -> None:
    """An older producer still sends the old id. It refreshes its metadata after UNKNOWN_TOPIC_ID."""
    harness = Harness(SimDisk())
    harness.image.topics[UUID(int=9)] = harness.image.topics.pop(TP.topic_id)
    harness.image.topic_ids["t"] = UUID(int=9)
    assert produce_to_topics(harness, 13, ("", TP.topic_id)) == [("", TP.topic_id, ErrorCode.UNKNOWN_TOPIC_ID, -1)]


PID = 7


class Scene:
    def __init__(self) -> None:
        self.harness = Harness(SimDisk())
        self.requested: list[Callable[[ErrorCode], None]] = []
        verification = TransactionVerification(
            lambda name, pid, epoch, place, add, done: self.requested.append(done), enabled=lambda: True
        )
        loop: Any = SimpleNamespace(now=self.harness.now)
        self.api = ProduceApi(loop, self.harness.replica_manager, verification, immediate_background_work(), ALLOW_ALL)
        self.received: list[tuple[int, int]] = []
        """(sequence, error) in the order of the responses."""

    def send(self, sequence: int) -> None:
        batch = records.build(
            [Record(0, 1_000, b"k", b"v")],
            producer_id=PID,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        r = ProduceRequest
        part = r.PartitionProduceData(index=0, records=memoryview(bytearray(batch)))
        body = r(
            transactional_id="x",
            acks=1,
            timeout_ms=1_000,
            topic_data=[r.TopicProduceData(name="t", partition_data=[part])],
        )

        def reply(response: Any) -> None:
            self.received.append((sequence, response.responses[0].partition_responses[0].error_code))

        request: Any = FakeRequest(body, 10, reply)
        self.api.handle(request)


def test_batches_after_a_batch_under_verification_wait_for_it() -> None:
    scene = Scene()
    scene.send(0)
    scene.send(1)
    scene.send(2)
    assert scene.received == [] and len(scene.requested) == 1
    scene.requested[0](ErrorCode.NONE)
    assert scene.received == [(0, 0), (1, 0), (2, 0)]
    scene.send(3)
    assert scene.received[-1] == (3, 0), "and goes straight in once the transaction is open"


def test_a_repeated_batch_under_verification_is_appended_once() -> None:
    scene = Scene()
    scene.send(0)
    scene.send(0)
    scene.requested[0](ErrorCode.NONE)
    assert scene.received == [(0, 0), (0, 0)]
    assert scene.harness.replica.log.end_offset == 1


def test_batches_after_a_rejected_batch_are_rejected() -> None:
    scene = Scene()
    scene.send(0)
    scene.send(1)
    scene.requested[0](ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert scene.received == [(0, ErrorCode.NOT_ENOUGH_REPLICAS), (1, ErrorCode.NOT_ENOUGH_REPLICAS)]
    assert scene.harness.replica.log.end_offset == 0
