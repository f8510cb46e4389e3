"""`manage.py observe`: the observer as a process of its own (production: several web processes, WEIR_OBSERVER=off in each).

Law: needs a channel layer that crosses processes for the live feed; rows are written either way.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Watch the cluster, write what is observed, feed the consoles. Until SIGTERM."

    def handle(self, *args: Any, **options: Any) -> None:
        from controlplane.live import hub, through_loop
        from controlplane.observer import build

        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        hub.deliver_through(through_loop(loop))
        observer = build(settings.HOUSE.zookeeper, hub)
        done = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: done.set())
        observer.start()
        done.wait()
        observer.stop()
        loop.call_soon_threadsafe(loop.stop)
