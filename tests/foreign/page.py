"""docs/clients.md out of tests/foreign/results.json and each client's notes. Law: the page holds nothing that is not in the two. Called by `__main__` and by
the test that compares them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.foreign.features import FEATURES, Feature

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
NOTES = HERE / "notes.md"
PAGE = HERE.parents[1] / "docs" / "clients.md"

HEAD = """\
# Clients

What clients nobody here wrote do with Weir, as `make clients` measured it on three brokers: each cell is a program that uses the client as its users do
(tests/foreign), asked one thing. **yes**: it was done, and what came back or lies on the disks was compared; for compressions, idempotence and the killed leader the brokers'
files are read as well. **no**: it was not, with the reason below the table. **–**: the client itself has no such thing. The brokers ran with an authoriser and
`transaction.version=2`; all else were defaults. This page is written by that verb; a test holds it to tests/foreign/results.json.
"""

Results = dict[str, Any]
"""Column -> {version, date, answers: feature -> {answer, why}} or {absent, date}."""


def load() -> Results:
    return dict(json.loads(RESULTS.read_text())) if RESULTS.exists() else {}


def save(results: Results) -> None:
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(render(results, NOTES.read_text()))


def _table(results: Results, features: list[Feature]) -> list[str]:
    names = [n for n, c in results.items() if any(f.id in c.get("answers", {}) for f in features)]
    if not names:
        return []
    out = [f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for f in features:
        cells = [{"yes": "yes", "no": "**no**", "none": "–"}[results[n]["answers"][f.id]["answer"]] for n in names]
        out.append(f"| {f.title} | {' | '.join(cells)} |")
    return [*out, ""]


def render(results: Results, notes: str) -> str:
    out = [HEAD, "| client | version | asked on | yes | no | – |", "|---|---|---|---|---|---|"]
    for name, column in results.items():
        if "absent" in column:
            out.append(f"| {name} | absent: {column['absent']} | {column['date']} | | | |")
            continue
        given = [a["answer"] for a in column["answers"].values()]
        out.append(
            f"| {name} | {column['version']} | {column['date']} | {given.count('yes')} | {given.count('no')} | {given.count('none')} |"
        )
    out += ["", "## Features", "", *_table(results, [f for f in FEATURES if not f.spark])]
    out += ["## Spark", "", *_table(results, [f for f in FEATURES if f.spark])]
    noes = [
        f"- {name}, {f.title}: {column['answers'][f.id]['why']}"
        for name, column in results.items() for f in FEATURES
        if column.get("answers", {}).get(f.id, {}).get("answer") == "no"
    ]  # fmt: skip
    out += ["## What was not done", "", *(noes or ["Nothing."]), "", notes.strip(), "", "## What a yes has shown", ""]
    out += ["| feature | a yes means |", "|---|---|", *(f"| {f.title} | {f.shown} |" for f in FEATURES), ""]
    return "\n".join(out)
