from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.lag import HISTORY_MAX, WINDOW_LEAST_MS, WINDOW_MS, Ends, Place, Sample, lag_records, worst


def place(*samples: tuple[int, int, int], start: int | None = 0) -> Place:
    p = Place()
    for at_s, committed, end in samples:
        p.add(Sample(at_s * 1000, committed, end), start)
    return p


def test_unknown_is_not_zero() -> None:
    assert lag_records(None, 10) is None
    assert lag_records(10, None) is None
    assert lag_records(-1, 10) is None
    assert lag_records(12, 10) == 0
    assert lag_records(4, 10) == 6


def test_a_consumer_that_keeps_up_is_ok() -> None:
    assert place((0, 10, 10), (15, 20, 22), (29, 30, 31)).verdict(True, 29_000) == "OK"


def test_a_consumer_that_commits_while_its_lag_grows_is_warned_of() -> None:
    assert place((0, 10, 20), (10, 15, 40), (20, 20, 60)).verdict(True, 20_000) == "WARN"


def test_a_consumer_whose_commits_stand_still_stalls() -> None:
    assert place((0, 10, 20), (10, 10, 20), (20, 10, 60)).verdict(True, 20_000) == "STALL"


def test_a_group_without_members_has_stopped_only_if_something_is_left() -> None:
    assert place((0, 10, 20)).verdict(False, 0) == "STOP"
    assert place((0, 20, 20)).verdict(False, 0) == "IDLE"


def test_little_history_accuses_nobody() -> None:
    assert place((0, 10, 20), (WINDOW_LEAST_MS // 1000 - 1, 10, 60)).verdict(True, 9_000) == "OK"


def test_a_rewind_is_shown_for_a_window() -> None:
    p = place((0, 50, 60), (1, 5, 60))
    assert p.verdict(True, 2_000) == "REWIND"
    assert p.verdict(True, 1_000 + WINDOW_MS) != "REWIND"


def test_a_group_that_retention_overtook_is_the_gravest() -> None:
    assert place((0, 5, 100), start=20).verdict(True, 0) == "OVERTAKEN"
    assert worst(["OK", "OVERTAKEN", "STALL"]) == "OVERTAKEN"
    assert worst(["IDLE", "OK"]) == "OK"
    assert worst([]) == "UNKNOWN"


def test_lag_in_time_grows_while_the_consumer_stands_even_when_nothing_is_written() -> None:
    ends = Ends()
    for at, end in [(0, 100), (1_000, 200), (2_000, 200), (60_000, 200)]:
        ends.add(at, end)
    assert ends.behind_ms(200, 61_000) == 0
    assert ends.behind_ms(150, 61_000) == 61_000
    assert ends.behind_ms(50, 61_000) == 61_000


def test_lag_in_time_of_a_partition_never_seen_is_unknown() -> None:
    assert Ends().behind_ms(5, 0) is None


def test_history_is_bounded_and_keeps_old_sights_sparsely() -> None:
    ends = Ends()
    for i in range(10 * HISTORY_MAX):
        ends.add(i * 1000, i)
    assert len(ends.samples) <= HISTORY_MAX
    assert ends.samples[0][0] == 0


def test_a_recreated_topic_forgets_what_was_seen() -> None:
    ends = Ends()
    ends.add(0, 1000)
    ends.add(1000, 5)
    assert ends.behind_ms(0, 2000) == 1000


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60))
def test_lag_in_time_never_shrinks_while_the_group_stands(growth: list[int]) -> None:
    ends, end, before = Ends(), 10, 0
    for i, more in enumerate(growth):
        end += more
        ends.add(i * 1000, end)
        now = ends.behind_ms(10, i * 1000)
        assert now is not None
        assert now >= before
        before = now


@pytest.mark.parametrize("verdict", ["OK", "IDLE", "WARN", "STALL", "STOP", "REWIND", "OVERTAKEN", "UNKNOWN"])
def test_every_verdict_has_its_place_in_the_order_of_gravity(verdict: str) -> None:
    assert worst([verdict]) == verdict
