"""`python -m tests.foreign`: ask clients nobody here wrote, tell docs/clients.md and build/clients.json.

A whole run (or `--column` for some clients) replaces those columns of tests/foreign/results.json and writes the page anew; `--feature` is for trying and
replaces nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.peer.fetch import Absent
from tests.foreign import page
from tests.foreign.columns import BUILT, COLUMNS, Ready
from tests.foreign.features import BY_ID, asked_of
from tests.foreign.runs import House, ask


def record(told: dict[str, Any], whole: bool) -> None:
    """After each client, so that a run that is cut short keeps what it has heard."""
    BUILT.mkdir(parents=True, exist_ok=True)
    (BUILT.parent / "clients.json").write_text(json.dumps(told, indent=1) + "\n")
    if whole:
        results = page.load()
        results.update(told)
        page.save({c.name: results[c.name] for c in COLUMNS if c.name in results})


def main() -> int:
    parser = argparse.ArgumentParser(prog="make clients")
    parser.add_argument(
        "--column", action="append", choices=[c.name for c in COLUMNS], help="this client only; may be given again"
    )
    parser.add_argument(
        "--feature", action="append", choices=list(BY_ID), help="this feature only; nothing is recorded"
    )
    parser.add_argument("--keep", type=Path, help="a folder for the cluster's files and the programs' logs")
    arguments = parser.parse_args()
    columns = [c for c in COLUMNS if not arguments.column or c.name in arguments.column]
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    ready: dict[str, Ready] = {}
    told: dict[str, Any] = {}
    for column in columns:
        try:
            ready[column.name] = column.prepare()
        except Absent as e:
            told[column.name] = {"absent": " ".join(str(e).split()), "date": today}
            print(f"{column.name}: absent: {e}", flush=True)
    with tempfile.TemporaryDirectory(prefix="weir-clients-") as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with House(folder) as house:
            for column in columns:
                if column.name not in ready:
                    continue
                features = [f for f in asked_of(column.spark) if not arguments.feature or f.id in arguments.feature]
                program = ready[column.name]
                print(f"{column.name} {program.version}", flush=True)
                answers = ask(
                    house, column.name, program.command, program.environment, features, lambda *w: print(*w, flush=True)
                )
                told[column.name] = {
                    "version": program.version,
                    "date": today,
                    "answers": {f.id: answers[f.id] for f in features},
                }
                record(told, not arguments.feature)
    record(told, not arguments.feature)
    return 0


if __name__ == "__main__":
    sys.exit(main())
