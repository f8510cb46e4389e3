"""docs/clients.md shows the recorded results, and every feature has a result. Does not run the clients: `make clients` does."""

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


def test_the_page_matches_the_recorded_results() -> None:
    assert page.PAGE.read_text() == page.render(RESULTS, page.NOTES.read_text()), "generate it again: make clients"


@pytest.mark.parametrize("column", COLUMNS, ids=lambda c: c.name)
def test_each_client_has_a_result_for_each_question_or_is_listed_as_missing(column: Any) -> None:
    reported = RESULTS[column.name]
    if "absent" in reported:
        assert reported["absent"]
        return
    requested = [f for f in asked_of(column.spark) if f.id in reported["answers"]]
    assert list(reported["answers"]) == [f.id for f in requested]
    for f in (f for f in asked_of(column.spark) if f not in requested):
        assert f"- {column.name}, {f.title}: not tested yet" in page.PAGE.read_text()
    for feature, given in reported["answers"].items():
        assert given["answer"] in ("yes", "no", "none"), feature
        assert (given["answer"] == "yes") != bool(given.get("why")), feature


def test_only_recorded_clients_have_a_column() -> None:
    assert list(RESULTS) == [c.name for c in COLUMNS]


def test_the_pinned_versions_are_the_tested_ones() -> None:
    node = {
        name: json.loads((HERE / name / "package.json").read_text())["dependencies"]
        for name in ("kafkajs", "node_rdkafka")
    }
    go = {name: (HERE / name / "go.mod").read_text() for name in ("franz", "sarama")}
    pinned = {
        **{f"java-{v}": v for v in JAVA_VERSIONS},
        "kafkajs": node["kafkajs"]["kafkajs"],
        "node-rdkafka": node["node_rdkafka"]["node-rdkafka"],
        "franz-go": re.search(r"franz-go (v\S+)", go["franz"])[1],
        "sarama": re.search(r"sarama (v\S+)", go["sarama"])[1],  # type: ignore[index]
        "spark": SPARK_SOURCE,
    }
    for name, version in pinned.items():
        reported = RESULTS[name]
        assert "absent" in reported or version in reported["version"], name


def test_a_failed_question_has_its_reason_and_is_counted() -> None:
    given: dict[str, Any] = {f.id: {"answer": "yes"} for f in asked_of(False)}
    given["gzip"] = {"answer": "no", "why": "it was not"}
    given["streams"] = {"answer": "none", "why": "Java only"}
    reported = page.render(
        {"some": {"version": "1", "date": "today", "answers": given}, "other": {"absent": "not here", "date": "today"}},
        "",
    )
    assert "- some, gzip: it was not" in reported
    assert "| gzip | **no** |" in reported
    assert f"| some | 1 | today | {len(given) - 2} | 1 | 1 |" in reported
    assert "| other | absent: not here |" in reported


def test_each_question_has_a_unique_name() -> None:
    assert len({f.id for f in FEATURES}) == len(FEATURES)
    assert len({(f.title, f.spark) for f in FEATURES}) == len(FEATURES)
    assert FIRST_MS == TOLD_PYTHON


def test_no_downloaded_file_is_committed() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", str(HERE)], cwd=HERE, capture_output=True, text=True, check=True
    ).stdout
    assert not re.search(r"node_modules|\.jar$|\.class$", tracked, flags=re.M)


def test_a_later_run_replaces_only_its_own_results() -> None:
    requested = [f.id for f in asked_of(False)]
    old = {
        "some": {"version": "1", "date": "monday", "answers": {f: {"answer": "no", "why": "so"} for f in requested[1:]}}
    }
    reported = {"some": {"version": "1", "date": "tuesday", "answers": {f: {"answer": "yes"} for f in requested[:2]}}}
    found = page.merge_results(old, reported)["some"]
    assert list(found["answers"]) == requested
    assert [found["answers"][f] for f in requested[:3]] == [{"answer": "yes", "date": "tuesday"}] * 2 + [
        {"answer": "no", "why": "so"}
    ]
    assert "| some | 1 | monday, some rows until tuesday | 2 |" in page.render({"some": found}, "")
    whole = {"some": {"version": "2", "date": "tuesday", "answers": {f: {"answer": "yes"} for f in requested}}}
    assert page.merge_results(old, whole) == whole
    with pytest.raises(ValueError, match="test all features"):
        page.merge_results(old, {"some": {**reported["some"], "version": "2"}})
