"""The description of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from controlplane.clients import spark_runs


def test_a_description_names_files_and_contains_no_password(settings: Any) -> None:
    settings.WEIR = replace(
        settings.WEIR,
        kafka_config=Path("/etc/client.properties"),
        lake_catalog="postgresql://u:secret@db/x",
        spark_master="spark://host:7077",
    )
    run = spark_runs.describe(3, "profile", {"topics": ["t"]})
    assert (run.name, run.kafka_config, run.master) == ("run-3", "/etc/client.properties", "spark://host:7077")
    assert "secret" not in run.text()
    assert spark_runs.read_status(3) is None and spark_runs.log_tail(3) == ""
