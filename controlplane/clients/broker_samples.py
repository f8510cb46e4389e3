"""One sample of a broker for the cluster monitor: offsets, replicas with their sizes, log directories, groups. Pages never request it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from brokerd.cluster.disk_health import DiskHealth
from brokerd.cluster.model import ProcessStart
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from controlplane.clients.connection import KafkaConnection
from controlplane.clients.group_samples import GroupSample, Key, sample_groups
from controlplane.clients.share_groups import DescribedShareGroup, sample_share_groups

LATEST, EARLIEST, EARLIEST_LOCAL = -1, -2, -4
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
"""Isolation levels: with read_committed the latest offset is the last stable offset."""

PARTITIONS_PER_REQUEST = 1_000
"""Partitions per request: the broker serves other clients in between."""


@dataclass(frozen=True, slots=True)
class RemoteSample:
    """Bytes of a partition with tiered storage. `remote`: finished copies, `local_only`: local records without a copy, `copying`: the segment that is being
    copied, `read`: records that were read from the store for consumers since the broker leads the partition. `local_start`: the local log start offset;
    None: unknown."""

    remote: int
    local_only: int
    copying: int
    read: int
    local_start: int | None = None


class TrafficCounters(NamedTuple):
    """Bytes of record batches of one replica since its broker opened it: appended as leader, sent to consumers, copied from the leader, sent to
    followers. Kafka's BytesIn, BytesOut, ReplicationBytesIn, ReplicationBytesOut."""

    bytes_in: int = 0
    bytes_out: int = 0
    replication_bytes_in: int = 0
    replication_bytes_out: int = 0


class ApiSample(NamedTuple):
    """Requests of one API since the start of the broker: by total time (`brokerd.cluster.request_buckets`), the greatest time of the last minutes in
    seconds, {error code: number}."""

    counts: tuple[int, ...]
    greatest_s: float
    errors: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class ShareLetters:
    """Failed records of one topic in one share group, since the start of the broker. Counted are dead letters that were written, and records that were
    archived without a dead letter although the group has a topic of dead letters. `reason`: why the last of these records has no dead letter
    (`brokerd.sharing.dead_letters.UnwritableReason`)."""

    group_id: str
    topic: str
    written: int
    unwritten: int
    reason: str


@dataclass(frozen=True, slots=True)
class RejectedClientSample:
    """Rejected requests of one client for one reason since the start of the broker. `principal`: empty for a client that is not authenticated. `denial`:
    (operation, resource type, resource name) of the last operation without authorization, or empty strings."""

    principal: str
    host: str
    client_id: str
    reason: str
    count: int
    denial: tuple[str, str, str] = ("", "", "")


@dataclass(frozen=True, slots=True)
class FailedLoginSample:
    """Failed logins of one client since the start of the broker. `user` and `mechanism`: as the client sent them. `failure`:
    `brokerd.cluster.sasl_failures`, or a reason of a newer broker."""

    host: str
    client_id: str
    user: str
    mechanism: str
    failure: str
    count: int


class TruncationSample(NamedTuple):
    """Records that a replica of the broker deleted (`brokerd.replication.truncations`). `at_ms`: Unix time of the broker."""

    topic_id: UUID
    partition: int
    first_offset: int
    end_offset: int
    high_watermark: int
    leader_epoch: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class BrokerSample:
    """The responses of one broker. `offsets`: (log start, log end) of the partitions that it leads. `replicas`: (size in bytes, records behind or None if
    unknown) of all its replicas; None = not requested. Three values are requested together with `replicas`. `space`: (total bytes, free bytes) of the
    directory with most free space. `failed`: failed directories, `hung`: those of them whose disk did not respond, `slow`: directories with a slow disk,
    `probe_ms`: time of the last probe of each directory. `lagging`: (log end, log start) by broker of the out-of-sync replicas of the
    partitions that it leads; the log end is -1 if unknown, and the log start is -1 unless it is the only
    reason why the replica is out of sync. `stable`: the requested last stable
    offsets."""

    broker_id: int
    at_ms: int
    offsets: Mapping[Key, tuple[int, int]] = field(default_factory=dict)
    replicas: Mapping[Key, tuple[int, int | None]] | None = None
    groups: tuple[GroupSample, ...] = ()
    space: tuple[int, int] | None = None
    failed: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()
    hung: tuple[str, ...] = ()
    probe_ms: Mapping[str, int] = field(default_factory=dict)
    lagging: Mapping[Key, Mapping[int, tuple[int, int]]] = field(default_factory=dict)
    stable: Mapping[Key, int] = field(default_factory=dict)
    produce_counts: tuple[int, ...] = ()
    """Produce requests since the start of the broker by latency (`brokerd.cluster.latency_buckets`), requested with `replicas`; empty: not reported."""
    remote: Mapping[Key, RemoteSample] | None = None
    """Samples of the partitions with tiered storage that the broker leads; None: not requested."""
    share_groups: tuple[DescribedShareGroup, ...] | None = ()
    """The share groups that the broker coordinates; None: it did not respond in time."""
    traffic: Mapping[Key, TrafficCounters] | None = None
    """Requested with `replicas`. Replicas without traffic are omitted. None: not requested."""
    requests: Mapping[str, ApiSample] = field(default_factory=dict)
    """Request metrics by Kafka's name of the API, for APIs with requests; requested with `replicas`. Empty: not reported."""
    rejections: Mapping[str, int] = field(default_factory=dict)
    """Rejected requests since the start of the broker, by reason (`brokerd.cluster.rejection_reasons`); requested with `replicas`."""
    rejected_clients: tuple[RejectedClientSample, ...] = ()
    """At most 100 clients, those with the latest rejections; requested with `replicas`."""
    failed_logins: tuple[FailedLoginSample, ...] = ()
    """The latest failed logins of these clients, at most five each; requested with `replicas`."""
    share_letters: tuple[ShareLetters, ...] | None = None
    """None if it was not requested."""
    share_full: frozenset[tuple[str, Key]] | None = None
    """(group, partition) of the share partitions at their limit of records in flight that the broker leads; None: not requested."""
    truncations: tuple[TruncationSample, ...] | None = None
    """The newest truncations of its replicas; None: not requested."""
    start: ProcessStart | None = None
    """Requested with `replicas`. None: not requested, or the broker has a version that does not report it."""


