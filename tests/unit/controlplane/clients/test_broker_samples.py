"""The sample of one broker: number of requests, offsets, replicas, log directories."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from brokerd.cluster.disk_health import DiskHealth
from brokerd.cluster.model import ProcessStart
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from controlplane.clients.broker_samples import (
    EARLIEST,
    LATEST,
    PARTITIONS_PER_REQUEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FailedLoginSample,
    RejectedClientSample,
    TruncationSample,
    list_offsets,
    sample_broker,
)

TOPIC_ID = UUID(int=5)
F0, F1 = ("flights", 0), ("flights", 1)


class Broker:
    """Responds with these offsets by (partition, timestamp, isolation level); a missing one is an error of the partition."""

    def __init__(self) -> None:
        self.offsets: dict[tuple[tuple[str, int], int, int], int] = {}
        self.requests: list[tuple[ApiKey, Any]] = []

    def count(self, timestamp: int) -> int:
        listed = [b for api, b in self.requests if api is ApiKey.LIST_OFFSETS]
        return sum(b.topics[0].partitions[0].timestamp == timestamp for b in listed)

    def call(self, api: ApiKey, version: int, body: Any, seconds: float = 0) -> Any:
        self.requests.append((api, body))
        match api:
            case ApiKey.LIST_OFFSETS:
                r = m.ListOffsetsResponse
                return r(
                    topics=[
                        r.ListOffsetsTopicResponse(
                            name=t.name,
                            partitions=[self._partition(r, t.name, p, body.isolation_level) for p in t.partitions],
                        )
                        for t in body.topics
                    ]
                )
            case ApiKey.DESCRIBE_LOG_DIRS:
                return self._log_dirs(body)
        return m.ListGroupsResponse(groups=[])

    def _partition(self, r: Any, name: str, p: Any, isolation: int) -> Any:
        offset = self.offsets.get(((name, p.partition_index), p.timestamp, isolation))
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if offset is None else ErrorCode.NONE
        offset = -1 if offset is None else offset
        return r.ListOffsetsPartitionResponse(partition_index=p.partition_index, error_code=code, offset=offset)

    def _log_dirs(self, body: Any) -> Any:
        r = m.DescribeLogDirsResponse
        if body.lagging:
            late = r.LaggingCopy(topic="flights", partition_index=0, broker_id=3, log_end=70, log_start=-1)
            # As a broker: only a request without partitions gets the histogram.
            return r(lagging=[late], produce_times=[5, 1] if body.topics == [] else [])

        def partition(index: int, size: int, lag: int, *, future: bool = False) -> Any:
            return r.DescribeLogDirsPartition(
                partition_index=index, partition_size=size, offset_lag=lag, is_future_key=future
            )

        assert body.traffic and body.requests and body.truncations and body.start
        replicas = [partition(0, 500, 0), partition(1, 300, -1), partition(1, 9, 0, future=True)]
        replicas[0].bytes_in, replicas[0].replication_bytes_out = 9_000, 18_000
        topics = [r.DescribeLogDirsTopic(name="flights", partitions=replicas)]
        failed = r.ErrorCount(code=6, count=2)
        produce = r.ApiRequests(name="Produce", counts=[3, 1], sum_seconds=0.5, greatest_seconds=0.25, errors=[failed])
        total, rejected = (
            r.Rejection(reason="too_large", count=4),
            r.Rejection(
                host="h",
                principal="User:x",
                client_id="c",
                reason="unauthorized",
                count=3,
                operation="WRITE",
                resource_type="TOPIC",
                resource_name="flights",
            ),
        )
        login = r.FailedLogin(host="h", client_id="c", user="etl", mechanism="PLAIN", failure="wrong_password", count=2)
        return r(
            start_ms=1_700_000_000_500,
            unclean_start=True,
            requests=[produce],
            rejections=[total, rejected],
            failed_logins=[login],
            truncations=[
                r.Truncation(
                    topic_id=TOPIC_ID,
                    partition_index=1,
                    first_offset=10,
                    end_offset=15,
                    high_watermark=12,
                    leader_epoch=3,
                    at_ms=1_700_000_000_000,
                )
            ],
            results=[
                r.DescribeLogDirsResult(log_dir="/a", topics=topics, total_bytes=1000, usable_bytes=90),
                r.DescribeLogDirsResult(
                    log_dir="/b", topics=[], total_bytes=2000, usable_bytes=400, health=DiskHealth.SLOW, probe_ms=1_500
                ),
                r.DescribeLogDirsResult(log_dir="/c", topics=[], error_code=ErrorCode.KAFKA_STORAGE_ERROR),
                r.DescribeLogDirsResult(
                    log_dir="/d",
                    topics=[],
                    error_code=ErrorCode.KAFKA_STORAGE_ERROR,
                    health=DiskHealth.HUNG,
                    probe_ms=61_000,
                ),
            ],
        )


def test_a_sample_with_sizes_has_replicas_directories_and_lagging_replicas() -> None:
    broker: Any = Broker()
    broker.offsets = {
        (F0, LATEST, READ_UNCOMMITTED): 100,
        (F0, EARLIEST, READ_UNCOMMITTED): 10,
        (F1, EARLIEST, READ_UNCOMMITTED): 0,
        (F0, LATEST, READ_COMMITTED): 60,
    }
    sample = sample_broker(broker, 1, {"flights": [0, 1]}, {}, with_sizes=True, stalled=[F0])
    assert sample.produce_counts == (5, 1)
    assert sample.offsets == {F0: (10, 100)}, "a partition whose leader it no longer is has no offsets"
    assert sample.replicas == {F0: (500, 0), F1: (300, None)}, "the future replica does not count"
    assert (sample.space, sample.failed) == ((2000, 400), ("/c", "/d"))
    assert (sample.slow, sample.hung, sample.probe_ms) == (("/b",), ("/d",), {"/b": 1_500, "/d": 61_000})
    assert sample.lagging == {F0: {3: (70, -1)}} and sample.stable == {F0: 60}
    assert sample.requests == {"Produce": ((3, 1), 0.25, {6: 2})}
    assert sample.rejections == {"too_large": 4}
    denial = ("write", "topic", "flights")
    assert sample.rejected_clients == (RejectedClientSample("User:x", "h", "c", "unauthorized", 3, denial),)
    assert sample.failed_logins == (FailedLoginSample("h", "c", "etl", "PLAIN", "wrong_password", 2),)
    assert sample.truncations == (TruncationSample(TOPIC_ID, 1, 10, 15, 12, 3, 1_700_000_000_000),)
    assert sample.start == ProcessStart(1_700_000_000_500, unclean=True)
    assert sample.traffic == {F0: (9_000, 0, 0, 18_000)}, "only replicas with traffic"


def test_log_start_offsets_are_requested_with_the_sizes_and_for_new_partitions_only() -> None:
    broker: Any = Broker()
    broker.offsets = {
        (F0, LATEST, READ_UNCOMMITTED): 100,
        (F0, EARLIEST, READ_UNCOMMITTED): 10,
        (F1, LATEST, READ_UNCOMMITTED): 7,
        (F1, EARLIEST, READ_UNCOMMITTED): 9,
    }
    starts: dict[tuple[str, int], int] = {}
    for indexes, expected in (([0], 1), ([0], 1), ([0, 1], 2)):
        sample = sample_broker(broker, 1, {"flights": indexes}, starts, with_sizes=False)
        assert broker.count(EARLIEST) == expected
    assert sample.offsets[F1] == (7, 7), "a log start offset read later than the end may be above it"
    assert sample.truncations is None
    assert sample.replicas is None and ApiKey.DESCRIBE_LOG_DIRS not in {api for api, _ in broker.requests}


def test_offsets_of_many_partitions_are_read_in_several_requests() -> None:
    broker: Any = Broker()
    count = 2 * PARTITIONS_PER_REQUEST + 1
    broker.offsets = {(("t", i), LATEST, READ_UNCOMMITTED): i for i in range(count)}
    assert list_offsets(broker, {"t": range(count)}, LATEST) == {("t", i): i for i in range(count)}
    sizes = [sum(len(t.partitions) for t in body.topics) for _, body in broker.requests]
    assert sizes == [PARTITIONS_PER_REQUEST, PARTITIONS_PER_REQUEST, 1]
