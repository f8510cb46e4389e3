"""Retention over both tiers."""

from __future__ import annotations

from dataclasses import replace

from brokerd.remote.lineage import Chain
from brokerd.remote.retention import retained_start
from tests.unit.remote.test_lineage import finished_segment

CHAIN = Chain(tuple(replace(finished_segment(i * 10, i * 10 + 10), max_timestamp=i * 100) for i in range(4)))
"""Four segments of 10 bytes, with records from 0, 100, 200 and 300 ms."""


def test_retention_by_time() -> None:
    assert retained_start(CHAIN, 0, -1, -1, 10_000, 0) == 0
    assert retained_start(CHAIN, 0, 1_000, -1, 1_150, 0) == 20
    assert retained_start(CHAIN, 0, 1_000, -1, 10_000, 0) == 40


def test_segments_without_timestamps_have_the_age_of_their_copy() -> None:
    chain = Chain((replace(finished_segment(0, 10), max_timestamp=-1, created_ms=500),))
    assert retained_start(chain, 0, 1_000, -1, 1_400, 0) == 0
    assert retained_start(chain, 0, 1_000, -1, 1_501, 0) == 10


def test_by_size_counts_both_tiers() -> None:
    assert retained_start(CHAIN, 15, -1, 55, 0, 0) == 0
    assert retained_start(CHAIN, 15, -1, 45, 0, 0) == 10
    assert retained_start(CHAIN, 15, -1, 0, 0, 0) == 40
    assert retained_start(CHAIN, 15, -1, 35, 0, 20) == 20, "deleted segments are not counted again"


def test_the_log_start_is_never_lowered() -> None:
    assert retained_start(CHAIN, 0, 1_000, -1, 1_150, 35) == 35
