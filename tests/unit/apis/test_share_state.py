"""The APIs of the share coordinator: one error code for each partition, and the ACL of brokers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from brokerd.apis.share_state import ShareStateApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.wire import messages as m
from brokerd.wire.errors import ErrorCode
from tests.unit.coordinator.share_state.test_coordinator import Scene, T


def call_api(scene: Scene, call: str, body: Any, auth: Any = ALLOW_ALL) -> Any:
    responses: list[Any] = []
    request: Any = SimpleNamespace(body=body, reply=responses.append, header=SimpleNamespace(api_version=0))
    getattr(ShareStateApi(scene.coordinator, auth), call)(request)
    return responses[0]


def parts(response: Any) -> list[Any]:
    return [p for t in response.results for p in t.partitions]


def initialize(*topics: UUID) -> m.InitializeShareGroupStateRequest:
    q = m.InitializeShareGroupStateRequest
    part = [q.PartitionData(partition=p, state_epoch=1, start_offset=7) for p in (0, 1)]
    return q(group_id="g", topics=[q.InitializeStateData(topic_id=t, partitions=part) for t in topics])


def test_state_is_initialized_written_read_summarized_and_deleted() -> None:
    scene = Scene()
    assert [p.error_code for p in parts(call_api(scene, "initialize", initialize(T)))] == [0, 0]
    w = m.WriteShareGroupStateRequest
    batch = w.StateBatch(first_offset=9, last_offset=9, delivery_state=2, delivery_count=1)
    part = w.PartitionData(
        partition=0, state_epoch=1, leader_epoch=3, start_offset=8, delivery_complete_count=1, state_batches=[batch]
    )
    written = call_api(scene, "write", w(group_id="g", topics=[w.WriteStateData(topic_id=T, partitions=[part])]))
    assert [p.error_code for p in parts(written)] == [0]
    r = m.ReadShareGroupStateRequest
    read = r(
        group_id="g", topics=[r.ReadStateData(topic_id=T, partitions=[r.PartitionData(partition=0, leader_epoch=3)])]
    )
    (found,) = parts(call_api(scene, "read", read))
    assert (found.state_epoch, found.start_offset, found.error_code) == (1, 8, 0)
    assert [(b.first_offset, b.delivery_state, b.delivery_count) for b in found.state_batches] == [(9, 2, 1)]
    s = m.ReadShareGroupStateSummaryRequest
    body = s(group_id="g", topics=[s.ReadStateSummaryData(topic_id=T, partitions=[s.PartitionData(partition=0)])])
    (short,) = parts(call_api(scene, "summary", body))
    assert (short.start_offset, short.leader_epoch, short.delivery_complete_count) == (8, 3, 1)
    d = m.DeleteShareGroupStateRequest
    gone = d(group_id="g", topics=[d.DeleteStateData(topic_id=T, partitions=[d.PartitionData(partition=0)])])
    assert [p.error_code for p in parts(call_api(scene, "delete", gone))] == [0]
    assert parts(call_api(scene, "summary", body))[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_each_partition_has_its_own_error() -> None:
    scene = Scene()
    response = call_api(scene, "initialize", initialize(T, UUID(int=9)))
    assert [[p.error_code for p in t.partitions] for t in response.results] == [
        [0, 0],
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2,
    ]


@pytest.mark.parametrize("call", ["initialize", "read", "write", "delete", "summary"])
def test_only_brokers_are_authorized(call: str) -> None:
    auth: Any = SimpleNamespace(authorize=lambda request, operation, resource: False)
    body: Any = initialize(T)
    response = call_api(Scene(), call, body, auth)
    assert {p.error_code for p in parts(response)} == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    assert call_api(Scene(), call, SimpleNamespace(group_id="g", topics=[])).results == []


def test_a_request_without_a_group_is_invalid() -> None:
    body = initialize(T)
    body.group_id = ""
    assert {p.error_code for p in parts(call_api(Scene(), "initialize", body))} == {ErrorCode.INVALID_REQUEST}
