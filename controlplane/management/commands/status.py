"""`manage.py status`: every process with its state and pid. Law: asks the kernel, not memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from controlplane.house import processes


class Command(BaseCommand):
    help = "List the processes of the house."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--data-dir", type=Path, default=Path("data"))
        parser.add_argument("--json", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        rows = processes.read_state(options["data_dir"].resolve())["processes"]
        shown = [{"name": r["name"], "pid": r["pid"], "state": r["state"]} for r in rows]
        if options["json"]:
            self.stdout.write(json.dumps({"processes": shown}))
            return
        if not shown:
            self.stdout.write("nothing was started here; `manage.py up` starts a house")
        for r in shown:
            self.stdout.write(f"{r['name']:<14} {r['state']:<12} {r['pid'] or '-'}")
