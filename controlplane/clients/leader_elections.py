"""Elections of preferred leaders (ElectLeaders), and the leaders that a broker reports (Metadata).

Every call has a deadline; without a response it raises NoResponse. Does not contain: unclean leader elections (`kafka`), which partitions need an
election (`domain.leader_election`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from controlplane.clients.all_brokers import BrokerAddress
from controlplane.clients.connection import Declined, KafkaConnection, NoResponse

ELECT_SECONDS = 10.0
"""Deadline of one election, with the requests to one broker after the other. The controller answers after its next write of the metadata log."""

CALL_SECONDS = 4.0
"""Deadline of the request to one broker. Then the next broker gets the request."""

PARTITIONS_PER_REQUEST = 1_000
"""Partitions of one ElectLeaders request. The controller handles a request in one pass, and other requests in between."""

READ_BACK_SECONDS = 5.0
RETRY_SECONDS = 0.1
"""Pause between two reads of the leaders."""

PREFERRED = 0
PartitionName = tuple[str, int]


def elect_preferred(
    brokers: Sequence[BrokerAddress], partitions: Sequence[PartitionName]
) -> dict[PartitionName, ErrorCode]:
    """The controller's verdict per partition; a partition without one is missing. A repeated election changes nothing, so the next broker gets the request
    where one does not respond. Raises NoResponse if no broker answers, or Declined with the error of the whole request."""
    deadline, problem = time.monotonic() + ELECT_SECONDS, "no broker is up"
    for broker in brokers:
        left = min(CALL_SECONDS, deadline - time.monotonic())
        if left <= 0:
            break
        body = m.ElectLeadersRequest(
            election_type=PREFERRED,
            topic_partitions=[
                m.ElectLeadersRequest.TopicPartitions(topic=topic, partitions=indexes)
                for topic, indexes in _by_topic(partitions).items()
            ],
            timeout_ms=int(left * 1000),
        )
        connection = KafkaConnection(broker.host, broker.port)
        try:
            response = connection.call(ApiKey.ELECT_LEADERS, 2, body, left)
        except NoResponse as e:
            problem = str(e)
            continue
        finally:
            connection.close()
        if response.error_code:
            raise Declined(ErrorCode(response.error_code).text)
        return {
            (t.topic, p.partition_id): ErrorCode(p.error_code)
            for t in response.replica_election_results
            for p in t.partition_result
        }
    raise NoResponse(f"{problem}.")


def leaders(connection: KafkaConnection, topics: Iterable[str]) -> dict[PartitionName, int | None]:
    """The leader of each partition of these topics, as this broker reports it; None: no leader. Raises NoResponse."""
    body = m.MetadataRequest(
        topics=[m.MetadataRequest.MetadataRequestTopic(name=n) for n in topics], allow_auto_topic_creation=False
    )
    response = connection.call(ApiKey.METADATA, 8, body)
    return {
        (t.name or "", p.partition_index): p.leader_id if p.leader_id >= 0 else None
        for t in response.topics
        for p in t.partitions
    }


def read_back(
    brokers: Sequence[BrokerAddress], expected: Mapping[PartitionName, int]
) -> dict[PartitionName, int | None]:
    """The leaders of these partitions, read until all are as expected or the time is over. Raises NoResponse if no broker answers."""
    deadline, problem = time.monotonic() + READ_BACK_SECONDS, "no broker is up"
    for broker in brokers:
        connection = KafkaConnection(broker.host, broker.port)
        try:
            while True:
                found = _of_expected(leaders(connection, _by_topic(expected)), expected)
                if found == expected or time.monotonic() >= deadline:
                    return found
                time.sleep(RETRY_SECONDS)
        except NoResponse as e:
            problem = str(e)
        finally:
            connection.close()
        if time.monotonic() >= deadline:
            break
    raise NoResponse(f"{problem}.")


def _of_expected(
    reported: Mapping[PartitionName, int | None], expected: Collection[PartitionName]
) -> dict[PartitionName, int | None]:
    return {spot: reported.get(spot) for spot in expected}


def _by_topic(partitions: Iterable[PartitionName]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, index in partitions:
        found.setdefault(topic, []).append(index)
    return found
