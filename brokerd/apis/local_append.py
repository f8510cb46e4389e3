"""Appends to the logs of partitions that this broker leads: of clients, of coordinators, and of transaction markers.

Invariants: every batch is validated before its first byte is written. Every rejection has an error code and a message. Batches are written as
received, except that base offset and leader epoch are set in place. Does not contain: requests, acknowledgements.
"""

from __future__ import annotations

from typing import NamedTuple

from brokerd.apis import front_admission
from brokerd.apis.batch_inspection import Data, Headers, Inspections, inspect_now
from brokerd.apis.delayed_produce import ACKS_ALL
from brokerd.apis.produce_results import (
    NOT_LEADER,
    AppendOutcome,
    ClientAppendOutcome,
    PartitionResult,
    PendingAppend,
    ProducerRejection,
)
from brokerd.cluster.configs import TopicConfig
from brokerd.delivery.front_log import FrontTarget, journal_key
from brokerd.delivery.half_front import HalfFront
from brokerd.delivery.led_fronts import LedFronts
from brokerd.delivery.route_producer import NOTHING, last_source_offset
from brokerd.net.loop import Loop
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.producers import Duplicate, ProducerRejected
from brokerd.wire import end_transaction_marker, records
from brokerd.wire.compression import ZSTD
from brokerd.wire.end_transaction_marker import Marker
from brokerd.wire.errors import ErrorCode

ZSTD_SINCE = 7
"""The first version of Produce whose producers know zstd. Consumers of earlier versions cannot read zstd."""


def checked_headers(data: Data, config: TopicConfig, *, zstd: bool) -> Headers | PartitionResult:
    """The headers of a partition's batches, or the error if they must not be written. Verifies checksums, not the records."""
    try:
        headers = records.check(data)
    except records.CorruptBatch as corrupt:
        return PartitionResult(ErrorCode.CORRUPT_MESSAGE, str(corrupt))
    except records.InvalidBatch as e:
        return PartitionResult(ErrorCode.INVALID_RECORD, str(e))
    for _, header in headers:
        problem = config.size_problem(header.size)
        if problem is not None:
            return PartitionResult(ErrorCode.MESSAGE_TOO_LARGE, problem)
        if header.attributes & records.CONTROL:
            return PartitionResult(
                ErrorCode.INVALID_RECORD, "the batch is a control batch; only brokers write control batches"
            )
        if not zstd and header.compression == ZSTD:
            return PartitionResult(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"zstd needs Produce version {ZSTD_SINCE} or later: use another compression.type, or a newer client",
            )
        if header.producer_id >= 0 and len(headers) > 1:
            # Kafka allows only one batch per partition. Several batches without sequence numbers are safe. With sequence numbers, the second batch depends on
            # the result of the first, and a retry of both batches could not be distinguished from a retry of one.
            return PartitionResult(
                ErrorCode.INVALID_RECORD,
                f"{len(headers)} batches of an idempotent producer for one partition in one request; the limit is 1",
            )
    return headers


class RouteConflict(NamedTuple):
    """The last record of the route in this log is not the one that the sender expects. `found` is the source offset of the last record. `written` is its batch,
    which may not be replicated yet."""

    found: int
    written: AppendOutcome


