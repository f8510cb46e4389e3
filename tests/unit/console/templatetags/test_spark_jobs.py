"""Parameters as text."""

from __future__ import annotations

from console.templatetags.spark_jobs import parameter


def test_values_as_text() -> None:
    assert [parameter(v) for v in (True, False, ["a", "b"], "", 5)] == ["yes", "no", "a, b", "–", "5"]
