"""Loads file data into the page cache, so that the event loop can send it without blocking.

The event loop never reads data that may not be in the page cache. It requests the data here and continues in a callback. Each reader loads one chunk
per file at a time, so that readers share the disk fairly. Read-ahead is bounded per reader and in total. The caller may already be closed when its
callback runs. If the data was evicted meanwhile, the caller requests the data again. Does not contain sockets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from weakref import WeakKeyDictionary, WeakSet

from brokerd.storage.cold import NotInPageCache
from brokerd.storage.jobs import Runner
from brokerd.wire.framing import OpenFile as File

log = logging.getLogger(__name__)

CHUNK_BYTES = 1024 * 1024
"""Bytes per read for one reader: 20 ms of a disk with 50 MB/s, so that other readers wait only for a short time."""
AHEAD_BYTES_MAX = 8 * 1024 * 1024
"""Maximum read-ahead of one sequential reader, for the time in which it processes a response and sends the next request."""
READ_THREADS = 4
"""Number of concurrent reads of different readers. Devices are faster with concurrent requests."""
AHEAD_BYTES_TOTAL = 64 * 1024 * 1024
"""Maximum read-ahead of all readers. More would evict other pages."""
STREAMS_MAX = 64
"""Maximum number of files that one reader (a connection) reads from disk at a time. Above it, the least recently used one loses its read-ahead."""

CACHED_CHUNKS_MAX = 16
"""Number of consecutive chunks found in memory after which a reader is no longer read ahead for: the disk has nothing to load for it."""

BLIND_AFTER = 100
LOOKUPS_MAX = 16
"""Maximum number of NotInPageCache retries of one request before it blocks. An index and its batches need three or four."""


class Stream:
    """The position of one reader in one file. Data before `loaded` is loaded; `until` is the end of the read-ahead; `cached` is the number of
    chunks in a row that were in memory."""

    __slots__ = ("__weakref__", "ahead", "busy", "cached", "loaded", "until", "waiting")

    def __init__(self, position: int) -> None:
        self.loaded = self.until = position
        self.ahead = self.cached = 0
        self.busy = False
        self.waiting: tuple[int, Callable[[], None]] | None = None
        """(position, callback): the callback runs when the byte at the position is loaded."""


class Warming:
    """The loads of all readers of a broker."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.streams: WeakSet[Stream] = WeakSet()
        self.chunks = self.lookups = 0
        """Number of chunks and lookups, for metrics and tests."""
        self.found = self.missed = 0
        """How often loaded bytes were found in memory, and how often not."""

    def reader(self) -> WarmingReader:
        return WarmingReader(self)

    def look_up(self, cold: NotInPageCache, again: Callable[[], object]) -> None:
        """Load the missing data, then call `again`. After an error `again` is called too, because its read raises the error again."""
        self.lookups += 1

        def loaded(error: BaseException | None) -> None:
            again()

        self._runner.submit(cold.load, loaded)

    def load(self, file: File, position: int, beyond: int, then: Callable[[], None]) -> None:
        self.chunks += 1
        self._runner.submit(partial(file.load, position, CHUNK_BYTES, beyond), lambda error: then())

    @property
    def blind(self) -> bool:
        """Whether the file system cannot report cached pages: loaded data was never found in a hundred attempts."""
        return self.missed >= BLIND_AFTER and not self.found

    @property
    def ahead_max(self) -> int:
        return min(AHEAD_BYTES_MAX, AHEAD_BYTES_TOTAL // max(1, len(self.streams)))


class WarmingReader:
    """The files that one connection reads."""

    __slots__ = ("_streams", "_warming")

    def __init__(self, warming: Warming) -> None:
        self._warming = warming
        self._streams: WeakKeyDictionary[File, Stream] = WeakKeyDictionary()

    def __bool__(self) -> bool:
        """Whether data was read from disk for this connection."""
        return bool(self._streams)

    @property
    def blind(self) -> bool:
        return self._warming.blind

    def found(self) -> None:
        """Loaded data was found in memory."""
        self._warming.found += 1

    def missed(self) -> None:
        """Loaded data was not found in memory."""
        self._warming.missed += 1

    def wait(self, file: File, position: int, length: int, then: Callable[[], None]) -> None:
        """Call `then` when the first chunk of the bytes is loaded, or the load failed. One call at a time per file."""
        stream = self._streams.get(file)
        if stream is None or not stream.loaded <= position <= stream.until + CHUNK_BYTES:
            # Not a sequential read, or the pages were evicted.
            stream = self._begin(file, position)
        stream.waiting = position, then
        stream.until = max(stream.until, position + min(length, CHUNK_BYTES))
        self._go_on(file, stream)

    def sent(self, file: File, position: int) -> None:
        """All data up to `position` was sent: read ahead, if the connection has read from disk before."""
        stream = self._streams.get(file)
        if stream is not None and position >= stream.loaded - stream.ahead // 2:
            # Half of the read-ahead is used up: increase it.
            stream.ahead = min(max(CHUNK_BYTES, 2 * stream.ahead), self._warming.ahead_max)
            stream.until = max(stream.until, min(position + stream.ahead, file.size()))
            self._go_on(file, stream)

    def _begin(self, file: File, position: int) -> Stream:
        self._streams.pop(file, None)
        while len(self._streams) >= STREAMS_MAX:
            self._streams.pop(next(iter(self._streams.keys())))
        stream = self._streams[file] = Stream(position)
        self._warming.streams.add(stream)
        return stream

    def _go_on(self, file: File, stream: Stream) -> None:
        if stream.busy:
            return
        if stream.waiting is None:
            self._skip_cached(file, stream)
        if stream.loaded >= stream.until:
            return
        stream.busy = True
        stream.cached = 0
        beyond = min(CHUNK_BYTES, max(0, stream.until - stream.loaded - CHUNK_BYTES))
        self._warming.load(file, stream.loaded, beyond, partial(self._loaded, file, stream))

    def _skip_cached(self, file: File, stream: Stream) -> None:
        """Skip data that is in the page cache. After a few evicted pages, a reader has a stream although its other data is in memory. Loading such data
        would use CPU time and delay other readers."""
        while stream.loaded < stream.until and file.resident(stream.loaded, CHUNK_BYTES) >= CHUNK_BYTES:
            stream.loaded += CHUNK_BYTES
            stream.cached += 1
        if stream.cached >= CACHED_CHUNKS_MAX and self._streams.get(file) is stream:
            del self._streams[file]

    def _loaded(self, file: File, stream: Stream) -> None:
        stream.busy = False
        stream.loaded += CHUNK_BYTES
        if current := self._streams.get(file) is stream:
            self._go_on(file, stream)
        if stream.waiting is not None and (stream.waiting[0] < stream.loaded or not current):
            then, stream.waiting = stream.waiting[1], None
            then()
