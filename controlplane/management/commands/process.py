"""`manage.py process stop|start|kill NAME`: hold one process of a running house down, or let it run again. For drills and tests.

Law: speaks to the supervisor through the files in `held/`; ends only what that supervisor started.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.house import processes

WAIT_SECONDS_MAX = 40
"""Seconds for one process to be in the state that was asked for; a broker that reads its logs needs some."""


class Command(BaseCommand):
    help = "Stop (and hold down), start, or kill -9 (and hold down) one process of the house."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("verb", choices=("stop", "start", "kill"))
        parser.add_argument("name", help="as `manage.py status` shows it")
        parser.add_argument("--data-dir", type=Path, default=Path("data"))

    def handle(self, *args: Any, **options: Any) -> None:
        folder: Path = options["data_dir"].resolve()
        name, verb = options["name"], options["verb"]
        row = self._row(folder, name)
        held = folder / "held" / name
        if verb == "start":
            held.unlink(missing_ok=True)
        else:
            held.touch()
            if verb == "kill" and row["pid"] is not None:
                os.kill(row["pid"], signal.SIGKILL)
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while (self._row(folder, name)["state"] == "running") != (verb == "start"):
            if time.monotonic() > deadline:
                raise CommandError(f"{name} did not {verb} within {WAIT_SECONDS_MAX} s.")
            time.sleep(0.1)
        row = self._row(folder, name)
        self.stdout.write(f"{name} {row['state']}" + (f" (pid {row['pid']})" if row["pid"] else ""))

    @staticmethod
    def _row(folder: Path, name: str) -> dict[str, Any]:
        state = processes.read_state(folder)
        if state["supervisor"] is None or state["supervisor"]["pid"] is None:
            raise CommandError(f"No house is running in {folder}; give its folder with --data-dir.")
        for row in state["processes"]:
            if row["name"] == name:
                found: dict[str, Any] = row
                return found
        names = ", ".join(r["name"] for r in state["processes"])
        raise CommandError(f"There is no process {name!r}; there are {names}.")
