from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.log_ends import HISTORY_MAX, STORED_MAX, LogEndHistory, RecordAge


def log_end_history(*seen: tuple[int, int]) -> LogEndHistory:
    out = LogEndHistory()
    for at, end in seen:
        out.add(at, end)
    return out


def test_time_lag_of_a_stopped_consumer_grows_without_new_records() -> None:
    seen = log_end_history((0, 100), (1_000, 200), (2_000, 200), (60_000, 200))
    assert seen.age(200, 61_000) == RecordAge(0)
    assert seen.age(150, 61_000) == RecordAge(60_500)
    assert seen.age(100, 61_000) == RecordAge(61_000)


def test_time_lag_beyond_the_first_observation_is_a_lower_bound() -> None:
    assert log_end_history((0, 100), (1_000, 200)).age(50, 42_000) == RecordAge(42_000, at_least=True)
    assert LogEndHistory().age(5, 0) is None


def test_a_recreated_topic_has_no_earlier_observations() -> None:
    assert log_end_history((0, 1000), (1000, 5)).age(0, 2000) == RecordAge(1000, at_least=True)


def test_history_is_bounded_and_keeps_its_oldest_observation() -> None:
    seen = log_end_history(*((i * 1000, i * 10) for i in range(10 * HISTORY_MAX)))
    assert len(seen.ats) == len(seen.ends) <= HISTORY_MAX
    assert seen.ats[0] == 0
    found = seen.age(5 * HISTORY_MAX * 10, 10 * HISTORY_MAX * 1000)
    assert found is not None and abs(found.ms - 5 * HISTORY_MAX * 1000) < 1_000


def test_a_clock_set_back_adds_no_observation() -> None:
    assert log_end_history((5_000, 10), (4_000, 20)).ats == [5_000]


def test_a_restart_changes_no_lag_by_more_than_two_seconds() -> None:
    """20 minutes behind at a changing speed; the process is down for 40 s. With history in memory only, 1,200 s became 40 s."""
    total, seen = 0, LogEndHistory()
    produced = {}
    for s in range(2400):
        total += 1500 + 1000 * (s // 300 % 2)
        produced[s] = total
        seen.add(s * 1000, total)
    committed = produced[1200]
    kept = seen.to_stored(committed)
    assert len(kept) <= STORED_MAX
    again = LogEndHistory.from_stored(kept)
    before = seen.age(committed, 2_400_000)
    again.add(2_440_000, total + 40 * 2500)
    after = again.age(committed, 2_440_000)
    assert before is not None and after is not None and not after.at_least
    assert abs(after.ms - before.ms - 40_000) <= 2_000


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60))
def test_time_lag_of_a_stopped_group_never_decreases(growth: list[int]) -> None:
    seen, end, before = LogEndHistory(), 10, 0
    for i, more in enumerate(growth):
        end += more
        seen.add(i * 1000, end)
        now = seen.age(10, i * 1000)
        assert now is not None
        assert now.ms >= before
        before = now.ms


def test_the_rate_is_averaged_over_the_window() -> None:
    seen = log_end_history(*((s * 1000, 100 * s if s < 60 else 6000 + 10 * (s - 60)) for s in range(121)))
    assert seen.rate(120_000, 30_000) == 10.0
    assert log_end_history((0, 5)).rate(0, 30_000) is None


def test_a_rate_begins_after_a_gap() -> None:
    """After half an hour without a cluster its first rates were averaged over it."""
    seen = log_end_history(*((s * 1000, 100 * s) for s in range(61)), (1_860_000, 6000))
    assert seen.rate(1_860_000, 180_000) is None
    for s in range(1, 21):
        seen.add(1_860_000 + s * 1000, 6000)
    assert seen.rate(1_880_000, 180_000) == 0
    for s in range(1, 21):
        seen.add(1_880_000 + s * 1000, 6000 + 100 * s)
    assert seen.rate(1_900_000, 180_000) == 50.0
    assert seen.age(3000, 1_900_000) is not None, "ages are interpolated over it"


def test_stored_observations_are_thinned_and_have_no_gap() -> None:
    stored = LogEndHistory.from_stored([[0, 0], [600_000, 6000]])
    assert stored.rate(600_000, 180_000) == 10.0
