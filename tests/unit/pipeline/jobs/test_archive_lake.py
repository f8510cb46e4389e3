"""Where an archive begins."""

from __future__ import annotations

from pipeline.jobs.archive_lake import start_of


def test_partitions_without_a_position_begin_at_their_earliest_offset() -> None:
    earliest = {"t": {"0": 5, "1": 7}, "u": {"0": 0}}
    assert start_of({"t": {"1": 90}}, earliest) == {"t": {"0": 5, "1": 90}, "u": {"0": 0}}


def test_a_position_of_a_partition_that_no_longer_exists_is_not_read() -> None:
    assert start_of({"t": {"9": 3}}, {"t": {"0": 1}}) == {"t": {"0": 1}}
