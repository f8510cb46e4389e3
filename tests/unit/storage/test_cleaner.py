"""Compaction: retained records, removed records, the time of removal of tombstones, and a consistent log after every crash."""

from __future__ import annotations

import copy
import dataclasses
import random
from collections.abc import Sequence

import pytest

from brokerd.cluster.model import Now
from brokerd.storage import cleaner
from brokerd.storage.disk import DiskFull
from brokerd.storage.log import Log
from brokerd.storage.producers import Duplicate
from brokerd.wire import records
from brokerd.wire.compression import COMPRESSION_NAMES, NONE
from brokerd.wire.records import CorruptBatch, Record
from tests.simulation.disk import Crashed, SimDisk
from tests.unit.storage.test_log import FOLDER, NOW, append, batch_with_sequence, open_log, read_all, sim

COMPACT = {"cleanup_policy": "compact", "segment_bytes": "500", "min_cleanable_dirty_ratio": "0.01"}
Pair = tuple[bytes, bytes | None]


def append_pairs(log: Log, *pairs: Pair, epoch: int = 0, compression: int = 0, now: Now = NOW) -> None:
    data = records.build([Record(i, now.wall_ms, k, v) for i, (k, v) in enumerate(pairs)], compression=compression)
    append(log, bytearray(data), epoch, now)


