"""Batches that come one behind the other while the coordinator is asked about the first: none is refused for following what is not written yet."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from brokerd.apis.produce import ProduceApi
from brokerd.verification import Verification
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ProduceRequest
from brokerd.wire.records import Record
from tests.simulation.disk import SimDisk
from tests.unit.test_relocations import House

PID = 7


class Scene:
    def __init__(self) -> None:
        self.house = House(SimDisk())
        self.asked: list[Callable[[ErrorCode], None]] = []
        verification = Verification(lambda name, pid, epoch, place, add, done: self.asked.append(done), enabled=True)
        loop: Any = SimpleNamespace(now=self.house.now)
        self.api = ProduceApi(loop, self.house.partitions, verification)
        self.heard: list[tuple[int, int]] = []
        """(sequence, error) in the order of answers."""

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

        def reply(answer: Any) -> None:
            self.heard.append((sequence, answer.responses[0].partition_responses[0].error_code))

        request: Any = SimpleNamespace(body=body, header=SimpleNamespace(api_version=10), reply=reply, abandoned=False)
        self.api.handle(request)


def test_what_follows_a_batch_that_waits_for_the_coordinators_word_waits_too() -> None:
    scene = Scene()
    scene.send(0)
    scene.send(1)
    scene.send(2)
    assert scene.heard == [] and len(scene.asked) == 1
    scene.asked[0](ErrorCode.NONE)
    assert scene.heard == [(0, 0), (1, 0), (2, 0)]
    scene.send(3)
    assert scene.heard[-1] == (3, 0), "and goes straight in once the transaction is open"


def test_a_repeat_of_what_waits_is_written_once() -> None:
    scene = Scene()
    scene.send(0)
    scene.send(0)
    scene.asked[0](ErrorCode.NONE)
    assert scene.heard == [(0, 0), (0, 0)]
    assert scene.house.replica.log.end_offset == 1


def test_what_follows_a_refusal_is_refused_with_it() -> None:
    scene = Scene()
    scene.send(0)
    scene.send(1)
    scene.asked[0](ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert scene.heard == [(0, ErrorCode.NOT_ENOUGH_REPLICAS), (1, ErrorCode.NOT_ENOUGH_REPLICAS)]
    assert scene.house.replica.log.end_offset == 0
