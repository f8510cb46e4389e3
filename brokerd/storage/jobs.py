"""Work that may block (fsync, compaction, unlinking), done on one other thread, one piece after the other.

Law: `run` touches nothing that the loop owns; its outcome comes back on the loop's thread, in `pump`, and the receiver checks that
the world is still the one it was planned in. Called by `upkeep` and the disk. Must not come in: what the work is.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

log = logging.getLogger(__name__)

CLOSE_S_MAX = 2.0
"""Seconds a stopping broker waits for a job under way: a compaction can take minutes."""
Done = Callable[[BaseException | None], None]


class Runner(Protocol):
    """What `Jobs` offers; a simulation runs jobs when its seed says so."""

    def submit(self, run: Callable[[], object], done: Done) -> None: ...


class Jobs:
    """One thread, so that compaction never takes more than one core and a disk sees one fsync at a time."""

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._waiting: deque[tuple[Callable[[], object], Done] | None] = deque()
        self._finished: deque[tuple[Done, BaseException | None]] = deque()
        self._awake = threading.Semaphore(0)
        self._thread: threading.Thread | None = None

    def fileno(self) -> int:
        """Readable when there is something to pump."""
        return self._fd

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def submit(self, run: Callable[[], object], done: Done) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="jobs", daemon=True)
            self._thread.start()
        self._waiting.append((run, done))
        self._awake.release()

    def background(self, run: Callable[[], None]) -> None:
        """Work of which nobody needs to hear; its failure is logged."""

        def heard(error: BaseException | None) -> None:
            if error is not None:
                log.warning("background work failed: %s", error)

        self.submit(run, heard)

    def _work(self) -> None:
        while True:
            self._awake.acquire()
            job = self._waiting.popleft() if self._waiting else None
            if job is None:
                return
            run, done = job
            error: BaseException | None = None
            try:
                run()
            except BaseException as e:
                error = e  # the receiver's to judge
            self._finished.append((done, error))
            os.eventfd_write(self._fd, 1)

    def pump(self) -> None:
        """Hand over what has finished. On the loop's thread."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._fd)
        while self._finished:
            done, error = self._finished.popleft()
            done(error)

    def close(self) -> None:
        """Drop what waits and hand over nothing more. A job under way gets a moment; its traces go at the next start."""
        if self._thread is not None:
            self._waiting.clear()
            self._waiting.append(None)
            self._awake.release()
            self._thread.join(CLOSE_S_MAX)
            if self._thread.is_alive():
                return
            self._thread = None
        os.close(self._fd)
