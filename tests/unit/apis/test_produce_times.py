"""How long producers wait is counted per request, and told to who names no partition."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from brokerd.apis.logdirs import LogDirsApi
from brokerd.produce_times import BOUNDS_MS, ProduceTimes
from brokerd.wire.apis import ApiKey
from brokerd.wire.framing import decode_response, encode_response
from brokerd.wire.messages import DescribeLogDirsRequest, DescribeLogDirsResponse


def test_each_wait_lands_in_the_bucket_whose_bound_it_keeps() -> None:
    times = ProduceTimes()
    for ms in (0, 1, 2, 3, 4, 10_000, 10_001, 10**9):
        times.add(ms)
    assert times.counts[:4] == [2, 1, 1, 1]
    assert times.counts[len(BOUNDS_MS) - 1 :] == [1, 2]


def told(topics: list[Any] | None) -> DescribeLogDirsResponse:
    times = ProduceTimes()
    times.add(4)
    partitions: Any = SimpleNamespace(hosted={}, log_dirs=SimpleNamespace(all=[]))
    api = LogDirsApi(partitions, SimpleNamespace(under_way={}), lambda: None, times)  # type: ignore[arg-type]
    answers: list[DescribeLogDirsResponse] = []
    api.describe_log_dirs(SimpleNamespace(body=DescribeLogDirsRequest(topics=topics), reply=answers.append))  # type: ignore[arg-type]
    return answers[0]


def test_it_is_told_to_who_names_no_partition_and_to_nobody_else() -> None:
    assert told([]).produce_times[3] == 1 and len(told([]).produce_times) == len(BOUNDS_MS) + 1
    assert told(None).produce_times == []
    assert told([DescribeLogDirsRequest.DescribableLogDirTopic(topic="t", partitions=[0])]).produce_times == []


def test_it_travels_in_a_tag_that_others_step_over() -> None:
    answer = told([])
    frame = b"".join(bytes(p) for p in encode_response(ApiKey.DESCRIBE_LOG_DIRS, 4, 7, answer))  # type: ignore[arg-type]
    assert decode_response(ApiKey.DESCRIBE_LOG_DIRS, 4, memoryview(frame)[4:]) == (7, answer)
    silent = b"".join(bytes(p) for p in encode_response(ApiKey.DESCRIBE_LOG_DIRS, 4, 7, told(None)))  # type: ignore[arg-type]
    assert len(silent) < len(frame), "and takes no byte where it is not told"