def sample_broker(
    connection: KafkaConnection,
    broker_id: int,
    leads: Mapping[str, Sequence[int]],
    starts: dict[Key, int],
    *,
    with_sizes: bool,
    stalled: Sequence[Key] = (),
) -> BrokerSample:
    """Sample one broker. Raises NoResponse.

    `starts`: start offsets of earlier samples, updated here. They change rarely and are requested with the sizes. `stalled`: partitions
    that the broker leads and whose last stable offset is requested.
    """
    offsets: dict[Key, tuple[int, int]] = {}
    if leads:
        ends = list_offsets(connection, leads, LATEST)
        if with_sizes or not starts.keys() >= ends.keys():
            starts.clear()
            starts.update(list_offsets(connection, leads, EARLIEST))
        offsets = {key: (min(starts[key], end), end) for key, end in ends.items() if key in starts}
    waiting: dict[str, list[int]] = {}
    for topic, index in stalled:
        waiting.setdefault(topic, []).append(index)
    directories = _log_dirs(connection) if with_sizes else _Directories()
    led = _of_leader(connection) if with_sizes and leads else _LedPartitions()
    return BrokerSample(
        broker_id=broker_id,
        at_ms=time.time_ns() // 1_000_000,
        offsets=offsets,
        replicas=directories.replicas,
        groups=sample_groups(connection),
        share_groups=sample_share_groups(connection, broker_id),
        space=directories.space,
        failed=directories.failed,
        slow=directories.slow,
        hung=directories.hung,
        probe_ms=directories.probe_ms,
        lagging=led.lagging,
        stable=list_offsets(connection, waiting, LATEST, READ_COMMITTED) if waiting else {},
        produce_counts=led.produce_counts,
        remote=led.remote,
        traffic=directories.traffic,
        requests=directories.requests,
        rejections=directories.rejections,
        rejected_clients=directories.rejected_clients,
        failed_logins=directories.failed_logins,
        share_letters=led.share_letters,
        share_full=led.share_full,
        truncations=directories.truncations,
        start=directories.start,
    )


@dataclass(frozen=True, slots=True)
class _LedPartitions:
    """The partitions that a broker leads, as it reports them. `lagging`: as in BrokerSample. `produce_counts`: only a request without partitions gets
    it."""

    lagging: Mapping[Key, Mapping[int, tuple[int, int]]] = field(default_factory=dict)
    produce_counts: tuple[int, ...] = ()
    remote: Mapping[Key, RemoteSample] | None = None
    share_letters: tuple[ShareLetters, ...] | None = None
    share_full: frozenset[tuple[str, Key]] | None = None


def _of_leader(connection: KafkaConnection) -> _LedPartitions:
    """Out-of-sync replicas, the histogram of produce latencies, remote sizes, numbers of dead letters, and share partitions at their limit. Empty for a
    broker of a version that does not report them."""
    body = m.DescribeLogDirsRequest(topics=[], lagging=True, remote=True, share_letters=True, share_full=True)
    response = connection.call(ApiKey.DESCRIBE_LOG_DIRS, 4, body)
    lagging: dict[Key, dict[int, tuple[int, int]]] = {}
    for copy in response.lagging:
        lagging.setdefault((copy.topic, copy.partition_index), {})[copy.broker_id] = (copy.log_end, copy.log_start)
    remote = {
        (r.topic, r.partition_index): RemoteSample(
            r.remote, r.local_only, r.copying, r.read, r.local_start if r.local_start >= 0 else None
        )
        for r in response.remote
    }
    letters = tuple(ShareLetters(x.group_id, x.topic, x.written, x.unwritten, x.reason) for x in response.share_letters)
    full = frozenset((x.group_id, (x.topic, x.partition_index)) for x in response.share_full)
    return _LedPartitions(lagging, tuple(response.produce_times or ()), remote, letters, full)


