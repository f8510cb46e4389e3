"""The leader's description of its pending delayed messages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from brokerd.apis.delayed_messages import DelayedMessagesServer
from brokerd.cluster.model import TopicPartition
from brokerd.delivery.delayed_front import DelayedFront
from brokerd.delivery.led_fronts import LedFronts
from brokerd.wire import versioned
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest
from brokerd.wire.messages.delayed_messages import VERSION, DelayedMessagesRequest, DelayedMessagesResponse
from brokerd.wire.steps import run_now
from tests.unit.delivery.front_bench import START_MS
from tests.unit.delivery.test_delayed_front import DelayBench

TP = TopicPartition(UUID(int=1), 0)
HOUR_MS = 3_600_000


def partition_with_query(query: bytes, error: ErrorCode = ErrorCode.NONE) -> Any:
    requested = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=0, delayed_messages=query)
    return SimpleNamespace(
        topic_name="t.delay", topic_id=TP.topic_id, requested=requested, error=error, replica=SimpleNamespace(tp=TP)
    )


def respond(front: DelayedFront | None, query: bytes, error: ErrorCode = ErrorCode.NONE) -> Any:
    fronts: LedFronts[DelayedFront] = LedFronts()
    if front is not None:
        fronts.add(TP, front, lambda: True)
    server = DelayedMessagesServer(fronts, lambda: 0)
    return run_now(server.respond([partition_with_query(query, error)], ())).responses[0].partitions[0]


def describe_messages(front: DelayedFront, query: DelayedMessagesRequest) -> DelayedMessagesResponse:
    return versioned.decode(
        DelayedMessagesResponse, respond(front, versioned.encode(query, VERSION)).delayed_messages, VERSION, 1_000
    )


def bench_with_pending_messages() -> tuple[DelayBench, DelayedFront]:
    """Pending: offsets 1 (an hour), 2 (a day), 3 (2 s, cancelled by 4). Offset 0 is delivered."""
    bench = DelayBench()
    front = bench.lead()
    for value, delay_ms, key in (("a", 0, "a"), ("b", HOUR_MS, "b"), ("c", 24 * HOUR_MS, "c"), ("d", 2_000, "d")):
        bench.write(value, delay_ms, key=key)
    bench.write(None, None, key="d")
    bench.pass_ms(front, 500)
    return bench, front


def test_pending_records_are_counted_by_their_time() -> None:
    _, front = bench_with_pending_messages()
    bounds = [START_MS + 60_000, START_MS + 12 * HOUR_MS]
    found = describe_messages(front, DelayedMessagesRequest(bounds_ms=bounds))
    assert (found.pending, found.counts, found.earliest_ms) == (3, [1, 1, 1], START_MS + 2_000)
    assert (found.delivered, found.cancelled, found.discarded, found.blocked, found.records) == (1, 0, 0, 0, [])


def test_pending_records_are_looked_up_by_key_and_time() -> None:
    _, front = bench_with_pending_messages()
    for query, offsets, following in (
        (DelayedMessagesRequest(records_max=9), [3, 1, 2], -1),
        (DelayedMessagesRequest(records_max=2), [3, 1], 1),
        (DelayedMessagesRequest(records_max=9, after_ms=START_MS + HOUR_MS, after_offset=1), [2], -1),
        (DelayedMessagesRequest(records_max=9, key=b"c"), [2], -1),
        (DelayedMessagesRequest(records_max=9, key=b"a"), [], -1),
        (DelayedMessagesRequest(records_max=9, from_ms=START_MS + HOUR_MS, to_ms=START_MS + 2 * HOUR_MS), [1], -1),
    ):
        query.bounds_ms, query.duration_ms_max = [], 1
        found = describe_messages(front, query)
        assert [r.offset for r in found.records] == offsets and found.next_offset == following
        assert {r.offset for r in found.records if r.cancelled} <= {3}
    without_time = describe_messages(front, DelayedMessagesRequest(bounds_ms=[], records_max=9))
    assert [r.cancelled for r in without_time.records] == [True, False], "the first later bucket is always searched"
    assert without_time.next_ms > START_MS + HOUR_MS


def test_a_question_that_cannot_be_answered_gets_an_error_code() -> None:
    query = versioned.encode(DelayedMessagesRequest(bounds_ms=[]), VERSION)
    bench, front = bench_with_pending_messages()
    assert respond(None, query).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert respond(bench.lead(), query).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, "not read yet"
    assert respond(front, b"").error_code == ErrorCode.INVALID_REQUEST
    too_many = versioned.encode(DelayedMessagesRequest(bounds_ms=[1] * 101), VERSION)
    assert respond(front, too_many).error_code == ErrorCode.INVALID_REQUEST
    denied = respond(front, query, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert denied.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not denied.delayed_messages
