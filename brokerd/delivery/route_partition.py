"""One route on one source partition: reads the log, matches, and appends each record to the target partitions exactly once.

The producer state of the target partition contains the source offset of the last record that it received (`route_producer`). A batch contains the offset that
the sender expects there, and is appended only if the expectation is true. So a new leader, a deposed one and a leader that retries append no record twice. The
position of the route, below which every record is in its targets, is committed as the offset
of a consumer group. It only limits what a new leader reads again. Invariants:
  - Records of a target partition are in the order of their offsets in the source partition. One batch per target partition is sent at a time.
  - The committed position is at most the offset of the first record that a target partition has not acknowledged.
  - Only records below the last stable offset are routed. Records of aborted transactions are not routed.
  - A number of partitions of a target is used after it was committed with the position (`route_placement`).
  - Nothing is sent before a first position is committed. Otherwise the next leader would start at another offset.
  - A target that is missing or unavailable, or that rejects a batch, delays the route. The route skips no record because of it.
  - If the route has a principal: without its permission to read the source nothing is read or sent. Nothing is sent to a topic to which it may not write.
    Exceeded quotas and missing permissions delay the route (`route_principal`).
Does not contain: files, sockets, clocks, the choice of partitions.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from brokerd.cluster.model import Now
from brokerd.cluster.routes import Route, RouteStart
from brokerd.delivery.route_matcher import RouteMatcher
from brokerd.delivery.route_placement import PartitionCounts
from brokerd.delivery.route_port import RoutePort, RoutePosition, RouteProblem, RouteState
from brokerd.delivery.route_principal import RoutePrincipal
from brokerd.delivery.route_producer import NOTHING, UNKNOWN, route_batch, route_producer_id
from brokerd.delivery.transfer_lane import size_of
from brokerd.wire import records
from brokerd.wire.compression import NONE
from brokerd.wire.errors import ErrorCode
from brokerd.wire.murmur2 import key_partition
from brokerd.wire.records import Record

READ_BYTES = 256 * 1024
"""Bytes of the log that are read in one iteration of the event loop."""
BUFFERED_RECORDS_MAX = 10_000
BUFFERED_BYTES_MAX = 8 * 1024 * 1024
"""Limits of the records, and of their bytes, that wait for their targets, for one route on one source partition. At a limit the route stops reading."""
BATCH_RECORDS = 500
BATCH_BYTES = 512 * 1024
RETRY_MS = 200
"""Pause after a batch, or a request to the group coordinator, that was not accepted."""
COMMIT_MS = 1_000
"""Minimum time between two commits of the position."""
RENEW_MS = 3_600_000
"""A position that does not change is committed again after this time, so that it does not expire."""
DRAIN_MS = 5_000
"""Time for which records that were matched before a change of the route wait for their targets. Then they are matched again."""
PROBLEMS_MAX = 5
"""Maximum number of targets with a problem that are reported."""


REJECTIONS = frozenset(
    {
        ErrorCode.INVALID_RECORD,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
)
"""Errors that a retry alone does not resolve."""


@dataclass(slots=True)
class _Queue:
    """Records for one target partition. `last` is the source offset of the last record that is in the target partition. `sent` is the number of records in the
    batch in flight."""

    target: str
    topic_id: UUID | None
    partition: int
    last: int = UNKNOWN
    waiting: deque[Record] = field(default_factory=deque)
    """The records have the offsets of the source partition."""
    sent: int = 0
    retry_at_ms: int = 0
    problem: RouteProblem | None = None
    error: ErrorCode = ErrorCode.NONE


class RoutePartition:
    def __init__(self, route: Route, source_id: UUID, partition: int, port: RoutePort) -> None:
        self._port, self._partition, self._principal = port, partition, RoutePrincipal(port)
        self._producer_id = route_producer_id(route.route_id, source_id, partition)
        self.closed = False
        self.routed = 0
        """Number of records that targets have acknowledged since this broker became the leader."""
        self.lost = 0
        """Number of records that retention deleted before they were routed."""
        self._queues: dict[tuple[str, int], _Queue] = {}
        self._active: dict[tuple[str, int], _Queue] = {}
        """The queues with waiting records."""
        self._buffered = self.buffered_bytes = 0
        """Records that wait for their targets, and an upper bound of their bytes."""
        self._next_offset = -1
        self._unread = 0
        """The first source offset that no leader has read, apart from the records that this leader has read (`_next_offset`)."""
        self._placement, self._placement_committed = PartitionCounts(), -1
        """The numbers of partitions of the targets, and the version of them that this leader has committed. Its first commit, before it reads,
        fences earlier leaders."""
        self._compression = NONE
        """Compression codec of the batch that was read last. Routed batches use the same codec."""
        self._requesting = False
        """True while a request to the group coordinator is in flight."""
        self._retry_at_ms = self._committed_at_ms = 0
        self._committed: RoutePosition | None = None
        self._next: Route | None = None
        self._change_at_ms: int | None = None
        self._matched_below: dict[str, int] = {}
        """{target topic: offset}. Records below the offset were matched by an earlier definition of the route and are in this topic."""
        self._adopt(route)

    def _adopt(self, route: Route) -> None:
        self.route, self._matcher = route, RouteMatcher(route.bindings)
        self._targets = {name: self._port.target(name) for name in route.targets}
        self._targets_changed = False
        self._place()

    def _place(self) -> None:
        unread = max(self._unread, self._next_offset)
        for name, target in self._targets.items():
            if target is not None:
                self._placement.adopt(name, target.partitions, unread)
        self._placement.retain(self.route.targets, max(0, self.position))

    # -- events ----------------------------------------------------------------------------------------------------------
    def change(self, route: Route) -> None:
        """Use a changed definition. Records that were already matched keep their targets, if the targets accept them within DRAIN_MS."""
        self._next = route

    def topics_changed(self) -> None:
        """Topics were created, deleted or have more partitions."""
        self._targets_changed = True

    def tick(self, now: Now) -> None:
        """Continue reading, sending and committing. Called periodically, and whenever a reason to wait may have ended."""
        if self.closed:
            return
        if self._next_offset < 0:
            self._start(now)
            return
        self._principal.refresh(self.route.principal, now)
        if self._apply_changes():
            self._change(now)
        else:
            self._read_records(now)
        if self._principal.may_read and (not self._requesting or self._change_at_ms is None):
            for queue in list(self._active.values()):
                self._send(queue, now)
        if self._change_at_ms is None:
            self._commit(now)

    # -- start -----------------------------------------------------------------------------------------------------------
    def _start(self, now: Now) -> None:
        if self._requesting or now.mono_ms < self._retry_at_ms:
            return
        self._requesting = True
        self._port.fetch_position(self._on_position)

    def _on_position(self, error: ErrorCode, position: RoutePosition, now: Now) -> None:
        self._requesting = False
        if self.closed:
            return
        if error:
            self._retry_at_ms = now.mono_ms + RETRY_MS
            return
        known = _metadata(position.metadata)
        if position.offset >= 0 and known.get("route") == self.route.route_id:
            self._unread = max(position.offset, self._port.end_offset)
            if (placement := PartitionCounts.from_json(known.get("placement"), self.route.targets)) is not None:
                self._placement = placement
                self._place()
            self.lost = int(known.get("lost", 0))
            self._next_offset, self._committed, self._committed_at_ms = position.offset, position, now.mono_ms
            self._port.wake()
            return
        latest = self.route.start is RouteStart.LATEST and self._partition < self.route.partitions_at_start
        offset = self._port.high_watermark if latest else self._port.start_offset

        def on_committed(at: Now) -> None:
            self._next_offset = offset
            self._port.wake()

        self._commit_position(RoutePosition(offset, self._metadata()), on_committed)

    # -- reading ---------------------------------------------------------------------------------------------------------
    def _read_records(self, now: Now) -> None:
        port = self._port
        if self._next_offset < port.start_offset:
            self.lost += port.start_offset - self._next_offset
            self._next_offset = port.start_offset
        upto = port.last_stable_offset
        if (
            self._placement.version != self._placement_committed
            or self._next_offset >= upto
            or self._full
            or (self._buffered and not port.has_room)
            or not self._principal.may_read
            or self._principal.throttled
        ):
            return
        data = port.read(self._next_offset, READ_BYTES, upto)
        if data is None:
            return
        if not data:
            self._next_offset = upto
            return
        aborted = port.aborted_transactions(self._next_offset, upto)
        for at, header in records.batches(data):
            if header.next_offset <= self._next_offset:
                continue
            ended = header.is_transactional and any(
                producer_id == header.producer_id and first <= header.base_offset <= last
                for producer_id, first, last in aborted
            )
            if not header.is_control and not ended:
                self._compression = header.compression
                for record in records.records_of(data, at, header):
                    if record.offset >= self._next_offset:
                        self._enqueue(record)
                        self._next_offset = record.offset + 1
                        if self._full:
                            return
            self._next_offset = header.next_offset
            self._principal.on_read(header.next_offset, header.size, now)

    @property
    def _full(self) -> bool:
        return self._buffered >= BUFFERED_RECORDS_MAX or self.buffered_bytes >= BUFFERED_BYTES_MAX

    def _enqueue(self, record: Record) -> None:
        for _, topic, routed in self._matcher.match(record):
            if record.offset < self._matched_below.get(topic, 0):
                continue
            queue = self._queue(topic, routed)
            if record.offset <= queue.last:
                continue  # an earlier leader has sent the record
            queue.waiting.append(routed)
            self._active[topic, queue.partition] = queue
            self._buffered += 1
            self.buffered_bytes += size_of(routed)

    def _queue(self, topic: str, record: Record) -> _Queue:
        target = self._targets[topic]
        partition = -1
        if target is not None:
            key, count = record.key, self._placement.count(topic, record.offset)
            partition = key_partition(key, count) if key else self._partition % count
        queue = self._queues.get((topic, partition))
        if queue is None:
            queue = _Queue(topic, None if target is None else target.topic_id, partition)
            self._queues[topic, partition] = queue
        return queue

    # -- sending ---------------------------------------------------------------------------------------------------------
    def _send(self, queue: _Queue, now: Now) -> None:
        if not queue.waiting or queue.sent or now.mono_ms < queue.retry_at_ms:
            return
        target = self._targets.get(queue.target)
        if queue.topic_id is None or target is None or target.topic_id != queue.topic_id:
            queue.problem = RouteProblem.TARGET_MISSING
            return
        if not self._principal.may_write(queue.target):
            queue.problem, queue.error = RouteProblem.TARGET_NOT_AUTHORIZED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return
        if queue.problem is RouteProblem.TARGET_NOT_AUTHORIZED:
            queue.problem, queue.error = None, ErrorCode.NONE
        if self._principal.write_throttled:
            return
        batch = self._batch(queue, min(BATCH_BYTES, target.batch_bytes_max))
        queue.sent = len(batch)
        last = batch[-1].offset

        def on_result(error: ErrorCode, source_offset: int, at: Now) -> None:
            queue.sent = 0
            if self.closed:
                return
            if error == ErrorCode.NONE:
                self._principal.on_written(len(data), at)
                self._on_acknowledged(queue, last, len(batch))
            elif error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                self._on_acknowledged(queue, source_offset, 0)
            else:
                rejected = error in REJECTIONS
                queue.problem = RouteProblem.TARGET_REJECTED if rejected else RouteProblem.TARGET_UNAVAILABLE
                queue.error, queue.retry_at_ms = error, at.mono_ms + RETRY_MS
            self._port.wake()

        data = route_batch(batch, self._producer_id, last, NONE if target.recompresses else self._compression)
        self._port.send(queue.topic_id, queue.partition, data, queue.last, on_result)

    @staticmethod
    def _batch(queue: _Queue, most: int) -> list[Record]:
        size, batch = records.HEADER_BYTES, list[Record]()
        for record in queue.waiting:
            size += size_of(record)
            if batch and (size > most or len(batch) >= BATCH_RECORDS):
                break
            batch.append(record)
        return batch

    def _on_acknowledged(self, queue: _Queue, last: int, appended: int) -> None:
        """The target partition has every record up to source offset `last` (NOTHING: none)."""
        queue.last, queue.problem, queue.error = max(last, NOTHING), None, ErrorCode.NONE
        self.routed += appended
        while queue.waiting and queue.waiting[0].offset <= last:
            self._buffered -= 1
            self.buffered_bytes -= size_of(queue.waiting.popleft())
        if not queue.waiting:
            self._active.pop((queue.target, queue.partition), None)

    # -- changes of the route and of its targets --------------------------------------------------------------------------
    def _apply_changes(self) -> bool:
        if self._targets_changed:
            current = {name: self._port.target(name) for name in self.route.targets}
            self._targets_changed = {n: t and t.topic_id for n, t in current.items()} != {
                n: t and t.topic_id for n, t in self._targets.items()
            }
            if not self._targets_changed:
                self._targets = current
                self._place()
        return self._targets_changed or self._next is not None

    def _change(self, now: Now) -> None:
        """Wait until all matched records are in their targets, for at most DRAIN_MS. Then commit the position and use the new definition."""
        if self._change_at_ms is None:
            self._change_at_ms = now.mono_ms + DRAIN_MS
        waiting = [q for q in self._active.values() if q.sent or q.problem in (None, RouteProblem.TARGET_UNAVAILABLE)]
        late = now.mono_ms >= self._change_at_ms and not any(q.sent for q in waiting)
        if (waiting and not late) or self._requesting or now.mono_ms < self._retry_at_ms:
            return

        def on_committed(at: Now) -> None:
            self._match_again()
            self._port.wake()

        self._commit_position(RoutePosition(self.position, self._metadata()), on_committed)

    def _match_again(self) -> None:
        position, read = self.position, self._next_offset
        late = {q.target for q in self._active.values()}
        for topic in self.route.targets:
            if topic not in late:
                self._matched_below[topic] = read
        for queue in self._queues.values():
            queue.waiting.clear()
        self._active.clear()
        self._buffered = self.buffered_bytes = 0
        before, self._unread, self._next_offset = self._targets, max(self._unread, read), position
        self._adopt(self._next or self.route)
        self._next, self._change_at_ms = None, None
        for name, target in self._targets.items():
            old = before.get(name)
            if target is None or old is None or target.topic_id != old.topic_id:
                for key in [k for k in self._queues if k[0] == name]:
                    del self._queues[key]
        for key in [k for k in self._queues if k[0] not in self._targets]:
            del self._queues[key]

    # -- position --------------------------------------------------------------------------------------------------------
    @property
    def position(self) -> int:
        """The position of the route: every record below it is in its targets."""
        return min((q.waiting[0].offset for q in self._active.values()), default=self._next_offset)

    @property
    def problems(self) -> list[tuple[str, RouteProblem, str]]:
        """(topic, problem, name of the error), one for each target, at most PROBLEMS_MAX, after the problem of the source."""
        found = {q.target: (q.target, q.problem, q.error.name) for q in self._active.values() if q.problem is not None}
        targets = [found[name] for name in sorted(found)[:PROBLEMS_MAX]]
        if self._principal.may_read:
            return targets
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED.name
        return [(self.route.source, RouteProblem.SOURCE_NOT_AUTHORIZED, denied), *targets]

    @property
    def state(self) -> RouteState:
        if self._next_offset < 0:
            return RouteState.STARTING
        if not self._principal.may_read or any(q.problem for q in self._active.values()):
            return RouteState.BLOCKED
        waiting = self._active or self._next_offset < self._port.last_stable_offset
        return RouteState.THROTTLED if self._principal.throttled and waiting else RouteState.RUNNING

    def _metadata(self) -> str:
        """Return the metadata of the committed position, as JSON: values for the control plane, and the state from which a later leader continues."""
        value = {
            "route": self.route.route_id,
            "generation": self.route.generation,
            "state": self.state,
            "lost": self.lost,
            "problems": self.problems,
            "placement": self._placement.to_json(self.route.targets),
        }
        return json.dumps(value, separators=(",", ":"))

    def _commit(self, now: Now) -> None:
        if self._requesting or now.mono_ms < self._retry_at_ms:
            return
        since, placed = now.mono_ms - self._committed_at_ms, self._placement.version == self._placement_committed
        if since < COMMIT_MS and placed:
            return
        self._placement.retain(self.route.targets, self.position)
        position = RoutePosition(self.position, self._metadata())
        if position != self._committed or since >= RENEW_MS or not placed:
            self._commit_position(position, lambda at: None)

    def _commit_position(self, position: RoutePosition, done: Callable[[Now], None]) -> None:
        """`done` is called when the position is committed. After an error the caller tries again."""

        version = self._placement.version

        def on_committed(error: ErrorCode, at: Now) -> None:
            self._requesting = False
            if self.closed:
                return
            if error:
                self._retry_at_ms = at.mono_ms + RETRY_MS
                return
            if version != self._placement_committed:
                self._placement_committed = version
                self._port.wake()
            self._committed, self._committed_at_ms = position, at.mono_ms
            done(at)

        self._requesting = True
        self._port.commit_position(position, on_committed)


def _metadata(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text) if text else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
