"""docs/clients.md is what was recorded, and what was recorded answers the questions that are asked. Does not check that it would be answered alike today:
that is `make clients`."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest

from tests.foreign import page
from tests.foreign.columns import COLUMNS, HERE, JAVA_VERSIONS, SPARK_SOURCE
from tests.foreign.features import FEATURES, FIRST_MS, asked_of
from tests.foreign.stage import FIRST_MS as TOLD_PYTHON

RESULTS = page.load()


def test_the_page_is_what_was_recorded() -> None:
    assert page.PAGE.read_text() == page.render(RESULTS, page.NOTES.read_text()), "write it anew: make clients"


@pytest.mark.parametrize("column", COLUMNS, ids=lambda c: c.name)
def test_each_client_was_asked_all_there_is_to_ask_or_the_page_says_what_not(column: Any) -> None:
    told = RESULTS[column.name]
    if "absent" in told:
        assert told["absent"]
        return
    asked = [f for f in asked_of(column.spark) if f.id in told["answers"]]
    assert list(told["answers"]) == [f.id for f in asked]
    for f in (f for f in asked_of(column.spark) if f not in asked):
        assert f"- {column.name}, {f.title}: not asked yet" in page.PAGE.read_text()
    for feature, given in told["answers"].items():
        assert given["answer"] in ("yes", "no", "none"), feature
        assert (given["answer"] == "yes") != bool(given.get("why")), feature


def test_nobody_else_has_a_column() -> None:
    assert list(RESULTS) == [c.name for c in COLUMNS]


def test_what_is_pinned_is_what_was_asked() -> None:
    node = {
        name: json.loads((HERE / name / "package.json").read_text())["dependencies"]
        for name in ("kafkajs", "node_rdkafka")
    }
    go = {name: (HERE / name / "go.mod").read_text() for name in ("franz", "sarama")}
    pinned = {
        **{f"java-{v}": v for v in JAVA_VERSIONS}, "kafkajs": node["kafkajs"]["kafkajs"], "node-rdkafka": node["node_rdkafka"]["node-rdkafka"],
        "franz-go": re.search(r"franz-go (v\S+)", go["franz"])[1], "sarama": re.search(r"sarama (v\S+)", go["sarama"])[1],  # type: ignore[index]
        "spark": SPARK_SOURCE,
    }  # fmt: skip
    for name, version in pinned.items():
        told = RESULTS[name]
        assert "absent" in told or version in told["version"], name


def test_a_no_is_told_with_its_reason_and_counted() -> None:
    given: dict[str, Any] = {f.id: {"answer": "yes"} for f in asked_of(False)}
    given["gzip"] = {"answer": "no", "why": "it was not"}
    given["streams"] = {"answer": "none", "why": "Java only"}
    told = page.render(
        {"some": {"version": "1", "date": "today", "answers": given}, "other": {"absent": "not here", "date": "today"}},
        "",
    )
    assert "- some, gzip: it was not" in told
    assert "| gzip | **no** |" in told
    assert f"| some | 1 | today | {len(given) - 2} | 1 | 1 |" in told
    assert "| other | absent: not here |" in told


def test_each_question_has_a_name_of_its_own() -> None:
    assert len({f.id for f in FEATURES}) == len(FEATURES)
    assert len({(f.title, f.spark) for f in FEATURES}) == len(FEATURES)
    assert FIRST_MS == TOLD_PYTHON


def test_nothing_that_was_fetched_is_committed() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", str(HERE)], cwd=HERE, capture_output=True, text=True, check=True
    ).stdout
    assert not re.search(r"node_modules|\.jar$|\.class$", tracked, flags=re.M)


def test_answers_asked_later_take_the_place_of_their_own_alone() -> None:
    asked = [f.id for f in asked_of(False)]
    old = {"some": {"version": "1", "date": "monday", "answers": {f: {"answer": "no", "why": "so"} for f in asked[1:]}}}
    told = {"some": {"version": "1", "date": "tuesday", "answers": {f: {"answer": "yes"} for f in asked[:2]}}}
    found = page.merged(old, told)["some"]
    assert list(found["answers"]) == asked
    assert [found["answers"][f] for f in asked[:3]] == [{"answer": "yes", "date": "tuesday"}] * 2 + [
        {"answer": "no", "why": "so"}
    ]
    assert "| some | 1 | monday, some rows until tuesday | 2 |" in page.render({"some": found}, "")
    whole = {"some": {"version": "2", "date": "tuesday", "answers": {f: {"answer": "yes"} for f in asked}}}
    assert page.merged(old, whole) == whole
    with pytest.raises(ValueError, match="ask it everything"):
        page.merged(old, {"some": {**told["some"], "version": "2"}})
