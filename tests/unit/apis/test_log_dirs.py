"""DescribeLogDirs returns produce latency counters and a leader's statistics about out-of-sync replicas."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from brokerd.apis.log_dirs import UNKNOWN_MS, UNREPORTED, LogDirsApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.authz.quotas import Quotas
from brokerd.cluster.disk_health import DiskHealth
from brokerd.cluster.image import Image
from brokerd.cluster.model import Now, PartitionState, ProcessStart, ReplicaIncarnation, TopicPartition
from brokerd.cluster.quota_entities import PRODUCE
from brokerd.cluster.rejection_reasons import RejectionReason
from brokerd.cluster.sasl_failures import SaslFailure
from brokerd.coordinator.share_state.records import SharePartitionKey
from brokerd.net.rejections import Denial, FailedLogin, Rejections
from brokerd.net.request_metrics import RequestMetrics
from brokerd.replication.follower import Follower
from brokerd.replication.produce_latency import BOUNDS_MS, ProduceLatency
from brokerd.replication.truncations import Truncation, Truncations
from brokerd.sharing.dead_letters import DeadLetterCounts, UnwritableReason
from brokerd.storage.log_dirs import LogDir
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.framing import decode_response, encode_response
from brokerd.wire.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from tests.simulation.disk import SimDisk
from tests.unit.replication.test_relocations import Harness
from tests.unit.sharing.test_share_partition import LOCK_MS, share_partition, take


def leader_replica(index: int, isr: tuple[int, ...], **followers: Follower) -> Any:
    state = PartitionState((1, 2, 3), tuple(ReplicaIncarnation(b, 100 + b) for b in isr), 1, 101)
    core = SimpleNamespace(state=state, followers={int(name[1:]): f for name, f in followers.items()})
    return SimpleNamespace(topic="t", tp=TopicPartition(UUID(int=1), index), core=core)


def respond(api: LogDirsApi, body: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    responses: list[DescribeLogDirsResponse] = []
    request: Any = SimpleNamespace(body=body, reply=responses.append)
    api.describe_log_dirs(request)
    (response,) = responses
    return response


def frame_of(response: DescribeLogDirsResponse, version: int = 4) -> bytes:
    """The frame of the response to the request with the correlation ID 7."""
    parts: list[Any] = encode_response(ApiKey.DESCRIBE_LOG_DIRS, version, 7, response)
    return b"".join(map(bytes, parts))


def parse_frame(frame: bytes, version: int = 4) -> tuple[int, Any]:
    """(correlation ID, response)."""
    return decode_response(ApiKey.DESCRIBE_LOG_DIRS, version, memoryview(frame)[4:])


def describe_log_dirs(requested: bool, *replicas: Any) -> DescribeLogDirsResponse:
    replica_manager: Any = SimpleNamespace(hosted={}, led_replicas=lambda: replicas, log_dirs=SimpleNamespace(all=[]))
    api = LogDirsApi(
        replica_manager, SimpleNamespace(under_way={}), lambda: None, ProduceLatency(), ALLOW_ALL, Quotas(), tuple
    )  # type: ignore[arg-type]
    return respond(api, DescribeLogDirsRequest(topics=[], lagging=requested))


def test_out_of_sync_replicas_are_returned_with_their_log_start_and_others_are_not() -> None:
    late = Follower(103, log_end=90, log_start=50, log_start_late_since_ms=7)
    response = describe_log_dirs(
        True,
        leader_replica(0, (1, 2, 3)),
        leader_replica(1, (1,), b2=Follower(102, log_end=40, log_start=10), b3=late),
        leader_replica(2, (1, 2)),
    )
    found = [(c.partition_index, c.broker_id, c.log_end, c.log_start) for c in response.lagging]
    assert found == [(1, 2, 40, UNREPORTED), (1, 3, 90, 50), (2, 3, UNREPORTED, UNREPORTED)]
    assert parse_frame(frame_of(response)) == (7, response)


def test_the_health_of_disks_is_returned_on_request_only() -> None:
    slow, failed = LogDir(Path("/a")), LogDir(Path("/b"))
    slow.health, slow.probe_ms, failed.failed, failed.health = DiskHealth.SLOW, 1_500, "it hangs", DiskHealth.HUNG
    disk = SimpleNamespace(space=lambda path: (10, 5))
    replica_manager: Any = SimpleNamespace(
        hosted={}, disk=disk, log_dirs=SimpleNamespace(all=[slow, failed]), broker_id=1, image=Image()
    )
    api = LogDirsApi(
        replica_manager, SimpleNamespace(under_way={}), lambda: None, ProduceLatency(), ALLOW_ALL, Quotas(), tuple
    )  # type: ignore[arg-type]
    responses: list[DescribeLogDirsResponse] = []
    for disks in (True, False):
        body = DescribeLogDirsRequest(topics=None, disks=disks)
        responses.append(respond(api, body))
    assert [[(r.health, r.probe_ms, r.error_code) for r in a.results] for a in responses] == [
        [(DiskHealth.SLOW, 1_500, 0), (DiskHealth.HUNG, UNKNOWN_MS, ErrorCode.KAFKA_STORAGE_ERROR)],
        [(DiskHealth.OK, UNKNOWN_MS, 0), (DiskHealth.OK, UNKNOWN_MS, ErrorCode.KAFKA_STORAGE_ERROR)],
    ]
    assert parse_frame(frame_of(responses[0])) == (7, responses[0])


def test_the_start_of_the_broker_is_returned_on_request_only() -> None:
    replica_manager: Any = SimpleNamespace(hosted={}, led_replicas=lambda: (), log_dirs=SimpleNamespace(all=[]))
    others: Any = (SimpleNamespace(under_way={}), lambda: None, ProduceLatency(), ALLOW_ALL, Quotas(), tuple)
    api = LogDirsApi(replica_manager, *others, start=ProcessStart(1_796_063_414_577, unclean=True))
    response = respond(api, DescribeLogDirsRequest(topics=[], start=True))
    assert (response.start_ms, response.unclean_start) == (1_796_063_414_577, True)
    assert parse_frame(frame_of(response)) == (7, response)
    without = respond(api, DescribeLogDirsRequest(topics=[]))
    assert (without.start_ms, without.unclean_start) == (UNKNOWN_MS, False)


@pytest.mark.parametrize(("configs", "cordoned"), [({}, False), ({"cordoned.log.dirs": "*"}, True)])
def test_the_log_directories_of_a_cordoned_broker_are_cordoned(configs: dict[str, str], cordoned: bool) -> None:
    image = Image(broker_configs={1: (1, configs)})
    disk = SimpleNamespace(space=lambda path: (10, 5))
    replica_manager: Any = SimpleNamespace(
        hosted={}, disk=disk, log_dirs=SimpleNamespace(all=[LogDir(Path("/a"))]), broker_id=1, image=image
    )
    others: Any = (SimpleNamespace(under_way={}), lambda: None, ProduceLatency(), ALLOW_ALL, Quotas(), tuple)
    response = respond(LogDirsApi(replica_manager, *others), DescribeLogDirsRequest(topics=None))
    _, decoded = parse_frame(frame_of(response, 5), 5)
    assert [r.is_cordoned for r in decoded.results] == [cordoned]


def test_statistics_are_returned_on_request_only() -> None:
    assert describe_log_dirs(False, leader_replica(1, (1,))).lagging == []


def test_each_latency_is_counted_in_its_bucket() -> None:
    times = ProduceLatency()
    for ms in (0, 1, 2, 3, 4, 10_000, 10_001, 10**9):
        times.add(ms)
    assert times.counts[:4] == [2, 1, 1, 1]
    assert times.counts[len(BOUNDS_MS) - 1 :] == [1, 2]


def latency_rows(topics: list[Any] | None) -> DescribeLogDirsResponse:
    times = ProduceLatency()
    times.add(4)
    replica_manager: Any = SimpleNamespace(hosted={}, log_dirs=SimpleNamespace(all=[]))
    api = LogDirsApi(replica_manager, SimpleNamespace(under_way={}), lambda: None, times, ALLOW_ALL, Quotas(), tuple)  # type: ignore[arg-type]
    return respond(api, DescribeLogDirsRequest(topics=topics))


def test_latencies_are_returned_only_if_the_request_names_no_partition() -> None:
    assert latency_rows([]).produce_times[3] == 1 and len(latency_rows([]).produce_times) == len(BOUNDS_MS) + 1
    assert latency_rows(None).produce_times == []
    assert latency_rows([DescribeLogDirsRequest.DescribableLogDirTopic(topic="t", partitions=[0])]).produce_times == []


def test_latencies_are_a_tagged_field_that_other_clients_skip() -> None:
    response = latency_rows([])
    frame, silent = frame_of(response), frame_of(latency_rows(None))
    assert parse_frame(frame) == (7, response)
    assert len(silent) < len(frame), "and an absent field takes no byte"


def test_the_use_of_quotas_is_returned_on_request_and_without_idle_buckets() -> None:
    quotas = Quotas()
    quotas.rate(PRODUCE, '{"user":"idle"}').add(1_000, 1_000)
    quotas.rate(PRODUCE, '{"user":"alice"}').add(20_000, 50_000)
    replica_manager: Any = SimpleNamespace(hosted={}, log_dirs=SimpleNamespace(all=[]))
    api = LogDirsApi(
        replica_manager,
        SimpleNamespace(under_way={}),  # type: ignore[arg-type]
        lambda: Now(50_000, 0),
        ProduceLatency(),
        ALLOW_ALL,
        quotas,
        tuple,
    )
    responses: list[DescribeLogDirsResponse] = []
    for requested in (True, False):
        body = DescribeLogDirsRequest(topics=[], quota_use=requested)
        responses.append(respond(api, body))
    assert [(u.entity, u.quota, u.per_second) for u in responses[0].quota_use] == [('{"user":"alice"}', PRODUCE, 2_000)]
    assert responses[1].quota_use == []
    assert parse_frame(frame_of(responses[0])) == (7, responses[0])


def test_counters_of_bytes_are_returned_on_request_only() -> None:
    harness = Harness(SimDisk())
    harness.append(2)
    replica = harness.replica
    replica.sent_bytes[:] = [5, 7]
    api = LogDirsApi(
        harness.replica_manager,
        SimpleNamespace(under_way={}),
        lambda: None,
        ProduceLatency(),
        ALLOW_ALL,
        Quotas(),
        tuple,
    )  # type: ignore[arg-type]
    responses: list[DescribeLogDirsResponse] = []
    for traffic in (True, False):
        body = DescribeLogDirsRequest(topics=None, traffic=traffic)
        responses.append(respond(api, body))
    found = [next(p for r in a.results for t in r.topics for p in t.partitions) for a in responses]
    counters = [(p.bytes_in, p.bytes_out, p.replication_bytes_in, p.replication_bytes_out) for p in found]
    assert counters == [(replica.log.size_bytes, 5, 0, 7), (0, 0, 0, 0)]
    assert parse_frame(frame_of(responses[0])) == (7, responses[0])


def test_metrics_of_requests_are_returned_on_request_only() -> None:
    metrics = RequestMetrics((ApiKey.PRODUCE, ApiKey.METADATA))
    produce = metrics.by_key[ApiKey.PRODUCE]
    produce.counts[2], produce.sum_s, produce.max_s, produce.errors = 5, 0.25, 0.125, {6: 1}
    replica_manager: Any = SimpleNamespace(hosted={}, log_dirs=SimpleNamespace(all=[]))
    others: Any = (SimpleNamespace(under_way={}), lambda: None, ProduceLatency(), ALLOW_ALL, Quotas(), tuple, tuple)
    api = LogDirsApi(replica_manager, *others, metrics.all)
    responses: list[DescribeLogDirsResponse] = []
    for requests in (True, False):
        body = DescribeLogDirsRequest(topics=[], requests=requests)
        responses.append(respond(api, body))
    (found,) = responses[0].requests
    assert (found.name, found.counts[2], found.sum_seconds, found.greatest_seconds) == ("Produce", 5, 0.25, 0.125)
    assert [(e.code, e.count) for e in found.errors] == [(6, 1)] and responses[1].requests == []


def test_rejected_requests_are_returned_on_request_only() -> None:
    replica_manager: Any = SimpleNamespace(hosted={}, log_dirs=SimpleNamespace(all=[]))
    others: Any = (
        SimpleNamespace(under_way={}),
        lambda: Now(500, 0),
        ProduceLatency(),
        ALLOW_ALL,
        Quotas(),
        tuple,
        tuple,
    )
    rejections = Rejections(lambda: 200)
    rejections.add(RejectionReason.UNAUTHORIZED, "10.0.0.1", "app", "User:x", Denial(29, "WRITE", "TOPIC", "orders"))
    rejections.add(RejectionReason.TOO_LARGE, "10.0.0.1", "app", "User:x")
    tried = FailedLogin("bob", "PLAIN", SaslFailure.WRONG_PASSWORD)
    rejections.add(RejectionReason.AUTHENTICATION_FAILED, "10.0.0.2", "app", login=tried)
    api = LogDirsApi(replica_manager, *others, rejections=rejections)
    responses: list[DescribeLogDirsResponse] = []
    for fields in ({"rejections": True}, {}):
        body = DescribeLogDirsRequest(topics=[], **fields)  # type: ignore[arg-type]
        responses.append(respond(api, body))
    found = [[(r.host, r.principal, r.client_id, r.reason, r.count, r.ago_ms) for r in a.rejections] for a in responses]
    client = ("10.0.0.1", "User:x", "app")
    total = [("", "", "", reason, 1, 0) for reason in ("authentication_failed", "too_large", "unauthorized")]
    rejected = [(*client, "unauthorized", 1, 300), (*client, "too_large", 1, 300)]
    assert found == [[*total, *rejected, ("10.0.0.2", "", "app", "authentication_failed", 1, 300)], []]
    denials = [(r.operation, r.resource_type, r.resource_name) for r in responses[0].rejections[3:]]
    assert denials == [("WRITE", "TOPIC", "orders"), ("", "", ""), ("", "", "")]
    logins = [
        [(x.host, x.client_id, x.user, x.mechanism, x.failure, x.count, x.ago_ms) for x in a.failed_logins]
        for a in responses
    ]
    assert logins == [[("10.0.0.2", "app", "bob", "PLAIN", "wrong_password", 1, 300)], []]
    assert parse_frame(frame_of(responses[0])) == (7, responses[0])


def test_numbers_of_dead_letters_are_returned_on_request_only() -> None:
    replica_manager: Any = SimpleNamespace(hosted={}, log_dirs=SimpleNamespace(all=[]))
    counts = {
        ("workers", "tasks"): DeadLetterCounts(5, 2, UnwritableReason.MISSING),
        ("idle", "tasks"): DeadLetterCounts(1),
    }
    api = LogDirsApi(
        replica_manager,
        SimpleNamespace(under_way={}),  # type: ignore[arg-type]
        lambda: Now(0, 0),
        ProduceLatency(),
        ALLOW_ALL,
        Quotas(),
        tuple,
        share_letters=counts,
    )
    responses: list[DescribeLogDirsResponse] = []
    for asked in (True, False):
        body = DescribeLogDirsRequest(topics=[], share_letters=asked)
        responses.append(respond(api, body))
    found = [(x.group_id, x.topic, x.written, x.unwritten, x.reason) for x in responses[0].share_letters]
    assert found == [("workers", "tasks", 5, 2, "topic-missing"), ("idle", "tasks", 1, 0, "")]
    assert not responses[1].share_letters
    assert parse_frame(frame_of(responses[0])) == (7, responses[0])


def test_truncations_are_returned_on_request_only() -> None:
    kept = Truncations()
    kept.add(Truncation(TopicPartition(UUID(int=1), 2), 538, 1_038, 1_000, 7, 1_700_000_000_000))
    replica_manager: Any = SimpleNamespace(hosted={}, log_dirs=SimpleNamespace(all=[]), truncations=kept)
    api = LogDirsApi(
        replica_manager, SimpleNamespace(under_way={}), lambda: None, ProduceLatency(), ALLOW_ALL, Quotas(), tuple
    )  # type: ignore[arg-type]
    responses: list[DescribeLogDirsResponse] = []
    for requested in (True, False):
        body = DescribeLogDirsRequest(topics=None, truncations=requested)
        responses.append(respond(api, body))
    (found,) = responses[0].truncations
    assert (found.topic_id, found.partition_index, found.first_offset, found.end_offset) == (UUID(int=1), 2, 538, 1_038)
    assert (found.high_watermark, found.leader_epoch, found.at_ms) == (1_000, 7, 1_700_000_000_000)
    assert responses[1].truncations == []
    assert parse_frame(frame_of(responses[0])) == (7, responses[0])


def share_partition_replica(
    group_id: str, partition: int, *, leads: bool = True, loaded: bool = True, locks_max: int = 200
) -> Any:
    """A share partition with ten records in flight."""
    core = share_partition(locks_max=locks_max)
    take(core, "m1", (0, 9))
    replica = SimpleNamespace(topic="orders", tp=TopicPartition(UUID(int=1), partition), leads=leads)
    place = SharePartitionKey(group_id, UUID(int=1), partition)
    return SimpleNamespace(place=place, replica=replica, core=core if loaded else None)


def api_of_shares(partitions: list[Any]) -> LogDirsApi:
    return LogDirsApi(
        SimpleNamespace(hosted={}, log_dirs=SimpleNamespace(all=[])),  # type: ignore[arg-type]
        SimpleNamespace(under_way={}),  # type: ignore[arg-type]
        lambda: Now(1_000, 0),
        ProduceLatency(),
        ALLOW_ALL,
        Quotas(),
        tuple,
        share_partitions=partitions,
    )


def test_share_partitions_at_their_limit_are_returned_on_request_only() -> None:
    partitions = [
        share_partition_replica("g", 0, locks_max=10),
        share_partition_replica("g", 1),
        share_partition_replica("g", 2, leads=False, locks_max=10),
        share_partition_replica("g", 3, loaded=False, locks_max=10),
        share_partition_replica("other", 4, locks_max=10),
    ]
    api = api_of_shares(partitions)
    responses: list[DescribeLogDirsResponse] = []
    for asked in (True, False):
        body = DescribeLogDirsRequest(topics=[], share_full=asked)
        responses.append(respond(api, body))
    found = [(x.group_id, x.topic, x.partition_index) for x in responses[0].share_full]
    assert found == [("g", "orders", 0), ("other", "orders", 4)]
    assert responses[1].share_full == []
    assert parse_frame(frame_of(responses[0])) == (7, responses[0])


def test_records_in_flight_of_a_share_group_are_returned_on_request_only() -> None:
    partitions = [
        share_partition_replica("g", 0),
        share_partition_replica("g", 1, leads=False),
        share_partition_replica("g", 2, loaded=False),
        share_partition_replica("other", 3),
    ]
    api = api_of_shares(partitions)
    responses: list[DescribeLogDirsResponse] = []
    for group in ("g", ""):
        body = DescribeLogDirsRequest(topics=[], share_group=group)
        responses.append(respond(api, body))
    (found,) = responses[0].share_in_flight
    assert (found.topic, found.partition_index, found.in_flight, found.in_flight_max) == ("orders", 0, 10, 200)
    assert [(x.member_id, x.count) for x in found.acquired] == [("m1", 10)]
    assert found.lock_ms == LOCK_MS - 1_000
    assert not responses[1].share_in_flight
    assert parse_frame(frame_of(responses[0])) == (7, responses[0])
