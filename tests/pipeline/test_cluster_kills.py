"""The check of `make cluster-kills` finds wrong rows."""

from __future__ import annotations

from tests.pipeline.cluster_kills import differences


def test_lost_repeated_and_unknown_records_are_found() -> None:
    assert differences([2, 0, 1], [], 3) == []
    assert differences([0, 0, 2, 7], [], 3) == [
        "record 0 is 2 times in the lake",
        "record 1 is 0 times in the lake",
        "7 is no record of the topic",
    ]


def test_a_dead_letter_counts_as_its_record_and_must_not_fit() -> None:
    assert differences(range(99), [99], 100) == []
    assert differences(range(99), [98, 99], 100) == [
        "record 98 is 2 times in the lake",
        "record 98 is a dead letter, but its value fits",
    ]
