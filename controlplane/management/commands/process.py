"""`manage.py process stop|start|kill NAME`: stop one process of a running local cluster, or start it again. For drills and tests.

Uses the files in `stopped/`, which the supervisor reads. Ends only processes that the supervisor started.
"""

from __future__ import annotations

import os
import signal
import time
from enum import StrEnum
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.clients import supervisor as supervisor_client
from controlplane.clients.supervisor import ProcessState, SupervisedProcess

WAIT_SECONDS_MAX = 40
"""Time limit in seconds for the process to reach the requested state. A broker needs time to recover its logs."""


class ProcessVerb(StrEnum):
    STOP = "stop"
    START = "start"
    KILL = "kill"


class Command(BaseCommand):
    help = (
        "Stop, start or kill (SIGKILL) one process of the local cluster. A stopped or killed process is not restarted."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("verb", choices=list(ProcessVerb))
        parser.add_argument("name", help="as `manage.py status` shows it")
        parser.add_argument("--data-dir", type=Path, default=settings.WEIR.data_dir)

    def handle(self, *_args: str, verb: str, name: str, data_dir: Path, **_options: object) -> None:
        folder: Path = data_dir.resolve()
        row = self._row(folder, name)
        stopped = folder / "stopped" / name
        if verb == ProcessVerb.START:
            supervisor_client.request_start(folder, name)
        else:
            stopped.touch()
            if verb == ProcessVerb.KILL and row["pid"] is not None:
                os.kill(row["pid"], signal.SIGKILL)
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while (self._row(folder, name)["state"] == ProcessState.RUNNING) != (verb == ProcessVerb.START):
            if time.monotonic() > deadline:
                raise CommandError(f"{name} did not {verb} within {WAIT_SECONDS_MAX} s.")
            time.sleep(0.1)
        row = self._row(folder, name)
        self.stdout.write(f"{name} {row['state']}" + (f" (pid {row['pid']})" if row["pid"] else ""))

    @staticmethod
    def _row(folder: Path, name: str) -> SupervisedProcess:
        state = supervisor_client.read_state(folder)
        if state["supervisor"] is None or state["supervisor"]["pid"] is None:
            raise CommandError(f"No local cluster is running in {folder}; give its data directory with --data-dir.")
        for row in state["processes"]:
            if row["name"] == name:
                return row
        names = ", ".join(r["name"] for r in state["processes"])
        raise CommandError(f"There is no process {name!r}; the processes are {names}.")
