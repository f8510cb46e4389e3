"""Find the bytes of file regions that a connection can send without waiting for the disk. The other bytes are loaded off the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brokerd.storage.read_ahead import ConnectionReadAhead
    from brokerd.wire.framing import FileRegion

LOAD_BYTES = 1024 * 1024
"""Bytes per send if a blocking read from disk cannot be avoided."""
LOADS_MAX = 3
"""Maximum number of loads of the same bytes. If they are evicted again, the send blocks."""
VALID_MS = 20
"""Milliseconds for which bytes that were found in the page cache are not checked again, because a socket buffer takes only a part of them at a time."""


class CachedRegions:
    """The next bytes of one connection. `loaded` is called after a load."""

    __slots__ = ("_checked", "_loaded", "_loads", "loading")

    def __init__(self, loaded: Callable[[], None]) -> None:
        self._loaded = loaded
        self.loading = False
        self._loads = 0
        """Loads of the next bytes to send."""
        self._checked = (-1, 0, 0, 0)
        """File descriptor, start and end of the bytes that were found in the page cache, and when."""

    def ready(self, reader: ConnectionReadAhead, region: FileRegion, descriptor: int, size: int, now_ms: int) -> int:
        """Return how many of the first `size` bytes of `region` can be sent without blocking. 0 means that they are being loaded and are sent later.
        `descriptor` is that of the region's file."""
        if self.loading:
            return 0
        fd, start, end, at_ms = self._checked
        position = region.position
        if fd == descriptor and start <= position and position + size <= end and now_ms - at_ms < VALID_MS:
            return size
        found = region.file.resident(position, size)
        if found:
            self._checked = descriptor, position, position + found, now_ms
            if self._loads:
                self._loads = 0
                reader.read_ahead.count_hit()
            return found
        if self._loads == LOADS_MAX:
            self._loads = 0
            reader.read_ahead.count_miss()
            return min(size, LOAD_BYTES)
        self._loads += 1
        self.loading = True
        reader.wait(region.file, region.position, region.length, self._end)
        return 0

    def _end(self) -> None:
        self.loading = False
        self._loaded()
