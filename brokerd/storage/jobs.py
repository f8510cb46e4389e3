"""Thread pools for blocking work: fsync, compaction, unlinking.

`run` does not access objects of the event loop. Its result is delivered on the loop's thread by `pump`. The receiver checks whether the
result is still valid. Does not contain the work itself.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

log = logging.getLogger(__name__)

CLOSE_S_MAX = 2.0
"""Maximum number of seconds that a stopping broker waits for running jobs. A compaction can take minutes."""
URGENT_THREADS = 4
"""Number of concurrent flushes. Flushes of several logs share one commit of the file system journal."""
REPLACED_MAX = 64
"""Maximum number of replaced threads that have not ended yet. Each thread has a stack. More threads would mean that jobs wait for something other than a
disk."""
Done = Callable[[BaseException | None], None]


class Runner(Protocol):
    """Interface of `Jobs`. The simulation implements it."""

    def submit(self, run: Callable[[], object], done: Done, *, urgent: bool = False) -> None: ...


class Lane:
    """A queue and its threads, which are started on demand."""

    def __init__(self, name: str, threads: int, *, replaceable: bool = True) -> None:
        self.name, self.threads_max, self.replaceable = name, threads, replaceable
        self.waiting: deque[tuple[Callable[[], object], Done] | None] = deque()
        self.awake = threading.Semaphore(0)
        self.threads: list[threading.Thread] = []
        self.began_s: dict[threading.Thread, float] = {}
        """Monotonic time at which a thread began its job."""


class LaneRunner:
    """Separate threads for one kind of work, independent of other work."""

    def __init__(self, jobs: Jobs, lane: Lane) -> None:
        self._jobs, self._lane = jobs, lane

    def submit(self, run: Callable[[], object], done: Done, *, urgent: bool = False) -> None:
        self._jobs.submit_to(self._lane, run, done)


class Jobs:
    """Two lanes; `lane` adds more. Long work (compaction, unlinking, copies) has one thread, so it uses at most one core. `urgent` work (for example a
    flush before an acknowledgement) has its own threads, so it never waits for long work."""

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._slow, self._urgent = Lane("jobs", 1), Lane("flushes", URGENT_THREADS)
        self._more: list[Lane] = []
        self._finished: deque[tuple[Done, BaseException | None]] = deque()
        self._replaced: list[threading.Thread] = []

    @property
    def _lanes(self) -> list[Lane]:
        return [self._slow, self._urgent, *self._more]

    def lane(self, name: str, threads: int, *, replaceable: bool = True) -> LaneRunner:
        """A new lane. The caller limits the length of its queue. `replaceable`: see `replace_stuck`."""
        lane = Lane(name, threads, replaceable=replaceable)
        self._more.append(lane)
        return LaneRunner(self, lane)

    def fileno(self) -> int:
        """File descriptor that is readable when results are available."""
        return self._fd

    @property
    def waiting(self) -> int:
        return sum(len(lane.waiting) for lane in self._lanes)

    def submit(self, run: Callable[[], object], done: Done, *, urgent: bool = False) -> None:
        self.submit_to(self._urgent if urgent else self._slow, run, done)

    def submit_to(self, lane: Lane, run: Callable[[], object], done: Done) -> None:
        self._start_thread(lane)
        lane.waiting.append((run, done))
        lane.awake.release()

    def _start_thread(self, lane: Lane) -> None:
        if len(lane.threads) < lane.threads_max:
            thread = threading.Thread(target=self._work, args=(lane,), name=lane.name, daemon=True)
            lane.threads.append(thread)
            thread.start()

    def replace_stuck(self, running_s: float) -> int:
        """Replace threads whose job has run for longer than the limit, because a job on a hung disk never ends. Returns the number of replaced threads. A
        replaced thread still delivers the result of its job and then ends."""
        self._replaced = [thread for thread in self._replaced if thread.is_alive()]
        count, now_s = 0, time.monotonic()
        for lane in self._lanes:
            for thread, began_s in list(lane.began_s.items()) if lane.replaceable else ():
                if now_s - began_s < running_s or thread not in lane.threads or len(self._replaced) >= REPLACED_MAX:
                    continue
                lane.threads.remove(thread)
                self._replaced.append(thread)
                count += 1
                if lane.waiting:
                    self._start_thread(lane)
        return count

    def background(self, run: Callable[[], None]) -> None:
        """Run work without a receiver. A failure is logged."""

        def on_finished(error: BaseException | None) -> None:
            if error is not None:
                log.warning("background job failed: error=%s", error)

        self.submit(run, on_finished)

    def _work(self, lane: Lane) -> None:
        this = threading.current_thread()
        while this in lane.threads:
            lane.awake.acquire()
            job = lane.waiting.popleft() if lane.waiting else None
            if job is None:
                return
            run, done = job
            error: BaseException | None = None
            lane.began_s[this] = time.monotonic()
            try:
                run()
            except BaseException as e:
                error = e  # the receiver handles it
            del lane.began_s[this]
            self._finished.append((done, error))
            os.eventfd_write(self._fd, 1)

    def pump(self) -> None:
        """Deliver the results of finished jobs. On the loop's thread."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._fd)
        while self._finished:
            done, error = self._finished.popleft()
            done(error)

    def close(self) -> None:
        """Discard queued jobs and deliver no more results. Running jobs get CLOSE_S_MAX seconds; recovery removes their temporary files."""
        for lane in self._lanes:
            lane.waiting.clear()
            for _ in lane.threads:
                lane.awake.release()  # the thread finds no job and ends
        threads = [thread for lane in self._lanes for thread in lane.threads]
        for thread in threads:
            thread.join(CLOSE_S_MAX)
        if not any(thread.is_alive() for thread in (*threads, *self._replaced)):
            for lane in self._lanes:
                lane.threads.clear()
            os.close(self._fd)
