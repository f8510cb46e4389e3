"""Log directories as a broker describes them, and the responses to a move between them."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.cluster.disk_health import DiskHealth
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from controlplane.clients import log_dirs as client
from controlplane.clients.connection import Declined

R = m.DescribeLogDirsResponse


class Broker:
    """Answers with these bodies, in their order."""

    def __init__(self, *responses: Any) -> None:
        self.responses, self.asked = list(responses), list[tuple[ApiKey, Any]]()

    def call(self, api: ApiKey, version: int, body: Any, timeout_s: float) -> Any:
        self.asked.append((api, body))
        return self.responses.pop(0)


def test_slow_and_hung_disks_have_states_of_their_own() -> None:
    slow = R.DescribeLogDirsResult(log_dir="/a", health=DiskHealth.SLOW, probe_ms=1_500)
    hung = R.DescribeLogDirsResult(log_dir="/b", error_code=ErrorCode.KAFKA_STORAGE_ERROR, health=DiskHealth.HUNG)
    broker = Broker(R(results=[slow, hung]))
    found = client.describe_log_dirs(broker)  # type: ignore[arg-type]
    assert [(d.path, d.state, d.state.served, d.probe_ms) for d in found] == [
        ("/a", "slow", True, 1_500),
        ("/b", "hung", False, None),
    ]
    assert broker.asked[0][1].disks


def alter_log_dirs_response(code: ErrorCode) -> m.AlterReplicaLogDirsResponse:
    r = m.AlterReplicaLogDirsResponse
    part = r.AlterReplicaLogDirPartitionResult(partition_index=3, error_code=code)
    return r(results=[r.AlterReplicaLogDirTopicResult(topic_name="orders", partitions=[part])])


def test_directories_have_state_space_and_replicas() -> None:
    partitions = [
        R.DescribeLogDirsPartition(partition_index=0, partition_size=80, offset_lag=0, is_future_key=False),
        R.DescribeLogDirsPartition(partition_index=1, partition_size=15, offset_lag=-1, is_future_key=True),
    ]
    healthy = R.DescribeLogDirsResult(
        log_dir="/b",
        topics=[R.DescribeLogDirsTopic(name="orders", partitions=partitions)],
        total_bytes=1_000,
        usable_bytes=100,
    )
    failed = R.DescribeLogDirsResult(log_dir="/a", error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    a, b = client.describe_log_dirs(Broker(R(results=[healthy, failed])))  # type: ignore[arg-type]
    assert (a.path, a.state, a.total_bytes, a.free_bytes, a.replicas) == ("/a", "failed", None, None, ())
    assert (b.path, b.state, b.total_bytes, b.free_bytes) == ("/b", "healthy", 1_000, 100)
    assert [(r.partition, r.size_bytes, r.lag_records, r.future) for r in b.replicas] == [
        (("orders", 0), 80, 0, False),
        (("orders", 1), 15, None, True),
    ]
    with pytest.raises(Declined, match="CLUSTER_AUTHORIZATION_FAILED"):
        client.describe_log_dirs(Broker(R(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)))  # type: ignore[arg-type]


def test_a_busy_replica_is_asked_again_and_other_errors_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RETRY_SECONDS", 0.0)
    broker = Broker(alter_log_dirs_response(ErrorCode.REPLICA_NOT_AVAILABLE), alter_log_dirs_response(ErrorCode.NONE))
    client.alter_replica_log_dir(broker, "orders", 3, "/b")  # type: ignore[arg-type]
    assert [body.dirs[0].path for _, body in broker.asked] == ["/b", "/b"]
    with pytest.raises(Declined, match="LOG_DIR_NOT_FOUND"):
        client.alter_replica_log_dir(Broker(alter_log_dirs_response(ErrorCode.LOG_DIR_NOT_FOUND)), "orders", 3, "/x")  # type: ignore[arg-type]
    monkeypatch.setattr(client, "MOVE_SECONDS", 0.0)
    with pytest.raises(Declined, match="REPLICA_NOT_AVAILABLE"):
        client.alter_replica_log_dir(
            Broker(alter_log_dirs_response(ErrorCode.REPLICA_NOT_AVAILABLE)), "orders", 3, "/b"
        )  # type: ignore[arg-type]
