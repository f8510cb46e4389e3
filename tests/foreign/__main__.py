"""`python -m tests.foreign`: tests third-party clients and writes docs/clients.md and build/clients.json.

A whole run (or `--column` for some clients) replaces those columns of tests/foreign/results.json and writes the page again. `--feature` is for trying and
replaces nothing; with `--record` it replaces those answers alone, of the client's version that answered the others.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.peer.fetch import Absent
from tests.foreign import page
from tests.foreign.columns import BUILT, COLUMNS, StartableProgram
from tests.foreign.features import BY_ID, asked_of
from tests.foreign.runs import Answer, DevCluster, run_features

RECORDING = threading.Lock()


def record(reported: dict[str, Any], kept: bool) -> None:
    """After each client, so that a run that is cut short keeps what it has heard. `kept`: in the page, too."""
    with RECORDING:
        BUILT.mkdir(parents=True, exist_ok=True)
        (BUILT.parent / "clients.json").write_text(json.dumps(reported, indent=1) + "\n")
        if kept:
            results = page.merge_results(page.load(), reported)
            page.save({c.name: results[c.name] for c in COLUMNS if c.name in results})


def end_at_once(devcluster: DevCluster) -> None:
    """Nothing that was started outlives a run that is cut short; the threads that wait for it are not waited for."""
    for process in [*devcluster.programs, *devcluster.processes.values()]:
        process.kill()
    os._exit(1)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make clients")
    parser.add_argument(
        "--column", action="append", choices=[c.name for c in COLUMNS], help="this client only; may be given again"
    )
    parser.add_argument(
        "--feature", action="append", choices=list(BY_ID), help="this feature only; nothing is recorded"
    )
    parser.add_argument("--record", action="store_true", help="with --feature: record these answers beside the others")
    parser.add_argument("--keep", type=Path, help="a folder for the cluster's files and the programs' logs")
    parser.add_argument("--together", type=int, default=4, help="clients asked at the same time")
    arguments = parser.parse_args()
    kept = not arguments.feature or arguments.record
    columns = [c for c in COLUMNS if not arguments.column or c.name in arguments.column]
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    ready: dict[str, StartableProgram] = {}
    reported: dict[str, Any] = {}
    for column in columns:
        try:
            ready[column.name] = column.prepare()
        except Absent as e:
            reported[column.name] = {"absent": " ".join(str(e).split()), "date": today}
            print(f"{column.name}: absent: {e}", flush=True)
    with tempfile.TemporaryDirectory(prefix="weir-clients-") as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with DevCluster(folder) as devcluster:
            signal.signal(signal.SIGTERM, lambda *_: end_at_once(devcluster))
            heard: dict[str, dict[str, Answer]] = {name: {} for name in ready}

            def write_column(name: str, kill: bool) -> None:
                spark = next(c.spark for c in columns if c.name == name)
                asked = [f for f in asked_of(spark) if not arguments.feature or f.id in arguments.feature]
                program = ready[name]
                say = lambda text: print(f"{name:16} {text}", flush=True)  # noqa: E731
                features = [f for f in asked if f.kill == kill]
                if features:
                    heard[name] |= run_features(devcluster, name, program.command, program.environment, features, say)
                if len(heard[name]) == len(asked):
                    answers = {f.id: heard[name][f.id] for f in asked}
                    reported[name] = {"version": program.version, "date": today, "answers": answers}
                    record(dict(reported), kept)

            for name in ready:  # nobody else is asked while a broker is killed
                write_column(name, kill=True)
            with ThreadPoolExecutor(arguments.together) as pool:
                list(pool.map(lambda name: write_column(name, kill=False), ready))
    record(reported, kept)
    return 0


if __name__ == "__main__":
    sys.exit(main())
