"""Bytes read into the page cache outside the loop: in fair order, ahead of sequential readers, and for a bounded time."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from brokerd.storage.os_disk import OsDisk
from brokerd.storage.read_ahead import (
    AHEAD_BYTES_MAX,
    BEHIND_BYTES_MAX,
    CACHED_CHUNKS_MAX,
    CHUNK_BYTES,
    FOLLOWING_BYTES,
    STREAMS_MAX,
    ConnectionReadAhead,
    ReadAhead,
)

MB = 1024 * 1024


class Device:
    """Reads one chunk when the test calls it, in the order of the requests."""

    def __init__(self) -> None:
        self.queue: list[tuple[Callable[[], object], Any]] = []

    def submit(self, run: Callable[[], object], done: Any, *, urgent: bool = False) -> None:
        self.queue.append((run, done))

    def read(self) -> None:
        run, done = self.queue.pop(0)
        run()
        done(None)


class LargeFile:
    """A file of 100 MB, and the ranges that were read. Data from `cached_from` on is in memory."""

    def __init__(self, cached_from: int = 100 * MB) -> None:
        self.loaded: list[tuple[int, int, int]] = []
        self.evicted: list[tuple[int, int]] = []
        self.cached_from = cached_from

    def fileno(self) -> int:
        return -1

    def size(self) -> int:
        return 100 * MB

    def resident(self, position: int, length: int) -> int:
        return length if position >= self.cached_from else 0

    def cached_bytes(self, position: int, length: int) -> int:
        return self.resident(position, length)

    def load(self, position: int, length: int, beyond: int = 0) -> None:
        self.loaded.append((position, length, beyond))

    def evict(self, position: int, length: int) -> None:
        self.evicted.append((position, length))


def test_a_waiting_reader_is_called_after_its_first_chunk() -> None:
    device, file, received = Device(), LargeFile(), list[str]()
    reader = ReadAhead(device).reader()
    reader.wait(file, 5_000, 10 * MB, lambda: received.append("here"))
    assert not received and not file.loaded
    device.read()
    assert received == ["here"] and file.loaded == [(5_000, CHUNK_BYTES, 0)] and not device.queue


def test_sequential_reads_are_read_ahead_within_a_bound() -> None:
    device, file = Device(), LargeFile()
    reader = ReadAhead(device).reader()
    reader.wait(file, 0, MB, lambda: None)
    device.read()
    for sent in range(1, 40):
        reader.on_sent(file, sent * MB)
        while device.queue:
            device.read()
        ahead = max(position + length for position, length, _ in file.loaded) - sent * MB
        assert CHUNK_BYTES <= ahead <= AHEAD_BYTES_MAX + CHUNK_BYTES
    starts = [position for position, _, _ in file.loaded]
    assert starts == sorted(set(starts)), "nothing was read twice"
    assert ahead > AHEAD_BYTES_MAX // 2


def test_data_in_memory_is_not_loaded_and_ends_the_read_ahead() -> None:
    device, file = Device(), LargeFile(cached_from=3 * MB)
    reader = ReadAhead(device).reader()
    reader.wait(file, 0, MB, lambda: None)
    for sent in range(1, CACHED_CHUNKS_MAX + 4):
        while device.queue:
            device.read()
        assert reader.active, "the stream ended too early"
        reader.on_sent(file, sent * MB)
        if not reader.active:
            break
    assert not reader.active, "the reader is still read ahead for"
    assert sum(length for _, length, _ in file.loaded) == 3 * MB


def test_an_evicted_page_after_cached_data_is_loaded_again() -> None:
    device, file, served = Device(), LargeFile(cached_from=MB), list[int]()
    reader = ReadAhead(device).reader()
    reader.wait(file, 0, MB, lambda: served.append(0))
    device.read()
    reader.on_sent(file, MB)
    file.cached_from = 100 * MB
    reader.wait(file, 2 * MB, MB, lambda: served.append(2))
    device.read()
    assert served == [0, 2]
    assert [position for position, _, _ in file.loaded] == [0, 2 * MB]


def test_the_read_ahead_of_all_readers_together_is_bounded() -> None:
    device = Device()
    read_ahead = ReadAhead(device)
    readers = [(read_ahead.reader(), LargeFile()) for _ in range(200)]
    for reader, file in readers:
        reader.wait(file, 0, MB, lambda: None)
    assert read_ahead.ahead_max * 200 <= 64 * MB


def test_readers_take_turns() -> None:
    device = Device()
    read_ahead = ReadAhead(device)
    readers = [(read_ahead.reader(), LargeFile()) for _ in range(3)]
    for reader, file in readers:
        reader.wait(file, 0, MB, lambda: None)
        reader.on_sent(file, MB)
    for _ in range(3):
        device.read()
    assert [len(file.loaded) for _, file in readers] == [1, 1, 1], "one chunk each before anybody's second"


def test_pages_that_left_the_cache_again_are_read_again() -> None:
    device, file, received = Device(), LargeFile(), list[int]()
    reader = ReadAhead(device).reader()
    for number in range(3):
        reader.wait(file, 0, MB, lambda number=number: received.append(number))  # type: ignore[misc]
        device.read()
    assert received == [0, 1, 2] and [position for position, _, _ in file.loaded] == [0, 0, 0]


def test_a_reader_of_many_files_keeps_few_open_and_every_reader_is_served() -> None:
    device, received = Device(), list[int]()
    read_ahead = ReadAhead(device)
    reader, files = read_ahead.reader(), [LargeFile() for _ in range(STREAMS_MAX + 10)]
    for i, file in enumerate(files):
        reader.wait(file, 0, MB, lambda i=i: received.append(i))  # type: ignore[misc]
    while device.queue:
        device.read()
    assert received == list(range(STREAMS_MAX + 10))


def read_all(device: Device, file: LargeFile, reader: ConnectionReadAhead, first_mb: int, end_mb: int) -> None:
    """A sequential reader: waits for the first chunk and sends one chunk after the other."""
    reader.wait(file, first_mb * MB, MB, lambda: None)
    for sent in range(first_mb + 1, end_mb + 1):
        while device.queue:
            device.read()
        reader.on_sent(file, sent * MB)
    while device.queue:
        device.read()


def test_data_that_was_loaded_for_a_reader_is_evicted_behind_it() -> None:
    device, file = Device(), LargeFile()
    read_ahead = ReadAhead(device)
    reader = read_ahead.reader()
    read_all(device, file, reader, 0, 40)
    kept = 40 * MB - BEHIND_BYTES_MAX
    assert sorted(file.evicted) == [(at, CHUNK_BYTES) for at in range(0, kept, CHUNK_BYTES)]
    assert read_ahead.evicted_bytes == kept
    reader.close()
    while device.queue:
        device.read()
    assert {at for at, _ in file.evicted} == {at for at, _, _ in file.loaded}, "a closed connection leaves nothing"
    assert len(file.evicted) == len(set(file.evicted))


def test_data_that_was_in_memory_before_is_not_evicted() -> None:
    device, file = Device(), LargeFile(cached_from=5 * MB)
    reader = ReadAhead(device).reader()
    read_all(device, file, reader, 0, 60)
    reader.close()
    while device.queue:
        device.read()
    assert {at for at, _ in file.evicted} <= {at * MB for at in range(6)}, "at most one chunk of the read-ahead more"


def test_data_that_another_reader_sends_soon_is_evicted_after_that_reader() -> None:
    device, file = Device(), LargeFile()
    read_ahead = ReadAhead(device)
    first, second = read_ahead.reader(), read_ahead.reader()
    second.wait(file, 0, MB, lambda: None)
    read_all(device, file, first, 2, 30)
    behind_second = [at for at, _ in file.evicted if at >= MB]
    assert behind_second == [], "the second reader needs the data"
    read_all(device, file, second, 2, 30)
    assert {at * MB for at in range(2, 22)} <= {at for at, _ in file.evicted}


def test_a_chunk_with_one_missing_page_stays_in_memory() -> None:
    """A kernel evicted single pages. Had the whole chunks been evicted, the next reader would have loaded all of them from the device."""

    class OnePageMissing(LargeFile):
        def cached_bytes(self, position: int, length: int) -> int:
            return length - 4096

    device, file = Device(), OnePageMissing()
    reader = ReadAhead(device).reader()
    read_all(device, file, reader, 0, 30)
    reader.close()
    while device.queue:
        device.read()
    assert len(file.loaded) >= 30 and file.evicted == []


def test_readers_far_from_each_other_do_not_keep_data_for_each_other() -> None:
    device, file = Device(), LargeFile()
    read_ahead = ReadAhead(device)
    first, second = read_ahead.reader(), read_ahead.reader()
    second.wait(file, 0, MB, lambda: None)
    start = 1 + FOLLOWING_BYTES // MB
    read_all(device, file, first, start, start + 30)
    assert (start + 1) * MB in {at for at, _ in file.evicted}


def test_data_that_is_read_again_is_not_evicted_before() -> None:
    device, file = Device(), LargeFile()
    reader = ReadAhead(device).reader()
    reader.wait(file, 4 * MB, MB, lambda: None)
    device.read()
    reader.wait(file, 4 * MB, MB, lambda: None)
    device.read()
    assert file.evicted == [] and [at for at, _, _ in file.loaded] == [4 * MB, 4 * MB]


def test_a_reader_that_seeks_during_a_load_goes_on_and_leaves_nothing() -> None:
    device, file, served = Device(), LargeFile(), list[int]()
    read_ahead = ReadAhead(device)
    reader = read_ahead.reader()
    read_all(device, file, reader, 0, 12)
    reader.on_sent(file, 13 * MB)  # starts a load
    assert device.queue
    for position in (50 * MB, 5 * MB, 80 * MB):
        reader.wait(file, position, MB, lambda position=position: served.append(position))  # type: ignore[misc]
        reader.on_sent(file, position + MB)
    while device.queue:
        device.read()
    reader.close()
    while device.queue:
        device.read()
    assert served == [50 * MB, 5 * MB, 80 * MB]
    assert {at for at, _ in file.evicted} == {at for at, _, _ in file.loaded}
    assert not read_ahead.streams


def test_a_connection_counts_what_was_loaded_for_it() -> None:
    device, file, counted = Device(), LargeFile(cached_from=3 * MB), list[int]()
    reader = ReadAhead(device).reader(counted.append)
    read_all(device, file, reader, 0, 10)
    assert sum(counted) == 3 * MB


def test_evicted_pages_leave_the_page_cache_and_unflushed_data_stays(tmp_path: Path) -> None:
    file = OsDisk().open(tmp_path / "a.log", create=True)
    file.pwrite(b"x" * 4 * MB, 0)
    file.evict(0, 4 * MB)
    assert file.pread(10, 4 * MB - 10) == b"x" * 10, "unflushed data was lost"
    file.fsync()
    file.evict(0, 4 * MB)
    in_memory = file.resident(0, 4 * MB)
    assert in_memory == 0 or pagecache_is_memory(tmp_path)
    file.load(0, 4 * MB)
    file.evict(MB + 100, MB)
    assert file.resident(MB, MB) == in_memory // 4 and file.resident(3 * MB, MB) == MB, "other pages stay"


def pagecache_is_memory(folder: Path) -> bool:
    """Whether the page cache is the only storage of the files (tmpfs)."""
    names = subprocess.run(["stat", "-f", "-c", "%T", str(folder)], capture_output=True, text=True, check=True)
    return names.stdout.strip() in ("tmpfs", "ramfs")


def test_a_file_system_without_residency_data_is_not_queried_for_ever() -> None:
    read_ahead = ReadAhead(Device())
    for _ in range(100):
        assert not read_ahead.blind
        read_ahead.count_miss()
    assert read_ahead.blind
    read_ahead.count_hit()
    assert not read_ahead.blind
