"""A history replica serves only records below the hand-over offset, and only if its log is complete."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from brokerd.apis.history_reads import HistoryReadClient, HistoryReadServer
from brokerd.cluster.model import PartitionState, ReplicaIncarnation
from brokerd.replication.history_reads import (
    HistoryOperation,
    HistoryReadRequest,
    HistoryReadResult,
)
from brokerd.replication.partition import Role
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode as E
from brokerd.wire.steps import run_now
from tests.unit.replication.test_bootstrap import Leader
from tests.unit.replication.test_history_reads import MIB, S
from tests.unit.replication.test_relocations import TP


class LeaderWithOldRecords(Leader):
    """Stores 5 records of t-0 below the hand-over offset, and 2 above it."""

    def __init__(self) -> None:
        super().__init__()
        self.append(7)
        state = PartitionState(
            (2,), (ReplicaIncarnation(2, 12),), 2, 12, 4, handover_offset=S, handover_epoch=3, history_replicas=(1,)
        )
        self.apply_state(state)
        self.server = HistoryReadServer(self.replica_manager, lambda: self.now.wall_ms, lambda replica, wanted: None)

    def look_up(
        self, what: HistoryOperation, at: int, start: int = S, floor: int = 0, upto: int = S
    ) -> HistoryReadResult:
        """Encode and decode."""
        query = HistoryReadRequest(TP, start, floor, what, at, upto, -1, MIB)
        sent: list[Any] = []
        HistoryReadClient(
            self.replica_manager,
            type("Wire", (), {"send_request": lambda self, b, k, v, body, done: sent.append((body, done))})(),
        ).read(1, query, lambda h: sent.append(h))  # type: ignore[arg-type]
        body, done = sent.pop()
        response = run_now(self.server.respond(body))
        for topic in response.responses:
            for part in topic.partitions:
                if isinstance(part.records, list):
                    part.records = b"".join(r.file.pread(r.length, r.position) for r in part.records)
        done(response)
        reported = sent.pop()
        assert isinstance(reported, HistoryReadResult)
        return reported


def offsets(reported: HistoryReadResult) -> list[int]:
    return [r.offset for r in records.iterate(memoryview(reported.records))]


def test_a_history_replica_appends_nothing_and_serves_only_below_the_handover_offset() -> None:
    harness = LeaderWithOldRecords()
    assert harness.replica.core.role is Role.HISTORY and harness.replica_manager.hosted[TP] is harness.replica
    assert harness.replica_manager.unflushed[TP] is harness.replica, (
        "nothing will be written that would have it flushed"
    )
    assert offsets(harness.look_up(HistoryOperation.READ, 0)) == [0, 1, 2, 3, 4]
    assert offsets(harness.look_up(HistoryOperation.READ, 3)) == [3, 4]
    assert offsets(harness.look_up(HistoryOperation.READ, 0, upto=2)) == [0, 1], "not beyond what is stable to who asks"
    assert harness.look_up(HistoryOperation.TIME, -2).found == (0, -1, 0)
    assert harness.look_up(HistoryOperation.TIME, 2_000_000).found == (0, 2_000_000, 0)
    assert harness.look_up(HistoryOperation.TIME, 2_000_000, floor=2).found == (2, 2_000_000, 0), (
        "what is deleted is not found"
    )
    assert harness.look_up(HistoryOperation.TIME, 2_000_001).found is None
    assert harness.look_up(HistoryOperation.TIME, -3).found == (0, 2_000_000, 0)


def test_an_incomplete_history_replica_does_not_respond() -> None:
    harness = LeaderWithOldRecords()
    assert harness.look_up(HistoryOperation.READ, 0, start=4).error == E.OFFSET_NOT_AVAILABLE, "another archive"
    harness.replica.log.truncate_to(4)
    assert harness.look_up(HistoryOperation.READ, 0).error == E.OFFSET_NOT_AVAILABLE, "a power cut took the rest"


def test_records_below_the_log_start_are_deleted_at_the_history_replica() -> None:
    harness = LeaderWithOldRecords()
    harness.apply_state(replace(harness.state, log_start_floor=3))
    assert harness.replica.log.start_offset == 3
    reported = harness.look_up(HistoryOperation.READ, 1)
    assert (reported.error, reported.log_start) == (E.OFFSET_OUT_OF_RANGE, 3)


@pytest.mark.parametrize(
    ("configs", "tail_bytes", "kept"),
    [
        ({"retention.bytes": "1"}, 10, S),
        ({"retention.bytes": "1"}, 0, 0),
        ({"retention.bytes": "1000000"}, 0, 0),
        ({"retention.ms": "-1"}, 0, 0),
    ],
    ids=str,
)
def test_a_history_replica_reports_its_log_start_after_retention(
    configs: dict[str, str], tail_bytes: int, kept: int
) -> None:
    harness = LeaderWithOldRecords()
    harness.replica.config = type(harness.replica.config).from_overrides(configs)
    reported = harness.look_up(HistoryOperation.RETAINED, tail_bytes)
    assert reported.found is not None and reported.found[0] == kept
