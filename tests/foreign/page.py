"""Generates docs/clients.md from tests/foreign/results.json and notes.md. Invariant: the page contains nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.foreign.features import FEATURES, Feature, asked_of

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
NOTES = HERE / "notes.md"
PAGE = HERE.parents[1] / "docs" / "clients.md"

HEAD = """\
# Client compatibility

`make clients` tests third-party Kafka clients with Weir on three brokers. Each cell is the result of a program that uses the client like its
users do (tests/foreign) and tests one feature.

- **yes**: it works, and the records that were read back or are on the disks were compared. For compression, idempotence and the killed leader
  the files of the brokers were read as well.
- **no**: it does not work, with the reason below the table.
- **–**: the client does not have this feature.

The brokers ran with an authorizer and `transaction.version=2`. All other settings were defaults. `make clients` generates this page, and a
test compares it with tests/foreign/results.json.
"""

Results = dict[str, Any]
"""Column -> {version, date, answers: feature -> {answer, why, date where it is another}} or {absent, date}."""


def load() -> Results:
    return dict(json.loads(RESULTS.read_text())) if RESULTS.exists() else {}


def save(results: Results) -> None:
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(render(results, NOTES.read_text()))


def merge_results(results: Results, reported: Results) -> Results:
    """`results` with the columns of `reported`; a column with some answers replaces only those, if the client version is the same."""
    out = dict(results)
    for name, column in reported.items():
        old = out.get(name, {})
        asked = [f.id for f in asked_of(name == "spark")]
        answers = column.get("answers", {})
        if "absent" in column or list(answers) == asked:
            out[name] = column
            continue
        if old.get("version") != column["version"]:
            raise ValueError(f"{name} was {old.get('version')}, is {column['version']}: test all features")
        later = {} if column["date"] == old["date"] else {"date": column["date"]}
        every = {**old["answers"], **{f: {**a, **later} for f, a in answers.items()}}
        out[name] = {**old, "answers": {f: every[f] for f in asked if f in every}}
    return out


def _table(results: Results, features: list[Feature]) -> list[str]:
    names = [n for n, c in results.items() if any(f.id in c.get("answers", {}) for f in features)]
    if not names:
        return []
    out = [f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for f in features:
        given = [results[n]["answers"].get(f.id, {"answer": "not tested"})["answer"] for n in names]
        cells = [{"yes": "yes", "no": "**no**", "none": "–"}.get(a, a) for a in given]
        out.append(f"| {f.title} | {' | '.join(cells)} |")
    return [*out, ""]


def render(results: Results, notes: str) -> str:
    out = [HEAD, "| client | version | tested on | yes | no | – |", "|---|---|---|---|---|---|"]
    for name, column in results.items():
        if "absent" in column:
            out.append(f"| {name} | absent: {column['absent']} | {column['date']} | | | |")
            continue
        given = [a["answer"] for a in column["answers"].values()]
        later = sorted({a["date"] for a in column["answers"].values() if "date" in a})
        asked_on = column["date"] + (f", some rows until {later[-1]}" if later else "")
        out.append(
            f"| {name} | {column['version']} | {asked_on} | {given.count('yes')} | {given.count('no')} | {given.count('none')} |"
        )
    out += ["", "## Features", "", *_table(results, [f for f in FEATURES if not f.spark])]
    out += ["## Spark", "", *_table(results, [f for f in FEATURES if f.spark])]
    noes = [
        f"- {name}, {f.title}: {column['answers'].get(f.id, {'why': 'not tested yet'})['why']}"
        for name, column in results.items()
        if "answers" in column
        for f in asked_of(name == "spark")
        if column["answers"].get(f.id, {"answer": "no"})["answer"] == "no"
    ]
    out += ["## Failed tests", "", *(noes or ["Nothing."]), "", notes.strip(), "", "## What a yes means", ""]
    out += ["| feature | yes means |", "|---|---|", *(f"| {f.title} | {f.shown} |" for f in FEATURES), ""]
    return "\n".join(out)
