"""The sample of a task and the report."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pipeline.jobs import profile
from pipeline.jobs.profile import compress_batches, tables
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
