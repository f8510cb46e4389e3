"""Logs are opened in portions per turn of the event loop; a full disk delays an opening."""

from __future__ import annotations

from uuid import UUID

from brokerd.cluster.model import TopicPartition
from brokerd.replication.pending_openings import PendingOpenings

TPS = [TopicPartition(UUID(int=1), i) for i in range(5)]


def test_a_turn_opens_its_portion_and_the_next_turn_continues_in_order() -> None:
    pending = PendingOpenings()
    pending.per_iteration = 2
    assert not pending.end_iteration()
    assert [pending.may_open(tp, limited=True) for tp in TPS] == [True, True, False, False, False]
    assert pending.next() is None, "this turn has opened its portion"
    opened = []
    while pending.end_iteration():
        while (tp := pending.next()) is not None:
            assert pending.may_open(tp, limited=True)
            opened.append(tp)
    assert opened == TPS[2:]


def test_the_start_opens_all_replicas() -> None:
    pending = PendingOpenings()
    pending.per_iteration = 1
    pending.end_iteration()
    assert all(pending.may_open(tp, limited=False) for tp in TPS) and not pending.end_iteration()


def test_a_replica_waits_for_space_until_it_is_open() -> None:
    pending = PendingOpenings()
    assert pending.wait_for_space(TPS[0]) and not pending.wait_for_space(TPS[0]), "only the first time is logged"
    assert pending.waiting_for_space == [TPS[0]]
    pending.end_wait(TPS[0])
    assert not pending.waiting_for_space