def fill(
    log: Log,
    count: int = 60,
    keys: int = 7,
    seed: int = 0,
    tombstones: float = 0.1,
    codecs: Sequence[int] = tuple(COMPRESSION_NAMES),
) -> None:
    rng = random.Random(seed)
    for i in range(count):
        pairs: list[Pair] = []
        for _ in range(rng.randint(1, 4)):
            value = None if rng.random() < tombstones else b"v%d" % i + bytes(rng.randint(0, 60))
            pairs.append((b"key-%d" % rng.randrange(keys) + bytes(rng.choice([0, 30])), value))
        append_pairs(log, *pairs, epoch=i // 20, compression=rng.choice(codecs))


def latest(found: list[Record]) -> dict[bytes, Record]:
    return {r.key: r for r in found if r.key is not None}


def live(found: list[Record]) -> dict[bytes, bytes]:
    return {k: r.value for k, r in latest(found).items() if r.value is not None}


def active_base_offset(log: Log) -> int:
    return log.segments[-1].base_offset


@pytest.mark.parametrize("seed", range(5))
def test_the_newest_record_of_each_key_keeps_its_offset(seed: int) -> None:
    log = open_log(**COMPACT)
    fill(log, seed=seed)
    before, edge = read_all(log), active_base_offset(log)
    done = cleaner.clean(log, NOW, log.end_offset)
    assert done is not None and done.records_dropped > 0
    after = read_all(log)
    newest = latest([r for r in before if r.offset < edge])
    assert [r for r in after if r.offset < edge] == sorted(newest.values())
    assert [r for r in after if r.offset >= edge] == [r for r in before if r.offset >= edge]
    assert log.end_offset == before[-1].offset + 1
    for at in range(log.end_offset):
        found = [r.offset for r in records.iterate(log.read(at, 1, 1 << 60).bytes())]
        following = [r.offset for r in after if r.offset >= at]
        assert not found or set(found) & set(following) or max(found) < at


def test_compacted_segments_are_merged_and_the_log_opens_again() -> None:
    disk = sim()
    log = open_log(disk, **COMPACT)
    fill(log)
    before = len(log.segments)
    cleaner.clean(log, NOW, log.end_offset)
    cleaner.clean(log, NOW, log.end_offset, force=True)
    fill(log, seed=1)
    cleaner.clean(log, NOW, log.end_offset)
    assert len(log.segments) < before * 2
    expected = read_all(log)
    log.close()
    for found in (disk.killed(), disk.killed()):
        again = Log.open(FOLDER, log.config, found, NOW, deep=False)
        assert read_all(again) == expected
        assert [s.base_offset for s in again.segments] == [s.base_offset for s in log.segments]
        deep = Log.open(FOLDER, log.config, found, NOW, deep=True)
        assert read_all(deep) == expected and deep.bytes_cut == 0
        assert deep.cleaner.offset == log.cleaner.offset


def test_records_from_the_high_watermark_on_are_not_compacted() -> None:
    log = open_log(**COMPACT)
    fill(log)
    before = read_all(log)
    hw = log.segments[3].base_offset + 1
    cleaner.clean(log, NOW, hw)
    edge = log.cleaner.offset
    assert 0 < edge <= hw
    assert [r for r in read_all(log) if r.offset >= edge] == [r for r in before if r.offset >= edge]


def test_a_tombstone_is_removed_after_delete_retention_ms() -> None:
    log = open_log(**COMPACT, delete_retention_ms="1000")
    append_pairs(log, (b"gone", b"x" * 200), (b"stays", b"y"))
    append_pairs(log, (b"gone", None))
    append_pairs(log, (b"pad", b"z" * 400))
    append_pairs(log, (b"pad", b"z" * 400))

    def tombstone() -> list[Record]:
        return [r for r in read_all(log) if r.key == b"gone"]

    assert cleaner.clean(log, NOW, log.end_offset)
    assert [r.value for r in tombstone()] == [None]
    assert tombstone()[0].timestamp == NOW.wall_ms, "the horizon in the batch does not change the record's time"
    early, late = NOW._replace(wall_ms=NOW.wall_ms + 999), NOW._replace(wall_ms=NOW.wall_ms + 1_000)
    append_pairs(log, (b"pad", b"z" * 400), now=early)
    assert cleaner.clean(log, early, log.end_offset, force=True)
    assert len(tombstone()) == 1
    append_pairs(log, (b"pad", b"z" * 400), now=late)
    assert cleaner.clean(log, late, log.end_offset, force=True)
    assert tombstone() == []
    assert live(read_all(log))[b"stays"] == b"y"


def test_a_deleted_key_does_not_return_after_any_number_of_compactions() -> None:
    for seed in range(8):
        rng = random.Random(seed)
        log = open_log(**COMPACT, delete_retention_ms="50")
        state: dict[bytes, bytes] = {}
        wall = NOW.wall_ms
        for i in range(120):
            key, value = b"k%d" % rng.randrange(6), None if rng.random() < 0.4 else b"%d" % i + bytes(40)
            append_pairs(log, (key, value), now=Now(0, wall))
            state.pop(key, None)
            if value is not None:
                state[key] = value
            wall += rng.randint(0, 30)
            if rng.random() < 0.15:
                cleaner.clean(log, Now(0, wall), rng.randint(0, log.end_offset))
            assert live(read_all(log)) == state, f"seed {seed} step {i}"


def test_producer_sequences_are_kept_after_their_records() -> None:
    disk = sim()
    log = open_log(disk, **COMPACT)
    for i in range(6):
        append(log, batch_with_sequence(i, producer_id=7))
    for _ in range(8):
        append_pairs(log, (b"k", bytes(100)))
    cleaner.clean(log, NOW, log.end_offset)
    for name in [n for n in disk.names if n.suffix == ".snapshot"]:
        del disk.names[name]
    again = Log.open(FOLDER, log.config, disk.killed(), NOW)
    assert again.check_producer(records.peek(batch_with_sequence(5)), NOW) == Duplicate(5, 5)


def test_records_without_a_key_are_removed() -> None:
    log = open_log(**COMPACT)
    append(log, bytearray(records.build([Record(0, 1, None, b"x" * 300), Record(1, 1, b"k", b"y")])))
    for _ in range(3):
        append_pairs(log, (b"pad", bytes(300)))
    cleaner.clean(log, NOW, log.end_offset)
    assert read_all(log)[0].offset == 1


def test_a_compaction_waits_for_the_dirty_ratio_or_the_maximum_lag() -> None:
    log = open_log(**{**COMPACT, "min_cleanable_dirty_ratio": "0.5", "max_compaction_lag_ms": "5000"})
    fill(log, keys=1_000)
    assert cleaner.clean(log, NOW, log.end_offset, force=True)
    for _ in range(6):
        append_pairs(log, (b"key-1", bytes(150)))
    assert cleaner.plan(log, NOW, 1 << 60) is None
    assert cleaner.plan(log, NOW._replace(wall_ms=NOW.wall_ms + 5_001), 1 << 60) is not None
    for _ in range(60):
        append_pairs(log, (b"key-1", bytes(150)))
    assert cleaner.plan(log, NOW, 1 << 60) is not None


def test_records_younger_than_the_minimum_lag_are_not_compacted() -> None:
    log = open_log(**COMPACT, min_compaction_lag_ms="1000")
    fill(log)
    assert cleaner.plan(log, NOW._replace(wall_ms=NOW.wall_ms + 999), 1 << 60) is None
    assert cleaner.plan(log, NOW._replace(wall_ms=NOW.wall_ms + 1_000), 1 << 60) is not None


def test_a_truncation_invalidates_a_running_compaction() -> None:
    disk = sim()
    log = open_log(disk, **COMPACT)
    fill(log)
    job = cleaner.plan(log, NOW, log.end_offset)
    assert job is not None
    job.run()
    log.truncate_to(log.end_offset // 2)
    expected = read_all(log)
    assert not cleaner.prepare(log, job)
    assert read_all(log) == expected
    assert not [n for n in disk.names if n.suffix == ".cleaned"]


def test_a_truncation_during_the_directory_flush_invalidates_the_compaction() -> None:
    disk = sim()
    log = open_log(disk, **COMPACT)
    fill(log)
    job = cleaner.plan(log, NOW, log.end_offset)
    assert job is not None
    job.run()
    assert cleaner.prepare(log, job)
    log.truncate_to(log.end_offset // 2)
    expected = read_all(log)
    assert read_all(open_log(disk.killed(), **COMPACT)) == expected, "a restart at this moment"
    assert not cleaner.finish(log, job)
    assert read_all(log) == expected


def test_records_deleted_during_the_directory_flush_stay_deleted() -> None:
    disk = sim()
    log = open_log(disk, **COMPACT)
    fill(log)
    job = cleaner.plan(log, NOW, log.end_offset)
    assert job is not None
    job.run()
    assert cleaner.prepare(log, job)
    log.raise_start(log.segments[-1].base_offset)
    expected = read_all(log)
    assert read_all(open_log(disk.killed(), **COMPACT)) == expected, "a restart at this moment"
    assert cleaner.finish(log, job)
    assert read_all(log) == expected and log.cleaner.offset == 0


def test_a_truncation_below_the_clean_offset_makes_the_log_dirty_again() -> None:
    disk = sim()
    log = open_log(disk, **COMPACT)
    fill(log)
    cleaner.clean(log, NOW, log.end_offset)
    log.truncate_to(log.cleaner.offset - 1)
    assert log.cleaner.offset == 0
    assert open_log(disk.killed(), **COMPACT).cleaner.offset == 0


def test_retention_during_a_compaction_wins() -> None:
    log = open_log(**COMPACT)
    fill(log)
    job = cleaner.plan(log, NOW, log.end_offset)
    assert job is not None
    steps = job.steps()
    next(steps)
    log.raise_start(log.segments[2].base_offset)
    for _ in steps:
        pass
    kept = latest(read_all(log))
    assert cleaner.finish(log, job)
    assert latest(read_all(log)) == kept
    assert read_all(log)[0].offset >= log.start_offset


@pytest.mark.parametrize("seed", range(4))
def test_compact_and_delete_keeps_the_newest_records_within_retention(seed: int) -> None:
    """In any order of the two, over several rounds: keys of old segments are deleted, the rest is compacted, and no deleted key returns."""
    rng = random.Random(seed)
    disk = sim()
    log = open_log(
        disk, **{**COMPACT, "cleanup_policy": "compact,delete"}, retention_ms="10000", delete_retention_ms="0"
    )
    written: list[tuple[int, int, bytes, bytes | None]] = []
    wall = NOW.wall_ms
    for i in range(80):
        wall += rng.randint(0, 800)
        value = None if rng.random() < 0.15 else b"v%d" % i + bytes(rng.randint(0, 60))
        key = b"key-%d" % rng.randrange(60)
        append_pairs(log, (key, value), now=Now(0, wall))
        written.append((wall, log.end_offset - 1, key, value))
        for act in rng.sample(["retain", "compact", "neither"], 2):
            if act == "retain":
                log.retain(Now(0, wall), log.end_offset)
            elif act == "compact":
                cleaner.clean(log, Now(0, wall), log.end_offset)
        if rng.random() < 0.1:
            log.close()
            log = Log.open(FOLDER, log.config, disk.killed(), NOW)
            disk = log.disk  # type: ignore[assignment]
        expected = {k: (o, v) for t, o, k, v in written}
        found = {r.key: (r.offset, r.value) for r in read_all(log) if r.key is not None}
        for key, (offset, value) in expected.items():
            if offset >= log.start_offset and value is not None:
                assert found[key] == (offset, value), f"round {i}"
            else:
                assert found.get(key, (offset, None))[1] is None, f"round {i}: {key!r} came back"
    assert log.start_offset > 0, "retention did nothing: nothing is shown"
    log.retain(Now(0, wall + 10_001), log.end_offset)
    assert log.start_offset == log.end_offset == 80 and read_all(log) == []


def test_a_segment_group_cut_by_retention_stays_dirty_so_that_tombstones_stay_effective() -> None:
    log = open_log(**{**COMPACT, "segment_bytes": "300", "delete_retention_ms": "100"})
    append_pairs(log, (b"pad", bytes(230)))
    append_pairs(log, (b"k", bytes(230)))
    append_pairs(log, (b"k", None), (b"pad", bytes(200)))
    append_pairs(log, (b"pad", bytes(230)))
    log.config = dataclasses.replace(log.config, segment_bytes=100_000)
    job = cleaner.plan(log, NOW, log.end_offset)
    assert job is not None
    job.run()
    log.raise_start(1)
    assert cleaner.finish(log, job) and log.cleaner.offset == 0
    later = NOW
    for _ in range(3):
        later = later._replace(wall_ms=later.wall_ms + 200)
        append_pairs(log, (b"pad", bytes(230)), now=later)
        log.roll(later)
        cleaner.clean(log, later, log.end_offset, force=True)
        assert b"k" not in live(read_all(log))


def test_more_keys_than_fit_the_map_are_compacted_in_several_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaner, "KEYS_MAX", 5)
    log = open_log(**COMPACT)
    fill(log, keys=40)
    expected = live(read_all(log))
    passes = 0
    while cleaner.clean(log, NOW, log.end_offset, force=True):
        passes += 1
        assert live(read_all(log)) == expected
    assert passes > 2 and log.cleaner.offset == active_base_offset(log)


def test_damage_found_during_a_compaction_leaves_the_log_unchanged() -> None:
    disk = sim()
    log = open_log(disk, **COMPACT)
    fill(log)
    before = dict(disk.names)
    disk.names[log.segments[2].path].live[80] ^= 1
    with pytest.raises(CorruptBatch):
        cleaner.clean(log, NOW, log.end_offset)
    assert {n for n in disk.names if n.suffix == ".log"} == {n for n in before if n.suffix == ".log"}
    assert not [n for n in disk.names if n.suffix in (".cleaned", ".swap")]


# -- crashes -----------------------------------------------------------------------------------------------------------
def log_to_compact() -> tuple[SimDisk, Log]:
    disk = sim()
    log = open_log(disk, **COMPACT)
    fill(log, count=24, codecs=[NONE])
    log.flush()
    return disk, log


def test_a_crash_at_any_step_of_a_compaction_loses_and_restores_no_key() -> None:
    ready, log = log_to_compact()
    expected, config, end = live(read_all(log)), log.config, log.end_offset

    whole = copy.deepcopy(ready)
    log = Log.open(FOLDER, config, whole, NOW)
    start = whole.steps
    cleaner.clean(log, NOW, end)
    assert whole.steps - start > 20
    for step in range(1, whole.steps - start + 1):
        for cut in (None, random.Random(step), random.Random(-step)):
            disk = copy.deepcopy(ready)
            log = Log.open(FOLDER, config, disk, NOW)
            disk.crash_at = disk.steps + step
            with pytest.raises(Crashed):
                cleaner.clean(log, NOW, end)
            left = disk.killed() if cut is None else disk.power_cut(cut)
            again = Log.open(FOLDER, config, left, NOW, deep=cut is not None)
            found = read_all(again)
            assert live(found) == expected, disk.story[-1]
            assert [r.offset for r in found] == sorted({r.offset for r in found})
            assert again.end_offset == end
            assert not [n for n in left.names if n.suffix in (".cleaned", ".swap")]
            append_pairs(again, (b"new", b"1"))
            cleaner.clean(again, NOW, again.end_offset, force=True)
            assert live(read_all(again)) == {**expected, b"new": b"1"}


def test_a_full_disk_during_a_compaction_changes_nothing_and_leaves_no_file() -> None:
    disk, log = log_to_compact()
    expected = read_all(log)
    disk.bytes_max = disk.used() + 200
    with pytest.raises(DiskFull):
        cleaner.clean(log, NOW, log.end_offset)
    assert read_all(log) == expected
    assert not [n for n in disk.names if n.suffix == ".cleaned"]
    disk.bytes_max = 1 << 40
    assert cleaner.clean(log, NOW, log.end_offset)
