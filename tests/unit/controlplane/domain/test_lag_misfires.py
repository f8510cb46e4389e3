"""Wrong statuses that other lag monitors are known for, replayed. The numbers are threads of linkedin/Burrow and seglo/kafka-lag-exporter."""

from __future__ import annotations

import pytest

from controlplane.domain.lag import GONE_MS, STALL_UNKNOWN_MS, LagSample, LagStatus, Track, lag_records
from controlplane.domain.log_ends import LogEndHistory
from tests.unit.controlplane.domain.test_lag import bursts, statuses_per_second

HOUR_S = 3600
GOOD = {LagStatus.HEALTHY, LagStatus.IDLE}


@pytest.mark.parametrize("traffic_s", [40, 1650])
@pytest.mark.parametrize("every_s", [5, 60])
def test_burrow_94_123_140_a_consumer_that_has_read_all_is_not_stopped_without_traffic(
    traffic_s: int, every_s: int
) -> None:
    """Records arrive for 40 s, or for half an hour as in issue 140. Then no record arrives for a day, which is longer than any window of commits."""
    end = 9

    def log_end_at(s: int) -> int:
        return min(end, s * end // traffic_s)

    def read(s: int) -> int:
        return end if s >= traffic_s + every_s else bursts(log_end_at, every_s)(s)

    found = statuses_per_second(read, log_end_at, 24 * HOUR_S, step_s=5)
    assert {status for _, status in found} <= GOOD


def test_burrow_171_the_last_of_two_quick_commits_counts() -> None:
    """Two records, each committed immediately. Only the second commit reaches the end: a monitor that drops it reports a lag of one permanently."""
    found = list(
        statuses_per_second(lambda s: 0 if s < 10 else 1 if s < 11 else 2, lambda s: 0 if s < 9 else 2, 4 * HOUR_S)
    )
    assert {status for s, status in found} <= GOOD
    assert lag_records(2, 2) == 0


def test_burrow_287_446_the_lag_grows_while_the_consumer_is_stopped_and_shrinks_when_it_continues() -> None:
    """The lag does not wait for a commit, and neither status nor lag need a restart of the monitor to recover."""
    track, ends = Track(), LogEndHistory()
    lags: dict[int, int | None] = {}
    ages: dict[int, int] = {}
    statuses: dict[int, LagStatus] = {}
    for s in range(0, 3 * HOUR_S, 5):
        now = s * 1000
        read = s if s < 1800 else 1800 if s < 5400 else min(s, 1800 + 8 * (s - 5400))
        ends.add(now, 100 * s)
        track.note_members(True, now)
        track.add(LagSample(now, 100 * read, 100 * s), 0)
        age = ends.age(100 * read, now)
        track.follow_trend(age, now)
        lags[s], statuses[s] = lag_records(100 * read, 100 * s), track.status(now)
        ages[s] = age.ms if age is not None else -1
    standing = range(1800, 5400, 5)
    assert [lags[s] for s in standing] == [100 * (s - 1800) for s in standing]
    assert ages[5395] == pytest.approx(3_595_000, abs=10_000)
    assert statuses[5395] is LagStatus.STALLED
    assert statuses[3 * HOUR_S - 5] in GOOD and lags[3 * HOUR_S - 5] == 0


def test_burrow_290_a_window_without_lag_does_not_hide_a_stopped_consumer() -> None:
    """The consumer has read everything and ends. Then records are written: earlier zeros do not count."""
    track = Track()
    for s in range(0, 2 * HOUR_S, 5):
        track.note_members(s < HOUR_S, s * 1000)
        track.add(LagSample(s * 1000, 500, 500 if s < HOUR_S + 600 else 500 + s), 0)
        if s == HOUR_S + 595:
            assert track.status(s * 1000) is LagStatus.IDLE, "nothing is left to read"
    assert track.status((HOUR_S + 600) * 1000 + GONE_MS) is LagStatus.STOPPED


def test_burrow_a_group_that_had_read_everything_within_the_last_moments_is_not_stopped() -> None:
    """Burrow reports no stop while an observation without lag is in its window. The window here is the threshold of a stopped group."""
    track = Track()
    for s in range(0, HOUR_S, 5):
        track.note_members(False, s * 1000)
        track.add(LagSample(s * 1000, 500, 500), 0)
    track.add(LagSample(HOUR_S * 1000, 500, 501), 0)
    assert track.status(HOUR_S * 1000 + 5_000) is not LagStatus.STOPPED
    assert track.status(HOUR_S * 1000 + GONE_MS) is LagStatus.STOPPED


def test_burrow_290_also_with_a_member_that_only_heartbeats() -> None:
    track = Track()
    for s in range(0, 2 * HOUR_S, 5):
        track.note_members(True, s * 1000)
        track.add(LagSample(s * 1000, 500, 500 if s < HOUR_S else 500 + s), 0)
    assert track.status(HOUR_S * 1000 + STALL_UNKNOWN_MS - 1) is LagStatus.HEALTHY
    assert track.status(HOUR_S * 1000 + STALL_UNKNOWN_MS) is LagStatus.STALLED


def test_burrow_504_a_topic_that_the_group_no_longer_reads_is_no_alert_and_can_be_read_again() -> None:
    track = Track()
    for s in range(0, 2 * HOUR_S, 10):
        track.note_members(True, s * 1000)
        track.add(LagSample(s * 1000, 10 * min(s, 600), 10 * s), 0)
    assert track.status(2 * HOUR_S * 1000, subscribed=False) is LagStatus.NOT_SUBSCRIBED
    again = 2 * HOUR_S * 1000 + 10_000
    track.add(LagSample(again, 20 * HOUR_S, 20 * HOUR_S), 0)
    assert track.status(again, subscribed=True) is LagStatus.HEALTHY


@pytest.mark.parametrize("committed", [None, -1])
def test_lag_exporter_37_a_topic_without_traffic_has_no_lag_and_an_expired_offset_no_huge_one(
    committed: int | None,
) -> None:
    """Retention has deleted all records, and with them the committed offset may expire: unknown, not the end offset."""
    assert lag_records(committed, 1_234_234) is None
    assert lag_records(1_234_234, 1_234_234) == 0
    track = Track()
    for s in range(0, 24 * HOUR_S, 60):
        track.note_members(True, s * 1000)
        track.add(LagSample(s * 1000, 1_234_234, 1_234_234), 1_234_234)
    assert track.status(24 * HOUR_S * 1000) in GOOD and track.lost_records == 0
