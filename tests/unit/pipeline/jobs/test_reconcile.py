"""Which offsets both sides can have."""

from __future__ import annotations

from pipeline.jobs.reconcile import comparable
from pipeline.offsets import Range


def test_offsets_from_retention_to_the_position_of_the_table() -> None:
    found = comparable("t", {"0": 5, "1": 0, "2": 9}, {"0": 50, "1": 7, "2": 20}, {0: 40, 1: 9, 2: 9, 3: 4})
    assert found == [Range("t", 0, 5, 40), Range("t", 1, 0, 7)]
