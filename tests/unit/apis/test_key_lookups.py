"""Look-ups by key over the segments of a replica: complete, newest first, bounded, continued; correct while segments change."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd.apis import key_lookups
from brokerd.apis.fetch_sessions import PartitionRequest
from brokerd.apis.key_lookups import KeyLookupServer
from brokerd.remote.lineage import Chain
from brokerd.remote.view import RemoteView
from brokerd.storage import key_index
from brokerd.storage.key_hashes import HashedKeys
from brokerd.storage.key_index_build import KeyIndexBuild
from brokerd.storage.log import Log
from brokerd.storage.segment import IndexFileState, Segment
from brokerd.wire import records, versioned
from brokerd.wire.errors import ErrorCode
from brokerd.wire.key_matches import match_of
from brokerd.wire.messages import FetchRequest, FetchResponse
from brokerd.wire.messages.key_lookups import KeyLookupRequest, KeyLookupResponse, LookupStop
from brokerd.wire.records import Record
from brokerd.wire.steps import Ended, next_step
from tests.unit.remote.test_lineage import finished_segment
from tests.unit.storage.test_log import append, open_log, read_all, sim

CONFIG = {"segment_bytes": "600", "weir_index_keys": "true"}


class RemoteLookup:
    """The remote store of a leader. `response`: the response of the helper, None without one."""

    def __init__(self) -> None:
        self.response: KeyLookupResponse | None = None
        self.queries: list[KeyLookupRequest] = []
        self.before_response: Any = lambda: None

    def search(self, replica: Any, query: KeyLookupRequest, *, committed: bool, done: Any) -> None:
        assert committed
        self.queries.append(query)
        self.before_response()
        done(self.response)


class World:
    """A leader with a log of keys k0 to k6 in turn, one record per batch, timestamps that grow."""

    def __init__(self, count: int = 40) -> None:
        self.log: Log = open_log(sim(), **CONFIG)
        self.mono_ms = 0
        for i in range(count):
            append(self.log, bytearray(records.build([Record(0, 1_000 + i, b"k%d" % (i % 7), b"v%d" % i)])))
        core = SimpleNamespace(high_watermark=self.log.end_offset, leader_epoch=0, serves_latest=True)
        self.replica: Any = SimpleNamespace(
            log=self.log,
            core=core,
            leads=True,
            config=self.log.config,
            start_offset=self.log.start_offset,
            remote=None,
        )
        self.replica.last_stable = lambda: core.high_watermark
        self.failed: list[object] = []
        self.replica_manager: Any = SimpleNamespace(
            fail=lambda replica, error: self.failed.append(error), produce_suspended=False
        )
        self.remote = RemoteLookup()
        self.server = KeyLookupServer(self.replica_manager, lambda: self.mono_ms, self.remote)  # type: ignore[arg-type]

    def build(self, segment: Segment) -> None:
        build = KeyIndexBuild(self.log.disk, segment.path, segment.base_offset, segment.size, HashedKeys())
        while not build.finished:
            build.run(1_000)
        self.log.disk.rename(build.temporary, build.target)
        segment.key_index = IndexFileState.CURRENT

    def build_part(self, batches: int, header_name: str = "", entries_max: int = 2) -> KeyIndexBuild:
        """Index the first batches of the active segment."""
        active = self.log.segments[-1]
        *_, (at, header) = list(active.headers(0))[:batches]
        build = KeyIndexBuild(
            self.log.disk, active.path, active.base_offset, at + header.size, HashedKeys(header_name), closed=False
        )
        build.run(1_000_000, entries_max)
        active.key_index_part = build.part
        return build

    def look_up_partition(
        self, key: bytes = b"k3", before_job: Any = lambda: None, **requested: Any
    ) -> FetchResponse.PartitionData:
        given = {"matches_max": 100, "bytes_max": 1 << 30, "duration_ms_max": 1_000, "header_name": "", **requested}
        data = versioned.encode(KeyLookupRequest(key=key, **given), 0)
        wanted = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=0, key_lookup=data)
        send_request = PartitionRequest("t", UUID(int=1), wanted, self.replica, ErrorCode.NONE)
        body = FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=1, topics=[])
        steps = self.server.search(body, [send_request])
        job = next_step(steps)
        while not isinstance(job, Ended):
            value, error = None, None
            if job is not None:
                before_job()
                try:
                    value = job()
                except Exception as e:
                    error = e
            job = next_step(steps, value, error)
        replies: list[FetchResponse] = []
        self.server.finish(body, job.value, [], replies.append)
        return replies[0].responses[0].partitions[0]

    def send_request(self, key: bytes = b"k3", **requested: Any) -> KeyLookupResponse:
        data = self.look_up_partition(key, **requested)
        assert data.error_code == ErrorCode.NONE
        return versioned.decode(KeyLookupResponse, data.key_lookup, 0)

    def expected_offsets(self, key: bytes = b"k3") -> list[int]:
        return [r.offset for r in reversed(read_all(self.log)) if r.key == key]


def offsets(response: KeyLookupResponse) -> list[int]:
    return [m.offset for m in response.matches]


@settings(max_examples=60, deadline=None)
@given(
    indexed=st.sets(st.integers(0, 8)),
    most=st.integers(1, 4),
    size=st.sampled_from([1, 400, 1 << 30]),
    key=st.integers(0, 7),
)
def test_a_look_up_in_parts_finds_every_record_once_newest_first(
    indexed: set[int], most: int, size: int, key: int
) -> None:
    w = World()
    for i in indexed:
        if i < len(w.log.segments) - 1:
            w.build(w.log.segments[i])
    found: list[int] = []
    before = -1
    while True:
        response = w.send_request(b"k%d" % key, matches_max=most, bytes_max=size, before_offset=before)
        found += offsets(response)
        before = response.next_before_offset
        if response.stop == LookupStop.LOG_START:
            break
        assert before > 0
    assert found == w.expected_offsets(b"k%d" % key) and before == -1


def test_the_response_has_the_read_range_and_the_indexed_end_offset() -> None:
    w = World()
    assert w.send_request().indexed_end_offset == 0
    for segment in w.log.segments[:-2]:
        w.build(segment)
    response = w.send_request()
    assert (response.segments_indexed, response.segments_scanned) == (len(w.log.segments) - 2, 2)
    assert response.indexed_end_offset == w.log.segments[-2].base_offset
    assert (response.start_offset, response.end_offset) == (0, w.log.end_offset)
    assert response.index_bytes > 0 and response.log_bytes > 0


def test_records_outside_the_time_range_above_the_watermark_and_below_the_log_start_are_no_matches() -> None:
    w = World()
    assert offsets(w.send_request(from_ms=1_010, to_ms=1_024)) == [24, 17, 10]
    w.replica.core.high_watermark = 25
    w.log.start_offset = 10
    assert offsets(w.send_request()) == [24, 17, 10]
    assert w.send_request(from_ms=9_000).log_bytes <= w.log.segments[-1].size, (
        "closed segments that are too old are skipped"
    )


def test_the_time_limit_ends_a_look_up_which_can_be_continued() -> None:
    w = World()

    def advance_clock() -> None:
        w.mono_ms += 400

    data = w.look_up_partition(before_job=advance_clock, duration_ms_max=1_000)
    response = versioned.decode(KeyLookupResponse, data.key_lookup, 0)
    assert response.stop == LookupStop.TIME
    rest = w.send_request(before_offset=response.next_before_offset)
    assert offsets(response) + offsets(rest) == w.expected_offsets()


def test_a_leader_that_is_deposed_during_the_request_answers_with_an_error() -> None:
    w = World()

    def depose_leader() -> None:
        w.replica.leads = False

    assert w.look_up_partition(before_job=depose_leader).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert w.look_up_partition().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_new_leader_does_not_respond_before_its_high_watermark_reaches_the_start_of_its_epoch() -> None:
    w = World()
    w.replica.core.high_watermark, w.replica.core.serves_latest = 10, False
    assert w.look_up_partition().error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    w.replica.core.high_watermark, w.replica.core.serves_latest = w.log.end_offset, True
    assert offsets(w.send_request()) == w.expected_offsets()


def test_a_leader_after_a_stall_does_not_respond_before_it_has_read_the_metadata_log() -> None:
    """Another leader may have been elected, and it may have answered with later records."""
    w = World()
    w.replica_manager.produce_suspended = True
    assert w.look_up_partition().error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    w.replica_manager.produce_suspended = False
    assert offsets(w.send_request()) == w.expected_offsets()


def test_segments_that_retention_deletes_meanwhile_are_not_an_error() -> None:
    w = World()

    def delete_records() -> None:
        w.log.raise_start(30)

    data = w.look_up_partition(before_job=delete_records)
    response = versioned.decode(KeyLookupResponse, data.key_lookup, 0)
    assert response.stop == LookupStop.LOG_START
    assert offsets(response)[:2] == [38, 31] and w.failed == []


def test_a_damaged_index_is_scanned_around_removed_and_built_again() -> None:
    w = World()
    for segment in w.log.segments[:-1]:
        w.build(segment)
    damaged = w.log.segments[1]
    w.log.disk.replace(damaged.path.with_suffix(key_index.SUFFIX), b"nothing")
    response = w.send_request()
    assert offsets(response) == w.expected_offsets() and response.segments_scanned == 2
    assert damaged.key_index is IndexFileState.ABSENT


def test_a_damaged_log_is_a_storage_error_of_this_response_only() -> None:
    w = World()
    w.log.disk.names[w.log.segments[0].path].live[70] ^= 1  # type: ignore[attr-defined]
    assert w.look_up_partition().error_code == ErrorCode.KAFKA_STORAGE_ERROR and w.failed == []


def test_limits_of_the_broker_bound_every_query(monkeypatch: pytest.MonkeyPatch) -> None:
    w = World()
    monkeypatch.setattr(key_lookups, "MATCHES_MAX", 2)
    assert (response := w.send_request()).stop == LookupStop.MATCHES and len(response.matches) == 2
    monkeypatch.setattr(key_lookups, "MATCHES_MAX", 100)
    monkeypatch.setattr(key_lookups, "BYTES_MAX", 500)
    assert w.send_request().stop == LookupStop.BYTES


def test_records_that_are_deleted_during_the_search_are_no_matches() -> None:
    jobs = 0

    def count() -> None:
        nonlocal jobs
        jobs += 1

    w = World()
    w.look_up_partition(before_job=count)
    total, jobs = jobs, 0

    def delete_before_the_last_job() -> None:
        count()
        if jobs == total:
            w.log.start_offset = 20

    data = w.look_up_partition(before_job=delete_before_the_last_job)
    response = versioned.decode(KeyLookupResponse, data.key_lookup, 0)
    assert jobs == total > 1
    assert response.start_offset == 20 and offsets(response) == [38, 31, 24]


def test_a_look_up_uses_the_indexed_part_of_the_active_segment() -> None:
    w = World(42)
    for segment in w.log.segments[:-1]:
        w.build(segment)
    active = w.log.segments[-1]
    scanned = w.send_request(b"absent")
    assert (scanned.log_bytes, scanned.indexed_end_offset) == (active.size, active.base_offset)
    w.build_part(1)
    assert active.key_index_part is not None
    response = w.send_request(b"absent")
    assert response.log_bytes == active.size - active.key_index_part.log_end < scanned.log_bytes
    assert response.indexed_end_offset == active.base_offset + 1
    assert (response.segments_indexed, response.segments_scanned) == (len(w.log.segments), 0)
    assert offsets(w.send_request()) == w.expected_offsets()
    w.replica.core.high_watermark = active.base_offset
    assert w.send_request().indexed_end_offset == active.base_offset


def test_a_part_without_the_header_of_the_question_is_not_used() -> None:
    w = World(42)
    w.build_part(2, "id")
    assert w.send_request().segments_indexed == 0, "of another weir.index.header"
    w.build_part(2)
    assert w.send_request(header_name="id").segments_indexed == 0


def test_a_damaged_part_is_scanned_around_and_its_build_ends() -> None:
    w = World(42)
    active = w.log.segments[-1]
    w.log.disk.replace(w.build_part(2, entries_max=0).temporary, b"damaged")
    assert offsets(w.send_request()) == w.expected_offsets() and active.key_index_part is None


def test_an_index_that_is_finished_during_a_search_of_its_part_is_kept() -> None:
    w = World(42)
    build, active = w.build_part(2, entries_max=0), w.log.segments[-1]

    def on_finished() -> None:
        if not build.finished:
            build.extend(active.size, closed=True)
            build.run(1_000_000)
            w.log.disk.rename(build.temporary, build.target)
            active.key_index, active.key_index_part = IndexFileState.CURRENT, None

    data = w.look_up_partition(before_job=on_finished)
    assert offsets(versioned.decode(KeyLookupResponse, data.key_lookup, 0)) == w.expected_offsets()
    assert active.key_index is IndexFileState.CURRENT


# -- with tiered storage ---------------------------------------------------------------------------------------------------
LOCAL_START = 20


def tiered_world(*, key_index_bytes: int = 0) -> World:
    """Records below LOCAL_START are only remote, in the segments [0, 12) and [12, 22)."""
    w = World()
    view = w.replica.remote = RemoteView()
    view.loaded = True
    chain = [finished_segment(0, 12, (1, 0)), finished_segment(12, 22, (1, 12))]
    view.chain = Chain(tuple(replace(s, key_index_bytes=key_index_bytes) for s in chain))
    w.log.start_offset = LOCAL_START
    w.replica.start_offset = 0
    w.remote.response = KeyLookupResponse(
        matches=[match_of(Record(o, 1_000 + o, b"k3", b"")) for o in (17, 10, 3)],
        stop=LookupStop.LOG_START,
        next_before_offset=0,
        log_bytes=70,
        segments_indexed=2,
    )
    return w


def test_the_search_continues_in_the_remote_store_below_the_local_log_start() -> None:
    w = tiered_world()
    response = w.send_request(bytes_max=1 << 20, matches_max=50)
    assert (offsets(response), response.stop) == ([38, 31, 24, 17, 10, 3], LookupStop.LOG_START)
    assert (response.start_offset, response.next_before_offset, response.segments_indexed) == (0, -1, 2)
    (query,) = w.remote.queries
    assert (query.before_offset, query.matches_max) == (LOCAL_START, 47)
    assert query.bytes_max == (1 << 20) - (response.log_bytes - 70)


def test_a_page_that_begins_below_the_local_log_start_reads_no_local_record() -> None:
    w = tiered_world()
    assert w.send_request(before_offset=11).log_bytes == 70
    assert w.remote.queries[0].before_offset == 11


def test_a_full_page_does_not_search_the_remote_store() -> None:
    w = tiered_world()
    response = w.send_request(matches_max=3)
    assert (response.stop, response.next_before_offset, w.remote.queries) == (LookupStop.MATCHES, 24, [])


def test_records_that_the_remote_store_may_have_are_not_searched_without_its_response() -> None:
    w = tiered_world()
    w.remote.response = None
    response = w.send_request()
    assert (response.stop, response.next_before_offset) == (LookupStop.REMOTE, LOCAL_START)
    assert offsets(response) == [38, 31, 24]
    w.replica.remote.loaded = False
    asked = len(w.remote.queries)
    response = w.send_request()
    assert (response.stop, response.next_before_offset, len(w.remote.queries)) == (
        LookupStop.REMOTE,
        LOCAL_START,
        asked,
    )
    w.server = KeyLookupServer(w.server._replica_manager, lambda: 0)
    assert w.send_request().stop == LookupStop.REMOTE


def test_a_limit_in_the_remote_store_ends_the_look_up() -> None:
    w = tiered_world()
    assert w.remote.response is not None
    w.remote.response.stop, w.remote.response.next_before_offset = LookupStop.BYTES, 3
    response = w.send_request()
    assert (response.stop, response.next_before_offset) == (LookupStop.BYTES, 3)


def test_a_response_that_searched_only_the_newest_segments_can_be_continued() -> None:
    w = tiered_world()
    assert w.remote.response is not None
    w.remote.response.next_before_offset = 12
    response = w.send_request()
    assert (response.stop, response.next_before_offset) == (LookupStop.TIME, 12)


def test_remote_records_that_are_deleted_during_the_search_are_no_matches() -> None:
    w = tiered_world()

    def delete_records() -> None:
        w.replica.remote.log_start = 8

    w.remote.before_response = delete_records
    response = w.send_request()
    assert (offsets(response)[-2:], response.start_offset) == ([17, 10], 8)


def test_a_look_up_whose_rest_is_deleted_is_complete() -> None:
    w = tiered_world()
    assert w.remote.response is not None
    w.remote.response.stop, w.remote.response.next_before_offset = LookupStop.BYTES, 5

    def delete_records() -> None:
        w.replica.remote.log_start = 8

    w.remote.before_response = delete_records
    response = w.send_request()
    assert (response.stop, response.next_before_offset, response.start_offset) == (LookupStop.LOG_START, -1, 8)


def test_a_leader_that_is_deposed_during_the_remote_search_answers_with_an_error() -> None:
    w = tiered_world()

    def depose_leader() -> None:
        w.replica.core.leader_epoch += 1

    w.remote.before_response = depose_leader
    assert w.look_up_partition().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_indexed_end_offset_includes_the_remote_segments() -> None:
    w = tiered_world()
    for segment in w.log.segments[:-1]:
        w.build(segment)
    assert w.send_request().indexed_end_offset == 0
    w = tiered_world(key_index_bytes=100)
    for segment in w.log.segments[:-1]:
        w.build(segment)
    assert w.send_request().indexed_end_offset == w.log.segments[-1].base_offset
