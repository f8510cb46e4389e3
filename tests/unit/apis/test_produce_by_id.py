"""Produce 13: topics are named by their ids alone. Does not look at what is written: tests/unit/storage and the clusters do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

from brokerd.apis.produce import ProduceApi
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ProduceRequest
from brokerd.wire.records import Record
from tests.simulation.disk import SimDisk
from tests.unit.test_relocations import TP, House

NOBODY: Any = None


def produced(house: House, version: int, *named: tuple[str, UUID]) -> list[tuple[str, UUID, int, int]]:
    """(name, id, error, base offset) of partition 0 of each."""
    r = ProduceRequest
    batch = lambda: memoryview(bytearray(records.build([Record(0, 1_000, b"k", b"v")])))  # noqa: E731
    topics = [
        r.TopicProduceData(
            name=name, topic_id=topic_id, partition_data=[r.PartitionProduceData(index=0, records=batch())]
        )
        for name, topic_id in named
    ]
    answers: list[Any] = []
    request: Any = SimpleNamespace(
        body=r(acks=1, timeout_ms=1_000, topic_data=topics), header=SimpleNamespace(api_version=version),
        reply=answers.append, abandoned=False,
    )  # fmt: skip
    loop: Any = SimpleNamespace(now=house.now)
    ProduceApi(loop, house.partitions, NOBODY).handle(request)
    return [
        (t.name, t.topic_id, p.error_code, p.base_offset) for t in answers[0].responses for p in t.partition_responses
    ]


def test_a_topic_is_found_by_its_id_and_an_unknown_one_is_told_by_it() -> None:
    house, strange = House(SimDisk()), uuid4()
    assert produced(house, 13, ("", TP.topic_id), ("", strange)) == [
        ("", TP.topic_id, 0, 0), ("", strange, ErrorCode.UNKNOWN_TOPIC_ID, -1),
    ]  # fmt: skip


def test_before_the_name_counts() -> None:
    house, zero = House(SimDisk()), UUID(int=0)
    assert produced(house, 12, ("t", zero), ("u", zero)) == [
        ("t", zero, 0, 0), ("u", zero, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]  # fmt: skip


def test_a_topic_made_anew_under_its_name_takes_nothing_that_was_meant_for_the_old_one() -> None:
    """A producer of before has the old id still, and asks for metadata when it hears that nobody has it."""
    house = House(SimDisk())
    house.image.topics[UUID(int=9)] = house.image.topics.pop(TP.topic_id)
    house.image.topic_ids["t"] = UUID(int=9)
    assert produced(house, 13, ("", TP.topic_id)) == [("", TP.topic_id, ErrorCode.UNKNOWN_TOPIC_ID, -1)]
