"""Appends to local logs: rejections before the first byte is written, and one check of the partition per batch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.apis.delayed_produce import ACKS_ALL
from brokerd.apis.local_append import LocalAppender
from brokerd.apis.produce import ProduceApi
from brokerd.apis.produce_results import (
    NOT_LEADER,
    ClientAppendOutcome,
    PartitionResult,
    PendingAppend,
    ProducerRejection,
)
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.wire import end_transaction_marker, records
from brokerd.wire.end_transaction_marker import Marker
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ProduceRequest
from brokerd.wire.records import Record
from tests.simulation.disk import SimDisk
from tests.unit.apis.requests import FakeRequest, immediate_background_work
from tests.unit.replication.test_relocations import Harness


def batch(**fields: Any) -> bytearray:
    return bytearray(records.build([Record(0, 1_000, b"k", b"v")], **fields))


class Scene:
    def __init__(self) -> None:
        self.harness = Harness(SimDisk())
        loop: Any = SimpleNamespace(now=self.harness.now)
        self.appender, self.loop = LocalAppender(loop, self.harness.replica_manager), loop

    def append(self, data: bytearray | None) -> ClientAppendOutcome:
        return self.appender.append(self.harness.replica, data, 1, True, None)

    def rejection_code(self, data: bytearray) -> ErrorCode:
        end = self.harness.replica.log.end_offset
        result = self.append(data)
        assert isinstance(result, PartitionResult) and self.harness.replica.log.end_offset == end
        return result.error


def test_an_append_returns_the_high_watermark_that_it_requires() -> None:
    scene = Scene()
    written = scene.append(batch() + batch())
    assert isinstance(written, PendingAppend)
    assert (written.base_offset, written.required_end) == (0, 2)
    assert written.acknowledged_result() == PartitionResult(ErrorCode.NONE, None, 0, -1, 0)
    assert scene.append(None) == PartitionResult(ErrorCode.NONE, base_offset=2, log_start_offset=0)


def test_a_rejected_batch_is_not_appended() -> None:
    scene = Scene()
    damaged = batch()
    damaged[-1] ^= 1
    assert scene.rejection_code(damaged) == ErrorCode.CORRUPT_MESSAGE
    assert scene.rejection_code(end_transaction_marker.marker(1, 0, Marker(True, 0), 1_000)) == ErrorCode.INVALID_RECORD
    idempotent = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    assert scene.rejection_code(batch(**idempotent) + batch(**idempotent)) == ErrorCode.INVALID_RECORD
    scene.harness.replica_manager.produce_suspended = True
    assert scene.append(batch()) is NOT_LEADER


def test_a_repeated_batch_requires_the_high_watermark_of_the_first() -> None:
    scene = Scene()
    idempotent = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    first, _ = scene.append(batch(**idempotent)), scene.append(batch())
    assert scene.append(batch(**idempotent)) == first
    assert scene.harness.replica.log.end_offset == 2


def test_a_rejection_by_the_producer_state_is_sent_by_the_confirmed_leader_only() -> None:
    scene = Scene()
    scene.append(batch(producer_id=7, producer_epoch=0, base_sequence=0))
    rejection = scene.append(batch(producer_id=7, producer_epoch=0, base_sequence=5))
    assert isinstance(rejection, ProducerRejection)
    assert rejection.result(confirmed=True).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert rejection.result(confirmed=False).error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    later = rejection._replace(leader_epoch=rejection.leader_epoch + 1)
    assert later.result(confirmed=True).error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_internal_appends_need_enough_replicas() -> None:
    scene = Scene()
    replica = scene.harness.replica
    assert isinstance(scene.appender.append_internal(replica, batch()), PendingAppend)
    replica.core.min_insync = 2
    rejected = scene.appender.append_internal(replica, batch())
    assert isinstance(rejected, PartitionResult) and rejected.error == ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize("transactional", [False, True])
def test_the_partition_is_checked_once_per_batch(transactional: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    verification: Any = SimpleNamespace(needed=lambda *_, add: False, is_pending=lambda *_: False)
    api = ProduceApi(scene.loop, scene.harness.replica_manager, verification, immediate_background_work(), ALLOW_ALL)
    check, checked = api.appender.append_problem, []

    def check_and_record(replica: Any, acks: int) -> PartitionResult | None:
        checked.append(replica)
        return check(replica, acks)

    monkeypatch.setattr(api.appender, "append_problem", check_and_record)
    r = ProduceRequest
    fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True} if transactional else {}
    part = r.PartitionProduceData(index=0, records=memoryview(batch(**fields)))
    topics = [r.TopicProduceData(name="t", partition_data=[part])]
    responses: list[Any] = []
    request: Any = FakeRequest(
        r(transactional_id="x", acks=ACKS_ALL, timeout_ms=1_000, topic_data=topics), 10, responses.append
    )
    api.handle(request)
    assert [p.error_code for t in responses[0].responses for p in t.partition_responses] == [0]
    assert len(checked) == 1
