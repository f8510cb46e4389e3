"""`manage.py status`: every process with its state and pid, checked against the running processes."""

from __future__ import annotations

import json
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from controlplane.clients import supervisor as supervisor_client


class Command(BaseCommand):
    help = "List the processes of the local cluster."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--data-dir", type=Path, default=settings.WEIR.data_dir)
        parser.add_argument("--json", dest="as_json", action="store_true")

    def handle(self, *_args: str, data_dir: Path, as_json: bool, **_options: object) -> None:
        rows = supervisor_client.read_state(data_dir.resolve())["processes"]
        shown = [
            {"name": r["name"], "pid": r["pid"], "state": r["state"], "exit_code": r.get("exit_code")} for r in rows
        ]
        if as_json:
            self.stdout.write(json.dumps({"processes": shown}))
            return
        if not shown:
            self.stdout.write("no local cluster has been started here; `manage.py up` starts one")
        for r in shown:
            state = r["state"] if r["exit_code"] is None else f"{r['state']} ({r['exit_code']})"
            self.stdout.write(f"{r['name']:<14} {state:<12} {r['pid'] or '-'}")
