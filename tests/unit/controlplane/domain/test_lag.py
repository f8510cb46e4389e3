"""The status of a group in one partition: scenarios over virtual minutes, and the false alarms known from other monitors."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from controlplane.domain.lag import (
    BEHIND_MS,
    GONE_MS,
    LOST_MS,
    REWOUND_MS,
    SEVERITY,
    STALL_ALONE_MS,
    STALL_MS,
    STALL_UNKNOWN_MS,
    Block,
    LagLimits,
    LagSample,
    LagStatus,
    Track,
    lag_records,
    worst_status,
)
from controlplane.domain.lag_json import track_from_json, track_to_json
from controlplane.domain.log_ends import LogEndHistory

LOST = {LagStatus.FALLING_BEHIND}


def statuses_per_second(
    committed: Callable[[int], int],
    end: Callable[[int], int],
    seconds: int,
    *,
    step_s: int = 1,
    members: bool = True,
    track: Track | None = None,
    from_s: int = 0,
) -> Iterator[tuple[int, LagStatus]]:
    """The status of each second."""
    track, ends = track or Track(), LogEndHistory()
    for s in range(from_s, from_s + seconds, step_s):
        now = s * 1000
        ends.add(now, end(s))
        track.note_members(members, now)
        track.add(LagSample(now, committed(s), end(s)), 0)
        age = ends.age(committed(s), now)
        track.follow_trend(age, now)
        yield s, track.status(now)


def bursts(read: Callable[[int], int], every_s: int) -> Callable[[int], int]:
    """A consumer that commits its position every given number of seconds."""
    return lambda s: read(s - s % every_s)


def changes(statuses: list[tuple[int, LagStatus]]) -> int:
    return sum(a[1] != b[1] for a, b in pairwise(statuses))


def test_unknown_is_not_zero() -> None:
    assert lag_records(None, 10) is None
    assert lag_records(10, None) is None
    assert lag_records(-1, 10) is None
    assert lag_records(12, 10) == 0
    assert lag_records(4, 10) == 6


@pytest.mark.parametrize("every_s", [1, 5, 12, 30])
def test_a_consumer_at_60_percent_is_falling_behind_within_minutes_and_never_healthy_again(every_s: int) -> None:
    """With a comparison of single samples, the status changed at each commit, because each commit reduces the lag."""
    found = list(statuses_per_second(bursts(lambda s: 1200 * s, every_s), lambda s: 2000 * s, 40 * 60))
    first = next(s for s, status in found if status is LagStatus.FALLING_BEHIND)
    assert first <= (120 if every_s <= 5 else 240)
    assert {status for s, status in found if s >= first} == LOST
    assert changes(found) == 1


def test_a_consumer_that_drains_one_partition_after_the_other_is_never_stalled() -> None:
    """librdkafka: each of six partitions pauses while the five others are read, and the lag of all grows."""
    period, parts = 60, 6
    share = period // parts

    def committed_at(part: int) -> Callable[[int], int]:
        def offset_at(s: int) -> int:
            whole, within = divmod(s, period)
            return 200 * (whole * period + min(period, max(0, within - part * share) * parts))

        return offset_at

    tracks = [Track() for _ in range(parts)]
    ends = [LogEndHistory() for _ in range(parts)]
    said: list[list[LagStatus]] = [[] for _ in range(parts)]
    for s in range(40 * 60):
        now = s * 1000
        for i in range(parts):
            ends[i].add(now, 333 * s)
            tracks[i].note_members(True, now)
            tracks[i].add(LagSample(now, committed_at(i)(s), 333 * s), 0)
        elsewhere = max((t.moved_ms for t in tracks if t.moved_ms is not None), default=None)
        for i in range(parts):
            age = ends[i].age(committed_at(i)(s), now)
            tracks[i].follow_trend(age, now)
            said[i].append(tracks[i].status(now, elsewhere_ms=elsewhere))
    for one in said:
        assert LagStatus.STALLED not in one
        first = one.index(LagStatus.FALLING_BEHIND)
        assert first < 8 * 60 and set(one[first:]) == LOST


@pytest.mark.parametrize("every_s", [1, 5, 30, 60, 90])
def test_a_healthy_consumer_that_commits_in_bursts_never_alerts(every_s: int) -> None:
    found = list(statuses_per_second(bursts(lambda s: 2000 * s, every_s), lambda s: 2000 * s, 40 * 60))
    assert {status for _, status in found} == {LagStatus.HEALTHY}


@pytest.mark.parametrize("seed", range(20))
def test_batches_of_random_size_are_no_trend(seed: int) -> None:
    """The consumer commits what it had read when the batch started, 20 to 60 s later. A lag of up to a minute is normal."""
    draw = random.Random(seed)
    at, batches = 0, []
    while at < 40 * 60:
        took = draw.randrange(20, 61)
        batches.append((at + took, 2000 * at))
        at += took

    def committed_at(s: int) -> int:
        return max((offset for done, offset in batches if done <= s), default=0)

    noise = [2000 * s + draw.randrange(4000) for s in range(40 * 60)]
    found = {status for _, status in statuses_per_second(committed_at, lambda s: max(noise[: s + 1][-3:]), 40 * 60)}
    assert found == {LagStatus.HEALTHY}


def test_a_consumer_that_is_5_percent_too_slow_is_found_and_one_with_a_constant_delay_is_not() -> None:
    slow = list(statuses_per_second(bursts(lambda s: 950 * s, 5), lambda s: 1000 * s, 40 * 60))
    assert slow[-1][1] is LagStatus.FALLING_BEHIND
    delayed = {
        status for _, status in statuses_per_second(lambda s: 1000 * (s - 45), lambda s: 1000 * s, 40 * 60, from_s=100)
    }
    assert delayed == {LagStatus.HEALTHY}


def test_a_shrinking_lag_is_catching_up_until_it_is_zero() -> None:
    """Ten minutes too slow, then fast: 240 s of lag are read within some minutes."""

    def read(s: int) -> int:
        return 600 * s if s < 600 else min(1000 * s, 360_000 + 2000 * (s - 600))

    found = [status for _, status in statuses_per_second(bursts(read, 5), lambda s: 1000 * s, 40 * 60)]
    order = [a for a, b in zip(found, [None, *found], strict=False) if a is not b]
    assert order == [LagStatus.HEALTHY, LagStatus.FALLING_BEHIND, LagStatus.CATCHING_UP, LagStatus.HEALTHY]
    assert found.index(LagStatus.CATCHING_UP) < 600 + 180


def test_a_consumer_that_stops_committing_is_stalled_after_its_own_rhythm() -> None:
    """Time until the alarm: after 30 s with a commit every 5 s, after three minutes with one every minute, after five minutes without any commit."""

    def stopped_at(stop_s: int, every_s: int) -> int:
        found = statuses_per_second(
            lambda s: bursts(lambda x: 1000 * x, every_s)(min(s, stop_s)), lambda s: 1000 * s, 2400
        )
        return next(s for s, status in found if status is LagStatus.STALLED)

    assert STALL_MS / 1000 <= stopped_at(600, 5) - 600 <= STALL_MS / 1000 + 5
    assert 175 <= stopped_at(600, 60) - 600 <= 185
    assert stopped_at(0, 5) == STALL_UNKNOWN_MS / 1000 + 1


def test_one_long_wait_does_not_make_the_next_stall_late() -> None:
    track = Track()

    def read(s: int) -> int:
        return s if s < 600 or s >= 1200 else 600

    list(statuses_per_second(lambda s: 1000 * read(s), lambda s: 1000 * s, 1300, track=track))
    assert track.stall_limit_ms == STALL_MS


def test_low_traffic_is_no_stall() -> None:
    """One record per hour, read five seconds later."""
    found = {
        status
        for _, status in statuses_per_second(
            lambda s: (s - 5) // 3600, lambda s: s // 3600, 5 * 3600, step_s=5, from_s=3600
        )
    }
    assert found == {LagStatus.HEALTHY}


def test_one_record_that_stays_is_no_stall() -> None:
    """The last offset is a transaction marker, or the client commits one offset too low."""
    found = {status for _, status in statuses_per_second(lambda s: 99, lambda s: 100, 2 * 3600, step_s=5)}
    assert found == {LagStatus.HEALTHY}


def test_a_single_partition_without_commits_becomes_stalled() -> None:
    track = Track()
    for s in range(0, 1800, 5):
        track.note_members(True, s * 1000)
        track.add(LagSample(s * 1000, min(s, 600) * 10, s * 10), 0)
    resting = 600_000
    assert track.status(resting + 60_000, elsewhere_ms=resting + 59_000) is LagStatus.HEALTHY
    assert track.status(resting + STALL_ALONE_MS + 10_000, elsewhere_ms=resting + STALL_ALONE_MS) is LagStatus.STALLED
    assert track.status(resting + 60_000, elsewhere_ms=None) is LagStatus.STALLED


def test_an_unreadable_partition_is_blocked_and_its_stall_time_starts_later() -> None:
    track = Track()
    for s in range(200):
        now = s * 1000
        track.note_members(True, now)
        track.add(LagSample(now, min(s, 100) * 10, min(s, 101) * 10), 0)
        if s > 100:
            track.block(now)
            assert track.status(now, block=Block.NO_LEADER) is LagStatus.BLOCKED
    assert track.status(200_000) is LagStatus.HEALTHY
    track.add(LagSample(200_000 + STALL_MS, 1000, 1010), 0)
    assert track.status(200_000 + STALL_MS) is LagStatus.STALLED


def test_a_group_without_members_has_stopped_only_if_records_are_unread_and_no_client_commits() -> None:
    left, empty, commits = Track(), Track(), Track()
    for s in range(0, 120, 5):
        for track, committed in ((left, 10), (empty, 20), (commits, s)):
            track.note_members(False, s * 1000)
            track.add(LagSample(s * 1000, committed, 20 if track is not commits else 200), 0)
    assert left.status(GONE_MS - 1) is LagStatus.UNKNOWN
    assert left.status(119_000) is LagStatus.STOPPED
    assert empty.status(119_000) is LagStatus.IDLE
    assert commits.status(119_000) is LagStatus.HEALTHY, "a client may commit without being a member"


def test_the_time_until_an_idle_group_counts_as_stopped_begins_with_the_first_unread_record() -> None:
    """One record after an hour without traffic, for a group that had read everything and left: "stopped" came with the next observation."""
    found = dict(statuses_per_second(lambda s: 10, lambda s: 10 if s < 3600 else 11, 3700, members=False))
    assert (found[3599], found[3600]) == (LagStatus.IDLE, LagStatus.HEALTHY)
    stopped = [s for s, status in found.items() if status is LagStatus.STOPPED]
    assert stopped == list(range(3600 + GONE_MS // 1000, 3700))


def test_records_that_are_read_within_the_time_are_no_stop() -> None:
    """A job that is started for each record, 20 s after it, and leaves again."""
    track = Track()
    found = set()
    for s in range(0, 7200, 5):
        now, end = s * 1000, s // 600
        read = end if s % 600 >= 20 else max(0, end - 1)
        track.note_members(s % 600 == 20, now)
        track.add(LagSample(now, read, end), 0)
        found.add(track.status(now))
    assert LagStatus.STOPPED not in found and found <= {LagStatus.IDLE, LagStatus.HEALTHY}


def test_a_stopped_group_stays_stopped_while_its_partition_cannot_be_read() -> None:
    track = Track()
    for s in range(0, 300, 5):
        track.note_members(False, s * 1000)
        track.add(LagSample(s * 1000, 10, 20), 0)
        if s > 100:
            track.block(s * 1000)
            assert track.status(s * 1000, block=Block.NO_LEADER) is LagStatus.STOPPED


def test_a_reset_of_the_offsets_of_a_stopped_group_is_no_progress() -> None:
    """Its partitions were "falling behind" for five minutes after the reset, without a rate and without a forecast of retention."""
    track = Track()
    for s in range(0, 900, 5):
        track.note_members(s < 300, s * 1000)
        track.add(LagSample(s * 1000, 0 if s < 600 else 20_000, 100 * s), 0)
        if s * 1000 >= 300_000 + GONE_MS:
            begins = 600_000 <= s * 1000 < 600_000 + GONE_MS  # a client may have begun to commit
            assert (track.status(s * 1000) is LagStatus.STOPPED) is not begins
    assert track.rhythm_ms is None and not track.waits, "the ten minutes before the reset are no wait of a consumer"


def test_a_client_that_commits_after_the_members_left_is_seen_as_soon_as_its_rhythm_is_known() -> None:
    found = []
    track = Track()
    for s in range(0, 1800, 5):
        track.note_members(s < 300, s * 1000)
        track.add(LagSample(s * 1000, s // 100 * 100, s + 10), 0)
        found.append((s, track.status(s * 1000)))
    assert [s for s, status in found if status is LagStatus.STOPPED and s > 700] == []


def test_a_restart_of_the_only_member_is_no_stop() -> None:
    track = Track()
    for s in range(60):
        track.note_members(True, s * 1000)
        track.add(LagSample(s * 1000, s, s + 5), 0)
    track.note_members(False, 60_000)
    assert track.status(60_000 + GONE_MS - 1) is LagStatus.HEALTHY
    assert track.status(60_000 + GONE_MS) is LagStatus.STOPPED


def test_offsets_of_an_unsubscribed_topic_are_no_alert() -> None:
    track = Track()
    for s in range(0, 3600, 10):
        track.note_members(True, s * 1000)
        track.add(LagSample(s * 1000, 50, 50 + s), 0)
    assert track.status(3_600_000) is LagStatus.STALLED
    assert track.status(3_600_000, subscribed=False) is LagStatus.NOT_SUBSCRIBED


def test_a_rewind_is_shown_for_a_while() -> None:
    track = Track()
    track.add(LagSample(0, 50, 60), 0)
    track.add(LagSample(1000, 5, 60), 0)
    assert track.status(2_000) is LagStatus.REWOUND
    assert track.status(1_000 + REWOUND_MS) is not LagStatus.REWOUND


def test_records_deleted_unread_are_counted_once_and_shown_for_minutes() -> None:
    track = Track()
    track.add(LagSample(0, 5, 100), 20)
    track.add(LagSample(1000, 5, 100), 20)
    track.add(LagSample(2000, 5, 100), 30)
    assert (track.status(2_000), track.lost_records) == (LagStatus.DATA_LOST, 25)
    track.add(LagSample(3000, 30, 100), 30)
    assert track.status(2_000 + LOST_MS - 1) is LagStatus.DATA_LOST
    assert track.status(2_000 + LOST_MS) is not LagStatus.DATA_LOST
    track.add(LagSample(2_000 + LOST_MS, 30, 100), 40)
    assert track.lost_records == 10, "of this loss"


def test_a_restart_of_the_monitor_changes_no_status() -> None:
    def committed_at(s: int) -> int:
        return bursts(lambda x: 1200 * x, 5)(s)

    track = Track()
    before = list(statuses_per_second(committed_at, lambda s: 2000 * s, 600, track=track))[-1][1]
    again = track_from_json(track_to_json(track))
    assert (again.rhythm_ms, again.trend_status) == (track.rhythm_ms, LagStatus.FALLING_BEHIND)
    after = {
        status for _, status in statuses_per_second(committed_at, lambda s: 2000 * s, 600, track=again, from_s=615)
    }
    assert {before} | after == LOST


def test_a_group_has_the_status_of_its_worst_partition() -> None:
    assert worst_status([LagStatus.HEALTHY, LagStatus.DATA_LOST, LagStatus.STALLED]) is LagStatus.DATA_LOST
    assert worst_status([LagStatus.IDLE, LagStatus.HEALTHY]) is LagStatus.HEALTHY
    assert worst_status([]) is LagStatus.UNKNOWN
    assert set(SEVERITY) == set(LagStatus) and len(SEVERITY) == len(LagStatus)


def test_a_large_lag_that_stops_growing_is_not_healthy_again() -> None:
    """A partition pauses for minutes between bursts. Pauses explain some lag, but ten minutes of lag are not healthy."""

    def read(s: int) -> int:
        return 600 * s if s < 1500 else 900_000 + 1000 * (s - 1500)

    found = [status for _, status in statuses_per_second(bursts(read, 300), lambda s: 1000 * s, 2 * 3600, step_s=5)]
    first = found.index(LagStatus.FALLING_BEHIND)
    assert LagStatus.HEALTHY not in found[first:]


def test_a_pause_of_the_monitor_is_no_wait_of_the_consumer() -> None:
    track = Track()
    list(statuses_per_second(lambda s: 600 * s, lambda s: 1000 * s, 600, track=track))
    waits = list(track.waits)
    list(statuses_per_second(lambda s: 600 * s, lambda s: 1000 * s, 90, track=track, from_s=800))
    assert track.longest_wait_ms == max(ms for _, ms in waits)
    assert track.speeds(890_000) == pytest.approx((600, 1000), rel=0.01)


def test_rates_are_unknown_after_a_gap_until_they_have_enough_samples() -> None:
    """After half an hour without a cluster the rates were averaged over it: a group that read 600/s had 150/s."""
    track = Track()

    def read(s: int) -> int:
        return 600 * (s if s < 600 else s - 1800)

    def log_end(s: int) -> int:
        return 1000 * (s if s < 600 else s - 1800)

    list(statuses_per_second(read, log_end, 600, track=track))
    known: list[int] = []
    for s in range(2400, 2700):
        now = s * 1000
        track.add(LagSample(now, read(s), log_end(s)), 0)
        if (speeds := track.speeds(now)) is not None:
            known.append(s)
            assert speeds == pytest.approx((600, 1000), rel=0.01)
    assert 2430 <= known[0] <= 2480
    assert track.trend_status is LagStatus.FALLING_BEHIND


def test_changed_limits_decide_about_stalls_stops_and_trends() -> None:
    patient = LagLimits(behind_ms=300_000, stall_ms=400_000, gone_ms=300_000)
    quick, slow = Track(), Track(limits=patient)
    for track in (quick, slow):
        for s in range(60):
            track.note_members(True, s * 1000)
            track.add(LagSample(s * 1000, s, s + 5), 0)
        track.note_members(True, 200_000)
        track.add(LagSample(200_000, 59, 300), 0)
    assert (quick.status(200_000), slow.status(200_000)) == (LagStatus.STALLED, LagStatus.HEALTHY)
    assert slow.status(500_000) is LagStatus.STALLED
    assert Track(limits=patient).stall_limit_ms == 400_000, "a group of unknown rhythm is not stalled earlier"
    for track in (quick, slow):
        track.note_members(False, 200_000)
    assert (quick.status(400_000), slow.status(490_000)) == (LagStatus.STOPPED, LagStatus.HEALTHY)
    assert slow.status(500_000) is LagStatus.STOPPED
    assert (quick.clear_ms, slow.clear_ms) == (BEHIND_MS, 300_000)
