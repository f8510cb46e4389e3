"""Bytes that were found in the page cache are checked again after some time only, and never beyond what was found."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.net.cached_regions import LOAD_BYTES, LOADS_MAX, VALID_MS, CachedRegions
from brokerd.wire.framing import FileRegion


class File:
    """`cached`: bytes from the start of the file that are in the page cache."""

    def __init__(self, fd: int = 3, cached: int = 1_000) -> None:
        self.fd, self.cached, self.checks = fd, cached, 0

    def fileno(self) -> int:
        return self.fd

    def resident(self, position: int, length: int) -> int:
        self.checks += 1
        return max(0, min(length, self.cached - position))


class Reader:
    """A reader of a connection, and the counters that all readers share."""

    def __init__(self) -> None:
        self.read_ahead = self
        self.waiting: list[Any] = []
        self.hits = self.misses = 0

    def count_hit(self) -> None:
        self.hits += 1

    def count_miss(self) -> None:
        self.misses += 1

    def wait(self, file: Any, position: int, length: int, then: Any) -> None:
        self.waiting.append(then)


class World:
    def __init__(self) -> None:
        self.reader, self.loaded = Reader(), 0
        self.regions = CachedRegions(self._count_load)

    def _count_load(self) -> None:
        self.loaded += 1

    def ready(self, file: File, position: int, size: int, now_ms: int = 0) -> int:
        region = FileRegion(file, position, size)  # type: ignore[arg-type]
        return self.regions.ready(self.reader, region, file.fileno(), size, now_ms)  # type: ignore[arg-type]


def test_the_rest_of_bytes_that_were_found_is_not_checked_again() -> None:
    w, file = World(), File()
    assert [w.ready(file, 0, 1_000), w.ready(file, 300, 700, VALID_MS - 1)] == [1_000, 700]
    assert file.checks == 1


@pytest.mark.parametrize(
    ("position", "size", "now_ms", "fd"),
    [(300, 700, VALID_MS, 3), (900, 200, 0, 3), (50, 100, 0, 3), (300, 700, 0, 4)],
    ids=["later", "beyond the end", "before the start", "another file"],
)
def test_other_bytes_are_checked(position: int, size: int, now_ms: int, fd: int) -> None:
    w = World()
    w.ready(File(), 100, 900)
    other = File(fd)
    assert w.ready(other, position, size, now_ms) == min(size, 1_000 - position) and other.checks == 1


def test_missing_bytes_are_loaded_once_at_a_time() -> None:
    w, file = World(), File(cached=0)
    assert [w.ready(file, 0, 10), w.ready(file, 0, 10)] == [0, 0] and len(w.reader.waiting) == 1
    file.cached = 10
    w.reader.waiting.pop()()
    assert w.loaded == 1 and w.ready(file, 0, 10) == 10 and w.reader.hits == 1


def test_bytes_that_are_evicted_again_and_again_are_sent_without_a_check() -> None:
    w, file = World(), File(cached=0)
    for _ in range(LOADS_MAX):
        assert w.ready(file, 0, 2 * LOAD_BYTES) == 0
        w.reader.waiting.pop()()
    assert w.ready(file, 0, 2 * LOAD_BYTES) == LOAD_BYTES and w.reader.misses == 1
