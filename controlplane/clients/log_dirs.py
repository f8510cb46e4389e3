"""The log directories of one broker (DescribeLogDirs), and moves of replicas between them (AlterReplicaLogDirs).

Every call has a deadline; without a response it raises NoResponse. Does not contain: whether a move is possible (`domain.log_dirs`).
"""

from __future__ import annotations

import time

from brokerd.cluster.disk_health import DiskHealth
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from controlplane.clients.connection import Declined, KafkaConnection
from controlplane.domain.log_dirs import LogDirState, ReportedLogDir, ReportedReplica

READ_SECONDS = 2.0
"""Deadline of a page. A broker with 100,000 replicas answers with 5 MB."""

MOVE_SECONDS = 5.0
RETRY_SECONDS = 0.2
"""Pause between two attempts to end a move whose current piece is being copied."""


def describe_log_dirs(connection: KafkaConnection) -> list[ReportedLogDir]:
    """All directories of the broker, in the order of their paths. Raises NoResponse, or Declined with the error of the broker."""
    request = m.DescribeLogDirsRequest(topics=None, disks=True)
    response = connection.call(ApiKey.DESCRIBE_LOG_DIRS, 4, request, READ_SECONDS)
    if response.error_code:
        raise Declined(ErrorCode(response.error_code).name)
    found = []
    for directory in response.results:
        replicas = tuple(
            ReportedReplica(
                topic=t.name,
                index=p.partition_index,
                size_bytes=p.partition_size,
                lag_records=p.offset_lag if p.offset_lag >= 0 else None,
                future=p.is_future_key,
            )
            for t in directory.topics
            for p in t.partitions
        )
        total = directory.total_bytes if directory.total_bytes >= 0 else None
        free = directory.usable_bytes if directory.usable_bytes >= 0 else None
        probe_ms = directory.probe_ms if directory.probe_ms >= 0 else None
        found.append(ReportedLogDir(directory.log_dir, _state(directory), total, free, replicas, probe_ms))
    return sorted(found, key=lambda d: d.path)


def _state(d: m.DescribeLogDirsResponse.DescribeLogDirsResult) -> LogDirState:
    if d.error_code:
        return LogDirState.HUNG if d.health == DiskHealth.HUNG else LogDirState.FAILED
    return LogDirState.SLOW if d.health == DiskHealth.SLOW else LogDirState.HEALTHY


def alter_replica_log_dir(connection: KafkaConnection, topic: str, index: int, directory: str) -> None:
    """Move a replica of this broker to `directory`; the directory that it is in ends its move. Raises NoResponse, or Declined with the error of the
    broker."""
    named = m.AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name=topic, partitions=[index])
    body = m.AlterReplicaLogDirsRequest(
        dirs=[m.AlterReplicaLogDirsRequest.AlterReplicaLogDir(path=directory, topics=[named])]
    )
    deadline = time.monotonic() + MOVE_SECONDS
    while True:
        response = connection.call(
            ApiKey.ALTER_REPLICA_LOG_DIRS, 2, body, max(RETRY_SECONDS, deadline - time.monotonic())
        )
        codes = [p.error_code for t in response.results for p in t.partitions]
        code = ErrorCode(codes[0]) if codes else ErrorCode.UNKNOWN_SERVER_ERROR
        if not code:
            return
        if code is not ErrorCode.REPLICA_NOT_AVAILABLE or time.monotonic() >= deadline:
            raise Declined(code.name)
        time.sleep(RETRY_SECONDS)
