"""DescribeLogDirs and AlterReplicaLogDirs.

Invariants: every directory of log.dirs is in the response, a failed one with its error. Values come from memory. Does not contain: files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from brokerd.apis.connected_clients import connected_clients
from brokerd.apis.share_partitions import Shared
from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.authz.quotas import Quotas
from brokerd.cluster.cordons import is_cordoned
from brokerd.cluster.model import Now, ProcessStart
from brokerd.cluster.rejection_reasons import RejectionReason
from brokerd.net.connection import Connection
from brokerd.net.rejections import Rejections
from brokerd.net.request import Request
from brokerd.net.request_metrics import ApiMetrics
from brokerd.remote.sizes import RemoteSizes
from brokerd.replication.produce_latency import ProduceLatency
from brokerd.replication.relocations import Relocations
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.sharing.dead_letters import DeadLetterCounts
from brokerd.sharing.in_flight import is_full, records_in_flight
from brokerd.sharing.share_partition import SharePartition
from brokerd.storage.disk import DiskFailed
from brokerd.storage.log_dirs import LogDir
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

UNKNOWN_LAG = -1
"""Kafka's INVALID_OFFSET_LAG."""

UNREPORTED = -1
"""Value of an unknown field of an out-of-sync replica: the replica has not fetched since this broker became the leader, or its log start is not the reason why
it is out of the ISR."""

UNKNOWN_MS = -1
"""The time of a probe before the first one, and an unknown time of the start."""

NO_LOCK_MS = -1
"""The time until the first lock ends, if no record is acquired."""

CLIENTS_MAX = 1_000
"""Maximum number of connected clients per response, about 150 bytes each."""

QUOTA_USE_MAX = 1_000
"""Maximum number of quota rates per response."""

LAGGING_MAX = 20_000
"""Maximum number of out-of-sync replicas per response, about 40 bytes each. When a broker is dead, the leader of many partitions has one for each of them."""

REMOTE_MAX = 20_000
"""Maximum number of partitions with tiered storage per response, about 60 bytes each."""

SHARE_FULL_MAX = 20_000
"""Maximum number of share partitions at their limit per response, about 60 bytes each."""

REJECTED_CLIENTS_MAX = 100
"""Maximum number of clients with rejected requests per response."""

Described = dict[str, list[DescribeLogDirsResponse.DescribeLogDirsPartition]]


UNKNOWN_START = ProcessStart(UNKNOWN_MS, unclean=False)


