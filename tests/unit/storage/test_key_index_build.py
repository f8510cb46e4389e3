"""The build of a key index in slices: it finds what the log contains, at any slice size; damage of the log ends it."""

from __future__ import annotations

import pytest

from brokerd.storage import key_hashes, key_index
from brokerd.storage.disk import DiskFailed
from brokerd.storage.key_hashes import HashedKeys
from brokerd.storage.key_index import InvalidKeyIndex, KeyIndex, key_hash
from brokerd.storage.key_index_build import KeyIndexBuild, open_index, open_part
from brokerd.storage.log import Log
from brokerd.storage.segment import Segment
from brokerd.wire import records
from brokerd.wire.records import Record
from tests.simulation.disk import SimDisk
from tests.unit.storage.test_log import NOW, append, open_log, sim


def log_with_closed_segment() -> tuple[SimDisk, Log, Segment]:
    """A closed segment of 20 batches with three keys each."""
    disk = sim()
    log = open_log(disk, segment_bytes="100000000")
    for i in range(20):
        keys = [b"k%d" % i, b"k%d" % (i % 4), b"common"]
        append(log, bytearray(records.build([Record(j, 5, key, b"v" * 40) for j, key in enumerate(keys)])))
    segment = log.segments[0]
    log.roll(NOW)
    return disk, log, segment


def build_of(disk: SimDisk, segment: Segment) -> KeyIndexBuild:
    return KeyIndexBuild(disk, segment.path, segment.base_offset, segment.size, HashedKeys())


def index_of(disk: SimDisk, segment: Segment) -> KeyIndex:
    return open_index(disk, segment.path, segment.file, segment.base_offset, segment.size, HashedKeys().seed)


@pytest.mark.parametrize("slice_bytes", [1, 300, 1_000_000])
@pytest.mark.parametrize("compiled", [True, False])
def test_a_build_in_slices_finds_each_key_in_its_batches(
    slice_bytes: int, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_index, "RUN_ENTRIES", 10)
    if not compiled:
        monkeypatch.setattr(key_hashes, "_compiled", None)
    disk, _, segment = log_with_closed_segment()
    build = build_of(disk, segment)
    while not build.finished:
        build.run(slice_bytes)
    disk.rename(build.temporary, build.target)
    index = index_of(disk, segment)
    position = {header.base_offset // 3: at for at, header in segment.headers(0)}
    assert list(index.positions(key_hash(b"common"), segment.size)) == sorted(position.values(), reverse=True)
    assert list(index.positions(key_hash(b"k19"), segment.size)) == [position[19]]
    assert list(index.positions(key_hash(b"k3"), segment.size)) == [position[i] for i in (19, 15, 11, 7, 3)]
    assert list(index.positions(key_hash(b"absent"), segment.size)) == []
    again = build_of(disk, segment)
    again.check_existing()
    assert again.finished and again.reused


def test_a_missing_or_foreign_file_is_not_reused() -> None:
    disk, _, segment = log_with_closed_segment()
    with pytest.raises(InvalidKeyIndex, match="no key index"):
        index_of(disk, segment)
    disk.replace(segment.path.with_suffix(key_index.SUFFIX), b"something else")
    build = build_of(disk, segment)
    build.check_existing()
    assert not build.finished and not build.reused


def test_a_damaged_log_ends_the_build() -> None:
    disk, _, segment = log_with_closed_segment()
    disk.names[segment.path].live[200] ^= 1
    build = build_of(disk, segment)
    with pytest.raises(DiskFailed, match="damaged"):
        build.run(1_000_000)
    assert not build.finished
    short = KeyIndexBuild(disk, segment.path, segment.base_offset, 30, HashedKeys())
    with pytest.raises(DiskFailed, match="no complete batch"):
        short.run(1_000_000)


@pytest.mark.parametrize("entries_max", [0, 7, 1_000_000])
def test_a_build_follows_a_growing_segment_and_its_parts_can_be_searched(entries_max: int) -> None:
    disk = sim()
    log = open_log(disk, segment_bytes="100000000")
    segment = log.segments[0]
    build = KeyIndexBuild(disk, segment.path, segment.base_offset, 0, HashedKeys(), closed=False)
    read: list[int] = []
    for number in range(12):
        append(
            log,
            bytearray(
                records.build([Record(i, 5, key, b"v" * 40) for i, key in enumerate((b"k%d" % number, b"common"))])
            ),
        )
        build.extend(segment.size, closed=False)
        build.run(1_000_000, entries_max)
        assert build.part is not None and not build.finished
        assert build.unwritten <= entries_max and build.part.end_offset == log.end_offset
        positions = [at for at, _ in segment.headers(0)]
        index = open_part(disk, segment.path, build.part, read.append)
        assert list(index.positions(key_hash(b"common"), segment.size)) == positions[::-1]
        assert list(index.positions(key_hash(b"k%d" % number), segment.size)) == positions[-1:]
    assert read
    log.roll(NOW)
    build.extend(segment.size, closed=True)
    build.run(1_000_000, entries_max)
    assert build.finished
    disk.rename(build.temporary, build.target)
    assert list(index_of(disk, segment).positions(key_hash(b"common"), segment.size)) == positions[::-1]
    if entries_max < 1_000_000:
        with pytest.raises(InvalidKeyIndex):  # the temporary file is gone
            list(index.positions(key_hash(b"common"), segment.size))
