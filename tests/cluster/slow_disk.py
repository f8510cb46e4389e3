"""A broker with a slow disk, and a report of the calls that blocked its event loop: `python -m tests.cluster.slow_disk REPORT DELAY_S --config FILE`.

Every call that waits for a device takes DELAY_S longer: each flush, and each read of bytes outside the page cache. REPORT gets a line of JSON for each
such call on the event loop's thread while the broker serves clients, and for each loop iteration that is longer than all before it. The time in which
the thread waited for a core does not count.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from brokerd.net.loop import Loop
from brokerd.runtime.listeners import Listeners

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]


def in_memory(fd: int, position: int, length: int) -> bool:
    """Implemented independently of the product's own check of the page cache."""
    end = min(position + length, os.fstat(fd).st_size)
    first = position - position % mmap.PAGESIZE
    if end <= position:
        return True
    pages = (end - first + mmap.PAGESIZE - 1) // mmap.PAGESIZE
    address = _libc.mmap(None, pages * mmap.PAGESIZE, mmap.PROT_READ, mmap.MAP_SHARED, fd, first)
    present = ctypes.create_string_buffer(pages)
    failed = _libc.mincore(address, pages * mmap.PAGESIZE, present)
    _libc.munmap(address, pages * mmap.PAGESIZE)
    return not failed and all(page & 1 for page in present.raw[:pages])


def awake_s() -> float:
    """A clock that stops while this thread is runnable but has no core: on a busy machine that is not the event loop's fault."""
    with open("/proc/thread-self/schedstat") as metrics:
        return time.monotonic() - int(metrics.read().split()[1]) / 1e9


class Report:
    def __init__(self, path: str) -> None:
        self._file = open(path, "a", buffering=1)  # noqa: SIM115
        self.serving = False

    def write_event(self, **what: Any) -> None:
        self._file.write(json.dumps(what) + "\n")


def install(report: Report, delay_s: float) -> None:
    def delay_cold_calls(name: str, cold: Callable[..., bool]) -> None:
        real = getattr(os, name)

        def call_after_delay(*arguments: Any, **named: Any) -> Any:
            on_loop = threading.current_thread() is threading.main_thread()
            if (report.serving or not on_loop) and cold(*arguments):  # no client is served during start and stop
                if on_loop:
                    where = [
                        f"{f.name} ({f.filename.rpartition('/')[2]}:{f.lineno})"
                        for f in traceback.extract_stack()[-8:-1]
                    ]
                    report.write_event(loop_waited_for=name, where=where)
                time.sleep(delay_s)
            return real(*arguments, **named)

        setattr(os, name, call_after_delay)

    delay_cold_calls("fsync", lambda fd: True)
    delay_cold_calls("fdatasync", lambda fd: True)
    delay_cold_calls("pread", lambda fd, length, position: not in_memory(fd, position, length))
    delay_cold_calls("sendfile", lambda out, fd, position, length: not in_memory(fd, position, length))
    turn, opened, stops = Loop.run_iteration, Listeners.open, Listeners.stop_accepting
    longest = 0.0

    def poll_and_measure(self: Loop) -> None:
        nonlocal longest
        poll, woken = self._epoll.poll, [awake_s()]

        class Epoll:
            def poll(self, timeout: float) -> Any:
                ready = poll(timeout)
                woken[0] = awake_s()
                return ready

            def __getattr__(self, name: str) -> Any:
                return getattr(epoll, name)

        epoll, self._epoll = self._epoll, Epoll()  # type: ignore[assignment]
        try:
            turn(self)
        finally:
            self._epoll = epoll
        took = awake_s() - woken[0]
        if report.serving and took > longest:
            longest = took
            report.write_event(longest_turn_s=took)

    def open_and_report(self: Listeners) -> None:
        opened(self)
        report.serving = True

    def stop_and_report(self: Listeners) -> None:
        report.serving = False
        stops(self)

    Loop.run_iteration, Listeners.open, Listeners.stop_accepting = poll_and_measure, open_and_report, stop_and_report  # type: ignore[method-assign]


if __name__ == "__main__":
    install(Report(sys.argv[1]), float(sys.argv[2]))
    del sys.argv[1:3]
    from brokerd.runtime.process import main

    sys.exit(main())
