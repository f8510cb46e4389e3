"""`manage.py monitor`: run the cluster monitor in its own process (production: several web processes, each with WEIR_MONITOR=off).

Live updates need a channel layer between processes. Rows are written in any case.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Monitor the cluster: write observed rows and publish live updates, until SIGTERM."

    def handle(self, *args: Any, **options: Any) -> None:
        from controlplane.monitoring.hub import hub, through_loop
        from controlplane.monitoring.monitor import build

        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        hub.deliver_through(through_loop(loop))
        monitor = build(settings.WEIR.zookeeper, hub)
        done = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: done.set())
        monitor.start()
        done.wait()
        monitor.stop()
        loop.call_soon_threadsafe(loop.stop)
