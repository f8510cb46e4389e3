"""The sample of a task and the report."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark import SparkContext

from pipeline.jobs import profile
from pipeline.jobs.profile import ProfileTopics, compress_batches, tables
from pipeline.profiling import CODECS, Profile


def test_values_are_compressed_with_each_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "BATCH_BYTES", 100)
    monkeypatch.setattr(profile, "SAMPLE_BYTES_MAX", 500)
    batch = pa.RecordBatch.from_pydict({"value": [b"x" * 60, None] * 10})
    rows = [r for out in compress_batches(iter([batch, batch])) for r in out.to_pylist()]
    assert {r["codec"] for r in rows} == set(CODECS)
    assert all(r["bytes"] == 600 and 0 < r["compressed"] < 600 for r in rows)


def test_the_report_has_a_table_per_question() -> None:
    p = Profile("t", {0: 4, 1: 0}, 400, 100, 0, [("a", 4)], 400, {"zstd": 40})
    found = {t.title: t.rows for t in tables([p])}
    assert found["Topics"] == [("t", 4, 400, 100, 100, 0)]
    assert found["Partitions"] == [("t", 0, 4), ("t", 1, 0)]
    assert [row[1] for row in found["Proposals"]] == ["hot_key", "hot_partition", "compress"]


def test_the_session_is_made_before_columns_which_need_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is a separate process, in which no other code has created a session."""

    class SessionMade(Exception):
        pass

    def spark() -> None:
        raise SessionMade

    cluster = SimpleNamespace(earliest=lambda: {"t": {0: 0}}, latest=lambda: {"t": {0: 9}})
    monkeypatch.setattr(profile, "SourceCluster", lambda settings: cluster)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    context = SimpleNamespace(
        stop_requested=False, spark=spark, kafka_options=lambda: {"kafka.bootstrap.servers": "127.0.0.1:1"}
    )
    with pytest.raises(SessionMade):
        ProfileTopics(["t"], 5).run(context)  # type: ignore[arg-type]
