"""Produce to topics whose records are inspected. Inspection is done in steps. Batches are appended in the order in which they were sent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.apis.batch_inspection import SHORT_RECORDS, records_of
from brokerd.apis.produce import ProduceApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.net.fair_scheduler import FairScheduler
from brokerd.replication.transaction_verification import TransactionVerification
from brokerd.server.background_work import BackgroundWork
from brokerd.wire import records
from brokerd.wire.compression import ZSTD
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ProduceRequest
from brokerd.wire.records import Record
from tests.simulation.disk import SimDisk
from tests.unit.apis.requests import FakeRequest, LaterJobs
from tests.unit.replication.test_relocations import Harness
from tests.unit.storage.test_log import read_all

LARGE = bytes(records.UNPACKED_ON_THE_LOOP_BYTES)


class Scene:
    def __init__(self, **configs: str) -> None:
        self.harness = Harness(SimDisk(), configs={k.replace("_", "."): v for k, v in configs.items()})
        self.jobs, self.scheduler = LaterJobs(), FairScheduler(lambda: 0.0)
        loop: Any = SimpleNamespace(now=self.harness.now)
        verification = TransactionVerification(lambda *a, **k: None, enabled=lambda: False)  # type: ignore[arg-type]
        self.api = ProduceApi(
            loop, self.harness.replica_manager, verification, BackgroundWork(self.scheduler, self.jobs), ALLOW_ALL
        )
        self.responses: list[tuple[str, int]] = []

    def send(
        self,
        name: str,
        *,
        key: bytes | None = b"k",
        value: bytes = b"v",
        codec: int = ZSTD,
        count: int = 1,
        **batch: Any,
    ) -> FakeRequest:
        data = records.build([Record(i, 2_000_000, key, value) for i in range(count)], compression=codec, **batch)
        r = ProduceRequest
        memory = bytearray(data)
        part = r.PartitionProduceData(index=0, records=memoryview(memory))
        body = r(acks=1, timeout_ms=1_000, topic_data=[r.TopicProduceData(name="t", partition_data=[part])])
        request = FakeRequest(
            body, 9, lambda a: self.responses.append((name, a.responses[0].partition_responses[0].error_code))
        )
        self.api.handle(request)  # type: ignore[arg-type]
        memory[:] = b"\xee" * len(memory)  # the connection reuses its memory
        return request

    @property
    def read_values(self) -> list[bytes]:
        return [r.value or b"" for r in read_all(self.harness.replica.log)]


def test_a_batch_with_a_large_uncompressed_size_is_decompressed_in_the_background_and_later_requests_wait() -> None:
    scene = Scene(cleanup_policy="compact")
    first = scene.send("first", value=LARGE)
    assert (scene.responses, first.blocked, scene.read_values) == ([], True, [])
    scene.jobs.end()
    scene.scheduler.run()
    assert scene.responses == [("first", 0)]
    assert scene.read_values == [LARGE]
    second = scene.send("second")
    assert (scene.responses[-1], second.blocked) == (("second", 0), False)


def test_batches_of_one_principal_are_appended_in_order_across_its_connections() -> None:
    scene = Scene(cleanup_policy="compact")
    scene.send("first", value=LARGE)
    scene.send("second", value=b"2")
    scene.send("third", value=LARGE[1:])
    while scene.jobs.jobs or scene.scheduler.pending:
        if scene.jobs.jobs:
            scene.jobs.end()
        scene.scheduler.run()
    assert scene.responses == [("first", 0), ("second", 0), ("third", 0)]
    assert scene.read_values == [LARGE, b"2", LARGE[1:]]


def test_an_idempotent_producers_sequence_is_checked_at_the_append() -> None:
    scene = Scene(cleanup_policy="compact")
    scene.send("0", value=LARGE, producer_id=7, producer_epoch=0, base_sequence=0)
    scene.send("1", producer_id=7, producer_epoch=0, base_sequence=1)
    assert scene.responses == []
    scene.jobs.end()
    scene.scheduler.run()
    scene.send("0 again", value=LARGE, producer_id=7, producer_epoch=0, base_sequence=0)
    scene.jobs.end()
    scene.scheduler.run()
    assert scene.responses == [("0", 0), ("1", 0), ("0 again", 0)]
    assert len(scene.read_values) == 2


@pytest.mark.parametrize("value", [b"v", LARGE])
@pytest.mark.parametrize("codec", [0, ZSTD])
def test_a_record_without_a_key_is_rejected_in_a_batch_of_any_size(codec: int, value: bytes) -> None:
    scene = Scene(cleanup_policy="compact")
    scene.send("bad", key=None, value=value, codec=codec)
    if scene.jobs.jobs:
        scene.jobs.end()
    scene.scheduler.run()
    assert scene.responses == [("bad", ErrorCode.INVALID_RECORD)]
    assert scene.read_values == []


def test_a_former_leader_appends_nothing_after_the_inspection() -> None:
    scene = Scene(cleanup_policy="compact")
    scene.send("late", value=LARGE)
    scene.harness.replica_manager.produce_suspended = True
    scene.jobs.end()
    scene.scheduler.run()
    assert scene.responses == [("late", ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert scene.read_values == []


def test_nothing_is_appended_for_a_client_that_disconnected_during_the_inspection() -> None:
    scene = Scene(cleanup_policy="compact")
    request = scene.send("gone", value=LARGE)
    request.abandoned = True
    scene.jobs.end()
    scene.scheduler.run()
    assert (scene.responses, scene.read_values) == ([], [])


@pytest.mark.parametrize("value", [b"v", LARGE])
def test_a_topics_compression_type_recompresses_without_decoding_records(value: bytes) -> None:
    scene = Scene(compression_type="zstd")
    scene.send("plain", codec=0, value=value, count=3)
    scene.send("packed", codec=ZSTD, value=value)
    while scene.jobs.jobs or scene.scheduler.pending:
        if scene.jobs.jobs:
            scene.jobs.end()
        scene.scheduler.run()
    assert scene.responses == [("plain", 0), ("packed", 0)]
    assert [h.compression for h in scene.harness.replica.log.headers(0)] == [ZSTD] * 2
    assert scene.read_values == [value] * 4


def test_a_large_uncompressed_batch_is_appended_immediately() -> None:
    scene = Scene()
    request = scene.send("one", key=None, value=LARGE, codec=0)
    assert (scene.responses, request.blocked, scene.jobs.jobs) == ([("one", 0)], False, [])


def test_a_negative_record_count_does_not_hide_the_record_count_of_another_batch() -> None:
    """The sum of the record counts limits what is inspected within the call. The header of the second batch is rejected later."""
    many = records.build([Record(i, 0, None, None) for i in range(SHORT_RECORDS + 1)])
    few = bytearray(records.build([Record(0, 0, None, b"v")]))
    few[57:61] = (-5_000).to_bytes(4, "big", signed=True)
    assert records_of(bytearray(many)) == records_of(bytearray(many + few)) == SHORT_RECORDS + 1
    assert records_of(few) == 0
    packed = records.build([Record(0, 0, None, b"v")], compression=ZSTD)
    assert records_of(bytearray(packed)) > SHORT_RECORDS and records_of(bytearray(few + packed)) > SHORT_RECORDS
    assert records_of(bytearray(b"short")) == 0
