"""The description of a run in its file."""

from __future__ import annotations

from weir_common.spark_runs import RunDescription


def test_a_description_is_read_as_it_was_written() -> None:
    run = RunDescription("run-1", "archive", {"topics": ["a"]}, "127.0.0.1:9092", "/lake", kafka_config="/c")
    assert RunDescription.parse(run.text()) == run
