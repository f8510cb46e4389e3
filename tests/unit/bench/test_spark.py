"""Values of Spark: commits of a table, CPU of processes, ratios of two sides."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from bench.spark import TOPIC, Measurement, commits, cpu_s, report
from tests.unit.pipeline.lake.records import archive_of, record, write_and_commit


def test_commits_have_a_time_and_their_rows(tmp_path: Path) -> None:
    assert commits(tmp_path / "lake") == []
    archive = archive_of(tmp_path / "lake", topics=[TOPIC])
    assert commits(tmp_path / "lake") == []
    write_and_commit(archive, [record(n, topic=TOPIC) for n in range(3)])
    write_and_commit(archive, [record(3, topic=TOPIC)])
    (first, three), (second, one) = commits(tmp_path / "lake")
    assert first <= second and (three, one) == (3, 1)


def test_the_cpu_of_processes_that_ended_is_not_counted() -> None:
    me = psutil.Process(os.getpid())
    before = cpu_s([me])
    sum(range(3_000_000))
    assert cpu_s([me]) >= before > 0
    pid = os.fork()
    if not pid:
        os._exit(0)
    child = psutil.Process(pid)
    os.waitpid(pid, 0)
    assert cpu_s([child]) == 0


def test_both_sides_and_their_ratios_of_each_round(capsys: pytest.CaptureFixture[str]) -> None:
    report(
        "Sources", {"weir": [Measurement(10, 5), Measurement(30, 6)], "kafka": [Measurement(20, 5), Measurement(20, 2)]}
    )
    lines = capsys.readouterr().out.splitlines()
    assert "| weir | 20.0 | 10.0, 30.0 | 5.5 | 5.0, 6.0 |" in lines
    assert lines[-2:] == [
        "MB/s, weir : kafka: median 1.00 (0.50, 1.50)",
        "MB per CPU s, weir : kafka: median 2.00 (1.00, 3.00)",
    ]
