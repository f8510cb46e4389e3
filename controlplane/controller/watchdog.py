"""Ends a controller process whose event loop hangs. Otherwise kazoo's thread would keep the session and the /controller node alive permanently. While the
loop runs, the service manager is notified: it restarts a process that is stopped or does not end.

Invariant: the watchdog counts its own wake-ups, so that a process that was stopped and continued is not ended.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import threading
import time

from controlplane.controller.runner import Controller
from weir_common.service_manager import notify_watchdog

log = logging.getLogger(__name__)

WAKE_SECONDS = 0.25
WAKES_PER_MESSAGE = 20
"""Number of wake-ups between two messages to the service manager: 5 s, several times per WatchdogSec."""


class WatchedController(Controller):
    """A controller that counts the iterations of its loop. Its process ends when there is no iteration for `limit_s` seconds (`watch`)."""

    iterations = 0

    def run_iteration(self) -> None:
        self.iterations += 1
        super().run_iteration()

    def watch(self, limit_s: float) -> None:
        threading.Thread(target=self._watch, args=(limit_s,), name="watchdog", daemon=True).start()

    def _watch(self, limit_s: float) -> None:
        seen, wakes, notified = -1, 0, 0
        while not self._stopping:
            time.sleep(WAKE_SECONDS)
            wakes = wakes + 1 if self.iterations == seen else 0
            seen = self.iterations
            notified += 1
            if notified >= WAKES_PER_MESSAGE and not wakes:
                notify_watchdog()
                notified = 0
            if wakes * WAKE_SECONDS >= limit_s:
                log.critical("event loop stalled, process exits: seconds=%.1f", limit_s)
                faulthandler.dump_traceback(all_threads=True)
                os._exit(70)
