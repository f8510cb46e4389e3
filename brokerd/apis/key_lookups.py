"""Look-ups of records by key on the leader of a partition: the segments from the newest to the oldest, one job per part of a segment, then the remote
segments, in one request to the helper process.

Invariants: only the leader answers, with records that a consumer could read. It answers only after its high watermark has reached the start of its epoch. So no
acknowledged record is missing after an election. A query is bounded in matches, bytes and time, and its response contains the offset at which the search
stopped. Segments that change during a job are searched again. Does not contain: the search in a segment (`storage/key_search`), authorization (`fetch`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from brokerd.apis.fetch_response import unauthorized_topics
from brokerd.apis.fetch_sessions import PartitionRequest
from brokerd.apis.key_lookup_messages import query_of, response_bytes
from brokerd.replication.remote_key_lookups import RemoteKeyLookups
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.storage.disk import DiskFailed
from brokerd.storage.key_index import header_seed
from brokerd.storage.key_search import KeyCriteria, SegmentSearch, SegmentView
from brokerd.storage.nonblocking import NotInPageCache, nonblocking_reads
from brokerd.storage.segment import IndexFileState, Segment
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest, FetchResponse
from brokerd.wire.messages.key_lookups import KeyLookupRequest, KeyLookupResponse, LookupStop
from brokerd.wire.records import Record
from brokerd.wire.steps import Steps

READ_COMMITTED = 1
JOB_BYTES_MAX = 4 * 1024 * 1024
"""Maximum number of bytes of the log per job. The time limit is checked between jobs."""
BYTES_MAX = 1024 * 1024 * 1024
"""Maximum number of log bytes that one query searches."""
DURATION_MS_MAX = 10_000
MATCHES_MAX = 100


@dataclass(slots=True)
class KeyLookupProgress:
    """A query in progress. `below`: the search continues below this offset. `start_offset`, `end_offset`: bounds of the records."""

    query: KeyLookupRequest
    criteria: KeyCriteria
    start_offset: int
    end_offset: int
    below: int
    deadline_ms: int
    matches: list[Record] = field(default_factory=list)
    log_bytes: int = 0
    index_bytes: int = 0
    indexed: set[int] = field(default_factory=set)
    """Base offsets of the segments that were searched with their index."""
    scanned: set[int] = field(default_factory=set)
    remote: KeyLookupResponse | None = None
    """The result of the search in the remote store."""

    @property
    def matches_left(self) -> int:
        return min(self.query.matches_max, MATCHES_MAX) - len(self.matches)

    @property
    def bytes_left(self) -> int:
        return min(self.query.bytes_max, BYTES_MAX) - self.log_bytes

    def remove_deleted(self, log_start_offset: int) -> None:
        """Matches without the records that were deleted after the search had found them."""
        self.start_offset = log_start_offset
        self.matches = [r for r in self.matches if r.offset >= log_start_offset]
        if self.remote is not None:
            self.remote.matches = [m for m in self.remote.matches if m.offset >= log_start_offset]

    @property
    def searched_from(self) -> int:
        """The start of the range that was searched in the local log. Older records of its first segment were skipped."""
        searched = max(self.below, self.criteria.start_offset)
        return searched if self.query.before_offset < 0 else min(searched, self.query.before_offset)

    def stop(self, now_ms: int) -> LookupStop | None:
        """Return the reason why the search ends now. None: it continues."""
        if self.below <= self.start_offset:
            return LookupStop.LOG_START
        if self.matches_left <= 0:
            return LookupStop.MATCHES
        if self.bytes_left <= 0:
            return LookupStop.BYTES
        return LookupStop.TIME if now_ms >= self.deadline_ms else None


@dataclass(slots=True)
class PartitionKeyLookup:
    """The response for one partition. `lookup`, `stop`: of the search in the local log; None after an error."""

    data: FetchResponse.PartitionData
    request: PartitionRequest
    lookup: KeyLookupProgress | None = None
    stop: LookupStop | None = None


class KeyLookupServer:
    def __init__(
        self, replica_manager: ReplicaManager, mono_ms: Callable[[], int], remote: RemoteKeyLookups | None = None
    ) -> None:
        """`remote`: look-ups in the remote store. None: this broker has no tiered storage."""
        self._replica_manager, self._mono_ms, self._remote = replica_manager, mono_ms, remote

    def search(
        self, body: FetchRequest, partition_requests: Iterable[PartitionRequest]
    ) -> Steps[list[PartitionKeyLookup]]:
        """Search the local logs."""
        committed, found = body.isolation_level == READ_COMMITTED, []
        for partition_request in partition_requests:
            found.append((yield from self._part(partition_request, committed=committed)))
        return found

    def finish(
        self,
        body: FetchRequest,
        lookups: list[PartitionKeyLookup],
        unauthorized: Iterable[FetchRequest.FetchTopic],
        reply: Callable[[FetchResponse], None],
    ) -> None:
        """Search the remote segments below the local logs, and reply."""
        committed, left = body.isolation_level == READ_COMMITTED, len(lookups)

        def on_finished() -> None:
            nonlocal left
            left -= 1
            if not left:
                topics = [_topic(part) for part in lookups]
                reply(FetchResponse(responses=[*topics, *unauthorized_topics(list(unauthorized))]))

        for part in lookups:
            self._finish(part, committed, on_finished)
        if not lookups:
            reply(FetchResponse(responses=unauthorized_topics(list(unauthorized))))

    def _part(self, partition_request: PartitionRequest, *, committed: bool) -> Steps[PartitionKeyLookup]:
        data = FetchResponse.PartitionData(
            partition_index=partition_request.requested.partition,
            error_code=partition_request.error,
            high_watermark=-1,
            records=b"",
        )
        part = PartitionKeyLookup(data, partition_request)
        query, replica = query_of(partition_request.requested), partition_request.replica
        if partition_request.error or replica is None:
            return part
        if isinstance(query, ErrorCode):
            data.error_code = query
            return part
        if not replica.leads:
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return part
        if not replica.core.serves_latest or self._replica_manager.produce_suspended:
            # Acknowledged records may be above this high watermark: of the leader before, or of a leader that was elected while this event loop was stalled.
            data.error_code = ErrorCode.OFFSET_NOT_AVAILABLE
            return part
        data.high_watermark, data.log_start_offset = replica.core.high_watermark, replica.start_offset
        lookup = self._begin(replica, query, committed=committed)
        try:
            stop = yield from self._search(replica, lookup)
        except DiskFailed as e:
            if e.of_device:
                self._replica_manager.fail(replica, e)
            data.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return part
        if stop is None:
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return part
        part.lookup, part.stop = lookup, stop
        return part

    # -- the remote store --------------------------------------------------------------------------------------------------
    def _finish(self, part: PartitionKeyLookup, committed: bool, done: Callable[[], None]) -> None:
        """Continue below the local log, where the local search has reached its start, and complete the response."""
        replica, lookup = part.request.replica, part.lookup
        if replica is None or lookup is None:
            done()
            return
        if part.stop is LookupStop.LOG_START and self._is_remote_below(replica, lookup):
            part.stop = self._begin_remote(replica, lookup)
        if part.stop is not None or self._remote is None:
            self._complete(part, replica, lookup)
            done()
            return
        log, epoch = replica.log, replica.core.leader_epoch

        def on_response(response: KeyLookupResponse | None) -> None:
            if not replica.leads or replica.log is not log or replica.core.leader_epoch != epoch:
                part.data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                part.stop = _add_remote(lookup, response)
                self._complete(part, replica, lookup)
            done()

        self._remote.search(replica, self._remote_query(lookup), committed=committed, done=on_response)

    @staticmethod
    def _is_remote_below(replica: Replica, lookup: KeyLookupProgress) -> bool:
        """Return whether records below the searched range are, or may be, in the remote store."""
        view, local_start = replica.remote, replica.log.start_offset
        if view is None or not view.reaches_below(local_start):
            return False
        return not view.joins(local_start) or view.start_offset(local_start) < lookup.searched_from

    def _begin_remote(self, replica: Replica, lookup: KeyLookupProgress) -> LookupStop | None:
        """Prepare the search below the local log. Returns why it is not possible or not necessary, None if it begins."""
        view, local_start = replica.remote, replica.log.start_offset
        lookup.below = lookup.searched_from
        if self._remote is None or view is None or not view.joins(local_start):
            return LookupStop.REMOTE
        lookup.start_offset = view.start_offset(local_start)
        return lookup.stop(self._mono_ms())

    def _remote_query(self, lookup: KeyLookupProgress) -> KeyLookupRequest:
        return replace(
            lookup.query,
            before_offset=lookup.below,
            matches_max=lookup.matches_left,
            bytes_max=lookup.bytes_left,
            duration_ms_max=max(1, lookup.deadline_ms - self._mono_ms()),
        )

    @staticmethod
    def _complete(part: PartitionKeyLookup, replica: Replica, lookup: KeyLookupProgress) -> None:
        assert part.stop is not None
        lookup.remove_deleted(_deleted_below(replica))
        if lookup.below <= lookup.start_offset:
            part.stop = LookupStop.LOG_START  # the rest was deleted during the search
        part.data.key_lookup = response_bytes(lookup, part.stop, indexed_end_offset(replica))

    # -- the local log -------------------------------------------------------------------------------------------------------
    def _begin(self, replica: Replica, q: KeyLookupRequest, *, committed: bool) -> KeyLookupProgress:
        log = replica.log
        start, end = log.start_offset, replica.last_stable() if committed else replica.core.high_watermark
        aborted = log.aborted.overlapping(start, end) if committed else []
        criteria = KeyCriteria(q.key, q.header_name, start, q.from_ms, q.to_ms, aborted)
        below = end if q.before_offset < 0 else min(end, q.before_offset)
        deadline_ms = self._mono_ms() + min(max(0, q.duration_ms_max), DURATION_MS_MAX)
        return KeyLookupProgress(q, criteria, start, end, below, deadline_ms)

    def _search(self, replica: Replica, lookup: KeyLookupProgress) -> Steps[LookupStop | None]:
        """Return the reason why the search ended. None if the replica is no longer the leader. Raises DiskFailed."""
        log, epoch = replica.log, replica.core.leader_epoch
        while (stop := lookup.stop(self._mono_ms())) is None:
            segment = _segment_below(log.segments, lookup.below)
            if segment is None:
                return LookupStop.LOG_START
            if lookup.query.from_ms >= 0 and segment.end_offset < log.end_offset:
                newest = yield from _newest_timestamp(segment)
                if newest < lookup.query.from_ms:
                    lookup.below = segment.base_offset
                    continue
            job = self._job(replica, segment, lookup)
            cuts, problem = log.flushing.cuts, None
            try:
                yield job.run
            except DiskFailed as e:
                problem = e
            if not replica.leads or replica.log is not log or replica.core.leader_epoch != epoch:
                return None
            if segment not in log.segments or log.flushing.cuts != cuts:
                lookup.start_offset = max(lookup.start_offset, log.start_offset)
                continue  # the segment was deleted or compacted since then: the job may have read another file
            if problem is not None:
                raise problem
            _add(lookup, segment, job)
        return stop

    @staticmethod
    def _job(replica: Replica, segment: Segment, lookup: KeyLookupProgress) -> SegmentSearch:
        active, config = segment is replica.log.segments[-1], replica.config
        seed = header_seed(config.index_header)
        q = lookup.query
        usable = config.index_keys and (not q.header_name or q.header_name == config.index_header)
        finished = usable and not active and segment.key_index is not IndexFileState.ABSENT
        part = segment.key_index_part
        return SegmentSearch(
            SegmentView.of(segment, active=active),
            lookup.criteria,
            min(lookup.below, segment.end_offset),
            lookup.matches_left,
            min(JOB_BYTES_MAX, lookup.bytes_left),
            seed if finished else None,
            part if usable and not finished and part is not None and part.seed == seed else None,
        )


def _topic(part: PartitionKeyLookup) -> FetchResponse.FetchableTopicResponse:
    return FetchResponse.FetchableTopicResponse(
        topic=part.request.topic_name, topic_id=part.request.topic_id, partitions=[part.data]
    )


def _add_remote(lookup: KeyLookupProgress, response: KeyLookupResponse | None) -> LookupStop:
    """Add the response of the helper. Returns the reason why the whole search ended."""
    if response is None:
        return LookupStop.REMOTE
    lookup.remote, lookup.below = response, response.next_before_offset
    stop = LookupStop(response.stop)
    if stop is LookupStop.LOG_START and lookup.below > lookup.start_offset:
        return LookupStop.TIME  # the request had only the newest of very many segments
    return stop


def _deleted_below(replica: Replica) -> int:
    """Records below this offset are deleted. Not so those that are, or may be, in the remote store."""
    view, local_start = replica.remote, replica.log.start_offset
    if view is not None and view.reaches_below(local_start) and not view.joins(local_start):
        return view.log_start
    return replica.log.start_offset if view is None else view.start_offset(local_start)


def _segment_below(segments: list[Segment], below: int) -> Segment | None:
    """The segment that contains the last offset below `below`."""
    i = bisect_left([s.base_offset for s in segments], below) - 1
    return segments[i] if i >= 0 else None


def _newest_timestamp(segment: Segment) -> Steps[int]:
    """The maximum timestamp of a closed segment, without waiting for the disk on the event loop."""
    while True:
        try:
            with nonblocking_reads():
                return segment.sure_newest()
        except NotInPageCache as cold:
            yield cold.load


def _add(lookup: KeyLookupProgress, segment: Segment, job: SegmentSearch) -> None:
    lookup.matches.extend(job.matches)
    lookup.below = job.below
    lookup.log_bytes += job.log_bytes
    lookup.index_bytes += job.index_bytes
    if job.used_index:
        lookup.indexed.add(segment.base_offset)
    if job.scanned:
        lookup.scanned.add(segment.base_offset)
    if job.index_problem is not None and segment.key_index_part is job.part:
        segment.remove_key_index()  # the index is built again


def indexed_end_offset(replica: Replica) -> int:
    """The end of the indexes without a gap, from the log start on."""
    end = replica.log.start_offset
    if replica.remote is not None and replica.remote.joins(end):
        start = replica.start_offset
        for remote in replica.remote.chain.from_offset(start):
            if remote.start_offset < end and not remote.key_index_bytes:
                return max(start, remote.start_offset)
    for segment in replica.log.segments:
        if segment.key_index is not IndexFileState.CURRENT:
            part = segment.key_index_part
            return end if part is None else max(end, min(part.end_offset, replica.core.high_watermark))
        end = segment.end_offset
    return end
