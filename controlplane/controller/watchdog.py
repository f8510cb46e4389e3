"""A controller whose loop hangs ends its process: kazoo's thread keeps the session alive even then, and the seat would be held for ever.

Law: counts its own wake-ups, so that a stopped and continued process is not punished. Called by the `controller` command.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import threading
import time

from controlplane.controller.runner import Controller

log = logging.getLogger(__name__)

WAKE_SECONDS = 0.25


class WatchedController(Controller):
    """A controller that counts the turns of its loop and is ended when they stop for `watch(limit_s)` seconds."""

    turns = 0

    def turn(self) -> None:
        self.turns += 1
        super().turn()

    def watch(self, limit_s: float) -> None:
        threading.Thread(target=self._watch, args=(limit_s,), name="watchdog", daemon=True).start()

    def _watch(self, limit_s: float) -> None:
        seen, wakes = -1, 0
        while not self._stopping:
            time.sleep(WAKE_SECONDS)
            wakes = wakes + 1 if self.turns == seen else 0
            seen = self.turns
            if wakes * WAKE_SECONDS >= limit_s:
                log.critical("the loop has not turned for %.1f s; this process ends", limit_s)
                faulthandler.dump_traceback(all_threads=True)
                os._exit(70)
