"""`manage.py down`: stop the local cluster cleanly. Ends only processes that its supervisor started."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.clients import supervisor as supervisor_client
from controlplane.devcluster import processes

STOP_SECONDS_MAX = 90
"""Time limit in seconds for all processes to stop in order. After that `down` fails."""


class Command(BaseCommand):
    help = "Stop every process of the local cluster. Brokers hand over their leaders; ZooKeeper stops last."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--data-dir", type=Path, default=settings.WEIR.data_dir)

    def handle(self, *_args: str, data_dir: Path, **_options: object) -> None:
        folder: Path = data_dir.resolve()
        supervisor = supervisor_client.read_state(folder)["supervisor"]
        if supervisor is None:
            raise CommandError(
                f"No local cluster has been started in {folder}; give its data directory with --data-dir."
            )
        if supervisor["pid"] is not None:
            os.kill(supervisor["pid"], signal.SIGTERM)
            deadline = time.monotonic() + STOP_SECONDS_MAX
            while supervisor_client.started_at(supervisor["pid"]) == supervisor["started"]:
                if time.monotonic() > deadline:
                    raise CommandError(
                        f"The supervisor (pid {supervisor['pid']}) did not stop in {STOP_SECONDS_MAX} s."
                    )
                time.sleep(0.1)
        leftovers = processes.end_leftovers(folder)
        self.stdout.write("stopped" + (f" (without a supervisor: {', '.join(leftovers)})" if leftovers else ""))
