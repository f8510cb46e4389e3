"""ListOffsets: each special timestamp and the versions that define it. Does not test the search in logs: tests/unit/storage does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.apis import offsets
from brokerd.apis.offsets import OffsetsApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.cluster.metadata import PartitionChanged
from brokerd.replication.history_reads import (
    UNAVAILABLE,
    HistoryPosition,
    HistoryReadRequest,
    HistoryReadResult,
    HistoryReads,
)
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ListOffsetsRequest
from brokerd.wire.records import Record
from tests.simulation.disk import SimDisk
from tests.unit.apis.requests import FakeRequest, immediate_background_work
from tests.unit.replication.test_relocations import TP, Harness

NOTHING = (0, -1, -1)


def leader_with_timestamps(*timestamps: int) -> Harness:
    """A leader whose records have these timestamps, one record per batch."""
    made = Harness(SimDisk())
    for t in timestamps:
        data = bytearray(records.build([Record(0, t, b"k", b"v")]))
        made.replica.log.append(data, records.check(data), 0, made.now)
        made.replica_manager.on_appended(made.replica, made.now)
    return made


def list_offset(
    harness: Harness,
    timestamp: int,
    version: int = 11,
    *,
    twice: bool = False,
    holder: Callable[[int], HistoryReadResult] | None = None,
) -> Any:
    """(error, offset, timestamp). `holder` returns what the history replica finds at a timestamp. Without `holder`, a history read fails the test."""
    r = ListOffsetsRequest
    wanted = r.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
    body = r(replica_id=-1, topics=[r.ListOffsetsTopic(name="t", partitions=[wanted] * (1 + twice))])
    responses: list[Any] = []
    request: Any = FakeRequest(body, version, responses.append)
    loop: Any = SimpleNamespace(now=harness.now)

    def send_request(to: int, query: HistoryReadRequest, done: Callable[[HistoryReadResult | None], None]) -> None:
        assert holder is not None, f"{query} is asked of {to}"
        done(holder(query.target))

    history_reads = HistoryReads(send_request, lambda: harness.now, lambda b: True, harness.outbox)
    OffsetsApi(loop, harness.replica_manager, history_reads, immediate_background_work(), ALLOW_ALL).list_offsets(
        request
    )
    reported = responses[0].topics[0].partitions[-1]
    return reported.error_code, reported.offset, reported.timestamp


def test_every_special_timestamp_has_an_offset_without_tiered_storage() -> None:
    made = leader_with_timestamps(5_000, 9_000, 7_000)
    made.replica.log.raise_start(1)
    assert list_offset(made, offsets.EARLIEST) == (0, 1, -1)
    assert list_offset(made, offsets.EARLIEST_LOCAL) == (0, 1, -1), "all that there is is local"
    assert list_offset(made, offsets.LATEST) == (0, 3, -1)
    assert list_offset(made, offsets.MAX_TIMESTAMP) == (0, 1, 9_000)
    assert list_offset(made, offsets.LATEST_TIERED) == NOTHING
    assert list_offset(made, offsets.EARLIEST_PENDING_UPLOAD) == NOTHING
    assert list_offset(made, 7_000) == (0, 1, 9_000), "the first record of that time or later"
    assert list_offset(made, 9_001) == NOTHING


def test_an_empty_log_has_a_start_and_an_end_and_no_max_timestamp() -> None:
    made = leader_with_timestamps()
    assert [list_offset(made, t) for t in (offsets.EARLIEST, offsets.EARLIEST_LOCAL, offsets.LATEST)] == [
        (0, 0, -1)
    ] * 3
    assert [list_offset(made, t) for t in (offsets.MAX_TIMESTAMP, offsets.LATEST_TIERED, 0)] == [NOTHING] * 3


@pytest.mark.parametrize(("timestamp", "since"), sorted(offsets.SINCE.items()))
def test_an_older_request_version_rejects_the_newer_timestamps(timestamp: int, since: int) -> None:
    made = leader_with_timestamps(5_000)
    assert list_offset(made, timestamp, since)[0] == 0
    if since > 1:
        assert list_offset(made, timestamp, since - 1) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)


def test_an_invalid_request_is_rejected() -> None:
    made = leader_with_timestamps(5_000)
    assert list_offset(made, -7)[0] == ErrorCode.UNSUPPORTED_VERSION
    assert list_offset(made, offsets.LATEST, twice=True)[0] == ErrorCode.INVALID_REQUEST


def leader_with_remote_history() -> Harness:
    """As `leader_with_timestamps`, with four records. Records below the third are stored on broker 7."""
    made = leader_with_timestamps(5_000, 9_000, 7_000, 9_500)
    made.replica.log.raise_start(2)
    state = made.image.partition(TP)
    assert state is not None
    state = replace(
        state, partition_epoch=1, leader_epoch=1, handover_offset=2, handover_epoch=1, history_replicas=(7,)
    )
    record = PartitionChanged(TP.topic_id, 0, state)
    made.image.apply(record)
    made.replica_manager.apply(made.image, [record], made.now)
    assert made.replica.local_log_start_offset == 2
    return made


def read_history(timestamp: int) -> HistoryReadResult:
    found = {
        offsets.EARLIEST: HistoryPosition(0, -1, 0),
        offsets.MAX_TIMESTAMP: HistoryPosition(1, 9_000, 0),
        5_000: HistoryPosition(0, 5_000, 0),
        6_000: HistoryPosition(1, 9_000, 0),
    }
    return HistoryReadResult(ErrorCode.NONE, 0, found=found.get(timestamp))


def test_history_replicas_are_queried_before_the_local_log() -> None:
    made = leader_with_remote_history()
    assert list_offset(made, offsets.EARLIEST, holder=read_history) == (0, 0, -1)
    assert list_offset(made, offsets.EARLIEST_LOCAL) == (0, 2, -1), "nobody is asked"
    assert list_offset(made, offsets.LATEST) == (0, 4, -1)
    assert list_offset(made, 6_000, holder=read_history) == (0, 1, 9_000), "7,000 is here, and later"
    assert list_offset(made, 9_100, holder=read_history) == (0, 3, 9_500), "none there"
    assert list_offset(made, offsets.MAX_TIMESTAMP, holder=read_history) == (0, 3, 9_500)
    newer = lambda t: HistoryReadResult(ErrorCode.NONE, 0, found=HistoryPosition(1, 9_900, 0))  # noqa: E731
    assert list_offset(made, offsets.MAX_TIMESTAMP, holder=newer) == (0, 1, 9_900)


def test_without_a_reachable_history_replica_each_version_gets_a_retriable_error() -> None:
    made = leader_with_remote_history()
    assert list_offset(made, 5_000, holder=lambda t: UNAVAILABLE)[0] == ErrorCode.OFFSET_NOT_AVAILABLE
    assert list_offset(made, offsets.EARLIEST, 4, holder=lambda t: UNAVAILABLE)[0] == ErrorCode.LEADER_NOT_AVAILABLE
