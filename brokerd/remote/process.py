"""The broker's side of its helper process: starts it, sends requests, restarts it when it ends.

Invariants: every request completes exactly once, asynchronously: with the response, or with NO_RESPONSE after its time-out or when the helper ends. The event
loop never waits for the helper. Does not contain: what the requests mean.
"""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypedDict

from brokerd.cluster.model import Now
from brokerd.net.loop import READ, WRITE, Loop
from brokerd.remote.frames import TIMEOUT_MS, FrameReader, HelperError, MalformedFrame, encode

log = logging.getLogger(__name__)

RESTART_MS = 1_000
"""Pause before a helper that has ended is started again."""
REQUESTS_MAX = 1_000
"""Maximum number of requests without a response. Above it a request fails immediately."""
RECEIVE_BYTES = 256 * 1024
Done = Callable[[HelperError, object], None]


class RemoteHelper(Protocol):
    """The helper of one broker. `done` is called later, exactly once."""

    def request(self, operation: str, fields: Mapping[str, object], timeout_ms: int, done: Done) -> None: ...

    def close(self) -> None: ...


class _Waiting(NamedTuple):
    deadline_ms: int
    done: Done


class HelperSettings(TypedDict):
    """The first message to a new process. `url`: of the remote store. `cache`: directory of the chunk cache. Rates in bytes per second."""

    url: str
    cache: str
    cache_bytes: int
    copy_rate: int
    fetch_rate: int


class HelperProcess:
    """`settings` is the first message to each new process."""

    def __init__(self, loop: Loop, settings: Callable[[], HelperSettings]) -> None:
        self._loop, self._settings = loop, settings
        self._socket: socket.socket | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self._reader = FrameReader()
        self._out = bytearray()
        self._waiting: dict[int, _Waiting] = {}
        self._number = 0
        self._closed = False
        self._starting = False
        self.starts = 0
        """Number of started processes."""
        self._schedule_start(0)
        loop.every(RESTART_MS, self._expire)

    # -- the process -----------------------------------------------------------------------------------------------------------
    def _schedule_start(self, delay_ms: int) -> None:
        if not self._starting and not self._closed:
            self._starting = True
            self._loop.call_later(delay_ms, self._start)

    def _start(self, now: Now) -> None:
        self._starting = False
        if self._closed:
            return
        ours, theirs = socket.socketpair()
        try:
            self.process = subprocess.Popen([sys.executable, "-m", "brokerd.remote"], stdin=theirs.fileno())
        except OSError as e:
            log.error("helper of the remote store not started: error=%s", e)
            ours.close()
            self._schedule_start(RESTART_MS)
            return
        finally:
            theirs.close()
        self.starts += 1
        log.info("helper of the remote store started: pid=%d", self.process.pid)
        ours.setblocking(False)
        self._socket, self._reader, self._out = (
            ours,
            FrameReader(),
            bytearray(encode([0, "settings", self._settings()])),
        )
        self._loop.register(ours.fileno(), READ | WRITE, self._on_events)

    def _on_exit(self, reason: str) -> None:
        if self._socket is None:
            return
        self._loop.unregister(self._socket.fileno())
        self._socket.close()
        self._socket = None
        log.warning("helper of the remote store ended: reason=%s", reason)
        self._reap()
        waiting, self._waiting = self._waiting, {}
        for w in waiting.values():
            w.done(HelperError.NO_RESPONSE, reason)
        self._schedule_start(RESTART_MS)

    def _reap(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()

    # -- messages --------------------------------------------------------------------------------------------------------------
    def request(self, operation: str, fields: Mapping[str, object], timeout_ms: int, done: Done) -> None:
        if self._socket is None or len(self._waiting) >= REQUESTS_MAX:
            self._loop.call_later(0, lambda now: done(HelperError.NO_RESPONSE, "the helper is not ready"))
            return
        self._number += 1
        self._waiting[self._number] = _Waiting(self._loop.now.mono_ms + timeout_ms, done)
        self._out += encode([self._number, operation, {**fields, TIMEOUT_MS: timeout_ms}])
        self._loop.modify(self._socket.fileno(), READ | WRITE)

    def _on_events(self, events: int) -> None:
        try:
            if self._socket is not None and self._out:
                del self._out[: self._socket.send(self._out)]
            if self._socket is not None and not self._out:
                self._loop.modify(self._socket.fileno(), READ)
            if self._socket is not None and events & ~WRITE:
                self._receive(self._socket)
        except BlockingIOError:
            pass
        except (OSError, MalformedFrame) as e:
            self._on_exit(str(e))

    def _receive(self, connection: socket.socket) -> None:
        data = connection.recv(RECEIVE_BYTES)
        if not data:
            self._on_exit("connection closed")
            return
        for number, error, value in self._reader.feed(data):
            waiting = self._waiting.pop(number, None)
            if waiting is not None:
                waiting.done(HelperError(error), value)

    def _expire(self, now: Now) -> None:
        for number, w in list(self._waiting.items()):
            if w.deadline_ms <= now.mono_ms and self._waiting.pop(number, None) is not None:
                w.done(HelperError.NO_RESPONSE, "time-out")

    def close(self) -> None:
        self._closed = True
        if self._socket is not None:
            self._loop.unregister(self._socket.fileno())
            self._socket.close()  # the helper ends
            self._socket = None
        self._waiting.clear()
        self._reap()
