"""Reads records of one topic from the partition leaders: offsets, and bounded chunks of committed records.

Invariants: a request has a deadline, and a fetch a limit of bytes. An error belongs to its partition: the others are read. Records of aborted
transactions and transaction markers are omitted. Nothing is committed, and no broker keeps state of a read. Does not contain: order, filters and
budgets (`domain.record_scan`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from django.conf import settings

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.compression import InvalidBatch
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import CorruptBatch, Record, UnpackBudget, batches, records_of
from brokerd.wire.schema import Struct
from controlplane.clients.broker_samples import EARLIEST, LATEST, PARTITIONS_PER_REQUEST, READ_COMMITTED
from controlplane.clients.connection import KafkaConnection, NoResponse
from controlplane.domain.record_scan import Chunk, FetchRange, PartitionProblem

CALL_SECONDS = 4.0
"""Deadline of one request. A broker may have to read old records from disk."""

FETCH_BYTES_FIRST, FETCH_BYTES_MAX = 128 * 1024, 1024 * 1024
"""Bytes of the first fetch over all its partitions, as sent; each later one is twice as large. The time limit of a read is checked between fetches.
One larger batch is fetched alone."""

CHUNK_BYTES_MIN = 16 * 1024
"""Bytes of one partition in a fetch."""

BATCH_ROOM_BYTES = 64 * 1024
"""Bytes that a fetch of a range with an estimated size has in addition: its first and its last batch may begin before it and end after it."""

UNPACKED_BYTES_MAX, UNPACKED_BATCH_BYTES_MAX, UNPACKED_RECORDS_MAX = 128 * 1024 * 1024, 32 * 1024 * 1024, 2_000_000
"""Decompressed bytes and records of one fetch of a partition. A batch above these is not readable here: a few bytes may unpack to gigabytes."""

ABORT_MARKER = b"\0\0\0\0"
"""The key of the control record that ends an aborted transaction: version 0, type 0."""

LEADER_RETRY_SECONDS = 0.2
"""Pause before the metadata is read again, after a broker answered that it does not lead a partition."""

_PROBLEMS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: PartitionProblem.DENIED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: PartitionProblem.NO_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE: PartitionProblem.NO_LEADER,
    ErrorCode.KAFKA_STORAGE_ERROR: PartitionProblem.STORAGE,
    ErrorCode.CORRUPT_MESSAGE: PartitionProblem.UNREADABLE,
}
_MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH})


def problem_of(code: int) -> PartitionProblem:
    return _PROBLEMS.get(ErrorCode(code), PartitionProblem.NO_PROGRESS)


class RecordReaderClient:
    """`with RecordReaderClient("flights", 5.0) as reader: ...`. Its deadline is `seconds` after its construction. `fetch_bytes_max`:
    bytes of a fetch. Not thread-safe."""

    def __init__(self, topic: str, seconds: float, fetch_bytes_max: int = FETCH_BYTES_MAX) -> None:
        self.topic = topic
        self._deadline = time.monotonic() + seconds
        self._connections: dict[tuple[str, int], KafkaConnection] = {}
        self._brokers: dict[int, tuple[str, int]] = {}
        self._leaders: dict[int, int] = {}
        self._unreachable: set[int] = set()
        self._fetch_bytes_max = fetch_bytes_max
        self._fetch_bytes = min(FETCH_BYTES_FIRST, fetch_bytes_max)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def renew(self, seconds: float) -> None:
        """Set a new deadline, and send requests again to brokers that did not respond."""
        self._deadline = time.monotonic() + seconds
        self._unreachable.clear()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # -- offsets -----------------------------------------------------------------------------------------------------------------

    def load_leaders(self) -> None:
        """Read the leaders of the topic's partitions. Raises NoResponse if no broker answers."""
        body = m.MetadataRequest(
            topics=[m.MetadataRequest.MetadataRequestTopic(name=self.topic)], allow_auto_topic_creation=False
        )
        problem = NoResponse("no broker is known")
        for address in settings.WEIR.bootstrap.split(","):
            host, _, port = address.rpartition(":")
            try:
                response = self._call((host, int(port)), ApiKey.METADATA, 9, body)
                break
            except NoResponse as e:
                problem = e
        else:
            raise problem
        self._brokers = {b.node_id: (b.host, b.port) for b in response.brokers}
        self._leaders = {p.partition_index: p.leader_id for t in response.topics for p in t.partitions}

    def log_ranges(self, partitions: Iterable[int]) -> tuple[dict[int, tuple[int, int]], dict[int, PartitionProblem]]:
        """(log start offset, last stable offset) by partition, and the problems of the others."""
        starts, problems = self._offsets(partitions, EARLIEST)
        ends, later = self._offsets(starts, LATEST)
        return {p: (min(starts[p], end), end) for p, end in ends.items()}, problems | later

    def offsets_at(
        self, partitions: Iterable[int], timestamp_ms: int
    ) -> tuple[dict[int, int], dict[int, PartitionProblem]]:
        """The offset of the first record at or after a timestamp by partition, -1 = there is none."""
        return self._offsets(partitions, timestamp_ms)

    def _offsets(self, partitions: Iterable[int], timestamp: int) -> tuple[dict[int, int], dict[int, PartitionProblem]]:
        request = m.ListOffsetsRequest
        found: dict[int, int] = {}
        by_leader, problems = self._by_leader(partitions)
        for leader, indexes in by_leader.items():
            for at in range(0, len(indexes), PARTITIONS_PER_REQUEST):
                part = indexes[at : at + PARTITIONS_PER_REQUEST]
                topic = request.ListOffsetsTopic(
                    name=self.topic,
                    partitions=[request.ListOffsetsPartition(partition_index=i, timestamp=timestamp) for i in part],
                )
                response = self._of_leader(leader, ApiKey.LIST_OFFSETS, 5, request(-1, READ_COMMITTED, [topic]))
                if response is None:
                    problems |= dict.fromkeys(part, PartitionProblem.LEADER_UNREACHABLE)
                    continue
                for p in (p for t in response.topics for p in t.partitions):
                    if p.error_code:
                        problems[p.partition_index] = problem_of(p.error_code)
                    else:
                        found[p.partition_index] = p.offset
        return found, problems

    # -- records -----------------------------------------------------------------------------------------------------------------

    def fetch(self, ranges: Mapping[int, FetchRange]) -> dict[int, Chunk]:
        """See `domain.record_scan.RecordReader`. A chunk without progress: the leader moved, or there are no records yet."""
        by_leader, problems = self._by_leader(ranges)
        chunks = {p: Chunk(ranges[p].offset, problem=problem) for p, problem in problems.items()}
        moved = False
        bytes_max = max(CHUNK_BYTES_MIN, self._fetch_bytes // max(1, len(ranges)))
        self._fetch_bytes = min(self._fetch_bytes_max, 2 * self._fetch_bytes)
        for leader, indexes in by_leader.items():
            fetched = self._fetch(leader, {p: ranges[p] for p in indexes}, bytes_max)
            # A batch above the limit is sent only if its partition is the first of a request.
            larger = [p for p, c in fetched.items() if c is not None and _is_stuck(c, ranges[p])]
            for p in larger if len(indexes) > 1 else ():
                fetched |= self._fetch(leader, {p: ranges[p]}, bytes_max)
            for p in indexes:
                chunk = fetched.get(p)
                moved = moved or chunk is None
                chunks[p] = Chunk(ranges[p].offset) if chunk is None else chunk
        if moved:
            self._reload_leaders()
        return chunks

    def _fetch(self, leader: int, ranges: Mapping[int, FetchRange], bytes_max: int) -> dict[int, Chunk | None]:
        """Return None if the broker does not lead the partition."""
        request = m.FetchRequest
        requested = [
            request.FetchPartition(
                partition=p, fetch_offset=r.offset, partition_max_bytes=_partition_bytes(r, bytes_max)
            )
            for p, r in ranges.items()
        ]
        body = request(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=max(bytes_max * len(ranges), FETCH_BYTES_MAX),
            isolation_level=READ_COMMITTED,
            topics=[request.FetchTopic(topic=self.topic, partitions=requested)],
        )
        response = self._of_leader(leader, ApiKey.FETCH, 12, body)
        if response is None:
            return {p: Chunk(r.offset, problem=PartitionProblem.LEADER_UNREACHABLE) for p, r in ranges.items()}
        reported = [p for t in response.responses for p in t.partitions]
        return {
            p.partition_index: _chunk(p, ranges[p.partition_index]) for p in reported if p.partition_index in ranges
        }

    def _reload_leaders(self) -> None:
        time.sleep(min(LEADER_RETRY_SECONDS, max(0.0, self._deadline - time.monotonic())))
        try:
            self.load_leaders()
        except NoResponse:
            pass  # the next fetch uses the old leaders, and reports the partitions that make no progress

    def _by_leader(self, partitions: Iterable[int]) -> tuple[dict[int, list[int]], dict[int, PartitionProblem]]:
        leaders: dict[int, list[int]] = {}
        problems: dict[int, PartitionProblem] = {}
        for p in partitions:
            leader = self._leaders.get(p)
            if leader is None:
                problems[p] = PartitionProblem.NO_PARTITION
            elif leader not in self._brokers:
                problems[p] = PartitionProblem.NO_LEADER
            else:
                leaders.setdefault(leader, []).append(p)
        return leaders, problems

    def _of_leader(self, leader: int, api: ApiKey, version: int, body: Struct) -> Any:
        """The response of this broker. None: the broker did not respond. No further request is sent to it."""
        if leader in self._unreachable:
            return None
        try:
            return self._call(self._brokers[leader], api, version, body)
        except NoResponse:
            self._unreachable.add(leader)
            return None

    def _call(self, address: tuple[str, int], api: ApiKey, version: int, body: Struct) -> Any:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise NoResponse(f"{address[0]}:{address[1]}: the deadline of the read has passed")
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = KafkaConnection(*address, client_id="weir-console")
        return connection.call(api, version, body, min(CALL_SECONDS, left))


def _partition_bytes(requested: FetchRange, bytes_max: int) -> int:
    return bytes_max if requested.size is None else min(bytes_max, requested.size * 5 // 4 + BATCH_ROOM_BYTES)


def _is_stuck(chunk: Chunk, requested: FetchRange) -> bool:
    behind = chunk.end is not None and requested.offset < min(chunk.end, requested.upto)
    return chunk.problem is None and behind and chunk.next_offset <= requested.offset


def _chunk(reported: m.FetchResponse.PartitionData, requested: FetchRange) -> Chunk | None:
    code = ErrorCode(reported.error_code)
    if code in _MOVED:
        return None
    if code is ErrorCode.OFFSET_OUT_OF_RANGE:
        # Retention deleted the records, or they were lost with a leader: a gap.
        log_start = reported.log_start_offset
        return Chunk(log_start if log_start > requested.offset else requested.upto, log_start=max(0, log_start))
    if code is not ErrorCode.NONE:
        return Chunk(requested.offset, problem=problem_of(code))
    data = bytes(reported.records or b"")
    try:
        records, next_offset, read_size = committed_records(data, requested, reported.aborted_transactions or ())
    except (CorruptBatch, InvalidBatch):
        return Chunk(requested.offset, size=len(data), problem=PartitionProblem.UNREADABLE)
    return Chunk(
        next_offset,
        records,
        len(data),
        read_size,
        log_start=max(0, reported.log_start_offset),
        end=reported.last_stable_offset if reported.last_stable_offset >= 0 else None,
    )


def committed_records(
    data: bytes, requested: FetchRange, aborted: Sequence[m.FetchResponse.AbortedTransaction]
) -> tuple[list[Record], int, int]:
    """(records of `requested` in the complete batches of `data`, the offset after the last batch, bytes of these batches). The batches before one that
    cannot be read are returned. Raises CorruptBatch and InvalidBatch if that is the first one."""
    room = UnpackBudget(UNPACKED_BYTES_MAX, UNPACKED_RECORDS_MAX, UNPACKED_BATCH_BYTES_MAX)
    pending = sorted(aborted, key=lambda a: a.first_offset, reverse=True)
    aborting: set[int] = set()
    records: list[Record] = []
    next_offset, read_size = requested.offset, 0
    for position, header in batches(data):
        if header.base_offset >= requested.upto:
            break
        while pending and pending[-1].first_offset <= header.last_offset:
            aborting.add(pending.pop().producer_id)
        try:
            if header.is_control:
                if any(r.key == ABORT_MARKER for r in records_of(data, position, header, room)):
                    aborting.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborting):
                found = list(records_of(data, position, header, room))
                if header.base_offset < requested.offset or header.next_offset > requested.upto:
                    found = [r for r in found if requested.offset <= r.offset < requested.upto]
                records += found
        except (CorruptBatch, InvalidBatch):
            if next_offset == requested.offset:
                raise
            break
        next_offset, read_size = max(next_offset, header.next_offset), position + header.size
    return records, next_offset, read_size
