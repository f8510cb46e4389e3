"""The search by key in one segment: the same records as a walk through the log, newest first, with an index and without, in any parts."""

from __future__ import annotations

from hashlib import blake2b

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd.storage import key_index, key_search
from brokerd.storage.disk import DiskFailed
from brokerd.storage.key_hashes import HashedKeys
from brokerd.storage.key_index import KeyIndexPart, key_hash
from brokerd.storage.key_index_build import TEMPORARY, KeyIndexBuild
from brokerd.storage.key_search import KeyCriteria, SegmentSearch, SegmentView
from brokerd.storage.log import Log
from brokerd.storage.segment import Segment
from brokerd.storage.transaction_index import AbortedTxn
from brokerd.wire import records
from brokerd.wire.records import Record
from tests.unit.storage.test_log import NOW, append, open_log, read_all, sim

KEYS = [b"a", b"b", b"cc", b""]
RECORD = st.builds(
    Record,
    st.just(0),
    st.integers(1_000, 1_010),
    st.one_of(st.none(), st.sampled_from(KEYS)),
    st.sampled_from([b"v", b"a", None]),
    st.lists(st.tuples(st.sampled_from(["id", "x"]), st.sampled_from([b"1", b"2", None])), max_size=2).map(tuple),
)
BATCHES = st.lists(
    st.tuples(st.lists(RECORD, min_size=1, max_size=4), st.sampled_from([records.NONE, 1, 4])), min_size=1, max_size=12
)
WANTED = st.builds(
    KeyCriteria,
    st.sampled_from([*KEYS, b"absent", b"1", b"2"]),
    st.sampled_from(["", "", "id", "x"]),
    st.integers(0, 5),
    st.sampled_from([-1, 1_003]),
    st.sampled_from([-1, 1_007]),
)


def log_with_batches(batches: list[tuple[list[Record], int]]) -> tuple[Log, Segment]:
    log = open_log(sim(), index_interval_bytes="0")
    for content, compression in batches:
        content = [r._replace(offset=i) for i, r in enumerate(content)]
        append(log, bytearray(records.build(content, compression=compression)))
    return log, log.segments[0]


def build_index(log: Log, segment: Segment, header_name: str) -> int:
    log.roll(NOW)
    build = KeyIndexBuild(log.disk, segment.path, segment.base_offset, segment.size, HashedKeys(header_name))
    while not build.finished:
        build.run(200)
    log.disk.rename(build.temporary, build.target)
    return HashedKeys(header_name).seed


def partly_indexed(log: Log, segment: Segment, header_name: str, batches: int) -> KeyIndexPart | None:
    """The index of the first batches of the active segment, of which some are in the temporary file."""
    build = KeyIndexBuild(log.disk, segment.path, segment.base_offset, 0, HashedKeys(header_name), closed=False)
    ends = [at + header.size for at, header in segment.headers(0)]
    for number, end in enumerate(ends[:batches]):
        build.extend(end, closed=False)
        build.run(1_000, number % 4)
    return build.part


def search_all_parts(
    view: SegmentView,
    wanted: KeyCriteria,
    below: int,
    seed: int | None,
    most: int,
    size: int,
    part: KeyIndexPart | None = None,
) -> list[Record]:
    """All parts of a search, with `most` matches and `size` bytes each."""
    out: list[Record] = []
    while below > view.base_offset:
        search = SegmentSearch(view, wanted, below, most, size, seed, part)
        search.run()
        assert len(search.matches) <= most and search.index_problem is None
        assert search.used_index or search.scanned
        if part is None:
            assert search.used_index == (seed is not None)
        assert search.below < below, "each part makes progress"
        out, below = out + search.matches, search.below
    return out


