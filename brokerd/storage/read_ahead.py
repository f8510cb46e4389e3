"""Loads file data into the page cache, so that the event loop can send it without blocking.

The event loop never reads data that may not be in the page cache. It requests the data here and continues in a callback. Each reader loads one chunk
per file at a time, so that readers share the disk fairly. Read-ahead is bounded per reader and in total. The caller may already be closed when its
callback runs. If the data was evicted since then, the caller requests the data again.

Data that was loaded for a reader is evicted from the page cache after it was sent, so that readers of old data do not evict what live readers
need. A chunk is not evicted if most of it was in memory before. Otherwise, with a kernel that evicts single pages, all readers of a file would load it again
and again. Does not contain sockets.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable
from functools import partial
from weakref import WeakKeyDictionary, WeakSet

from brokerd.storage.jobs import Done, Runner
from brokerd.storage.nonblocking import NotInPageCache
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

BEHIND_BYTES_MAX = 8 * 1024 * 1024
"""Maximum number of sent bytes of one reader that stay in memory, for other readers a short distance behind it."""
BEHIND_BYTES_TOTAL = 64 * 1024 * 1024
"""Maximum number of sent bytes of all readers together that stay in memory for other readers."""
FOLLOWING_BYTES = 32 * 1024 * 1024
"""Maximum distance of another reader of the same file for which sent bytes stay in memory. They are then evicted after that reader."""

CACHED_CHUNKS_MAX = 16
"""Number of consecutive chunks found in memory after which a reader is no longer read ahead for: the disk has nothing to load for it."""

BLIND_AFTER = 100
LOOKUPS_MAX = 16
"""Maximum number of NotInPageCache retries of one request before it blocks. An index and its batches need three or four."""


class Stream:
    """The position of one reader in one file. Data before `loaded` is loaded; `until` is the end of the read-ahead; `cached` is the number of
    consecutive chunks that were in memory; `sent` is the end of the sent data; `requested` is the end of the data that loads have requested from the
    device, with the read-ahead of the kernel."""

    __slots__ = (
        "__weakref__",
        "ahead",
        "busy",
        "cached",
        "evictable",
        "loaded",
        "requested",
        "sent",
        "until",
        "waiting",
    )

    def __init__(self, position: int) -> None:
        self.loaded = self.until = self.sent = self.requested = position
        self.evictable: list[tuple[int, int]] = []
        """A heap of ranges (start, end) that were loaded for this stream, to be evicted after they are sent."""
        self.ahead = self.cached = 0
        self.busy = False
        self.waiting: tuple[int, Callable[[], None]] | None = None
        """(position, callback): the callback runs when the byte at the position is loaded."""


class ReadAhead:
    """The loads of all readers of a broker."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.streams: WeakSet[Stream] = WeakSet()
        self._by_file: WeakKeyDictionary[File, WeakSet[Stream]] = WeakKeyDictionary()
        self.chunks = self.lookups = self.evicted_bytes = 0
        """Number of chunks and lookups, and of bytes that were evicted after they were sent, for metrics and tests."""
        self._hits = self._misses = 0
        """Number of times that loaded bytes were found in memory, and number of times that they were not."""
        self.blind = False
        """True if the file system cannot report cached pages: loaded data was never found in a hundred attempts."""

    def reader(self, loaded: Callable[[int], None] | None = None) -> ConnectionReadAhead:
        """`loaded` is called with the number of bytes of each load from the device for this reader."""
        return ConnectionReadAhead(self, loaded)

    def look_up(self, cold: NotInPageCache, again: Callable[[], object]) -> None:
        """Load the missing data, then call `again`. After an error `again` is called too, because its read raises the error again."""
        self.lookups += 1

        def on_loaded(error: BaseException | None) -> None:
            again()

        self._runner.submit(cold.load, on_loaded)

    def run(self, job: Callable[[], object], done: Done) -> None:
        """Run a job that reads files and blocks, on the threads of the loads."""
        self._runner.submit(job, done)

    def load(self, file: File, position: int, beyond: int, then: Callable[[], None]) -> None:
        self.chunks += 1
        self._runner.submit(partial(file.load, position, CHUNK_BYTES, beyond), lambda error: then())

    def begin(self, file: File, position: int) -> Stream:
        stream = Stream(position)
        self.streams.add(stream)
        self._by_file.setdefault(file, WeakSet()).add(stream)
        return stream

    def end(self, file: File, stream: Stream) -> None:
        """The stream is not read any more."""
        self.streams.discard(stream)
        self._by_file[file].discard(stream)

    def evict(self, file: File, stream: Stream, end: int) -> None:
        """Evict the data that was loaded for `stream` before position `end`. Ranges that another reader will send soon become that reader's."""
        while stream.evictable and stream.evictable[0][1] <= end:
            start, range_end = heapq.heappop(stream.evictable)
            following = self._stream_ahead(file, stream, start, range_end)
            if following is not None:
                heapq.heappush(following.evictable, (start, range_end))
            else:
                self.evicted_bytes += range_end - start
                self._runner.submit(partial(file.evict, start, range_end - start), _ignore)

    def _stream_ahead(self, file: File, stream: Stream, start: int, end: int) -> Stream | None:
        """Return the nearest other stream of the file that has not sent all of the range and will send it soon; None: there is none."""
        others = [
            other
            for other in self._by_file.get(file, ())
            if other is not stream and start - FOLLOWING_BYTES <= other.sent < end
        ]
        return max(others, key=lambda other: other.sent, default=None)

    def count_hit(self) -> None:
        """Count a case in which loaded data was found in memory."""
        self._hits += 1
        self.blind = False

    def count_miss(self) -> None:
        """Count a case in which loaded data was not found in memory."""
        self._misses += 1
        self.blind = self._misses >= BLIND_AFTER and not self._hits

    @property
    def ahead_max(self) -> int:
        return min(AHEAD_BYTES_MAX, AHEAD_BYTES_TOTAL // max(1, len(self.streams)))

    @property
    def behind_max(self) -> int:
        return min(BEHIND_BYTES_MAX, BEHIND_BYTES_TOTAL // max(1, len(self.streams)))


def _ignore(error: BaseException | None) -> None:
    """Pages that could not be evicted are evicted by the kernel later."""


class ConnectionReadAhead:
    """The files that one connection reads."""

    __slots__ = ("_count", "_streams", "active", "read_ahead")

    def __init__(self, read_ahead: ReadAhead, loaded: Callable[[int], None] | None = None) -> None:
        self.read_ahead, self._count = read_ahead, loaded
        self._streams: WeakKeyDictionary[File, Stream] = WeakKeyDictionary()
        self.active = False
        """True if data is read from disk for this connection."""

    def wait(self, file: File, position: int, length: int, then: Callable[[], None]) -> None:
        """Call `then` when the first chunk of the bytes is loaded, or the load failed. One call at a time per file."""
        stream = self._streams.get(file)
        if stream is None or not stream.loaded <= position <= stream.until + CHUNK_BYTES:
            # Not a sequential read, or the pages were evicted.
            stream = self._begin(file, position)
        stream.waiting = position, then
        stream.until = max(stream.until, position + min(length, CHUNK_BYTES))
        self._go_on(file, stream)

    def on_sent(self, file: File, position: int) -> None:
        """All data up to `position` was sent: read ahead, if the connection has read from disk before."""
        stream = self._streams.get(file)
        if stream is None:
            return
        stream.sent = position
        if stream.evictable:
            self.read_ahead.evict(file, stream, position - self.read_ahead.behind_max)
        if position >= stream.loaded - stream.ahead // 2:
            # Half of the read-ahead is used up: increase it.
            stream.ahead = min(max(CHUNK_BYTES, 2 * stream.ahead), self.read_ahead.ahead_max)
            stream.until = max(stream.until, min(position + stream.ahead, file.size()))
            self._go_on(file, stream)

    def close(self) -> None:
        """The connection is closed: evict the data that was loaded for it."""
        for file in list(self._streams.keys()):
            self._end(file)

    def _begin(self, file: File, position: int) -> Stream:
        before = self._streams.pop(file, None)
        if before is not None:
            self.read_ahead.end(file, before)
        while len(self._streams) >= STREAMS_MAX:
            self._end(next(iter(self._streams.keys())))
        stream = self._streams[file] = self.read_ahead.begin(file, position)
        self.active = True
        if before is not None:
            # The bytes ahead are about to be read again. Its eviction could overtake that read.
            stream.evictable, before.evictable = before.evictable, []
            self.read_ahead.evict(file, stream, position)
        return stream

    def _end(self, file: File) -> None:
        """Forget the stream of `file`, if it has one."""
        stream = self._streams.pop(file, None)
        if stream is not None:
            self.read_ahead.end(file, stream)
            self.read_ahead.evict(file, stream, stream.until + CHUNK_BYTES)
        self.active = bool(self._streams)

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
        for_stream = stream.loaded < stream.requested or 2 * file.cached_bytes(stream.loaded, CHUNK_BYTES) < CHUNK_BYTES
        stream.requested = max(stream.requested, stream.loaded + CHUNK_BYTES + (beyond if for_stream else 0))
        self.read_ahead.load(file, stream.loaded, beyond, partial(self._on_loaded, file, stream, for_stream))

    def _skip_cached(self, file: File, stream: Stream) -> None:
        """Skip data that is in the page cache. After the kernel evicts a few pages, a reader has a stream although its other data is in memory. Loading such
        data would use CPU time and delay other readers."""
        while stream.loaded < stream.until and file.resident(stream.loaded, CHUNK_BYTES) >= CHUNK_BYTES:
            if stream.loaded < stream.requested:
                heapq.heappush(stream.evictable, (stream.loaded, stream.loaded + CHUNK_BYTES))
            stream.loaded += CHUNK_BYTES
            stream.cached += 1
        if stream.cached >= CACHED_CHUNKS_MAX and self._streams.get(file) is stream:
            self._end(file)

    def _on_loaded(self, file: File, stream: Stream, for_stream: bool) -> None:
        """`for_stream`: most of the chunk was not in memory before this stream requested it."""
        stream.busy = False
        if for_stream:
            heapq.heappush(stream.evictable, (stream.loaded, stream.loaded + CHUNK_BYTES))
        stream.loaded += CHUNK_BYTES
        if self._count is not None:
            self._count(CHUNK_BYTES)
        if current := self._streams.get(file) is stream:
            self._go_on(file, stream)
        else:
            self.read_ahead.evict(file, stream, stream.loaded)
        if stream.waiting is not None and (stream.waiting[0] < stream.loaded or not current):
            then, stream.waiting = stream.waiting[1], None
            then()
