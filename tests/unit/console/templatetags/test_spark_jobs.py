"""Parameters as text."""

from __future__ import annotations

from console.templatetags.spark_jobs import parameter, report_cells, report_heads
from controlplane.selectors.spark_jobs import ReportTableRow


def test_values_as_text() -> None:
    assert [parameter(v) for v in (True, False, ["a", "b"], "", 5)] == ["yes", "no", "a, b", "–", "5"]


def test_numbers_of_a_report_are_numbers_and_long_texts_are_not_cut() -> None:
    reason = "gzip reduces batches to 12% of their bytes. Set compression.type=gzip in producers."
    table = ReportTableRow(
        "Topics", ["topic", "bytes", "share", "reason"], [["a", None, True, reason], ["b", 1234567, False, ""]], 2
    )
    assert report_heads(table) == [("topic", ""), ("bytes", "num"), ("share", ""), ("reason", "wide")]
    assert report_cells(table.rows[0]) == [("a", ""), ("–", ""), (True, ""), (reason, "wide")]
    assert report_cells(table.rows[1])[1] == ("1,234,567", "num")
