"""Reads of remote records by a leader: requests to the helper, retriable errors, look-ups that need no request."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from brokerd.cluster.model import Now
from brokerd.remote.frames import HelperError
from brokerd.remote.lineage import Chain
from brokerd.remote.view import RemoteView
from brokerd.replication.history_reads import CACHED_ERROR_MS, UNAVAILABLE, HistoryOperation, HistoryReadResult
from brokerd.replication.partition import Role
from brokerd.replication.remote_reads import EARLIEST, MAX_TIMESTAMP, RemoteReads
from brokerd.storage.os_disk import OsDisk
from brokerd.storage.snapshots import Snapshot
from brokerd.wire.errors import ErrorCode
from tests.unit.remote.test_lineage import finished_segment
from tests.unit.replication.test_bootstrap import Leader

LOCAL_START = 5
OnResponse = Callable[[HelperError, Any], None]


class Scene(Leader):
    """Leads a partition whose records below 5 are only remote, in the segments [0, 3) and [3, 5)."""

    def __init__(self, tmp_path: Path) -> None:
        super().__init__()
        self.requests: list[tuple[str, Mapping[str, Any], OnResponse]] = []
        self.append(LOCAL_START)
        self.replicate_to_log_end()
        self.replica.log.raise_start(LOCAL_START)
        self.replica.log.epochs.entries = [(3, LOCAL_START)]
        self.replica.remote = self.view = RemoteView()
        self.view.loaded = True
        self.view.chain = Chain((finished_segment(0, 3, (1, 0)), finished_segment(3, 5, (1, 3), (2, 4))))
        self.clock_ms = 0
        self.reads = RemoteReads(
            lambda operation, fields, timeout_ms, done: self.requests.append((operation, fields, done)),
            OsDisk().open,
            lambda: Now(self.clock_ms, self.clock_ms),
            lambda segment: f"cluster/{segment.name}",
        )
        self.chunk = tmp_path / "chunk"
        self.chunk.write_bytes(b"0123456789")
        self.called = 0

    def read(self, offset: int) -> HistoryReadResult | None:
        def on_result() -> None:
            self.called += 1

        return self.reads.read(self.replica, offset, LOCAL_START, 100, on_result)

    def look_up(self, operation: HistoryOperation, target: int) -> HistoryReadResult | None:
        found: list[HistoryReadResult] = []
        self.reads.look_up(self.replica, operation, target, found.append)
        return found[0] if found else None


@pytest.fixture
def remote_scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_read_is_requested_once_and_its_result_is_cached(remote_scene: Scene) -> None:
    assert remote_scene.read(1) is None and remote_scene.read(1) is None
    ((operation, fields, done),) = remote_scene.requests
    assert operation == "read" and [s[1] for s in fields["segments"]] == [0, 3]
    done(HelperError.NONE, {"regions": [[str(remote_scene.chunk), 2, 5]], "aborted": [[7, 1]]})
    result = remote_scene.read(1)
    assert result is not None and remote_scene.called == 1
    assert (
        result.size == 5 and result.aborted == ((7, 1),) and remote_scene.reads.bytes_read[remote_scene.replica.tp] == 5
    )
    remote_scene.clock_ms += 10_000
    remote_scene.reads.tick(Now(remote_scene.clock_ms, 0))
    assert remote_scene.read(1) is None and len(remote_scene.requests) == 2


@pytest.mark.parametrize("error", [HelperError.STORE_UNAVAILABLE, HelperError.OBJECT_MISSING, HelperError.NO_RESPONSE])
def test_every_failure_is_retriable(remote_scene: Scene, error: HelperError) -> None:
    remote_scene.read(1)
    remote_scene.requests[0][2](error, "why")
    assert remote_scene.read(1) == UNAVAILABLE and UNAVAILABLE.error is ErrorCode.OFFSET_NOT_AVAILABLE
    remote_scene.clock_ms += CACHED_ERROR_MS
    assert remote_scene.read(1) is None and len(remote_scene.requests) == 2


def test_a_chunk_that_was_evicted_is_retriable(remote_scene: Scene) -> None:
    remote_scene.read(1)
    remote_scene.requests[0][2](
        HelperError.NONE, {"regions": [[str(remote_scene.chunk) + "-absent", 0, 1]], "aborted": []}
    )
    assert remote_scene.read(1) == UNAVAILABLE


def test_before_the_remote_log_is_loaded_every_read_is_retriable(remote_scene: Scene) -> None:
    remote_scene.view.loaded = False
    assert remote_scene.read(1) == UNAVAILABLE and remote_scene.look_up(HistoryOperation.TIME, EARLIEST) == UNAVAILABLE


def test_only_deleted_records_are_out_of_range(remote_scene: Scene) -> None:
    remote_scene.view.log_start = 2
    result = remote_scene.read(1)
    assert result is not None and result.error is ErrorCode.OFFSET_OUT_OF_RANGE and remote_scene.read(2) is None


def test_edges_and_epochs_need_no_request(remote_scene: Scene) -> None:
    earliest = remote_scene.look_up(HistoryOperation.TIME, EARLIEST)
    assert earliest is not None and earliest.found == (0, -1, 1)
    for epoch, found in ((0, (0, -1, 0)), (1, (4, -1, 1))):
        result = remote_scene.look_up(HistoryOperation.EPOCH, epoch)
        assert result is not None and result.found == found
    assert not remote_scene.requests


def test_a_search_by_time_asks_the_helper_unless_all_records_are_older(remote_scene: Scene) -> None:
    result = remote_scene.look_up(HistoryOperation.TIME, 1)
    assert result is not None and result.found is None and not remote_scene.requests
    assert remote_scene.look_up(HistoryOperation.TIME, MAX_TIMESTAMP) is None
    operation, fields, done = remote_scene.requests[0]
    assert (operation, fields["timestamp"], fields["upto"]) == ("time", 0, LOCAL_START)
    done(HelperError.NONE, [1, 0, 1])


def test_the_bootstrap_snapshot_is_the_state_at_the_local_log_start(remote_scene: Scene) -> None:
    assert (
        remote_scene.reads.bootstrap_snapshot(remote_scene.replica) is None
        and remote_scene.reads.bootstrap_snapshot(remote_scene.replica) is None
    )
    ((operation, fields, done),) = remote_scene.requests
    assert operation == "snapshot" and fields["offset"] == LOCAL_START
    done(HelperError.NONE, [[], []])
    found = remote_scene.reads.bootstrap_snapshot(remote_scene.replica)
    assert found is not None
    snapshot = Snapshot.from_bytes(zlib.decompress(found))
    assert snapshot.offset == LOCAL_START and snapshot.epochs == [(1, 0), (2, 4), (3, 5)]
    remote_scene.reads.forget(remote_scene.replica.tp)
    assert remote_scene.reads.bootstrap_snapshot(remote_scene.replica) is None


def test_a_follower_reads_only_segments_that_its_own_log_confirms(remote_scene: Scene) -> None:
    remote_scene.replica.core.role = Role.FOLLOWER
    assert remote_scene.read(1) is None and len(remote_scene.requests) == 1
    remote_scene.replica.log.epochs.entries = [(1, 0), (2, 2)]
    assert remote_scene.read(2) == UNAVAILABLE and len(remote_scene.requests) == 1, (
        "epoch 1 ended at 2 here: the segment has other records"
    )
