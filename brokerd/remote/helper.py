"""The helper process: reads requests of its broker, runs them on threads, writes the responses.

Invariants: every request gets one response, also after an error. A request that has waited for a thread for longer than its time-out is not run: while a store
does not respond, the queue would grow, and its requests would run later, although nothing waits for their results. The process ends when the broker's
end of the socket is closed, so that no helper outlives its broker. Copies, reads, read-ahead and look-ups by key have separate threads: a slow copy
delays no consumer. Does not contain: the operations.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from brokerd.remote.auxiliary import DamagedSegment
from brokerd.remote.chunk_cache import ChunkCache
from brokerd.remote.frames import TIMEOUT_MS, FrameReader, HelperError, MalformedFrame, encode
from brokerd.remote.helper_requests import HelperOperation
from brokerd.remote.operations import Operations
from brokerd.remote.process import HelperSettings
from brokerd.remote.rate import RateLimit
from brokerd.remote.store_urls import store_at
from brokerd.remote.stores import ObjectMissing, ObjectStore, StoreUnavailable
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.os_disk import OsDisk

log = logging.getLogger(__name__)

READ_THREADS, COPY_THREADS, AHEAD_THREADS, LOOKUP_THREADS = 8, 2, 12, 2
"""Concurrent requests to the store. Each has at most one chunk of 4 MiB in memory."""
AHEAD_MAX = 32
"""Maximum number of loads ahead that run or wait. Above it no further one is begun: while a store does not respond, their number would grow, and they would run later although
nothing waits for the results."""
RECEIVE_BYTES = 256 * 1024
SLOW_OPERATIONS: tuple[str, ...] = (HelperOperation.COPY, HelperOperation.DELETE, HelperOperation.NAMES)
"""Operations on the copy threads."""


class LateStore:
    """The store at a URL, connected at the first use. While that fails, every request fails with a retriable error."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._store: ObjectStore | None = None
        self._lock = threading.Lock()

    @property
    def store(self) -> ObjectStore:
        with self._lock:
            if self._store is None:
                self._store = store_at(self._url)
            return self._store

    def __getattr__(self, name: str) -> object:
        return getattr(self.store, name)


class Helper:
    def __init__(self, connection: socket.socket, settings: HelperSettings) -> None:
        self._connection = connection
        self._copy_rate, self._fetch_rate = RateLimit(settings["copy_rate"]), RateLimit(settings["fetch_rate"])
        self._reads = ThreadPoolExecutor(READ_THREADS, "reads")
        self._ahead = ThreadPoolExecutor(AHEAD_THREADS, "ahead")
        self._pools = dict.fromkeys(SLOW_OPERATIONS, ThreadPoolExecutor(COPY_THREADS, "copies"))
        # A look-up may take seconds. The operations of the other threads are for waiting consumers and followers.
        self._pools[HelperOperation.KEYS] = ThreadPoolExecutor(LOOKUP_THREADS, "lookups")
        self._loads_ahead: set[Hashable] = set()
        """Keys of the loads ahead that run or wait."""
        self._loads_ahead_lock = threading.Lock()
        disk = OsDisk()
        store: Any = LateStore(settings["url"])
        cache = ChunkCache(
            disk, Path(settings["cache"]), store, settings["cache_bytes"], self._fetch_rate.spend, self.load_ahead
        )
        self._operations = Operations(
            disk,
            store,
            cache,
            self._copy_rate.spend,
            self._fetch_rate.spend,
            lambda: int(time.time() * 1_000),
            lambda: int(time.monotonic() * 1_000),
        )
        self._sending = threading.Lock()

    def load_ahead(self, key: Hashable, load: Callable[[], object]) -> None:
        """Run `load` on a thread. Skip it when a load of `key` waits or runs, or when too many wait: each read names all chunks ahead of it again,
        and repeated loads would keep the threads from the chunks after them."""

        def run() -> None:
            try:
                load()
            except (StoreUnavailable, ObjectMissing, DamagedSegment, DiskFailed, DiskFull, OSError, ValueError) as e:
                log.info("read-ahead failed: error=%s", e)
            finally:
                with self._loads_ahead_lock:
                    self._loads_ahead.discard(key)

        with self._loads_ahead_lock:
            if key in self._loads_ahead or len(self._loads_ahead) >= AHEAD_MAX:
                return
            self._loads_ahead.add(key)
        self._ahead.submit(run)

    def serve(self, reader: FrameReader, requests: list[list[Any]]) -> None:
        """Run `requests`, which have arrived with the settings, and all further ones until the broker closes its end. Raises MalformedFrame."""
        while True:
            for request_id, operation, fields in requests:
                self._begin(request_id, operation, fields)
            data = self._connection.recv(RECEIVE_BYTES)
            if not data:
                return
            requests = reader.feed(data)

    def _begin(self, request_id: int, operation: str, fields: Mapping[str, Any]) -> None:
        if operation == HelperOperation.RATES:
            self._copy_rate.bytes_per_s, self._fetch_rate.bytes_per_s = fields["copy"], fields["fetch"]
            self._respond(request_id, HelperError.NONE, True)
            return
        pool = self._pools.get(operation, self._reads)
        timeout_ms = fields.get(TIMEOUT_MS)
        deadline = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        pool.submit(self._run_request, request_id, operation, fields, deadline)

    def _run_request(
        self, request_id: int, operation: str, fields: Mapping[str, object], deadline: float | None
    ) -> None:
        if deadline is not None and time.monotonic() > deadline:
            self._respond(request_id, HelperError.NO_RESPONSE, "time-out")
            return
        error, value = HelperError.NONE, None
        try:
            value = self._operations.run(operation, fields)
        except StoreUnavailable as e:
            error, value = HelperError.STORE_UNAVAILABLE, str(e)
        except ObjectMissing as e:
            error, value = HelperError.OBJECT_MISSING, str(e)
        except DamagedSegment as e:
            error, value = HelperError.DAMAGED, str(e)
        except (DiskFailed, DiskFull, OSError) as e:
            error, value = HelperError.LOCAL_FILE, str(e)
        except Exception as e:
            log.exception("request failed: operation=%s", operation)
            error, value = HelperError.INVALID, repr(e)
        self._respond(request_id, error, value)

    def _respond(self, request_id: int, error: HelperError, value: object) -> None:
        try:
            with self._sending:
                self._connection.sendall(encode([request_id, error, value]))
        except OSError:
            self._connection.close()


def main() -> int:
    """The socket is standard input. The first message has the settings."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    connection = socket.socket(fileno=0)
    reader = FrameReader()
    try:
        first: list[list[Any]] = []
        while not first:
            data = connection.recv(RECEIVE_BYTES)
            if not data:
                return 0
            first = reader.feed(data)
        _, _, settings = first[0]
        Helper(connection, settings).serve(reader, first[1:])
    except (MalformedFrame, KeyError) as e:
        log.error("malformed request: error=%s", e)
        return 1
    except OSError as e:
        log.info("the broker has closed the connection: error=%s", e)
    return 0
