"""Conditions, as text of Iceberg."""

from __future__ import annotations

from pipeline.lake.conditions import at_least, below, equal, every


def test_conditions_together() -> None:
    assert str(every()) == "AlwaysTrue()"
    found = str(every(equal("partition", 1), at_least("offset", 5), below("offset", 9)))
    assert all(part in found for part in ("EqualTo", "GreaterThanOrEqual", "LessThan"))
