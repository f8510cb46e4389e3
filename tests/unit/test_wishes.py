"""What a leader asks the controller for: told again whenever it is another."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from brokerd.cluster.model import Seat, TopicPartition
from brokerd.wishes import Wishes

TP = TopicPartition(UUID(int=1), 0)
A, B = Seat(2, 12), Seat(3, 13)


def leader(*late: Seat) -> Any:
    followers = {b: SimpleNamespace(log_start=50) for b in (2, 3)}
    core = SimpleNamespace(late=late, followers=followers, leader_epoch=5)
    return SimpleNamespace(tp=TP, name="t-0", core=core, log=SimpleNamespace(start_offset=10))


def test_each_copy_that_turns_late_is_told_of_though_another_was_before() -> None:
    """The second of a partition's late copies was told with the next change of something else only."""
    wishes, replica = Wishes(), leader()

    def told(*late: Seat) -> list[Seat] | None:
        """What is written now, or None for nothing new."""
        wishes.changed, replica.core.late = False, late
        wishes.look(replica)
        return [r.seat for r in wishes.resets()] if wishes.changed else None

    assert told() is None
    assert told(A) == [A]
    assert told(A) is None
    assert told(A, B) == [A, B]
    assert told(B) == [B]
    assert told() == []
    assert told(B) == [B]
    wishes.changed = False
    wishes.withdraw(TP)
    assert wishes.changed and not wishes.resets()