@settings(max_examples=250, deadline=None)
@given(
    batches=BATCHES,
    wanted=WANTED,
    cut=st.integers(0, 50),
    most=st.sampled_from([1, 2, 100]),
    size=st.sampled_from([1, 300, 1_000_000]),
    chunk=st.sampled_from([1, 250, 1_000_000]),
    how=st.sampled_from(["index", "closed", "active", "part"]),
    indexed_batches=st.integers(1, 12),
)
def test_a_search_finds_what_a_walk_finds_newest_first(
    batches: list[tuple[list[Record], int]],
    wanted: KeyCriteria,
    cut: int,
    most: int,
    size: int,
    chunk: int,
    how: str,
    indexed_batches: int,
) -> None:
    log, segment = log_with_batches(batches)
    below = max(1, log.end_offset - cut)
    header = records.peek(records.build([Record(0, 0, b"k", b"v")]))
    expected = [r for r in reversed(read_all(log)) if r.offset < below and wanted.matches(r, header)]
    seed = build_index(log, segment, wanted.header_name) if how == "index" else None
    if how == "closed":
        log.roll(NOW)
    part = partly_indexed(log, segment, wanted.header_name, indexed_batches) if how == "part" else None
    view = SegmentView.of(segment, active=how in ("active", "part"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(key_search, "CHUNK_BYTES", chunk)
        assert search_all_parts(view, wanted, below, seed, most, size, part) == expected


def test_records_of_aborted_transactions_are_skipped() -> None:
    log = open_log(sim())
    for producer in (1, 2):
        data = records.build(
            [Record(0, 5, b"k", b"v")], producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True
        )
        append(log, bytearray(data))
    wanted = KeyCriteria(b"k", aborted=[AbortedTxn(1, 0, 4, 0)])
    found = search_all_parts(SegmentView.of(log.segments[0], active=True), wanted, 2, None, 10, 1_000)
    assert [r.offset for r in found] == [1]


def test_a_damaged_index_is_replaced_by_a_scan_and_reported() -> None:
    log, segment = log_with_batches([([Record(0, 1, b"a", b"v")], 0)] * 8)
    seed = build_index(log, segment, "")
    log.disk.names[segment.path.with_suffix(key_index.SUFFIX)].live[-1] ^= 1  # type: ignore[attr-defined]
    search = SegmentSearch(SegmentView.of(segment, active=False), KeyCriteria(b"a"), 8, 100, 1_000_000, seed)
    search.run()
    assert [r.offset for r in search.matches] == list(range(7, -1, -1))
    assert not search.used_index and search.index_problem == "the run table is damaged"


def test_a_part_reads_only_what_it_does_not_cover_and_a_lost_temporary_file_is_replaced_by_a_scan() -> None:
    log, segment = log_with_batches([([Record(0, 1, b"a" if i == 2 else b"b", b"v")], 0) for i in range(8)])
    part = partly_indexed(log, segment, "", 6)
    assert part is not None and part.runs and part.tail and part.end_offset == 6
    view = SegmentView.of(segment, active=True)
    search = SegmentSearch(view, KeyCriteria(b"absent"), 8, 100, 1_000_000, None, part)
    search.run()
    assert (search.matches, search.below, search.log_bytes) == ([], 0, segment.size - part.log_end)
    assert search.used_index and search.scanned and search.index_bytes > 0
    log.disk.unlink(segment.path.with_suffix(TEMPORARY))
    search = SegmentSearch(view, KeyCriteria(b"a"), 8, 100, 1_000_000, None, part)
    search.run()
    assert [r.offset for r in search.matches] == [2]
    assert not search.used_index and search.index_problem


@pytest.mark.parametrize("size", [0, 30, 200])
def test_a_file_that_was_replaced_since_the_job_was_planned_is_an_error_of_the_disk(size: int) -> None:
    """The caller then finds that the segment has changed, and searches again."""
    log, segment = log_with_batches([([Record(0, 1, b"a", b"v" * 20)], 0) for _ in range(8)])
    part = partly_indexed(log, segment, "", 8)
    view = SegmentView.of(segment, active=True)
    data = bytes(log.disk.names[segment.path].live)  # type: ignore[attr-defined]
    for other in (data[:size], b"\xff" * size):
        log.disk.replace(segment.path, other)
        with pytest.raises(DiskFailed):
            SegmentSearch(view, KeyCriteria(b"a"), 8, 100, 1_000_000, None, part).run()


def same_hash() -> tuple[bytes, bytes]:
    """Two keys with the same hash of 32 bits."""
    seen: dict[int, bytes] = {}
    for number in range(1_000_000):
        key = blake2b(number.to_bytes(4, "big"), digest_size=8).digest()
        other = seen.setdefault(key_hash(key), key)
        if other != key:
            return other, key
    raise AssertionError("no two of a million keys have the same hash")


def test_a_hit_that_the_log_does_not_confirm_is_no_match() -> None:
    key, other = same_hash()
    log, segment = log_with_batches([([Record(0, 1, key, b"v")], 0)] * 4)
    seed = build_index(log, segment, "")
    search = SegmentSearch(SegmentView.of(segment, active=False), KeyCriteria(other), 4, 100, 1_000_000, seed)
    search.run()
    assert search.matches == [] and search.used_index and search.log_bytes > 0


def test_a_damaged_batch_is_an_error() -> None:
    log, segment = log_with_batches([([Record(0, 1, b"a", b"v")], 0)] * 4)
    log.disk.names[segment.path].live[segment.size - 1] ^= 1  # type: ignore[attr-defined]
    with pytest.raises(DiskFailed, match="damaged"):
        search_all_parts(SegmentView.of(segment, active=True), KeyCriteria(b"a"), 4, None, 10, 1_000_000)
