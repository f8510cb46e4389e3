"""docs/clients.md out of tests/foreign/results.json and each client's notes. Law: the page holds nothing that is not in the two. Called by `__main__` and by
the test that compares them."""

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
# Clients

What clients nobody here wrote do with Weir, as `make clients` measured it on three brokers: each cell is a program that uses the client as its users do
(tests/foreign), asked one thing. **yes**: it was done, and what came back or lies on the disks was compared; for compressions, idempotence and the killed leader the brokers'
files are read as well. **no**: it was not, with the reason below the table. **–**: the client itself has no such thing. The brokers ran with an authoriser and
`transaction.version=2`; all else were defaults. This page is written by that verb; a test holds it to tests/foreign/results.json.
"""

Results = dict[str, Any]
"""Column -> {version, date, answers: feature -> {answer, why, date where it is another}} or {absent, date}."""


def load() -> Results:
    return dict(json.loads(RESULTS.read_text())) if RESULTS.exists() else {}


def save(results: Results) -> None:
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(render(results, NOTES.read_text()))


def merged(results: Results, told: Results) -> Results:
    """`results` with the columns of `told`; one that holds some answers only takes the place of those, if the client's version is the same."""
    out = dict(results)
    for name, column in told.items():
        old = out.get(name, {})
        asked = [f.id for f in asked_of(name == "spark")]
        answers = column.get("answers", {})
        if "absent" in column or list(answers) == asked:
            out[name] = column
            continue
        if old.get("version") != column["version"]:
            raise ValueError(f"{name} was {old.get('version')}, is {column['version']}: ask it everything")
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
        given = [results[n]["answers"].get(f.id, {"answer": "not asked"})["answer"] for n in names]
        cells = [{"yes": "yes", "no": "**no**", "none": "–"}.get(a, a) for a in given]
        out.append(f"| {f.title} | {' | '.join(cells)} |")
    return [*out, ""]


def render(results: Results, notes: str) -> str:
    out = [HEAD, "| client | version | asked on | yes | no | – |", "|---|---|---|---|---|---|"]
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
        f"- {name}, {f.title}: {column['answers'].get(f.id, {'why': 'not asked yet'})['why']}"
        for name, column in results.items() if "answers" in column for f in asked_of(name == "spark")
        if column["answers"].get(f.id, {"answer": "no"})["answer"] == "no"
    ]  # fmt: skip
    out += ["## What was not done", "", *(noes or ["Nothing."]), "", notes.strip(), "", "## What a yes has shown", ""]
    out += ["| feature | a yes means |", "|---|---|", *(f"| {f.title} | {f.shown} |" for f in FEATURES), ""]
    return "\n".join(out)
