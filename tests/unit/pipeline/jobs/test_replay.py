"""A replay is fixed at its first start."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.jobs.base import RunContext
from pipeline.jobs.replay import ReplayToTopic
from tests.unit.pipeline.lake.records import archive_of, record, write_and_commit
from weir_common.spark_runs import RunDescription

JOB = ReplayToTopic("t", ["u"], "", "", "", "", True)


def test_the_ends_of_the_first_start_are_kept(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "lake")
    write_and_commit(archive, [record(0)])
    context = RunContext(tmp_path, RunDescription("run-1", "replay", {}, "x:1", str(tmp_path / "lake")))
    first = JOB._replay(context)
    write_and_commit(archive, [record(1)])
    assert JOB._replay(context) == first and first.ends == {0: 1}


def test_a_table_that_does_not_exist_and_two_targets_are_rejected(tmp_path: Path) -> None:
    context = RunContext(tmp_path, RunDescription("run-1", "replay", {}, "x:1", str(tmp_path / "lake")))
    with pytest.raises(ValueError, match="no table t"):
        JOB.run(context)
    with pytest.raises(ValueError, match="one target"):
        ReplayToTopic("t", ["u", "v"], "", "", "", "", True).run(context)
