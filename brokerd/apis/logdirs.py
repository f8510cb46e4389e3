"""The doors to this broker's directories: what lies in each of them, and moves between them.

Laws: every directory of log.dirs is told, one that failed with its error; figures are read from memory. Must not come in: files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from brokerd.cluster.model import Now
from brokerd.dispatch import Request
from brokerd.logdirs import LogDir
from brokerd.partitions import Partitions
from brokerd.produce_times import ProduceTimes
from brokerd.relocations import Relocations
from brokerd.storage.disk import DiskFailed
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

UNKNOWN_LAG = -1
"""Kafka's INVALID_OFFSET_LAG."""

UNTOLD = -1
"""Of a lagging copy: it has asked for nothing since this broker leads; where its log starts does not keep it out."""

LAGGING_TOLD_MAX = 20_000
"""Copies told of in one answer, some 40 bytes each: with a broker dead a leader of ten thousands of partitions has as many."""

Described = dict[str, list[DescribeLogDirsResponse.DescribeLogDirsPartition]]


class LogDirsApi:
    def __init__(
        self, partitions: Partitions, relocations: Relocations, clock: Callable[[], Now], times: ProduceTimes
    ) -> None:
        self._partitions, self._relocations, self._clock, self._times = partitions, relocations, clock, times

    def alter_replica_log_dirs(self, request: Request) -> None:
        """Begins or cancels moves within this broker; how far they are is told by DescribeLogDirs."""
        body: AlterReplicaLogDirsRequest = request.body
        topics: dict[str, list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult]] = {}
        for d in body.dirs:
            for topic in d.topics:
                for index in topic.partitions:
                    error = self._relocations.ask(topic.name, index, d.path, self._clock())
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
        names = None if body.topics is None else {t.topic: set(t.partitions) for t in body.topics}
        found: dict[LogDir, Described] = {d: {} for d in self._partitions.log_dirs.all}
        for replica in self._partitions.hosted.values():
            index = replica.tp.partition
            if names is not None and index not in names.get(replica.topic, ()):
                continue
            lag = 0 if replica.leads else max(0, replica.core.told_end - replica.log.end_offset)
            if replica.unseeded:
                lag = UNKNOWN_LAG
            told = DescribeLogDirsResponse.DescribeLogDirsPartition(
                partition_index=index, partition_size=replica.log.size_bytes, offset_lag=lag, is_future_key=False
            )
            found[self._partitions.log_dirs.of(replica.log.folder)].setdefault(replica.topic, []).append(told)
            move = self._relocations.under_way.get(replica.tp)
            if move is not None and not move.cancelled:
                behind = max(0, replica.log.end_offset - move.future.end_offset)
                future = DescribeLogDirsResponse.DescribeLogDirsPartition(
                    partition_index=index, partition_size=move.future.size_bytes, offset_lag=behind, is_future_key=True
                )
                found[move.target].setdefault(replica.topic, []).append(future)
        results = [self._shaped(d, topics) for d, topics in found.items()]
        # Told to who names no partition at all, which is the control plane: no client of others has to step over it.
        times = list(self._times.counts) if body.topics == [] else []
        lagging = list(islice(self._lagging(), LAGGING_TOLD_MAX)) if body.lagging else []
        request.reply(DescribeLogDirsResponse(results=results, produce_times=times, lagging=lagging))

    def _lagging(self) -> Iterator[DescribeLogDirsResponse.LaggingCopy]:
        """What this leader counts of each copy that is out of sync."""
        for replica in self._partitions.led():
            state = replica.core.state
            if state is None or len(state.isr) >= len(state.replicas):
                continue
            for broker_id in state.replicas:
                if broker_id in state.isr_ids:
                    continue
                follower = replica.core.followers.get(broker_id)
                late = follower is not None and follower.late_since_ms is not None
                yield DescribeLogDirsResponse.LaggingCopy(
                    topic=replica.topic,
                    partition_index=replica.tp.partition,
                    broker_id=broker_id,
                    log_end=follower.log_end if follower is not None else UNTOLD,
                    log_start=follower.log_start if follower is not None and late else UNTOLD,
                )

    def _shaped(self, d: LogDir, topics: Described) -> DescribeLogDirsResponse.DescribeLogDirsResult:
        result = DescribeLogDirsResponse.DescribeLogDirsResult(log_dir=str(d.path))
        if d.failed is None:
            try:
                result.total_bytes, result.usable_bytes = self._partitions.disk.space(d.path)
            except DiskFailed as e:
                if e.of_device:
                    self._partitions.log_dirs.fail(d, str(e))
        if d.failed is not None:
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return result
        result.topics = [
            DescribeLogDirsResponse.DescribeLogDirsTopic(name=n, partitions=sorted(p, key=lambda x: x.partition_index))
            for n, p in sorted(topics.items())
        ]
        return result
