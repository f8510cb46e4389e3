"""History reads: a leader's requests to history replicas, their responses, and the leader's use of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from brokerd.cluster.model import Now
from brokerd.cluster.znodes import StartProposal
from brokerd.replication.history_reads import (
    CACHE_BYTES_MAX,
    IN_FLIGHT_BYTES_MAX,
    UNAVAILABLE,
    HistoryOperation,
    HistoryPosition,
    HistoryReadRequest,
    HistoryReadResult,
    HistoryReads,
)
from brokerd.replication.outbox import OutboxEntry
from brokerd.wire.errors import ErrorCode as E
from tests.unit.replication.test_bootstrap import Leader
from tests.unit.replication.test_relocations import TP

S = 5
MIB = 1024 * 1024


class HistoryRequest(Leader):
    """Leads t-0 from offset 5 on. Brokers 7, 8 and 9 store the records below. The test sends the responses."""

    def __init__(self) -> None:
        super().__init__()
        self.queries: list[tuple[int, HistoryReadRequest, Callable[[HistoryReadResult | None], None]]] = []
        self.dead: set[int] = set()
        self.history_reads = self.hooks.history_reads = HistoryReads(
            self._send_request, lambda: self.now, lambda b: b not in self.dead, self.outbox
        )
        self.append(S)
        self.replicate_to_log_end()
        self.replica.log.raise_start(S)
        self.epoch_of_archive(S, (7, 8, 9))

    def epoch_of_archive(self, start: int, holders: tuple[int, ...]) -> None:
        state = replace(
            self.state, observers=(), leader_epoch=3, handover_offset=start, handover_epoch=3, history_replicas=holders
        )
        self.apply_state(state)

    def _send_request(
        self, holder: int, query: HistoryReadRequest, done: Callable[[HistoryReadResult | None], None]
    ) -> None:
        self.queries.append((holder, query, done))

    def respond(self, result: HistoryReadResult | None) -> int:
        holder, _, done = self.queries.pop(0)
        done(result)
        return holder

    def read(self, offset: int = 0, bytes_max: int = MIB) -> HistoryReadResult | None:
        return self.history_reads.read(self.replica, offset, S, -1, bytes_max, lambda: None)


def result(data: bytes = b"x") -> HistoryReadResult:
    return HistoryReadResult(E.NONE, 0, data)


def test_a_history_read_is_sent_once_and_cached() -> None:
    harness = HistoryRequest()
    assert harness.replica.local_log_start_offset == S
    assert harness.read() is None and harness.read() is None
    ((holder, query, _),) = harness.queries
    assert (holder, query.operation, query.handover_offset, query.end_offset) == (
        7,
        HistoryOperation.READ,
        S,
        S,
    )
    harness.respond(result())
    assert harness.read() == result() and not harness.queries
    harness.now = Now(harness.now.mono_ms + 60_000, harness.now.wall_ms)
    harness.history_reads.tick(harness.now)
    assert harness.read() is None and len(harness.queries) == 1


def test_a_failed_history_replica_is_skipped_and_then_tried_last() -> None:
    harness = HistoryRequest()
    harness.dead.add(8)
    harness.read()
    assert harness.respond(None) == 7
    assert harness.respond(HistoryReadResult(E.NONE, 0, b"y")) == 9
    harness.read(1)
    assert harness.queries[0][0] == 9, "7 was silent a moment ago"
    harness.respond(HistoryReadResult(E.OFFSET_NOT_AVAILABLE))
    assert harness.respond(result()) == 7


def test_without_a_history_replica_the_error_is_retriable_and_the_read_is_soon_retried() -> None:
    harness = HistoryRequest()
    harness.read()
    for _ in range(3):
        harness.respond(None)
    assert harness.read() == UNAVAILABLE and UNAVAILABLE.error != E.OFFSET_OUT_OF_RANGE
    harness.now = Now(harness.now.mono_ms + 1_000, harness.now.wall_ms)
    assert harness.read() is None and len(harness.queries) == 1


def test_only_a_history_replica_or_the_metadata_log_confirms_a_deleted_offset() -> None:
    harness = HistoryRequest()
    harness.read()
    harness.respond(HistoryReadResult(E.OFFSET_OUT_OF_RANGE, 3))
    reported = harness.read()
    assert reported is not None and reported.error == E.OFFSET_OUT_OF_RANGE and harness.replica.start_offset == 3
    harness.apply_state(replace(harness.state, log_start_floor=4))
    reported = harness.read(3)
    assert reported is not None and reported.error == E.OFFSET_OUT_OF_RANGE and not harness.queries, (
        "nobody need be asked"
    )


def test_history_reads_in_flight_and_in_the_cache_are_bounded() -> None:
    harness = HistoryRequest()
    for i in range(2 * IN_FLIGHT_BYTES_MAX // MIB):
        assert harness.history_reads.read(harness.replica, 0, S, i, MIB, lambda: None) is None
    assert len(harness.queries) == IN_FLIGHT_BYTES_MAX // MIB
    while harness.queries:
        harness.respond(result(bytes(2 * MIB)))
    kept = sum(len(k.result.records) for k in harness.history_reads._cache.values())
    assert MIB < kept <= CACHE_BYTES_MAX


def test_the_history_start_is_requested_until_the_metadata_log_has_it() -> None:
    harness = HistoryRequest()
    harness.history_reads.retain(harness.replica)
    ((_, query, _),) = harness.queries
    assert query.operation is HistoryOperation.RETAINED and query.target == harness.replica.log.size_bytes
    harness.respond(HistoryReadResult(E.NONE, 0, found=HistoryPosition(2)))
    assert OutboxEntry.HISTORY_STARTS in harness.outbox.changed
    assert harness.history_reads.proposals() == [StartProposal(TP.topic_id, 0, 3, 2)]
    harness.apply_state(replace(harness.state, log_start_floor=2))
    assert harness.history_reads.proposals() == []


def test_a_log_start_above_the_handover_offset_ends_history_reads() -> None:
    harness = HistoryRequest()
    harness.append(5)
    harness.replicate_to_log_end()
    harness.replica.log.raise_start(8)
    assert harness.replica.local_log_start_offset == 0, "it begins at 8 for everybody"
    harness.history_reads.retain(harness.replica)
    assert not harness.queries and harness.history_reads.proposals() == [StartProposal(TP.topic_id, 0, 3, 8)]


def test_a_log_with_later_appends_below_the_handover_offset_is_no_history_replica() -> None:
    """After an unclean election of an incomplete replica: new records must not be deleted together with old ones."""
    harness = HistoryRequest()
    harness.apply_state(replace(harness.state, handover_offset=20, leader_epoch=4, handover_epoch=4))
    assert not harness.replica.is_contiguous and harness.replica.local_log_start_offset == 0
    harness.history_reads.propose_log_start(harness.replica, 3)
    assert harness.history_reads.proposals() == []


# -- the history replica ---------------------------------------------------------------------------------------------------
