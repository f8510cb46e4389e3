"""Every ratio has the same meaning: above one, Weir is ahead. Missing values are reported as missing, not estimated."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from bench.client import percentile
from bench.peer import fetch, report
from bench.peer.report import Row
from bench.peer.runs import Spent

CONDITIONS = {"commit": "abc", "date": "today", "absent": "nothing"}


def row(**values: list[float]) -> Row:
    return Row("backlog", "RF 1", "rate", "MB/s", True, {k.replace("_", "-"): v for k, v in values.items()})


def test_a_higher_rate_and_a_shorter_time_are_better() -> None:
    assert row(weir=[20.0, 30.0], kafka=[10.0, 60.0]).advantage("kafka") == [2.0, 0.5]
    seconds = Row("start", "", "until", "s", False, {"weir": [2.0], "kafka": [10.0]})
    assert seconds.advantage("kafka") == [5.0]


def test_values_below_the_clock_resolution_have_no_ratio() -> None:
    assert row(weir=[0.0, 4.0], kafka=[1.0, 2.0]).advantage("kafka") == [2.0]


def test_the_table_has_median_and_spread_and_marks_slower_results_in_bold() -> None:
    rows = [row(weir=[1.0, 2.0, 9.0], kafka=[4.0, 4.0, 3.0])]
    assert "**0.5 (0.25 to 3)**" in report.as_markdown(CONDITIONS, rows)
    assert json.loads(report.as_json(CONDITIONS, rows))["rows"][0]["advantage"]["kafka"] == {
        "median": 0.5,
        "min": 0.25,
        "max": 3.0,
    }


def test_without_a_peer_the_table_has_no_column_and_the_page_no_dot() -> None:
    rows = [row(weir=[1.0])]
    text = report.as_markdown({**CONDITIONS, "absent": "Kafka (kraft): Maven (mvn) is not installed"}, rows)
    assert "Maven (mvn) is not installed" in text
    assert "| workload | terms | metric | weir | note |" in text
    assert "<circle" not in report.as_page(CONDITIONS, rows)
    assert "<circle" in report.as_page(CONDITIONS, [row(weir=[1.0], kafka=[2.0])])


def test_a_failed_maven_download_is_reported_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "CACHE", tmp_path)
    monkeypatch.setattr(fetch.shutil, "which", lambda name: None)
    with pytest.raises(fetch.Absent, match="not installed"):
        fetch.jars("4.3.1")
    monkeypatch.setattr(fetch.shutil, "which", lambda name: "/usr/bin/mvn")
    response = subprocess.CompletedProcess([], 1, "[ERROR] Unknown host repo.maven.apache.org\n[ERROR] \n", "")
    monkeypatch.setattr(fetch.subprocess, "run", lambda *a, **k: response)
    with pytest.raises(fetch.Absent, match="Unknown host"):
        fetch.jars("4.3.1")
    assert not (tmp_path / "kafka-4.3.1" / "complete").exists()


def test_an_artifact_may_have_a_classifier() -> None:
    core = "<groupId>a</groupId><artifactId>b</artifactId><version>1</version>"
    assert fetch.dependency("a:b:1", alone=False).strip() == f"<dependency>{core}</dependency>"
    assert f"{core}<classifier>tests</classifier><exclusions>" in fetch.dependency("a:b:1:tests", alone=True)


def test_percentiles_are_measured_values() -> None:
    ordered = [float(i) for i in range(1, 1001)]
    assert [percentile(ordered, p) for p in (50, 99, 99.9)] == [500.0, 990.0, 999.0]
    assert percentile([7.0], 99.9) == 7.0


def test_a_rate_is_the_clients_only_when_the_brokers_had_time_left() -> None:
    assert Spent(10, 9, 9, 3, 15).client_bound
    assert not Spent(10, 9, 9, 8, 18).client_bound
    assert not Spent(10, 4, 5, 3, 15).client_bound