class LogDirsApi:
    def __init__(
        self,
        replica_manager: ReplicaManager,
        relocations: Relocations,
        clock: Callable[[], Now],
        times: ProduceLatency,
        auth: AuthHelper,
        quotas: Quotas,
        connections: Callable[[], Iterable[tuple[str, Connection]]],
        remote_sizes: Callable[[], Iterable[RemoteSizes]] = tuple,
        request_metrics: Callable[[], Iterable[ApiMetrics]] = tuple,
        *,
        share_letters: Mapping[tuple[str, str], DeadLetterCounts] | None = None,
        share_partitions: Iterable[Shared] = (),
        rejections: Rejections | None = None,
        start: ProcessStart = UNKNOWN_START,
    ) -> None:
        self._start = start
        self._rejections = rejections or Rejections()
        self._remote_sizes, self._request_metrics = remote_sizes, request_metrics
        self._share_partitions = share_partitions
        self._share_letters = {} if share_letters is None else share_letters
        self._replica_manager, self._relocations, self._clock, self._times = replica_manager, relocations, clock, times
        self._auth, self._quotas, self._connections = auth, quotas, connections

    def alter_replica_log_dirs(self, request: Request) -> None:
        """Start or cancel moves within this broker. DescribeLogDirs reports their progress."""
        body: AlterReplicaLogDirsRequest = request.body
        if not self._auth.authorize(request, Operation.ALTER, Resource.CLUSTER):
            request.reply(_unauthorized_response(body))
            return
        topics: dict[str, list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult]] = {}
        for d in body.dirs:
            for topic in d.topics:
                for index in topic.partitions:
                    error = self._relocations.request(topic.name, index, d.path, self._clock())
                    topics.setdefault(topic.name, []).append(
                        AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult(
                            partition_index=index, error_code=error
                        )
                    )
        request.reply(
            AlterReplicaLogDirsResponse(
                results=[
                    AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult(topic_name=n, partitions=p)
                    for n, p in topics.items()
                ]
            )
        )

    def describe_log_dirs(self, request: Request) -> None:
        body: DescribeLogDirsRequest = request.body
        if not self._auth.authorize(request, Operation.DESCRIBE, Resource.CLUSTER):
            request.reply(DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
            return
        found = self._describe_replicas(body)
        results = [self._describe_log_dir(d, topics) for d, topics in found.items()]
        if body.disks:
            for d, result in zip(found, results, strict=True):
                result.health, result.probe_ms = d.health, UNKNOWN_MS if d.probe_ms is None else d.probe_ms
        response = DescribeLogDirsResponse(results=results)
        self._add_measurements(body, response)
        self._add_shares_and_clients(body, response)
        request.reply(response)

    def _describe_replicas(self, body: DescribeLogDirsRequest) -> dict[LogDir, Described]:
        """The requested replicas of each log directory, and the future replicas of moves between the directories of this broker."""
        names = None if body.topics is None else {t.topic: set(t.partitions) for t in body.topics}
        found: dict[LogDir, Described] = {d: {} for d in self._replica_manager.log_dirs.all}
        for replica in self._replica_manager.hosted.values():
            index = replica.tp.partition
            if names is not None and index not in names.get(replica.topic, ()):
                continue
            lag = 0 if replica.leads else max(0, replica.core.leader_high_watermark - replica.log.end_offset)
            if replica.awaits_bootstrap:
                lag = UNKNOWN_LAG
            described = DescribeLogDirsResponse.DescribeLogDirsPartition(
                partition_index=index, partition_size=replica.log.size_bytes, offset_lag=lag, is_future_key=False
            )
            if body.traffic:
                described.bytes_in, described.bytes_out = replica.bytes_in, replica.bytes_out
                described.replication_bytes_in = replica.replication_bytes_in
                described.replication_bytes_out = replica.replication_bytes_out
            directory = self._replica_manager.log_dirs.directory_of(replica.log.folder)
            found[directory].setdefault(replica.topic, []).append(described)
            move = self._relocations.under_way.get(replica.tp)
            if move is not None and not move.cancelled:
                behind = max(0, replica.log.end_offset - move.future.end_offset)
                future = DescribeLogDirsResponse.DescribeLogDirsPartition(
                    partition_index=index, partition_size=move.future.size_bytes, offset_lag=behind, is_future_key=True
                )
                found[move.target].setdefault(replica.topic, []).append(future)
        return found

    def _add_measurements(self, body: DescribeLogDirsRequest, response: DescribeLogDirsResponse) -> None:
        """Add the tagged fields about replicas and requests that the request asks for."""
        # Produce times have no flag of their own. They are sent in the response to a request without partitions, as the control plane sends it. Other clients
        # do not have to skip the field.
        if body.topics == []:
            response.produce_times = list(self._times.counts)
        if body.lagging:
            response.lagging = list(islice(self._lagging(), LAGGING_MAX))
        if body.quota_use:
            response.quota_use = self._quota_use()
        if body.remote:
            response.remote = list(islice(self._remote_sizes_by_partition(), REMOTE_MAX))
        if body.requests:
            response.requests = list(self._api_requests())
        if body.truncations:
            response.truncations = list(self._truncations())
        if body.start:
            response.start_ms, response.unclean_start = self._start

    def _add_shares_and_clients(self, body: DescribeLogDirsRequest, response: DescribeLogDirsResponse) -> None:
        """Add the tagged fields about share groups and clients that the request asks for."""
        if body.share_letters:
            response.share_letters = list(self._share_letter_counts())
        if body.share_group:
            response.share_in_flight = list(self._share_in_flight(body.share_group))
        if body.share_full:
            response.share_full = list(islice(self._full_share_partitions(), SHARE_FULL_MAX))
        if body.rejections:
            response.rejections = [*self._rejection_counts(), *self._rejected_clients()]
            response.failed_logins = list(self._failed_logins())
        if body.clients:
            response.clients, response.client_count = connected_clients(
                self._connections(), self._clock().mono_ms, CLIENTS_MAX, self._keys_of(body.clients_of)
            )

    def _remote_sizes_by_partition(self) -> Iterator[DescribeLogDirsResponse.RemoteSize]:
        for s in self._remote_sizes():
            yield DescribeLogDirsResponse.RemoteSize(
                topic=s.topic,
                partition_index=s.tp.partition,
                remote=s.remote,
                local_only=s.local_only,
                copying=s.copying,
                read=s.read,
                local_start=s.local_start,
            )

    def _api_requests(self) -> Iterator[DescribeLogDirsResponse.ApiRequests]:
        """Counts and times of the APIs that clients have used."""
        for metrics in self._request_metrics():
            if any(metrics.counts):
                errors = sorted(metrics.errors.items())
                yield DescribeLogDirsResponse.ApiRequests(
                    name=metrics.name,
                    counts=list(metrics.counts),
                    sum_seconds=metrics.sum_s,
                    greatest_seconds=metrics.greatest_s,
                    errors=[DescribeLogDirsResponse.ErrorCount(code=code, count=count) for code, count in errors],
                )

    def _share_letter_counts(self) -> Iterator[DescribeLogDirsResponse.ShareLetters]:
        for (group, topic), counts in self._share_letters.items():
            yield DescribeLogDirsResponse.ShareLetters(
                group_id=group,
                topic=topic,
                written=counts.written,
                unwritten=counts.unwritten,
                reason=counts.reason or "",
            )

    def _truncations(self) -> Iterator[DescribeLogDirsResponse.Truncation]:
        for truncation in self._replica_manager.truncations:
            yield DescribeLogDirsResponse.Truncation(
                topic_id=truncation.tp.topic_id,
                partition_index=truncation.tp.partition,
                first_offset=truncation.first_offset,
                end_offset=truncation.end_offset,
                high_watermark=truncation.high_watermark,
                leader_epoch=truncation.leader_epoch,
                at_ms=truncation.at_ms,
            )

    def _keys_of(self, topic: str) -> tuple[object, ...]:
        """Name and id of a topic, as Produce requests contain one of them."""
        if not topic:
            return ()
        state = self._replica_manager.image.topic_named(topic)
        return (topic,) if state is None else (topic, state.topic_id)

    def _share_in_flight(self, group_id: str) -> Iterator[DescribeLogDirsResponse.ShareInFlight]:
        """The share partitions of a group that this broker leads and has loaded."""
        for shared, core in self._led_share_partitions():
            if shared.place.group_id != group_id:
                continue
            found = records_in_flight(core, self._clock().mono_ms)
            yield DescribeLogDirsResponse.ShareInFlight(
                topic=shared.replica.topic,
                partition_index=shared.replica.tp.partition,
                acquired=[
                    DescribeLogDirsResponse.AcquiredRecords(member_id=member, count=count)
                    for member, count in found.acquired.items()
                ],
                lock_ms=NO_LOCK_MS if found.lock_ms is None else found.lock_ms,
                redelivery=found.redelivery,
                archiving=found.archiving,
                in_flight=found.in_flight,
                in_flight_max=found.in_flight_max,
            )

    def _full_share_partitions(self) -> Iterator[DescribeLogDirsResponse.ShareFull]:
        for shared, core in self._led_share_partitions():
            if is_full(core):
                yield DescribeLogDirsResponse.ShareFull(
                    group_id=shared.place.group_id,
                    topic=shared.replica.topic,
                    partition_index=shared.replica.tp.partition,
                )

    def _led_share_partitions(self) -> Iterator[tuple[Shared, SharePartition]]:
        """The share partitions that this broker leads and has loaded."""
        for shared in self._share_partitions:
            if shared.core is not None and shared.replica.leads:
                yield shared, shared.core

    def _rejection_counts(self) -> Iterator[DescribeLogDirsResponse.Rejection]:
        for reason, count in sorted(self._rejections.counts.items()):
            yield DescribeLogDirsResponse.Rejection(reason=reason, count=count)

    def _rejected_clients(self) -> Iterator[DescribeLogDirsResponse.Rejection]:
        now_ms = self._clock().mono_ms
        for client, found in self._rejections.latest(REJECTED_CLIENTS_MAX):
            for reason, count in found.counts.items():
                denial = found.denial if reason is RejectionReason.UNAUTHORIZED else None
                yield DescribeLogDirsResponse.Rejection(
                    host=client.address,
                    principal=client.principal,
                    client_id=client.client_id,
                    reason=reason,
                    count=count,
                    ago_ms=max(0, now_ms - found.last_ms),
                    operation=denial.operation if denial is not None else "",
                    resource_type=denial.resource_type if denial is not None else "",
                    resource_name=denial.resource_name if denial is not None else "",
                )

    def _failed_logins(self) -> Iterator[DescribeLogDirsResponse.FailedLogin]:
        now_ms = self._clock().mono_ms
        for client, found in self._rejections.latest(REJECTED_CLIENTS_MAX):
            for login, seen in found.logins.items():
                yield DescribeLogDirsResponse.FailedLogin(
                    host=client.address,
                    client_id=client.client_id,
                    user=login.user,
                    mechanism=login.mechanism,
                    failure=login.failure,
                    count=seen.attempts,
                    ago_ms=max(0, now_ms - seen.last_ms),
                )

    def _quota_use(self) -> list[DescribeLogDirsResponse.QuotaUse]:
        return [
            DescribeLogDirsResponse.QuotaUse(entity=u.bucket, quota=u.kind, per_second=u.per_second)
            for u in self._quotas.use(self._clock().mono_ms, QUOTA_USE_MAX)
        ]

    def _lagging(self) -> Iterator[DescribeLogDirsResponse.LaggingCopy]:
        """One entry for each out-of-sync replica of the partitions that this broker leads. A value that the leader does not know is UNREPORTED."""
        for replica in self._replica_manager.led_replicas():
            state = replica.core.state
            if state is None or len(state.isr) >= len(state.replicas):
                continue
            for broker_id in state.replicas:
                if broker_id in state.isr_ids:
                    continue
                follower = replica.core.followers.get(broker_id)
                late = follower is not None and follower.log_start_late_since_ms is not None
                yield DescribeLogDirsResponse.LaggingCopy(
                    topic=replica.topic,
                    partition_index=replica.tp.partition,
                    broker_id=broker_id,
                    log_end=follower.log_end if follower is not None else UNREPORTED,
                    log_start=follower.log_start if follower is not None and late else UNREPORTED,
                )

    def _describe_log_dir(self, directory: LogDir, topics: Described) -> DescribeLogDirsResponse.DescribeLogDirsResult:
        manager = self._replica_manager
        result = DescribeLogDirsResponse.DescribeLogDirsResult(
            log_dir=str(directory.path),
            is_cordoned=is_cordoned(manager.image.configs_of_broker(manager.broker_id)[1]),
        )
        if directory.failed is None:
            try:
                result.total_bytes, result.usable_bytes = self._replica_manager.disk.space(directory.path)
            except DiskFailed as e:
                if e.of_device:
                    self._replica_manager.log_dirs.fail(directory, str(e))
        if directory.failed is not None:
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return result
        result.topics = [
            DescribeLogDirsResponse.DescribeLogDirsTopic(name=n, partitions=sorted(p, key=lambda x: x.partition_index))
            for n, p in sorted(topics.items())
        ]
        return result


def _unauthorized_response(body: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    r, denied = AlterReplicaLogDirsResponse, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    part = r.AlterReplicaLogDirPartitionResult
    return r(
        results=[
            r.AlterReplicaLogDirTopicResult(
                topic_name=t.name, partitions=[part(partition_index=i, error_code=denied) for i in t.partitions]
            )
            for d in body.dirs
            for t in d.topics
        ]
    )
