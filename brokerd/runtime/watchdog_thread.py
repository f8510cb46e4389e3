"""The thread that ends a broker process whose event loop hangs.

Without this thread a leader with a hanging event loop would stay the leader, because kazoo's own thread keeps the ZooKeeper session alive. Does not contain:
the rule (`watchdog`).
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import traceback
from typing import Protocol

from brokerd.net.loop import Loop
from brokerd.runtime.watchdog import Watchdog, WatchdogVerdict

log = logging.getLogger(__name__)

HANG_MS_MAX = 30_000
"""Milliseconds without progress and without CPU use after which the process ends. At least twice the ZooKeeper session time-out."""
EXIT_STATUS = 70


class LifeCycle(Protocol):
    """The life cycle of a broker. During a controlled shutdown a slow iteration of the loop is expected."""

    stopping: bool
    stopped: bool


class WatchdogThread:
    """`start` is called on the thread of the event loop."""

    def __init__(self, loop: Loop, life_cycle: LifeCycle, hang_ms_max: int) -> None:
        self._loop, self._life_cycle, self._hang_ms_max = loop, life_cycle, hang_ms_max

    def start(self) -> None:
        threading.Thread(target=self._watch, args=(threading.get_ident(),), name="watchdog", daemon=True).start()

    def _watch(self, thread_id: int) -> None:
        cpu_clock = time.pthread_getcpuclockid(thread_id)
        watch, reported = Watchdog(self._hang_ms_max), False
        while not self._life_cycle.stopped:
            time.sleep(1)
            cpu_ms = time.clock_gettime_ns(cpu_clock) // 1_000_000
            verdict = watch.check(time.monotonic_ns() // 1_000_000, self._loop.progress, cpu_ms)
            if verdict is WatchdogVerdict.WORKS or self._life_cycle.stopping:
                reported = False
                continue
            if reported and verdict is WatchdogVerdict.SLOW:
                continue
            reported = True
            frame = sys._current_frames().get(thread_id)
            where = "".join(traceback.format_stack(frame)) if frame is not None else ""
            log.warning(
                "event loop iteration is slow: verdict=%s silent_ms=%d\n%s", verdict.value, watch.silent_ms, where
            )
            if verdict is not WatchdogVerdict.SLOW:
                log.critical("event loop hangs, process exits: verdict=%s silent_ms=%d", verdict.value, watch.silent_ms)
                os._exit(EXIT_STATUS)
