"""Pauses between the fetches of replicas that catch up."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.cluster.model import TopicPartition
from brokerd.net.thread_times import ThreadTimes
from brokerd.replication.catch_up_pacing import (
    NS_PER_MS,
    PAUSE_MS_MAX,
    PRODUCERS_NS,
    PROGRESS_MS,
    RUNNING_SHARE_MAX,
    WAITING_SHARE_MAX,
    CatchUpPacing,
    CatchUpProgress,
)

TP = TopicPartition(UUID(int=1), 0)
RESPONSE_MS, PEER = 3, 2


class Thread:
    """An event loop that handles a response in RESPONSE_MS, pauses, and handles the next one. `running` and `waiting`: shares of the time without pauses."""

    def __init__(self, running: float, waiting: float, percent_min: int = 20) -> None:
        self.running, self.waiting = running, waiting
        self.times: ThreadTimes | None = ThreadTimes(10**12, 0, 0)
        self.pacing = CatchUpPacing(lambda: self.times, lambda: percent_min)
        self.served = 7

    def pass_ms(self, ms: int, *, paused: bool = False) -> None:
        assert self.times is not None
        ns = ms * NS_PER_MS
        busy = 0 if paused else ns
        self.times = ThreadTimes(
            self.times.clock + ns,
            self.times.running + int(busy * self.running),
            self.times.waiting + int(busy * self.waiting),
        )

    def copy(self, responses: int, *, producers: bool = True, requested_ms: int = 0) -> list[int]:
        """The pauses of a follower, whose leader requests the given pause."""
        pauses = []
        for _ in range(responses):
            self.served += producers
            self.pass_ms(RESPONSE_MS)
            pauses.append(self.pacing.pause_ms(PEER, self.served, requested_ms))
            self.pass_ms(pauses[-1], paused=True)
        return pauses


def share_of_time(pauses: list[int]) -> float:
    return RESPONSE_MS * len(pauses) / (RESPONSE_MS * len(pauses) + sum(pauses))


def test_a_thread_that_has_its_core_and_time_left_never_pauses() -> None:
    assert not any(Thread(RUNNING_SHARE_MAX - 0.1, 0).copy(50))


def test_a_thread_that_waits_for_a_core_pauses_until_it_waits_for_the_accepted_share_of_time() -> None:
    pauses = Thread(0.4, 2 * WAITING_SHARE_MAX).copy(200)
    assert share_of_time(pauses[1:]) == pytest.approx(0.5, abs=0.02)


def test_a_saturated_thread_leaves_time_for_producers() -> None:
    assert share_of_time(Thread(1, 0).copy(200)[1:]) == pytest.approx(RUNNING_SHARE_MAX, abs=0.02)


@pytest.mark.parametrize("percent_min", [10, 20, 100])
def test_a_copy_keeps_its_minimum_share_of_time(percent_min: int) -> None:
    pauses = Thread(0, 1, percent_min).copy(200)
    assert share_of_time(pauses[1:]) == pytest.approx(percent_min / 100, abs=0.02)


@pytest.mark.parametrize("percent_min", [10, 20, 100])
def test_the_pause_of_the_leader_leaves_the_minimum_share_of_time(percent_min: int) -> None:
    """The follower itself has a free core and no producers."""
    thread = Thread(0.1, 0, percent_min)
    assert share_of_time(thread.copy(200, requested_ms=400)[1:]) == pytest.approx(percent_min / 100, abs=0.02)
    assert set(Thread(0.1, 0, 1).copy(50, requested_ms=7)[1:]) == {7}


def test_the_pauses_that_a_leader_wants_reach_the_accepted_share_of_waiting() -> None:
    thread = Thread(0.4, 2 * WAITING_SHARE_MAX)
    pauses = []
    for _ in range(200):
        thread.served += 1
        thread.pass_ms(RESPONSE_MS)
        pauses.append(thread.pacing.wanted_ms(PEER, thread.served))
        thread.pass_ms(pauses[-1], paused=True)
    assert share_of_time(pauses[1:]) == pytest.approx(0.5, abs=0.02)
    assert thread.pacing.paused_ms == 0, "the follower counts them"


def test_a_broker_without_producers_does_not_pause() -> None:
    thread = Thread(0, 1)
    assert not any(thread.copy(50, producers=False)), "the producers before the first response do not count"
    assert any(thread.copy(10))
    thread.pass_ms(PRODUCERS_NS // NS_PER_MS + 1)
    assert not any(thread.copy(50, producers=False))


def test_each_peer_has_its_own_pauses() -> None:
    """Two followers copy at the same time. The pause of one is not time without work for the other."""
    thread = Thread(0, 1)
    pauses: dict[int, list[int]] = {2: [], 3: []}
    due_ms, now_ms = {2: 0, 3: 1}, 0
    for _ in range(400):
        peer = min(due_ms, key=due_ms.__getitem__)
        if due_ms[peer] > now_ms:
            thread.pass_ms(due_ms[peer] - now_ms, paused=True)
            now_ms = due_ms[peer]
        thread.served += 1
        thread.pass_ms(RESPONSE_MS)
        now_ms += RESPONSE_MS
        pauses[peer].append(thread.pacing.pause_ms(peer, thread.served, 0))
        due_ms[peer] = now_ms + pauses[peer][-1]
    for found in pauses.values():
        assert share_of_time(found[1:]) < 0.3


def test_nothing_pauses_if_the_system_does_not_measure_threads() -> None:
    pacing = CatchUpPacing(lambda: None, lambda: 20)
    assert [pacing.pause_ms(PEER, n, 0) for n in range(5)] == [0] * 5


def test_a_long_response_is_followed_by_a_bounded_pause() -> None:
    thread = Thread(0, 1)
    thread.copy(2)
    thread.pass_ms(900)
    thread.served += 1
    assert thread.pacing.pause_ms(PEER, thread.served, 0) <= PAUSE_MS_MAX + 1


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 10**7), st.integers(0, 10**7)), max_size=60))
def test_pauses_are_bounded_and_counted(steps: list[tuple[int, int, int]]) -> None:
    times = ThreadTimes(0, 0, 0)
    pacing = CatchUpPacing(lambda: times, lambda: 20)
    pauses = []
    for n, (ms, running, waiting) in enumerate(steps):
        times = ThreadTimes(times.clock + ms * NS_PER_MS, times.running + running, times.waiting + waiting)
        pauses.append(pacing.pause_ms(PEER, n, 0))
    assert all(0 <= pause <= PAUSE_MS_MAX + 1 for pause in pauses)
    assert pacing.paused_ms == sum(pauses)


@pytest.mark.parametrize(
    ("copied", "written", "slow"), [(1_000, 0, False), (1_000, 490, False), (1_000, 510, True), (1_000, 2_000, True)]
)
def test_a_replica_that_producers_outrun_is_slow(copied: int, written: int, slow: bool) -> None:
    progress = CatchUpProgress()
    progress.on_appended(TP, 100, 50_000, 0)
    progress.on_appended(TP, 100 + copied // 2, 50_000 + written // 2, PROGRESS_MS - 1)
    assert not progress.is_slow(TP)
    progress.on_appended(TP, 100 + copied, 50_000 + written, PROGRESS_MS)
    assert progress.is_slow(TP) is slow


def test_a_slow_replica_is_slow_until_it_is_forgotten() -> None:
    progress = CatchUpProgress()
    progress.on_appended(TP, 0, 1_000, 0)
    progress.on_appended(TP, 10, 2_000, PROGRESS_MS)
    progress.on_appended(TP, 1_990, 2_000, 2 * PROGRESS_MS)
    assert progress.is_slow(TP)
    progress.forget(TP)
    assert not progress.is_slow(TP)
