"""`make cli`: every call of `calls`, one after the other, on three brokers with an authoriser; docs/tools.md is written of what came out.

Laws: nothing is told that was not run; a call that does not do what `calls` says is shown with what it printed, and the exit code says so.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.peer import fetch
from controlplane.house import zookeeper
from tests.cli.calls import CALLS, DELETE_JSON, HOUSE_CALLS, HOUSE_FILES, MAINS, Call
from tests.cluster.house import House
from tests.cluster.local import ROOT, LocalCluster

VERSION = "3.9.2"
PAGE = ROOT / "docs" / "tools.md"
SECONDS_MAX = 90
JVM = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
HEAD = f"""\
# Kafka's command line tools

Written by `make cli ARGS=--write`: the tools of Apache Kafka {VERSION}'s distribution, out of its jars, against three brokers with an authoriser, and from `topic moved` on against a house with a database. Each call is judged by what it prints
(`tests/cli/calls.py`). "refused" is what is meant to be: the reason stands in [apis.md](apis.md) or [settings.md](settings.md).

| tool | call | outcome |
|---|---|---|
"""


def run(call: Call, jars: Path, bootstrap: str, folder: Path) -> tuple[str, str]:
    """(the outcome in a word, everything that was printed)."""
    arguments = [a.replace("{b}", bootstrap).replace("{dir}", str(folder)) for a in shlex.split(call.arguments)]
    command = [
        zookeeper.find_java(),
        *JVM,
        f"-Dlog4j.configuration=file:{folder / 'log4j.properties'}",
        "-cp",
        f"{jars}/*",
    ]
    try:
        done = subprocess.run(
            [*command, MAINS[call.tool], *arguments], input=call.stdin, capture_output=True, text=True,
            timeout=SECONDS_MAX, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as e:
        return "did not end", str(e.stdout) + str(e.stderr)
    text = done.stdout + done.stderr
    if call.refuses:
        return ("refused" if re.search(call.refuses, text) else "was not refused as it should be"), text
    if done.returncode:
        return f"failed ({done.returncode})", text
    return ("works" if re.search(call.says.replace("{{", "{"), text) else "says something else"), text


def _judged(call: Call, jars: Path, bootstrap: str, folder: Path) -> str:
    """Run it, say what came out, and give its row of the page."""
    began = time.monotonic()
    outcome, text = run(call, jars, bootstrap, folder)
    while outcome not in ("works", "refused") and time.monotonic() - began < call.within_s:
        outcome, text = run(call, jars, bootstrap, folder)
    shown = re.sub(r"\{+(\w+)\}+", r"<\1>", call.arguments.replace("--bootstrap-server {b}", "").strip())
    print(f"{outcome:<12} {call.tool} {shown} ({time.monotonic() - began:.1f} s)", flush=True)
    if outcome not in ("works", "refused"):
        print("    " + "\n    ".join(text.strip().splitlines()[-12:]), flush=True)
    return f"| {call.tool} | `{shown or '(none)'}` | {outcome} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make cli")
    parser.add_argument("--write", action="store_true", help="write docs/tools.md")
    parser.add_argument("--only", help="tools whose name has this in it; reassign: those that want a whole house")
    options = parser.parse_args()
    try:
        jars = fetch.jars(VERSION, "kafka-tools")
    except fetch.Absent as e:
        print(f"Kafka's tools cannot be had: {e}", file=sys.stderr)
        return 2
    rows: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "delete.json").write_text(DELETE_JSON)
        (folder / "empty.properties").write_text("")
        (folder / "log4j.properties").write_text(
            "log4j.rootLogger=ERROR, e\nlog4j.appender.e=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.e.Target=System.err\nlog4j.appender.e.layout=org.apache.log4j.SimpleLayout\n"
        )
        if options.only != "reassign":
            with LocalCluster(folder / "cluster", settings=SETTINGS) as cluster:
                for call in CALLS:
                    if not options.only or options.only in call.tool:
                        rows.append(_judged(call, jars, cluster.bootstrap, folder))
        if not options.only or options.only == "reassign":
            for file, text in HOUSE_FILES.items():
                (folder / file).write_text(text)
            house = House(folder / "house")
            try:
                rows += [_judged(call, jars, house.bootstrap, folder) for call in HOUSE_CALLS]
                moves = [f"{m['state']} by {m['who']}, {m['parts']} partitions" for m in house.get("moves")["rows"]]
                print(f"moves that the house knows of: {moves}")
            finally:
                house.down()
    bad = sum(not row.endswith(("| works |", "| refused |")) for row in rows)
    if options.write and not options.only:
        PAGE.write_text(HEAD + "\n".join(rows) + "\n")
    print(f"{len(rows)} calls, {bad} of them not as they should be")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
