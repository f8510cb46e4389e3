"""The leader's description of its undecided half messages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from brokerd.apis.half_messages import HalfMessagesServer
from brokerd.cluster.model import TopicPartition
from brokerd.delivery.half_front import HalfFront
from brokerd.delivery.led_fronts import LedFronts
from brokerd.wire import versioned
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest
from brokerd.wire.messages.half_messages import VERSION, HalfMessagesRequest, HalfMessagesResponse
from tests.unit.delivery.front_bench import START_MS
from tests.unit.delivery.test_half_front import HalfBench, leading_bench

TP = TopicPartition(UUID(int=1), 0)


def partition_with_query(query: bytes, error: ErrorCode = ErrorCode.NONE) -> Any:
    requested = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=0, half_messages=query)
    return SimpleNamespace(
        topic_name="t.half", topic_id=TP.topic_id, requested=requested, error=error, replica=SimpleNamespace(tp=TP)
    )


def respond(bench: HalfBench | None, query: bytes, error: ErrorCode = ErrorCode.NONE) -> Any:
    fronts: LedFronts[HalfFront] = LedFronts()
    if bench is not None:
        fronts.add(TP, bench.front, lambda: True)
    return HalfMessagesServer(fronts).respond([partition_with_query(query, error)], ()).responses[0].partitions[0]


def test_the_oldest_undecided_messages_are_described() -> None:
    bench = leading_bench()
    bench.write(("a", None), ("b", None), ("c", None))
    bench.write(("b", "commit"))
    bench.wait(7_000)
    for query, ids in (
        (HalfMessagesRequest(), [b"a", b"c"]),
        (HalfMessagesRequest(messages_max=1), [b"a"]),
        (HalfMessagesRequest(from_offset=1), [b"c"]),
        (HalfMessagesRequest(messages_max=-1), []),
    ):
        found = versioned.decode(
            HalfMessagesResponse, respond(bench, versioned.encode(query, VERSION)).half_messages, VERSION, 100
        )
        assert [m.half_id for m in found.messages] == ids
        assert (found.undecided, found.delivered, found.expired, found.checks_sent) == (2, 1, 0, 2)
        assert all(m.checks == 1 and m.appended_ms >= START_MS and not m.expiring for m in found.messages)


def test_a_question_that_cannot_be_answered_gets_an_error_code() -> None:
    query = versioned.encode(HalfMessagesRequest(), VERSION)
    assert respond(None, query).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert respond(leading_bench(), b"").error_code == ErrorCode.INVALID_REQUEST
    denied = respond(leading_bench(), query, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert denied.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not denied.half_messages
