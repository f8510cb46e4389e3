"""The end of a run: phase, error, exit code. Every kind of job has a class with its parameters."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from pipeline.jobs import run as module
from pipeline.jobs.base import Job, RunContext
from pipeline.jobs.run import JOBS, run
from pipeline.tables import Contradiction
from weir_common.spark_jobs import KINDS
from weir_common.spark_runs import Exit, RunDescription


def test_each_kind_is_a_class_with_its_parameters() -> None:
    assert set(JOBS) == set(KINDS)
    for name, job in JOBS.items():
        assert is_dataclass(job) and job.name == name
        assert {f.name for f in fields(job)} == {p.name for p in KINDS[name].parameters}


@pytest.mark.parametrize(
    ("error", "code", "is_final"),
    [
        (None, Exit.OK, None),
        (RuntimeError("away"), Exit.FAILED, False),
        (Contradiction("gap"), Exit.REJECTED, True),
        (ValueError("no table"), Exit.REJECTED, True),
    ],
)
def test_the_end_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | None, code: int, is_final: bool | None
) -> None:
    class Fake(Job):
        name: ClassVar[str] = "reconcile"

        def __init__(self, topics: list[str]) -> None:
            assert topics == ["t"]

        def run(self, context: RunContext) -> None:
            if error is not None:
                raise error

    monkeypatch.setitem(module.JOBS, "reconcile", Fake)
    context = RunContext(tmp_path, RunDescription("r", "reconcile", {"topics": ["t"]}, "x:1", str(tmp_path)))
    assert run(context) == code
    assert context.status.get("is_final") == is_final
    assert context.status["phase"] == ("ended" if error is None else "failed")
