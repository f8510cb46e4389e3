"""Key indexing: closed segments of topics with weir.index.keys get an index, also old ones; it goes with its segment and is rebuilt when damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.cluster.model import Now
from brokerd.maintenance import key_indexing
from brokerd.maintenance.key_indexing import KeyIndexing
from brokerd.maintenance.segment_indexing import ROUND_MS_MIN
from brokerd.storage import cleaner, key_hashes, key_index, log_state
from brokerd.storage.key_hashes import HashedKeys
from brokerd.storage.key_index import key_hash
from brokerd.storage.key_index_build import TEMPORARY, open_index
from brokerd.storage.log import Log
from brokerd.storage.segment import IndexFileState, Segment
from brokerd.wire import records
from brokerd.wire.compression import GZIP
from brokerd.wire.records import Record
from tests.unit.maintenance.test_log_maintenance import Harness
from tests.unit.storage.test_cleaner import COMPACT, fill
from tests.unit.storage.test_log import FOLDER, NOW, append, batch, config, open_log, sim

INDEXED = {"weir_index_keys": "true", "segment_bytes": "1000"}


class World:
    def __init__(self, log: Log, rate: int = 1_000_000) -> None:
        self.harness = Harness(log.disk, log)  # type: ignore[arg-type]
        self.log, self.disk = log, log.disk
        self.rate = rate
        self.mono_ms = 0
        self.indexing = KeyIndexing(self.harness, self.harness, self.now, lambda: self.rate)  # type: ignore[arg-type]

    def now(self) -> Now:
        return Now(self.mono_ms, NOW.wall_ms)

    def configure(self, **overrides: str) -> None:
        self.harness.replica.config = self.log.config = config(**overrides)

    def run_jobs(self, ticks: int = 10) -> None:
        for _ in range(ticks):
            self.mono_ms += ROUND_MS_MIN
            self.indexing.tick(NOW)
            self.harness.run_jobs()

    def files(self) -> list[str]:
        return [n for n in self.disk.listdir(FOLDER) if key_index.SUFFIX in n]

    @property
    def closed_segments(self) -> list[Segment]:
        return self.log.segments[:-1]

    def path(self, i: int) -> Path:
        return self.closed_segments[i].path.with_suffix(key_index.SUFFIX)

    def has_exact_indexes(self) -> bool:
        """Whether exactly the closed segments have indexes, and each has the key of its batches."""
        for s in self.closed_segments:
            index = open_index(self.disk, s.path, s.file, s.base_offset, s.size, HashedKeys().seed)
            if list(index.positions(key_hash(b"k"), s.size)) != [at for at, _ in s.headers(0)][::-1]:
                return False
        return self.files() == [s.path.with_suffix(key_index.SUFFIX).name for s in self.closed_segments]


def world_with_segments(**overrides: str) -> World:
    log = open_log(sim(), **{**INDEXED, **overrides})
    for _ in range(40):
        append(log)
    assert len(log.segments) > 4
    return World(log)


def test_every_closed_segment_gets_an_index_and_a_new_one_when_it_is_closed() -> None:
    w = world_with_segments()
    w.run_jobs()
    assert w.has_exact_indexes() and w.indexing.built == len(w.closed_segments)
    assert w.indexing.bytes_read == sum(s.size for s in w.closed_segments)
    for _ in range(20):
        append(w.log)
    w.run_jobs()
    assert w.has_exact_indexes() and w.indexing.built == len(w.closed_segments)


def test_old_segments_are_indexed_when_the_config_is_switched_on_and_lose_it_when_it_is_off() -> None:
    w = world_with_segments(weir_index_keys="false")
    w.run_jobs()
    assert w.files() == [] and not w.indexing.bytes_read
    w.configure(**INDEXED)
    w.run_jobs()
    assert w.has_exact_indexes()
    w.configure(segment_bytes="1000")
    w.run_jobs()
    assert w.files() == []


def test_indexes_of_an_earlier_run_are_reused_and_damaged_ones_are_rebuilt() -> None:
    w = world_with_segments()
    w.run_jobs()
    w.disk.replace(w.path(1), b"damaged")
    again = World(open_log(w.disk, **INDEXED))  # type: ignore[arg-type]
    assert {s.key_index for s in again.closed_segments} == {IndexFileState.UNCHECKED}
    again.run_jobs()
    assert again.has_exact_indexes() and again.indexing.built == 1


def test_a_segment_takes_its_index_along_when_it_is_deleted_or_truncated() -> None:
    w = world_with_segments()
    w.run_jobs()
    w.log.raise_start(w.closed_segments[2].base_offset)
    assert w.has_exact_indexes()
    w.log.truncate_to(w.closed_segments[1].base_offset + 1)
    assert w.has_exact_indexes(), "the segment that is active now has no index"
    w.log.reset_to(0)
    assert w.files() == []


def test_a_compacted_segment_gets_an_index_of_its_new_content() -> None:
    disk = sim()
    log = open_log(disk, **COMPACT, weir_index_keys="true")
    fill(log)
    w = World(log)
    w.run_jobs(60)
    assert all(s.key_index is IndexFileState.CURRENT for s in w.closed_segments)
    assert cleaner.clean(log, NOW, log.end_offset, force=True) is not None
    assert w.files() == []
    w.run_jobs(60)
    assert all(s.key_index is IndexFileState.CURRENT for s in w.closed_segments) and len(w.files()) == len(
        w.closed_segments
    )


def test_a_compacted_segment_keeps_no_collected_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_indexing, "PART_BYTES", 300)
    monkeypatch.setattr(key_indexing, "COLLECTS_APPENDED", True)
    log = open_log(sim(), **COMPACT, weir_index_keys="true")
    fill(log)
    World(log).run_jobs(60)
    fill(log)
    active = log.segments[-1].appended_keys
    assert active is not None and log.collected_entries > active.count
    assert cleaner.clean(log, NOW, log.end_offset, force=True) is not None
    assert log.collected_entries == active.count


def test_a_segment_that_changes_during_its_build_keeps_no_index_of_its_old_content() -> None:
    w = world_with_segments()
    w.indexing.tick(NOW)
    run, done = w.harness.jobs.pop(0)
    run()
    w.log.truncate_to(w.closed_segments[-1].base_offset + 1)
    for _ in range(20):
        append(w.log, batch(size=60))
    done(None)
    w.harness.jobs.clear()
    assert w.files() == []


def test_a_crash_in_the_middle_of_a_build_leaves_nothing_behind() -> None:
    w = world_with_segments()
    w.rate = 400
    w.run_jobs(2)
    assert not w.indexing.built
    w.disk.replace(w.closed_segments[0].path.with_suffix(TEMPORARY), b"partly written")
    w.disk.replace(w.log.segments[-1].path.with_suffix(key_index.SUFFIX), b"of the active segment")
    w.disk.replace(FOLDER / f"{999:020d}{key_index.SUFFIX}", b"without a segment")
    again = World(open_log(w.disk.killed(), **INDEXED))  # type: ignore[attr-defined]
    assert again.files() == []
    again.run_jobs()
    assert again.has_exact_indexes()


def test_the_rate_limits_the_read_bytes_and_rate_zero_builds_no_index() -> None:
    w = world_with_segments()
    w.rate = 0
    w.run_jobs()
    assert not w.indexing.bytes_read
    w.rate = 300
    w.run_jobs(4)
    assert 0 < w.indexing.bytes_read <= 4 * 300 + 300


def test_a_damaged_segment_has_no_index_and_the_replica_is_not_concerned() -> None:
    w = world_with_segments()
    w.disk.names[w.closed_segments[0].path].live[90] ^= 1  # type: ignore[attr-defined]
    w.run_jobs()
    assert w.harness.failed == [] and w.harness.replica.offline_reason is None
    assert [s.key_index for s in w.closed_segments] == [IndexFileState.ABSENT] + [IndexFileState.CURRENT] * (
        len(w.closed_segments) - 1
    )
    assert not any(name.endswith(".tmp") for name in w.files())


def test_another_header_name_rebuilds_every_index() -> None:
    w = world_with_segments()
    w.run_jobs()
    w.configure(**INDEXED, weir_index_header="order-id")
    w.run_jobs()
    assert w.indexing.built == 2 * len(w.closed_segments)
    for s in w.closed_segments:
        open_index(w.disk, s.path, s.file, s.base_offset, s.size, HashedKeys("order-id").seed)


def test_a_segment_that_retention_deletes_during_its_build_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    w = world_with_segments()
    w.mono_ms += ROUND_MS_MIN
    w.indexing.tick(NOW)
    w.log.raise_start(w.log.segments[-1].base_offset)
    w.harness.run_jobs()
    assert w.closed_segments == [] and w.files() == []
    assert "key index not built" not in caplog.text
    for _ in range(20):
        append(w.log)
    w.run_jobs()
    assert w.has_exact_indexes()


# -- the active segment ------------------------------------------------------------------------------------------------------
def growing(monkeypatch: pytest.MonkeyPatch, part_bytes: int = 300, **overrides: str) -> World:
    monkeypatch.setattr(key_indexing, "PART_BYTES", part_bytes)
    return World(open_log(sim(), **{**INDEXED, "segment_bytes": "100000", **overrides}))


def indexed_bytes(segment: Segment) -> int:
    """Bytes of the active segment that a look-up finds in the index."""
    return segment.key_index_part.log_end if segment.key_index_part is not None else 0


@pytest.mark.parametrize("collects", [True, False], ids=["entries of appends", "all is read"])
def test_an_active_segment_is_indexed_while_it_grows_and_no_byte_is_read_twice(
    collects: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = growing(monkeypatch)
    monkeypatch.setattr(key_indexing, "COLLECTS_APPENDED", collects)
    active = w.log.segments[0]
    append(w.log)
    w.run_jobs()
    assert not indexed_bytes(active) and not w.indexing.bytes_read, "too small"
    for _ in range(30):
        append(w.log)
        w.run_jobs(2)
        assert active.size - indexed_bytes(active) < 300
    assert w.files() == [], "the entries are in memory"
    w.log.roll(NOW)
    append(w.log)
    w.run_jobs()
    assert w.has_exact_indexes() and active.key_index_part is None and w.indexing.entries_waiting == 0
    read = w.indexing.bytes_read
    assert (0 < read < 600) if collects else read == active.size, "with the first part the collection begins"
    for _ in range(30):
        append(w.log)
        w.run_jobs(2)
    w.log.roll(NOW)
    w.run_jobs()
    assert w.has_exact_indexes()
    assert w.indexing.bytes_read == read + (0 if collects else w.log.segments[1].size), "a whole segment is collected"


def test_collected_entries_give_the_file_that_a_build_from_the_log_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    # Without a compiled walk a build writes the entries of a batch in the order of a set. Here both take the walk, compiled or not.
    monkeypatch.setattr(key_hashes, "COMPILED", True)
    contents: dict[bool, list[bytes]] = {}
    for collects in (True, False):
        w = growing(monkeypatch, segment_bytes="2000", weir_index_header="id")
        monkeypatch.setattr(key_indexing, "COLLECTS_APPENDED", collects)
        for i in range(80):
            keys = (b"k%d" % i, b"common", b"k%d" % (i % 3), b"common")
            content = [Record(j, 5, key, b"v", (("id", b"x%d" % (i % 2)),)) for j, key in enumerate(keys)]
            append(w.log, bytearray(records.build(content, compression=GZIP if i % 9 == 8 else 0)))
            w.run_jobs(1 if i % 2 else 0)
        w.run_jobs()
        contents[collects] = [w.disk.read(w.path(i)) for i in range(len(w.closed_segments))]
        read = w.indexing.bytes_read
        assert (read < w.log.size_bytes * 0.8) == collects, (read, w.log.size_bytes)
    assert contents[True] == contents[False] and len(contents[True]) > 2


def test_collected_entries_are_limited_and_discarded_ones_are_read_from_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    w = growing(monkeypatch)
    monkeypatch.setattr(key_indexing, "COLLECTS_APPENDED", True)
    monkeypatch.setattr(key_indexing, "APPENDED_MAX", 5)
    active = w.log.segments[0]
    for _ in range(10):
        append(w.log)
    w.run_jobs()
    read = w.indexing.bytes_read
    assert indexed_bytes(active) == read == active.size
    for _ in range(10):
        append(w.log)
    w.run_jobs()
    assert indexed_bytes(active) == w.indexing.bytes_read == active.size
    assert active.appended_keys is not None and not active.appended_keys.count
    for _ in range(4):
        append(w.log)
    w.log.roll(NOW)
    w.run_jobs()
    assert w.has_exact_indexes() and w.indexing.bytes_read < active.size


def world_with_collected_keys(monkeypatch: pytest.MonkeyPatch) -> World:
    """Segments of 2,000 bytes. The first one is indexed as far as it is filled, and appends are collected."""
    w = growing(monkeypatch, segment_bytes="2000")
    monkeypatch.setattr(key_indexing, "COLLECTS_APPENDED", True)
    for _ in range(5):
        append(w.log)
    w.run_jobs()
    assert indexed_bytes(w.log.segments[0]) == w.indexing.bytes_read == w.log.segments[0].size
    return w


def test_segments_that_are_filled_between_two_ticks_are_built_in_one_tick_from_collected_entries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    w = world_with_collected_keys(monkeypatch)
    read = w.indexing.bytes_read
    for _ in range(100):
        append(w.log)
    assert len(w.closed_segments) > 4 and w.log.collected_entries == 100
    w.indexing.tick(NOW)
    w.harness.run_jobs()
    assert w.indexing.bytes_read == read and w.log.collected_entries == 0
    active = w.log.segments[-1]
    assert all(s.key_index is IndexFileState.CURRENT for s in w.closed_segments)
    assert indexed_bytes(active) == active.size
    w.log.roll(NOW)
    w.run_jobs()
    assert w.has_exact_indexes()


def test_the_collected_entries_of_closed_segments_are_limited_and_the_oldest_are_discarded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    w = world_with_collected_keys(monkeypatch)
    monkeypatch.setattr(log_state, "CLOSED_ENTRIES_MAX", 40)
    read = w.indexing.bytes_read
    for _ in range(100):
        append(w.log)
    with_keys = [s for s in w.closed_segments if s.appended_keys is not None]
    assert 0 < len(with_keys) < len(w.closed_segments) and with_keys == w.closed_segments[-len(with_keys) :]
    assert sum(s.appended_keys.count for s in with_keys if s.appended_keys is not None) <= 40
    w.log.roll(NOW)
    w.run_jobs()
    assert w.has_exact_indexes() and read < w.indexing.bytes_read < w.log.size_bytes


def test_closed_segments_whose_entries_are_discarded_by_the_limit_of_all_logs_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    w = world_with_collected_keys(monkeypatch)
    monkeypatch.setattr(key_indexing, "APPENDED_MAX", 50)
    for _ in range(100):
        append(w.log)
    w.run_jobs()
    assert w.log.collected_entries == 0 and w.indexing.bytes_read == w.log.size_bytes
    append(w.log)
    assert w.log.collected_entries == 1, "the active segment continues to collect"


def test_the_collection_ends_with_the_config_and_changes_with_the_header(monkeypatch: pytest.MonkeyPatch) -> None:
    w = growing(monkeypatch)
    monkeypatch.setattr(key_indexing, "COLLECTS_APPENDED", True)
    active = w.log.segments[0]
    for _ in range(20):
        append(w.log)
    w.run_jobs()
    before = active.appended_keys
    assert before is not None and before.hashed.header_name == b""
    w.configure(**{**INDEXED, "segment_bytes": "100000", "weir_index_header": "id"})
    append(w.log)
    w.run_jobs()
    after = active.appended_keys
    assert after is not None and after.hashed.header_name == b"id"
    w.configure(segment_bytes="100000")
    w.run_jobs()
    assert active.appended_keys is None


def test_a_truncated_active_segment_loses_its_part_and_gets_one_of_its_new_content(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    w = growing(monkeypatch)
    monkeypatch.setattr(key_indexing, "ENTRIES_MAX", 0)
    for _ in range(20):
        append(w.log)
    w.run_jobs()
    active = w.log.segments[0]
    assert indexed_bytes(active) == active.size and w.files() == [active.path.with_suffix(TEMPORARY).name]
    w.log.truncate_to(12)
    assert not indexed_bytes(active)
    for _ in range(20):
        append(w.log, batch(size=60))
    w.run_jobs()
    assert indexed_bytes(active) == active.size
    w.log.roll(NOW)
    w.run_jobs()
    assert w.has_exact_indexes()


def test_a_truncation_during_a_job_leaves_no_part_of_the_old_content(monkeypatch: pytest.MonkeyPatch) -> None:
    w = growing(monkeypatch)
    for _ in range(20):
        append(w.log)
    w.indexing.tick(NOW)
    run, done = w.harness.jobs.pop(0)
    run()
    w.log.truncate_to(5)
    done(None)
    assert w.log.segments[0].key_index_part is None
    w.run_jobs()
    assert indexed_bytes(w.log.segments[0]) == w.log.segments[0].size


def test_a_part_that_a_look_up_removed_is_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    w = growing(monkeypatch)
    for _ in range(20):
        append(w.log)
    w.run_jobs()
    active = w.log.segments[0]
    read = w.indexing.bytes_read
    assert read == active.size
    active.remove_key_index()
    w.run_jobs()
    assert indexed_bytes(active) == active.size and w.indexing.bytes_read == 2 * read
    assert w.indexing.entries_waiting == 20


def test_parts_go_when_the_config_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    w = growing(monkeypatch)
    monkeypatch.setattr(key_indexing, "ENTRIES_MAX", 0)
    for _ in range(20):
        append(w.log)
    w.run_jobs()
    w.configure(segment_bytes="100000")
    w.run_jobs()
    assert w.log.segments[0].key_index_part is None and w.files() == [] and not w.indexing.entries_waiting


def test_builds_in_progress_are_limited_in_memory_and_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    w = growing(monkeypatch)
    monkeypatch.setattr(key_indexing, "ENTRIES_MAX", 10)
    for _ in range(40):
        append(w.log)
        w.run_jobs(2)
        assert w.indexing.entries_waiting <= 10
    w.log.roll(NOW)
    append(w.log)
    w.run_jobs()
    assert w.has_exact_indexes()
    monkeypatch.setattr(key_indexing, "GROWING_MAX", 0)
    for _ in range(20):
        append(w.log)
    w.run_jobs()
    assert not indexed_bytes(w.log.segments[-1])
