"""Appends of routes to a target partition: by the source offset that the sender expects, and by nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from brokerd.apis.delayed_produce import Acknowledgements
from brokerd.apis.local_append import LocalAppender, RouteConflict
from brokerd.apis.produce_results import PartitionResult, PendingAppend
from brokerd.apis.routed_appends import RoutedAppends, routed_request, routed_result
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.cluster.model import TopicPartition
from brokerd.delivery.route_producer import NOTHING, UNKNOWN, route_batch
from brokerd.wire import records
from brokerd.wire.compression import GZIP
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ProduceRequest, ProduceResponse
from brokerd.wire.messages.routes import RoutedAppendRequestData
from brokerd.wire.records import Record
from tests.simulation.disk import SimDisk
from tests.unit.apis.requests import FakeRequest
from tests.unit.replication.test_relocations import Harness

ROUTE = (1 << 62) + 5
SOURCE = UUID(int=99)


class Scene:
    def __init__(self) -> None:
        self.harness = Harness(SimDisk())
        loop: Any = SimpleNamespace(now=self.harness.now)
        self.appender = LocalAppender(loop, self.harness.replica_manager)
        self.api = RoutedAppends(
            self.harness.replica_manager,
            self.appender,
            Acknowledgements(loop, self.harness.replica_manager.purgatory),
            ALLOW_ALL,
        )
        self.log = self.harness.replica.log

    def batch(self, *offsets: int, producer_id: int = ROUTE) -> bytearray:
        found = [Record(o, 1_000, b"k", b"%d" % o) for o in offsets]
        return bytearray(route_batch(found, producer_id, offsets[-1]))

    def append(self, expected: int, *offsets: int, **fields: int) -> Any:
        return self.appender.append_routed(self.harness.replica, self.batch(*offsets, **fields), expected)

    def send_routed_append(self, expected: int, *offsets: int, epoch: int = 3) -> tuple[ErrorCode, int]:
        query = RoutedAppendRequestData(expected, SOURCE, 0, epoch)
        body = routed_request(self.harness.replica.tp, bytes(self.batch(*offsets)), query, 1_000)
        responses: list[ProduceResponse] = []
        request: Any = FakeRequest(body, 13, responses.append)
        self.api.handle(request)
        return routed_result(responses[0])


def test_batches_follow_each_other_by_their_last_source_offset() -> None:
    scene = Scene()
    assert isinstance(scene.append(NOTHING, 3, 7), PendingAppend)
    assert isinstance(scene.append(7, 9), PendingAppend)
    assert scene.log.end_offset == 3


def test_a_compressed_batch_is_appended_as_it_is() -> None:
    scene = Scene()
    data = bytearray(route_batch([Record(3, 1_000, b"k", b"x" * 500)], ROUTE, 3, GZIP))
    assert isinstance(scene.appender.append_routed(scene.harness.replica, data, NOTHING), PendingAppend)
    stored = scene.log.read(0, 1 << 20, 1).bytes()
    assert records.peek(stored).compression == GZIP
    assert [r.value for r in records.iterate(stored)] == [b"x" * 500]


def test_an_append_with_a_wrong_expected_position_returns_the_found_position() -> None:
    scene = Scene()
    assert scene.append(5, 6) == RouteConflict(NOTHING, PartitionResult(ErrorCode.NONE))
    scene.append(NOTHING, 3, 7)
    for expected, offsets in ((NOTHING, (3, 7)), (UNKNOWN, (8,)), (3, (7, 9)), (8, (9,))):
        found = scene.append(expected, *offsets)
        assert isinstance(found, RouteConflict) and found.found == 7
        assert isinstance(found.written, PendingAppend) and found.written.required_end == 2
    assert scene.log.end_offset == 2


def test_routes_do_not_see_each_other() -> None:
    scene = Scene()
    scene.append(NOTHING, 100)
    assert isinstance(scene.append(NOTHING, 4, producer_id=ROUTE + 1), PendingAppend)


def test_offsets_above_the_largest_sequence_number() -> None:
    scene = Scene()
    last = NOTHING
    for offset in (2**31 - 1, 2**31, 2**31 + 5, 2**33):
        assert isinstance(scene.append(last, offset), PendingAppend)
        last = offset
    found = scene.append(UNKNOWN, last + 1)
    assert isinstance(found, RouteConflict) and found.found == 2**33


def test_a_partition_that_cannot_accept_answers_with_its_error() -> None:
    scene = Scene()
    scene.harness.replica.core.min_insync = 2
    assert scene.append(NOTHING, 1).error == ErrorCode.NOT_ENOUGH_REPLICAS
    scene.harness.replica.core.min_insync = 1
    damaged = scene.batch(1)
    damaged[-1] ^= 1
    rejected = scene.appender.append_routed(scene.harness.replica, damaged, NOTHING)
    assert isinstance(rejected, PartitionResult) and rejected.error == ErrorCode.CORRUPT_MESSAGE


def test_a_request_is_answered_with_the_error_and_the_found_position() -> None:
    scene = Scene()
    assert scene.send_routed_append(UNKNOWN, 4) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, NOTHING)
    assert scene.send_routed_append(NOTHING, 4) == (ErrorCode.NONE, -1)
    assert scene.send_routed_append(NOTHING, 4) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 4)


def test_a_deposed_leader_of_the_source_is_rejected() -> None:
    scene = Scene()
    image = scene.harness.replica_manager.image
    source = SimpleNamespace(leader_epoch=4)
    partition = image.partition
    fenced: Any = SimpleNamespace(
        partition=lambda tp: source if tp == TopicPartition(SOURCE, 0) else partition(tp), topics=image.topics
    )
    scene.harness.replica_manager.image = fenced
    assert scene.send_routed_append(NOTHING, 4)[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert scene.send_routed_append(NOTHING, 4, epoch=4)[0] == ErrorCode.NONE


def test_unreadable_requests_and_answers() -> None:
    scene = Scene()
    body = ProduceRequest(acks=-1, timeout_ms=1, topic_data=[], route=b"\x00\x07")
    responses: list[ProduceResponse] = []
    request: Any = FakeRequest(body, 13, responses.append)
    scene.api.handle(request)
    assert [r.responses for r in responses] == [[]]
    assert routed_result(None)[0] == ErrorCode.NETWORK_EXCEPTION