class LocalAppender:
    def __init__(self, loop: Loop, replica_manager: ReplicaManager) -> None:
        self._loop, self._replica_manager = loop, replica_manager
        self.half_fronts: LedFronts[HalfFront] = LedFronts()

    def append_problem(self, replica: Replica, acks: int) -> PartitionResult | None:
        """The error if nothing may be written to the partition now."""
        replica_manager, now = self._replica_manager, self._loop.now
        if replica.offline_reason is not None:
            return PartitionResult(ErrorCode.KAFKA_STORAGE_ERROR, replica.offline_reason)
        if not replica.leads or replica_manager.produce_suspended:
            return NOT_LEADER
        machine = replica.core
        if acks == ACKS_ALL and machine.isr_size < machine.min_insync:
            return PartitionResult(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"in-sync replicas: {machine.isr_size}, min.insync.replicas: {machine.min_insync}; retry when more replicas are in sync",
            )
        if not replica_manager.hooks.image_is_current() and (silent := machine.unresponsive_followers(now)):
            # The batch could not be committed before the time-out of the client. The error makes the client refresh its metadata; the leader may be another
            # broker now.
            return PartitionResult(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"this broker does not receive the metadata log, and the ISR members {silent} do not fetch from it. "
                "Another broker may lead the partition: refresh the metadata and retry",
            )
        return None

    def append(
        self, replica: Replica, data: Data | None, acks: int, zstd: bool, inspections: Inspections | None
    ) -> ClientAppendOutcome:
        """Validate, stamp and write a client's batches. Base offsets and epochs are written into `data` itself."""
        problem = self.append_problem(replica, acks)
        return problem if problem is not None else self.append_validated(replica, data, zstd, inspections)

    def append_validated(
        self, replica: Replica, data: Data | None, zstd: bool, inspections: Inspections | None
    ) -> ClientAppendOutcome:
        """Like `append`, for a caller whose call of `append_problem` has returned None."""
        if data is None or len(data) == 0:
            log = replica.log
            return PartitionResult(ErrorCode.NONE, base_offset=log.end_offset, log_start_offset=log.start_offset)
        checked = checked_headers(data, replica.config, zstd=zstd)
        if isinstance(checked, PartitionResult):
            return checked
        if inspections is None:
            bad, data, headers = inspect_now(data, checked, replica.config, self._loop.now.wall_ms)
        else:
            bad, data, headers = inspections.verdict_of(data, checked, replica.config)
        if bad is not None:
            return PartitionResult(bad.error, bad.message, record_errors=bad.record_errors)
        if replica.config.delay_topic:
            image, wall_ms = self._replica_manager.image, self._loop.now.wall_ms
            if (wrong := front_admission.delay_problem(replica, data, image, wall_ms)) is not None:
                return wrong
        if headers[0][1].producer_id >= 0:
            producer_check = replica.log.check_producer(headers[0][1], self._loop.now)
            if isinstance(producer_check, Duplicate):
                return self._duplicate_result(replica, producer_check.base_offset, producer_check.last_offset + 1)
            if isinstance(producer_check, ProducerRejected):
                if producer_check.written_before > replica.core.high_watermark:
                    # The producer counts DUPLICATE_SEQUENCE_NUMBER as an acknowledgement, but the batch is not replicated yet. With this
                    # retriable error the producer sends the batch again.
                    return PartitionResult(
                        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                        "the batch was written by an earlier request, but it is not replicated yet; retry",
                    )
                return ProducerRejection(
                    ErrorCode(producer_check.error), producer_check.reason, replica, replica.core.leader_epoch
                )
        return (
            self._append_half(replica, data, headers)
            if replica.config.half_topic
            else self._write(replica, data, headers)
        )

    def _append_half(self, replica: Replica, data: Data, headers: Headers) -> ClientAppendOutcome:
        front, header = self.half_fronts.find(replica.tp), headers[0][1]
        admitted = front_admission.half_admission(front, replica, data, headers, self._replica_manager.image)
        if isinstance(admitted, PartitionResult | ProducerRejection):
            return admitted
        outcome = self._write(replica, data, headers)
        if front is not None and isinstance(outcome, PendingAppend):
            front.on_appended(admitted, header, outcome.base_offset)
        return outcome

    def append_routed(self, replica: Replica, data: Data, expected: int) -> AppendOutcome | RouteConflict:
        """Write a batch of a route with acks=all, if its last record before has the source offset `expected`."""
        problem = self.append_problem(replica, ACKS_ALL)
        if problem is not None:
            return problem
        checked = checked_headers(data, replica.config, zstd=True)
        if isinstance(checked, PartitionResult):
            return checked
        producer = replica.log.producers.known.get(checked[0][1].producer_id)
        if producer is not None and producer.batches:
            _, sequence, base_offset, last_offset = producer.batches[-1]
            found = last_source_offset(producer.epoch, sequence)
            if found != expected:
                return RouteConflict(found, self._duplicate_result(replica, base_offset, last_offset + 1))
        elif expected != NOTHING:
            return RouteConflict(NOTHING, PartitionResult(ErrorCode.NONE))
        bad, data, headers = inspect_now(data, checked, replica.config, self._loop.now.wall_ms)
        if bad is not None:
            return PartitionResult(bad.error, bad.message, record_errors=bad.record_errors)
        if replica.config.half_topic:
            return PartitionResult(
                ErrorCode.INVALID_TOPIC_EXCEPTION, "the target topic accepts half messages, which a route cannot write"
            )
        if replica.config.delay_topic:
            image, wall_ms = self._replica_manager.image, self._loop.now.wall_ms
            if (wrong := front_admission.delay_problem(replica, data, image, wall_ms)) is not None:
                return wrong
        return self._write(replica, data, headers)

    def append_internal(self, replica: Replica, data: bytearray) -> AppendOutcome:
        """Write a coordinator's batches with acks=all. Sequence numbers are not checked, because transactional offset commits have none."""
        problem = self.append_problem(replica, ACKS_ALL)
        if problem is not None:
            return problem
        headers = checked_headers(data, replica.config, zstd=True)
        if isinstance(headers, PartitionResult):
            return headers
        if replica.config.compression is not None:
            bad, written, headers = inspect_now(data, headers, replica.config, self._loop.now.wall_ms)
            if bad is not None:
                return PartitionResult(bad.error, bad.message, record_errors=bad.record_errors)
            return self._write(replica, written, headers)
        return self._write(replica, data, headers)

    def append_journal(self, replica: Replica, target: FrontTarget, values: list[bytes]) -> AppendOutcome:
        """Write a batch of the journal of this front partition for this target."""
        problem = self.append_problem(replica, ACKS_ALL)
        if problem is not None:
            return problem
        wall_ms = self._loop.now.wall_ms
        entries = [records.Record(i, wall_ms, journal_key(target), value) for i, value in enumerate(values)]
        data = bytearray(records.build(entries, control=True))
        return self._write(replica, data, list(records.batches(data)))

    def append_marker(
        self, replica: Replica, producer_id: int, producer_epoch: int, marker: Marker, *, next_epoch: bool
    ) -> AppendOutcome:
        """Write a coordinator's marker. `next_epoch`: the marker has the epoch after the transaction's (KIP-890)."""
        problem = self.append_problem(replica, ACKS_ALL)
        if problem is not None:
            return problem
        producers = replica.log.producers
        known = producers.known.get(producer_id)
        if next_epoch and known is not None and known.epoch == producer_epoch:
            # The marker is a retry. Either no batch was written since the first attempt, or the producer has started its next transaction. The marker
            # must not end that next transaction.
            return self._duplicate_result(replica, known.marker_offset, known.marker_offset + 1)
        rejected = producers.check_marker(producer_id, producer_epoch, marker.coordinator_epoch)
        if rejected is not None:
            return PartitionResult(ErrorCode(rejected.error), rejected.reason)
        data = end_transaction_marker.marker(producer_id, producer_epoch, marker, self._loop.now.wall_ms)
        return self._write(replica, data, list(records.batches(data)))

    @staticmethod
    def _duplicate_result(replica: Replica, base_offset: int, required_end: int) -> PendingAppend:
        """The result for records that are already in the log. Their replication may not be complete."""
        epoch = replica.core.leader_epoch
        return PendingAppend(replica, epoch, required_end, base_offset, -1, replica.log.start_offset)

    def _write(self, replica: Replica, data: Data, headers: Headers) -> AppendOutcome:
        replica_manager, now, epoch = self._replica_manager, self._loop.now, replica.core.leader_epoch
        try:
            appended = replica.log.append(data, headers, epoch, now)
        except DiskFull as full:
            replica.set_append_problem(str(full))
            return PartitionResult(ErrorCode.KAFKA_STORAGE_ERROR, str(full))
        except DiskFailed as e:
            replica_manager.fail(replica, e)
            return PartitionResult(ErrorCode.KAFKA_STORAGE_ERROR, str(e))
        replica.set_append_problem(None)
        replica_manager.on_appended(replica, now)
        return PendingAppend(
            replica,
            epoch,
            appended.last_offset + 1,
            appended.base_offset,
            appended.log_append_time,
            replica.log.start_offset,
        )
