"""A streams group (KIP-1071) for the calls of kafka-streams-groups: one member joins and commits the offset of its task. The tools have no
program that joins such a group."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from tests.cluster.local import LocalCluster
from tests.faults.raw import RawConnection

GROUP, TOPIC = "counters", "lines"
MEMBER = "counter-1"
SECONDS_MAX = 60


def create_streams_group(cluster: LocalCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result(30)
    find = m.FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
    coordinator = _call_until(cluster, 1, ApiKey.FIND_COORDINATOR, 4, find, lambda r: r.coordinators[0].error_code == 0)
    broker_id = coordinator.coordinators[0].node_id
    request = m.StreamsGroupHeartbeatRequest
    topology = request.Topology(1, [request.Subtopology("0", [TOPIC])])
    join = request(
        group_id=GROUP,
        member_id=MEMBER,
        rebalance_timeout_ms=60_000,
        topology=topology,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="process-1",
    )
    joined = _call_until(
        cluster, broker_id, ApiKey.STREAMS_GROUP_HEARTBEAT, 0, join, lambda r: not r.error_code and bool(r.active_tasks)
    )
    part = m.OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    commit = m.OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=joined.member_epoch,
        member_id=MEMBER,
        topics=[m.OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[part])],
    )
    _call_until(
        cluster,
        broker_id,
        ApiKey.OFFSET_COMMIT,
        9,
        commit,
        lambda r: r.topics[0].partitions[0].error_code == ErrorCode.NONE,
    )


def _call_until(cluster: LocalCluster, broker_id: int, api: ApiKey, version: int, body: Any, accepts: Any) -> Any:
    """The first response that `accepts` accepts: the coordinator may be loading, and the first assignment is delayed."""
    connection = RawConnection(cluster, broker_id)
    deadline = time.monotonic() + SECONDS_MAX
    try:
        while True:
            connection.send(api, version, body)
            response = connection.receive(api, version)
            if accepts(response):
                return response
            assert time.monotonic() < deadline, f"{api.name}: {response}"
            time.sleep(0.2)
    finally:
        connection.close()
