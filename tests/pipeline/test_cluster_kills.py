"""What the check of `make cluster-kills` finds in rows that are wrong."""

from __future__ import annotations

from tests.pipeline.cluster_kills import differences


def test_lost_repeated_and_unknown_records_are_found() -> None:
    assert differences([2, 0, 1], 3) == []
    assert differences([0, 0, 2, 7], 3) == [
        "record 0 is 2 times in the table",
        "record 1 is 0 times in the table",
        "7 is no record of the topic",
    ]
