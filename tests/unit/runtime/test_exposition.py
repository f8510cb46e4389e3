"""Prometheus' text format, read back by Prometheus' own parser."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from brokerd.runtime.exposition import MetricFamily, MetricType, lines


def test_the_parser_reads_what_was_written() -> None:
    strange = 'a"b\\c\nd'
    histogram = [("_bucket", (("le", "+Inf"),), 3.0), ("_sum", (), 1.5), ("_count", (), 3.0)]
    families = [
        MetricFamily("bytes_total", MetricType.COUNTER, "Bytes.", [("", (("topic", strange),), 1e18), ("", (), 0.0)]),
        MetricFamily("empty", MetricType.GAUGE, "Nothing.", []),
        MetricFamily("time_seconds", MetricType.HISTOGRAM, "Time.", histogram),
    ]
    found = {f.name: f for f in text_string_to_metric_families("".join(lines(families)))}
    assert sorted(found) == ["bytes", "time_seconds"], "a family without samples is left out"
    assert [(s.labels, s.value) for s in found["bytes"].samples] == [({"topic": strange}, 1e18), ({}, 0.0)]
    assert found["time_seconds"].type == "histogram" and found["time_seconds"].documentation == "Time."
