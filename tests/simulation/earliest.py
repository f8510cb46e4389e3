"""Readers that repeatedly read partitions from the earliest offset, whose old records may be on history replicas (safety section 8, second stage).

`FromEarliest` reads a partition with read_committed from its log start offset to its end, then again. Between two passes it looks up a timestamp or
deletes the oldest records. Invariants: a pass has no gap, no duplicate and the same record at an offset as earlier passes; a lookup by time returns
the first record with that timestamp or a later one; at the end a pass has exactly the committed records from its start on (`verify`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from brokerd.cluster.model import TopicPartition
from brokerd.wire import records
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode as E
from brokerd.wire.messages import DeleteRecordsRequest, ListOffsetsRequest
from tests.simulation.checkers import Violation
from tests.simulation.clients import Client
from tests.simulation.cluster import Cluster
from tests.simulation.transactors import Place, committed_fetch, decided_records, visible

EARLIEST = -2
PAUSE_MS = (1, 60)
PASSES_S = 200
"""Two passes over everything; each response of the remote store may take seconds."""


class FromEarliest(Client):
    def __init__(self, cluster: Cluster, name: str, place: Place, *, deletes: float = 0) -> None:
        """`deletes`: the share of passes after which the oldest records are deleted, while there is a history. (Without one, records that a leader deleted just
        before its death reappear with the next leader, see GAPS.md.)
        """
        super().__init__(cluster, name)
        self.place, self.deletes = place, deletes
        self.pass_start = self.offset = -1
        self.found: dict[int, bytes] = {}
        """{offset: value} of this pass."""
        self.times: dict[int, int] = {}
        """{offset: timestamp} of this pass."""
        self._known: dict[int, bytes] = {}
        self.passes = 0
        self.last: tuple[int, dict[int, bytes]] = (-1, {})
        """The start of the last complete pass, and its records."""
        self.deleted = -1
        self._skipped_upto = -1
        """A lookup by time returned a later record than one that was read: the partition must start above that one now."""
        self.enter(self._begin)

    def _begin(self) -> None:
        self._ask_time(EARLIEST, self._on_started)

    def _ask_time(self, timestamp: int, got_offset: Any) -> None:
        if self.stopped:
            return
        leader = self.leaders.get(self.place)
        if leader is None:
            self.refresh(lambda: self.call_later(lambda: self._ask_time(timestamp, got_offset)))
            return
        part = ListOffsetsRequest.ListOffsetsPartition(
            partition_index=self.place[1], current_leader_epoch=self.epochs[self.place], timestamp=timestamp
        )
        topics = [ListOffsetsRequest.ListOffsetsTopic(name=self.place[0], partitions=[part])]

        def on_response(body: Any) -> None:
            part = body.topics[0].partitions[0] if body is not None else None
            if part is None or part.error_code:
                self._on_failed(part, lambda: self._ask_time(timestamp, got_offset))
            else:
                got_offset(part)

        self.send_request(
            leader,
            ApiKey.LIST_OFFSETS,
            5,
            ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=topics),
            on_response,
        )

    def _on_failed(self, part: Any, again: Any) -> None:
        if part is not None and part.error_code == E.OFFSET_NOT_AVAILABLE:
            self.world.reached["no history replica answers"] += 1
        self.leaders.pop(self.place, None)
        self.call_later(again)

    def _on_started(self, part: Any) -> None:
        if part.offset <= self._skipped_upto:
            raise Violation(
                f"{self.place}: {self.name} a lookup by time skipped offset {self._skipped_upto}, which still exists: {part.offset}"
            )
        self._skipped_upto = -1
        self.pass_start = self.offset = part.offset
        self.found.clear()
        self.times.clear()
        self._fetch()

    def _fetch(self) -> None:
        if self.stopped:
            return
        leader = self.leaders.get(self.place)
        if leader is None:
            self.refresh(lambda: self.call_later(self._fetch))
            return
        fetch = committed_fetch(self.place, self.offset, self.epochs[self.place])
        self.send_request(leader, ApiKey.FETCH, 11, fetch, self._on_response)

    def _on_response(self, body: Any) -> None:
        part = body.responses[0].partitions[0] if body is not None and body.responses else None
        if (
            part is not None
            and part.error_code == E.OFFSET_OUT_OF_RANGE
            and self.next_offset(self.place, part, self.offset)
        ):
            self.world.reached["pass restarted"] += 1
            self.call_later(self._begin)
            return
        if part is None or part.error_code:
            self._on_failed(part, self._fetch)
            return
        data = bytes(part.records or b"")
        at_once = next(iter(records.batches(data)), None)
        if at_once is not None and at_once[1].base_offset > self.offset:
            raise Violation(
                f"{self.place}: {self.name} asked for {self.offset} and got {at_once[1].base_offset}: a gap"
            )
        for record in visible(part, self.offset):
            value = record.value or b""
            if self._known.setdefault(record.offset, value) != value:
                raise Violation(
                    f"{self.place}: offset {record.offset} was {self._known[record.offset]!r}, is {value!r}"
                )
            if record.offset in self.found:
                raise Violation(f"{self.place}: offset {record.offset} is duplicated in one pass of {self.name}")
            self.found[record.offset], self.times[record.offset] = value, record.timestamp
        for _, header in records.batches(data):
            if header.next_offset > part.last_stable_offset:
                raise Violation(
                    f"{self.place}: up to {header.last_offset}, above the last stable offset {part.last_stable_offset}"
                )
            self.offset = max(self.offset, header.next_offset)
        state = self._state
        if state is not None and state.handover_offset > self.pass_start and self.offset > state.handover_offset:
            self.world.reached["pass across the end of a history"] += not data
        if data or self.offset < part.last_stable_offset:
            self.call_later(self._fetch, self.world.between(*PAUSE_MS))
        else:
            self.passes += 1
            self.last = (self.pass_start, dict(self.found))
            self.call_later(self._delete_between_passes, self.world.between(*PAUSE_MS) * 4)

    @property
    def _state(self) -> Any:
        topic = self.cluster.image.topic_named(self.place[0])
        return topic.partitions.get(self.place[1]) if topic is not None else None

    # -- between passes ------------------------------------------------------------------------------------------------
    def _delete_between_passes(self) -> None:
        state = self._state
        if self.found and state is not None and state.handover_offset > 0 and self.world.chance(self.deletes):
            self._delete(self.world.rng.choice(sorted(self.found)[: 1 + len(self.found) // 2]))
        elif self.found and self.world.chance(0.7):
            self._ask_when(self.world.rng.choice(sorted(self.found)))
        else:
            self._begin()

    def _ask_when(self, offset: int) -> None:
        wanted = self.times[offset]

        def got_offset(part: Any) -> None:
            first = min(o for o, t in self.times.items() if t >= wanted)
            if part.offset > first or part.offset < 0:
                self._skipped_upto = first
            elif part.offset in self.times and self.times[part.offset] != part.timestamp:
                raise Violation(
                    f"{self.place}: offset {part.offset} has the timestamp {self.times[part.offset]}, but the response has {part.timestamp}"
                )
            self.world.reached["lookup by time"] += 1
            self._begin()

        self._ask_time(wanted, got_offset)

    def _delete(self, offset: int) -> None:
        leader = self.leaders.get(self.place)
        if leader is None:
            self._begin()
            return
        part = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=self.place[1], offset=offset)
        topics = [DeleteRecordsRequest.DeleteRecordsTopic(name=self.place[0], partitions=[part])]
        self.deleted = max(self.deleted, offset)
        state = self._state
        below = state is not None and offset < state.handover_offset

        def on_response(body: Any) -> None:
            part = body.topics[0].partitions[0] if body is not None else None
            if part is not None and not part.error_code:
                if part.low_watermark < offset:
                    raise Violation(
                        f"{self.place}: deleted up to {offset}, but the log start offset is {part.low_watermark}"
                    )
                self.world.reached[
                    "old records deleted below the end of a history" if below else "old records deleted"
                ] += 1
            self._begin()

        self.send_request(
            leader, ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(topics=topics, timeout_ms=2_000), on_response
        )


def verify(cluster: Cluster, readers: Sequence[FromEarliest], whole: set[Place]) -> None:
    """Each reader's last pass has the committed records from its start on. For the partitions of `whole` nothing was ever deleted."""
    for reader in readers:
        passes = reader.passes
        cluster.run_until(
            lambda r=reader, n=passes: r.passes >= n + 2, PASSES_S, f"{reader.name} to read all of {reader.place}"
        )  # type: ignore[misc]
        reader.stopped = True
        start, found = reader.last
        committed = {o: v for o, v in decided_records(cluster, reader.place)[0] if o >= start}
        if found != committed:
            extra = sorted(set(found.items()) - set(committed.items()))[:3]
            missed = sorted(set(committed.items()) - set(found.items()))[:3]
            raise Violation(
                f"{reader.place}: from {start} on {reader.name} read {extra} which is not in the log, and did not read {missed}"
            )
        if reader.place in whole and start != 0:
            raise Violation(f"{reader.place}: nothing was deleted, but the pass starts at {start}")
        state = cluster.image.topic_named(reader.place[0])
        assert state is not None
        tp = TopicPartition(state.topic_id, reader.place[1])
        if (now := cluster.image.partition(tp)) is not None and now.handover_offset > start:
            cluster.world.reached["complete pass across a history"] += 1
