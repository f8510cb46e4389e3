"""The produce response from frozen results."""

from __future__ import annotations

from itertools import repeat
from uuid import UUID

from brokerd.apis.produce_results import NOT_LEADER, PartitionResult, produce_response
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ProduceRequest


def test_results_are_in_the_order_of_the_request() -> None:
    r = ProduceRequest
    parts = lambda *indexes: [r.PartitionProduceData(index=i) for i in indexes]  # noqa: E731
    body = r(
        topic_data=[
            r.TopicProduceData(name="a", partition_data=parts(2, 0)),
            r.TopicProduceData(name="b", topic_id=UUID(int=1), partition_data=parts(1)),
        ]
    )
    good = PartitionResult(ErrorCode.NONE, None, 7, 8, 5)
    bad = PartitionResult(ErrorCode.INVALID_RECORD, "bad", record_errors=((3, "no key"),))
    topics = produce_response(body, [good, NOT_LEADER, bad]).responses
    assert [(t.name, t.topic_id.int) for t in topics] == [("a", 0), ("b", 1)]
    (first, second), (third,) = (t.partition_responses for t in topics)
    assert (first.index, first.error_code, first.base_offset) == (2, 0, 7)
    assert (first.log_append_time_ms, first.log_start_offset) == (8, 5)
    assert (second.index, second.error_code, second.base_offset) == (0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    (record,) = third.record_errors
    assert (record.batch_index, record.batch_index_error_message, third.error_message) == (3, "no key", "bad")
    same = produce_response(body, repeat(NOT_LEADER))
    assert [len(t.partition_responses) for t in same.responses] == [2, 1]
