"""What a leader counts of its copies that are out of sync, told to who asks for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from brokerd.apis.logdirs import UNTOLD, LogDirsApi
from brokerd.cluster.model import PartitionState, Seat, TopicPartition
from brokerd.partition import Follower
from brokerd.produce_times import ProduceTimes
from brokerd.wire.apis import ApiKey
from brokerd.wire.framing import decode_response, encode_response
from brokerd.wire.messages import DescribeLogDirsRequest, DescribeLogDirsResponse


def led(index: int, isr: tuple[int, ...], **followers: Follower) -> Any:
    state = PartitionState((1, 2, 3), tuple(Seat(b, 100 + b) for b in isr), 1, 101)
    core = SimpleNamespace(state=state, followers={int(name[1:]): f for name, f in followers.items()})
    return SimpleNamespace(topic="t", tp=TopicPartition(UUID(int=1), index), core=core)


def told(asked: bool, *replicas: Any) -> DescribeLogDirsResponse:
    partitions: Any = SimpleNamespace(hosted={}, led=lambda: replicas, log_dirs=SimpleNamespace(all=[]))
    api = LogDirsApi(partitions, SimpleNamespace(under_way={}), lambda: None, ProduceTimes())  # type: ignore[arg-type]
    answers: list[DescribeLogDirsResponse] = []
    api.describe_log_dirs(SimpleNamespace(body=DescribeLogDirsRequest(topics=[], lagging=asked), reply=answers.append))  # type: ignore[arg-type]
    return answers[0]


def test_copies_out_of_sync_are_told_with_what_keeps_them_out_and_others_are_not() -> None:
    late = Follower(103, log_end=90, log_start=50, late_since_ms=7)
    answer = told(
        True, led(0, (1, 2, 3)), led(1, (1,), b2=Follower(102, log_end=40, log_start=10), b3=late), led(2, (1, 2))
    )
    found = [(c.partition_index, c.broker_id, c.log_end, c.log_start) for c in answer.lagging]
    assert found == [(1, 2, 40, UNTOLD), (1, 3, 90, 50), (2, 3, UNTOLD, UNTOLD)]
    frame = b"".join(bytes(p) for p in encode_response(ApiKey.DESCRIBE_LOG_DIRS, 4, 7, answer))  # type: ignore[arg-type]
    assert decode_response(ApiKey.DESCRIBE_LOG_DIRS, 4, memoryview(frame)[4:]) == (7, answer)


def test_who_does_not_ask_is_not_told() -> None:
    assert told(False, led(1, (1,))).lagging == []
