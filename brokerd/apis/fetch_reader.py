"""Reads the data of a fetch: whether enough records are available, and the data of each partition in the response.

Invariants: a consumer sees nothing above the high watermark (of the replica that it reads from), and with read_committed nothing above the
last stable offset. The first batch is sent whole, even above the byte limits (KIP-74). Responses are file regions, sent by sendfile. Does not
contain: sessions, waiting, authorization.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial

from brokerd.apis.fetch_conditions import MOVED_TO_TIER, OUT_OF_RANGE, Classified, FetchCondition, classify
from brokerd.apis.fetch_response import FetchRead, regions_of
from brokerd.apis.fetch_sessions import Key, PartitionRequest
from brokerd.apis.history_reads import HistoryReader
from brokerd.cluster.model import ReplicaIncarnation
from brokerd.net.client_traffic import ClientTraffic
from brokerd.net.loop import Loop
from brokerd.replication.replica import TO_CONSUMERS, TO_FOLLOWERS, Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.replication.throttles import Bucket, Throttles
from brokerd.storage import observer_bootstrap
from brokerd.storage.disk import DiskFailed
from brokerd.storage.nonblocking import NotInPageCache, blocking_reads, nonblocking_reads
from brokerd.storage.read_ahead import LOOKUPS_MAX, ReadAhead
from brokerd.wire.errors import ErrorCode
from brokerd.wire.framing import FileRegion
from brokerd.wire.messages import FetchRequest, FetchResponse

READ_COMMITTED = 1
MISSING_MAX = 8
"""Maximum number of partitions of one response that are read from the disk at the same time."""
FIRST_WITH_DIVERGENCE = 12
"""First version whose followers know diverging epochs."""


def _empty_read(key: Key, partition_request: PartitionRequest, *, committed: bool) -> FetchRead:
    data = FetchResponse.PartitionData(
        partition_index=partition_request.requested.partition,
        error_code=partition_request.error,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=[] if committed else None,
        preferred_read_replica=-1,
        records=b"",
    )
    return FetchRead(key, partition_request, data)


def _set_offsets(read: FetchRead, replica: Replica, follower: ReplicaIncarnation | None) -> None:
    partition_request, data, leader_epoch = read.partition_request, read.data, replica.core.leader_epoch
    if partition_request.error or partition_request.epoch != leader_epoch:
        partition_request.epoch, read.reportable = leader_epoch, True
    data.high_watermark = replica.core.high_watermark
    data.last_stable_offset = replica.last_stable()
    # Followers use the local log start offset of their leader as their own. The remote records are the same for every leader.
    is_local = follower is not None and replica.remote
    data.log_start_offset = replica.log.start_offset if is_local else replica.start_offset


class FetchReader:
    def __init__(
        self,
        loop: Loop,
        replica_manager: ReplicaManager,
        history: HistoryReader,
        *,
        bytes_max: int,
        throttles: Throttles,
        by_rack: bool,
        read_ahead: ReadAhead | None,
    ) -> None:
        """`by_rack`: consumers are redirected to a closer replica (KIP-392). `read_ahead`: loads data that is not in the page cache. With None, the
        event loop reads the data and blocks."""
        self._loop, self._replica_manager, self._history = loop, replica_manager, history
        self._bytes_max, self._throttles, self._by_rack, self._read_ahead = bytes_max, throttles, by_rack, read_ahead

    @staticmethod
    def needs(body: FetchRequest, partition_requests: Iterable[PartitionRequest]) -> dict[Hashable, int] | None:
        """{purgatory key of a partition: log size in bytes}. The fetch cannot complete before one partition has reached its log size, because less
        than `min_bytes` is available in total. None: any change may complete the fetch."""
        if body.min_bytes <= 1:
            return None
        missing, replicas = body.min_bytes, []
        for partition_request in partition_requests:
            replica, offset = partition_request.replica, partition_request.requested.fetch_offset
            if replica is None or offset < replica.local_log_start_offset:
                return None
            missing -= FetchReader._size(
                replica, offset, replica.log.end_offset, partition_request.requested.partition_max_bytes
            )
            replicas.append(replica)
        if missing <= 0 or not replicas:
            return None
        share = -(-missing // len(replicas))  # at least one log must have grown by this number of bytes
        return {replica.hw_key(): replica.log.written_bytes + share for replica in replicas}

    def enough(
        self, body: FetchRequest, partition_requests: Iterable[PartitionRequest], follower: ReplicaIncarnation | None
    ) -> bool:
        """Return whether the response of a delayed fetch can be sent now: enough records, or a partition whose state must be reported. Nothing is read."""
        total, limit_of = 0, self._limit(body, follower)
        rack, image = self._rack(body), self._replica_manager.image
        for partition_request in partition_requests:
            replica = partition_request.replica
            if partition_request.error or replica is None or replica.core.leader_epoch != partition_request.epoch:
                return True
            limit = limit_of(replica)
            condition = classify(partition_request, replica, limit, follower, rack=rack, image=image).condition
            if condition is FetchCondition.AT_END:
                continue
            if condition is FetchCondition.HISTORY:
                if self._history.result(replica, partition_request, limit) is not None:
                    return True
                continue
            if condition is not FetchCondition.READABLE:
                return True
            bucket = self._bucket(replica, follower)
            if bucket is not None and not bucket.available(self._loop.now.mono_ms):
                continue  # the throttle delays the records at most until the deadline of this fetch
            if body.min_bytes <= 1:
                return True
            total += self._size(
                replica,
                partition_request.requested.fetch_offset,
                limit,
                partition_request.requested.partition_max_bytes,
            )
            if total >= body.min_bytes:
                return True
        return False

    def suffices(self, body: FetchRequest, read: Iterable[FetchRead]) -> bool:
        """Return whether `read` has enough records, or something else to report. False: `enough` may still be true, because a response has at most `max_bytes`
        and whole batches."""
        total = 0
        for r in read:
            if r.reportable:
                return True
            total += r.served
        return total >= max(1, body.min_bytes)

    @staticmethod
    def count_sent(
        read: Iterable[FetchRead], follower: ReplicaIncarnation | None, traffic: ClientTraffic | None, now_ms: int
    ) -> None:
        """Count the bytes of a response that is sent now, for the metrics of the partitions, and by topic for `traffic`: the client, if it is a consumer."""
        to = TO_CONSUMERS if follower is None else TO_FOLLOWERS
        # Partitions of a topic follow one another: the topic is counted once, because the counter costs more than the rest of the loop.
        topic, size = "", 0
        for result in read:
            if result.served and result.partition_request.replica is not None:
                result.partition_request.replica.sent_bytes[to] += result.served
                if traffic is not None:
                    if result.partition_request.topic_name != topic:
                        if size:
                            traffic.add_fetched(topic, size, now_ms)
                        topic, size = result.partition_request.topic_name, 0
                    size += result.served
        if traffic is not None and size:
            traffic.add_fetched(topic, size, now_ms)

    def _rack(self, body: FetchRequest) -> str | None:
        """The rack of a consumer that may be sent to a closer replica."""
        return body.rack_id if self._by_rack else None

    def _bucket(self, replica: Replica, follower: ReplicaIncarnation | None) -> Bucket | None:
        """The throttle bucket for responses to this follower. None if the follower is not throttled, because it is in the ISR or proposed for the ISR."""
        if follower is None or not self._throttles.active:
            return None
        bucket = self._throttles.leader_bucket(replica.tp)
        return None if bucket is None or follower in replica.core.maximal_isr() else bucket

    @staticmethod
    def _limit(body: FetchRequest, follower: ReplicaIncarnation | None) -> Callable[[Replica], int]:
        """A function that returns the upper bound (exclusive) of the offsets that this follower or consumer may read from a replica."""
        if follower is not None:
            return lambda replica: replica.log.end_offset
        if body.isolation_level == READ_COMMITTED:
            return Replica.last_stable
        return lambda replica: replica.core.high_watermark

    @staticmethod
    def _size(replica: Replica, offset: int, limit: int, bytes_max: int) -> int:
        return sum(r.length for r in replica.log.read(offset, bytes_max, limit).regions)

    @staticmethod
    def _aborted_transactions(
        replica: Replica, offset: int, limit: int, last: FileRegion
    ) -> list[FetchResponse.AbortedTransaction]:
        if not replica.log.aborted.counts:
            return []
        upto = min(limit, replica.log.bound_after(offset, last))
        found = replica.log.aborted.overlapping(offset, upto)
        return [FetchResponse.AbortedTransaction(producer_id=e.producer_id, first_offset=e.first_offset) for e in found]

    def reading(self, lookups: int) -> AbstractContextManager[None]:
        """The context of a read. Data that is not in the page cache raises NotInPageCache, unless it was looked up LOOKUPS_MAX times already: then the event
        loop waits for the disk."""
        read_ahead = self._read_ahead
        return (
            blocking_reads()
            if read_ahead is None or read_ahead.blind or lookups >= LOOKUPS_MAX
            else nonblocking_reads()
        )

    def read(
        self,
        body: FetchRequest,
        partition_requests: Mapping[Key, PartitionRequest],
        follower: ReplicaIncarnation | None,
        version: int,
        again: Callable[[int], object],
        lookups: int,
    ) -> list[FetchRead] | None:
        """Return the partitions to send. A partition whose index or batch headers are not in the page cache is loaded from the disk and is left for the next
        response. Returns None if no other partition has anything to send: then `again` is called with the number of look-ups when the first loaded partition is
        available."""
        missing: list[NotInPageCache] = []
        with self.reading(lookups):
            out = self._read_in_memory(body, partition_requests, follower, version, missing)
        if not missing or self._read_ahead is None:
            return out
        waits = not any(r.served for r in out)
        for i, cold in enumerate(missing[:MISSING_MAX]):
            self._read_ahead.look_up(cold, partial(again, lookups + 1) if waits and not i else lambda: None)
        return None if waits else out

    def _read_in_memory(
        self,
        body: FetchRequest,
        partition_requests: Mapping[Key, PartitionRequest],
        follower: ReplicaIncarnation | None,
        version: int,
        missing: list[NotInPageCache],
    ) -> list[FetchRead]:
        left = min(body.max_bytes, self._bytes_max) if follower is None else body.max_bytes
        nothing_yet, limit_of = True, self._limit(body, follower)
        committed = body.isolation_level == READ_COMMITTED and follower is None
        rack, image = self._rack(body), self._replica_manager.image
        out: list[FetchRead] = []
        for key, partition_request in partition_requests.items():
            read = _empty_read(key, partition_request, committed=committed)
            out.append(read)
            replica = partition_request.replica
            if replica is None:
                read.reportable = True
                continue
            limit = limit_of(replica)
            found = classify(
                partition_request,
                replica,
                limit,
                follower,
                rack=rack,
                image=image,
                knows_divergence=version >= FIRST_WITH_DIVERGENCE,
            )
            condition = found.condition
            if condition is FetchCondition.ERROR and found not in (OUT_OF_RANGE, MOVED_TO_TIER):
                read.data.error_code, read.reportable = found.error, True
                continue
            _set_offsets(read, replica, follower)
            if condition is FetchCondition.AT_END:
                continue
            if condition is FetchCondition.HISTORY:
                left -= self._read_history(replica, read, limit, left, nothing_yet)
                nothing_yet = nothing_yet and not read.served
                continue
            if condition is not FetchCondition.READABLE:
                self._set_condition(found, read, replica, follower)
                if condition is FetchCondition.BOOTSTRAP:
                    nothing_yet = nothing_yet and not read.data.bootstrap_snapshot
                continue
            read.more = True
            if left <= 0 and not nothing_yet:
                continue
            bytes_max = min(left, partition_request.requested.partition_max_bytes)
            bucket = self._bucket(replica, follower)
            if bucket is not None:
                if not (room := bucket.available(self._loop.now.mono_ms)):
                    continue
                bytes_max = min(bytes_max, room)
            # A batch that is larger than the remaining bytes makes the bucket negative. Otherwise the batch would never be sent.
            whole = nothing_yet or bucket is not None
            count = self._read_log(replica, read, limit, bytes_max, missing, whole=whole, committed=committed)
            left -= count
            nothing_yet = nothing_yet and not count
            if not count and body.min_bytes <= 1:
                read.reportable = True
            if bucket is not None and count:
                bucket.spend(count, self._loop.now.mono_ms)
        return out

    def _set_condition(
        self, classified: Classified, read: FetchRead, replica: Replica, follower: ReplicaIncarnation | None
    ) -> None:
        """Set the result for a position from which this log returns no records."""
        data, read.reportable = read.data, True
        match classified.condition:
            case FetchCondition.ERROR:
                data.error_code = classified.error
                if classified is OUT_OF_RANGE and follower is not None:
                    data.bootstrap_snapshot = observer_bootstrap.snapshot_at_log_start(replica.log)
            case FetchCondition.BOOTSTRAP:
                with blocking_reads():  # this may roll a segment
                    self._add_observer_snapshot(replica, data, follower)
            case FetchCondition.DIVERGING:
                assert classified.diverging is not None
                epoch, end = classified.diverging
                data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=epoch, end_offset=end)
            case FetchCondition.PREFERRED_REPLICA:
                data.preferred_read_replica, read.more = classified.preferred, True

    def _read_log(
        self,
        replica: Replica,
        read: FetchRead,
        limit: int,
        bytes_max: int,
        missing: list[NotInPageCache],
        *,
        whole: bool,
        committed: bool,
    ) -> int:
        """Add records of the local log. With `whole`, at least one batch is added, even if it is larger than `bytes_max`. Returns the number of bytes."""
        offset = read.partition_request.requested.fetch_offset
        try:
            regions = replica.log.read(offset, bytes_max, limit, at_least_one=whole).regions
            aborted = self._aborted_transactions(replica, offset, limit, regions[-1]) if committed and regions else []
        except NotInPageCache as cold:
            missing.append(cold)
            read.reportable = True  # the response is delayed already
            return 0
        except DiskFailed as e:
            self._replica_manager.fail(replica, e)
            read.data.error_code, read.reportable = ErrorCode.KAFKA_STORAGE_ERROR, True
            return 0
        if not regions:
            return 0
        read.data.records = regions_of(regions)
        if committed:
            read.data.aborted_transactions = aborted
        read.served = regions[0].length if len(regions) == 1 else sum(r.length for r in regions)
        return read.served

    def _read_history(self, replica: Replica, read: FetchRead, limit: int, left: int, nothing_yet: bool) -> int:
        """Add records below the local log, for a consumer. Returns the number of bytes."""
        with blocking_reads():
            return self._history.read(replica, read, limit, left, nothing_yet)

    def _add_remote_snapshot(self, replica: Replica, data: FetchResponse.PartitionData) -> None:
        """Add the bootstrap snapshot for a follower whose next records are only in the remote store, as soon as it was read."""
        if replica.remote is not None and replica.remote.loaded and not replica.reads_remote:
            data.error_code = (
                ErrorCode.OFFSET_OUT_OF_RANGE
            )  # there are no remote records any more: the follower starts without a snapshot
            return
        data.bootstrap_snapshot = self._history.remote_bootstrap_snapshot(replica) or b""
        if not data.bootstrap_snapshot:
            data.error_code = ErrorCode.OFFSET_NOT_AVAILABLE

    def _add_observer_snapshot(
        self, replica: Replica, data: FetchResponse.PartitionData, follower: ReplicaIncarnation | None
    ) -> None:
        """Add the bootstrap snapshot for an observer, as soon as the snapshot exists."""
        state = replica.core.state
        if follower is not None and state is not None and replica.remote and follower.broker_id in state.replicas:
            self._add_remote_snapshot(replica, data)
            return
        if follower is None or state is None or follower.broker_id not in state.observers:
            data.error_code = (
                ErrorCode.INVALID_REQUEST
            )  # the follower has not yet read in the metadata log that it is no longer an observer
            return
        try:
            data.bootstrap_snapshot = (
                self._replica_manager.bootstrap.snapshot_for_observer(replica, self._loop.now) or b""
            )
        except DiskFailed as e:
            self._replica_manager.fail(replica, e)
            data.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return
        if not data.bootstrap_snapshot:
            data.error_code = ErrorCode.OFFSET_NOT_AVAILABLE
