"""Logs are opened in portions per iteration of the event loop; a full disk delays an opening."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from uuid import UUID

from brokerd.cluster.model import TopicPartition
from brokerd.replication.pending_openings import OPENING_S_MAX, PendingOpenings

TPS = [TopicPartition(UUID(int=1), i) for i in range(5)]


def open_logs(pending: PendingOpenings, clock: Callable[[], float] = lambda: 0.0) -> list[TopicPartition]:
    """The replicas that one iteration opens."""
    return [tp for tp in pending.each(clock) if pending.may_open(tp, limited=True)]


def test_an_iteration_opens_its_portion_and_the_next_one_continues_in_order() -> None:
    pending = PendingOpenings()
    pending.per_iteration = 2
    assert not open_logs(pending) and not pending
    assert not any(pending.may_open(tp, limited=True) for tp in TPS)
    assert open_logs(pending) == TPS[:2] and pending
    assert not pending.may_open(TPS[4], limited=True), "this iteration has opened its portion"
    assert open_logs(pending) == TPS[2:4]
    assert open_logs(pending) == TPS[4:] and not pending


def test_an_iteration_whose_openings_take_long_opens_one() -> None:
    pending = PendingOpenings()
    assert not any(pending.may_open(tp, limited=True) for tp in TPS)
    seconds = count(step=OPENING_S_MAX)
    assert open_logs(pending, lambda: float(next(seconds))) == TPS[:1]
    seconds = count(step=OPENING_S_MAX / 2)
    assert open_logs(pending, lambda: float(next(seconds))) == TPS[1:3]


def test_the_start_opens_all_replicas() -> None:
    pending = PendingOpenings()
    assert all(pending.may_open(tp, limited=False) for tp in TPS) and not pending


def test_a_replica_waits_for_space_until_it_is_open() -> None:
    pending = PendingOpenings()
    assert pending.wait_for_space(TPS[0]) and not pending.wait_for_space(TPS[0]), "only the first time is logged"
    assert pending.waiting_for_space == [TPS[0]]
    pending.end_wait(TPS[0])
    assert not pending.waiting_for_space
