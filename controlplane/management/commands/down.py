"""`manage.py down`: stop the house cleanly. Law: ends only what its supervisor started."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.house import processes

STOP_SECONDS_MAX = 90
"""Seconds for all processes to end in order; past it `down` says which have not, rather than wait for ever."""


class Command(BaseCommand):
    help = "Stop every process of the house: brokers hand over their leaders first, ZooKeeper ends last."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--data-dir", type=Path, default=Path("data"))

    def handle(self, *args: Any, **options: Any) -> None:
        folder: Path = options["data_dir"].resolve()
        supervisor = processes.read_state(folder)["supervisor"]
        if supervisor is None:
            raise CommandError(f"No house was ever started in {folder}; give its folder with --data-dir.")
        if supervisor["pid"] is not None:
            os.kill(supervisor["pid"], signal.SIGTERM)
            deadline = time.monotonic() + STOP_SECONDS_MAX
            while processes.started_at(supervisor["pid"]) == supervisor["started"]:
                if time.monotonic() > deadline:
                    raise CommandError(f"The supervisor (pid {supervisor['pid']}) did not end in {STOP_SECONDS_MAX} s.")
                time.sleep(0.1)
        leftovers = processes.end_leftovers(folder)
        self.stdout.write("stopped" + (f" (without a supervisor: {', '.join(leftovers)})" if leftovers else ""))
