"""Single requests of the control plane to brokers: deletion of a group, unclean election, offsets and records of one replica, produce latency.

Every call has a deadline; without a response it raises NoResponse. Does not contain: samples of the cluster monitor (`broker_samples`,
`group_samples`), offset resets (`group_offsets`), records of a partition (`selectors.messages`).
"""

from __future__ import annotations

import time

from django.conf import settings

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from controlplane.clients.broker_samples import EARLIEST_LOCAL, LATEST, list_offsets
from controlplane.clients.connection import Declined, KafkaConnection, NoResponse
from controlplane.domain.compare import ComparedReplica

PRODUCE_TIMES_SECONDS = 0.5
"""Deadline of the call that is made each second: the next call replaces a late response."""


def delete_group(group_id: str, timeout_s: float = 10.0) -> None:
    """Delete an empty group at its coordinator. Raises Declined or NoResponse."""
    deadline = time.monotonic() + timeout_s
    problem = "no broker answered"
    while time.monotonic() < deadline:
        for address in settings.WEIR.bootstrap.split(","):
            host, _, port = address.rpartition(":")
            broker = KafkaConnection(host, int(port))
            try:
                found = broker.call(ApiKey.FIND_COORDINATOR, 3, m.FindCoordinatorRequest(key=group_id, key_type=0))
                if found.error_code:
                    problem = ErrorCode(found.error_code).name
                    continue
                coordinator = KafkaConnection(found.host, found.port)
                try:
                    response = coordinator.call(ApiKey.DELETE_GROUPS, 2, m.DeleteGroupsRequest(groups_names=[group_id]))
                finally:
                    coordinator.close()
                code = ErrorCode(response.results[0].error_code)
                if code is ErrorCode.NONE:
                    return
                if not code.retriable:
                    raise Declined(code.text)
                problem = code.name
            except NoResponse as e:
                problem = str(e)
            finally:
                broker.close()
        time.sleep(0.2)
    raise NoResponse(f"Group {group_id!r}: {problem}.")


def elect_uncleanly(topic: str, partition: int, timeout_s: float = 15.0) -> bool:
    """Request an unclean leader election. False: the partition has a leader. Raises Declined or NoResponse."""
    requested = m.ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[partition])
    body = m.ElectLeadersRequest(election_type=1, topic_partitions=[requested], timeout_ms=int(timeout_s * 1000))
    problem = "no broker answered"
    for address in settings.WEIR.bootstrap.split(","):
        host, _, port = address.rpartition(":")
        broker = KafkaConnection(host, int(port))
        try:
            response = broker.call(ApiKey.ELECT_LEADERS, 2, body, timeout_s)
        except NoResponse as e:
            problem = str(e)
            continue
        finally:
            broker.close()
        results = [p for t in response.replica_election_results for p in t.partition_result]
        code = ErrorCode(
            response.error_code or (results[0].error_code if results else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        )
        if code in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
            return code == ErrorCode.NONE
        raise Declined((results[0].error_message if results else "") or code.text)
    raise NoResponse(f"{topic}-{partition}: {problem}.")


ANY_RACK = "weir-compares"
"""Rack id of fetches from followers (KIP-392). No broker is in this rack, so the leader does not redirect the client."""


def bounds(host: str, port: int, topic: str, partition: int) -> tuple[int, int]:
    """(local log start offset, high watermark) from the leader. Raises NoResponse, or Declined if the broker is not the leader."""
    broker = KafkaConnection(host, port)
    try:
        found = [
            list_offsets(broker, {topic: [partition]}, at).get((topic, partition)) for at in (EARLIEST_LOCAL, LATEST)
        ]
    finally:
        broker.close()
    first, last = found
    if first is None or last is None:
        raise Declined(f"{host}:{port} is not the leader of {topic}-{partition}")
    return first, last


def read_replica(host: str, port: int, topic: str, partition: int, offset: int, bytes_max: int) -> ComparedReplica:
    """The records of this broker's replica from `offset` on, leader or not. Raises NoResponse, or Declined with the error's name."""
    requested = m.FetchRequest.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=bytes_max)
    body = m.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=bytes_max,
        rack_id=ANY_RACK,
        topics=[m.FetchRequest.FetchTopic(topic=topic, partitions=[requested])],
    )
    broker = KafkaConnection(host, port)
    try:
        response = broker.call(ApiKey.FETCH, 12, body)
    finally:
        broker.close()
    reported = [p for t in response.responses for p in t.partitions]
    code = ErrorCode(
        response.error_code or (reported[0].error_code if reported else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    )
    if code:
        raise Declined(code.name)
    return ComparedReplica(reported[0].log_start_offset, reported[0].high_watermark, bytes(reported[0].records or b""))


def produce_times(host: str, port: int) -> list[int]:
    """Produce latency of this broker since its start, as counts per bucket (`brokerd.cluster.latency_buckets`). Raises NoResponse, or Declined if the
    broker does not report it."""
    broker = KafkaConnection(host, port)
    try:
        response = broker.call(ApiKey.DESCRIBE_LOG_DIRS, 4, m.DescribeLogDirsRequest(topics=[]), PRODUCE_TIMES_SECONDS)
    finally:
        broker.close()
    if not response.produce_times:
        raise Declined(f"{host}:{port} does not report produce latency")
    return list(response.produce_times)
