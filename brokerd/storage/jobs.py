"""Work that may block (fsync, compaction, unlinking), done on other threads, each piece by one of them.

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
URGENT_THREADS = 4
"""Flushes at once: what different logs wait for goes to the disk in the same commit of the journal."""
Done = Callable[[BaseException | None], None]


class Runner(Protocol):
    """What `Jobs` offers; a simulation runs jobs when its seed says so."""

    def submit(self, run: Callable[[], object], done: Done, *, urgent: bool = False) -> None: ...


class Lane:
    """A queue and the threads that work it off, started when there is something to do."""

    def __init__(self, name: str, threads: int) -> None:
        self.name, self.threads_max = name, threads
        self.waiting: deque[tuple[Callable[[], object], Done] | None] = deque()
        self.awake = threading.Semaphore(0)
        self.threads: list[threading.Thread] = []


class Jobs:
    """Two lanes. What takes long (compaction, unlinking, copies) has one thread, so that it never takes more than one core. What
    somebody waits for (`urgent`: a flush before an acknowledgement) never stands behind it; flushes of several logs at once are
    one commit of the file system's journal."""

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._slow, self._urgent = Lane("jobs", 1), Lane("flushes", URGENT_THREADS)
        self._finished: deque[tuple[Done, BaseException | None]] = deque()

    def fileno(self) -> int:
        """Readable when there is something to pump."""
        return self._fd

    @property
    def waiting(self) -> int:
        return len(self._slow.waiting) + len(self._urgent.waiting)

    def submit(self, run: Callable[[], object], done: Done, *, urgent: bool = False) -> None:
        lane = self._urgent if urgent else self._slow
        if len(lane.threads) < lane.threads_max:
            thread = threading.Thread(target=self._work, args=(lane,), name=lane.name, daemon=True)
            lane.threads.append(thread)
            thread.start()
        lane.waiting.append((run, done))
        lane.awake.release()

    def background(self, run: Callable[[], None]) -> None:
        """Work of which nobody needs to hear; its failure is logged."""

        def heard(error: BaseException | None) -> None:
            if error is not None:
                log.warning("background work failed: %s", error)

        self.submit(run, heard)

    def _work(self, lane: Lane) -> None:
        while True:
            lane.awake.acquire()
            job = lane.waiting.popleft() if lane.waiting else None
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
        for lane in (self._slow, self._urgent):
            lane.waiting.clear()
            for _ in lane.threads:
                lane.awake.release()  # to find nothing, and end
        threads = [*self._slow.threads, *self._urgent.threads]
        for thread in threads:
            thread.join(CLOSE_S_MAX)
        if not any(thread.is_alive() for thread in threads):
            self._slow.threads.clear()
            self._urgent.threads.clear()
            os.close(self._fd)