def list_offsets(
    connection: KafkaConnection, leads: Mapping[str, Sequence[int]], timestamp: int, isolation: int = READ_UNCOMMITTED
) -> dict[Key, int]:
    """{partition: offset} of the partitions for which the broker returns an offset. `leads`: partition indexes by topic. `timestamp`: LATEST, EARLIEST,
    EARLIEST_LOCAL (the local log start offset, KIP-405) or Unix ms."""
    requested = [(topic, i) for topic, indexes in leads.items() for i in indexes]
    offsets: dict[Key, int] = {}
    for at in range(0, len(requested), PARTITIONS_PER_REQUEST):
        topics: dict[str, m.ListOffsetsRequest.ListOffsetsTopic] = {}
        for name, i in requested[at : at + PARTITIONS_PER_REQUEST]:
            topic = topics.setdefault(name, m.ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=[]))
            topic.partitions.append(m.ListOffsetsRequest.ListOffsetsPartition(partition_index=i, timestamp=timestamp))
        response = connection.call(
            ApiKey.LIST_OFFSETS,
            8 if timestamp == EARLIEST_LOCAL else 5,
            m.ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=list(topics.values())),
        )
        for reported in response.topics:
            for p in reported.partitions:
                if p.error_code == ErrorCode.NONE and p.offset >= 0:
                    offsets[reported.name, p.partition_index] = p.offset
    return offsets


@dataclass(frozen=True, slots=True)
class _Directories:
    """The log directories of a broker, as it reports them. `replicas`: None = not requested."""

    replicas: dict[Key, tuple[int, int | None]] | None = None
    space: tuple[int, int] | None = None
    failed: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()
    hung: tuple[str, ...] = ()
    probe_ms: Mapping[str, int] = field(default_factory=dict)
    traffic: dict[Key, TrafficCounters] | None = None
    requests: dict[str, ApiSample] = field(default_factory=dict)
    rejections: dict[str, int] = field(default_factory=dict)
    rejected_clients: tuple[RejectedClientSample, ...] = ()
    failed_logins: tuple[FailedLoginSample, ...] = ()
    truncations: tuple[TruncationSample, ...] | None = None
    start: ProcessStart | None = None


def _log_dirs(connection: KafkaConnection) -> _Directories:
    """Size and lag in records (None before the first fetch) of each replica; total and free bytes of the directory with most free space, because a replica is in
    one directory; the failed, slow and hung directories."""
    body = m.DescribeLogDirsRequest(
        topics=None, disks=True, traffic=True, requests=True, rejections=True, truncations=True, start=True
    )
    response = connection.call(ApiKey.DESCRIBE_LOG_DIRS, 4, body)
    sound = [r for r in response.results if r.error_code == ErrorCode.NONE]
    volumes = [(r.total_bytes, r.usable_bytes) for r in sound if r.total_bytes >= 0]
    replicas = {
        (topic.name, p.partition_index): (p.partition_size, p.offset_lag if p.offset_lag >= 0 else None)
        for result in sound
        for topic in result.topics
        for p in topic.partitions
        if not p.is_future_key
    }
    traffic = {
        (topic.name, p.partition_index): TrafficCounters(
            p.bytes_in, p.bytes_out, p.replication_bytes_in, p.replication_bytes_out
        )
        for result in sound
        for topic in result.topics
        for p in topic.partitions
        if p.bytes_in or p.bytes_out or p.replication_bytes_in or p.replication_bytes_out
    }
    return _Directories(
        replicas,
        max(volumes, key=lambda v: v[1], default=None),
        failed=tuple(r.log_dir for r in response.results if r.error_code != ErrorCode.NONE),
        slow=tuple(r.log_dir for r in sound if r.health == DiskHealth.SLOW),
        hung=tuple(r.log_dir for r in response.results if r.health == DiskHealth.HUNG),
        probe_ms={r.log_dir: r.probe_ms for r in response.results if r.probe_ms >= 0},
        traffic=traffic,
        requests={
            r.name: ApiSample(tuple(r.counts), r.greatest_seconds, {e.code: e.count for e in r.errors})
            for r in response.requests
        },
        rejections={r.reason: r.count for r in response.rejections if not r.host},
        rejected_clients=tuple(
            RejectedClientSample(
                r.principal,
                r.host,
                r.client_id,
                r.reason,
                r.count,
                (r.operation.lower(), r.resource_type.lower(), r.resource_name),
            )
            for r in response.rejections
            if r.host
        ),
        failed_logins=tuple(
            FailedLoginSample(x.host, x.client_id, x.user, x.mechanism, x.failure, x.count)
            for x in response.failed_logins
        ),
        truncations=tuple(
            TruncationSample(
                t.topic_id,
                t.partition_index,
                t.first_offset,
                t.end_offset,
                t.high_watermark,
                t.leader_epoch,
                t.at_ms,
            )
            for t in response.truncations
        ),
        start=ProcessStart(response.start_ms, response.unclean_start) if response.start_ms >= 0 else None,
    )
