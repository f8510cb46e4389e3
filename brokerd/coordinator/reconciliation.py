"""How a member of the new protocol (KIP-848) is brought from what it has to what it is to have, one step per heartbeat. Pure.

Laws: a partition is given to a member when nobody else holds it; one holds it until it was said to give it up and has been heard without
it. Called by `consumer_group`, which says who holds what. Must not come in: who is to have what (that is `assignors`'), time.

| state              | what it has              | leaves when                                                |
|--------------------|--------------------------|------------------------------------------------------------|
| STABLE             | its target of its epoch  | there is a newer target                                    |
| UNREVOKED          | less, of its old epoch   | its heartbeat names none of what it is to give up          |
| UNRELEASED         | its target's free part   | the others have given up the rest, or there is a newer one |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

from brokerd.cluster.model import TopicPartition
from brokerd.coordinator.assignors import NOTHING, Share

LEFT_FOR_A_WHILE = -2
"""The epoch of a static member that has left and is expected back."""


class MemberState(IntEnum):
    """Kafka's numbers, as they stand in its records."""

    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a member stands. It holds `assigned`, and `revoking` until it has been heard without it. `previous_epoch` is what it may
    say once more if the answer with its epoch was lost. `since` is the epoch in which it was given each partition that it holds (KIP-1251)."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Share = NOTHING
    revoking: Share = NOTHING
    since: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def held(self) -> Share:
        return self.assigned | self.revoking

    def but(self, **changes: Any) -> Standing:
        """What it holds still it has since it was given it; the rest it is given now."""
        after = replace(self, **changes)
        return replace(after, since={tp: self.since.get(tp, after.epoch) for tp in after.held})

    def may_commit(self, tp: TopicPartition, epoch: int) -> bool:
        """What was read in an epoch from which on it has held the partition is nobody else's to say."""
        return epoch == self.epoch or (tp in self.since and self.since[tp] <= epoch < self.epoch)


def reconciled(
    at: Standing, target: Share, target_epoch: int, owned: Share | None, free: Callable[[TopicPartition], bool]
) -> Standing:
    """The next standing. `owned` is what the member says it has (None: it did not say); `free(partition)`: no other member holds it."""
    if at.state is MemberState.STABLE and at.epoch == target_epoch:
        return at
    if at.state is MemberState.UNREVOKED and (owned is None or owned & at.revoking):
        return at
    keeps = at.assigned & target
    gives_up = at.assigned - keeps
    if gives_up and (owned is None or owned & gives_up):
        return at.but(state=MemberState.UNREVOKED, assigned=keeps, revoking=gives_up)
    wants = target - keeps
    gets = frozenset(tp for tp in wants if free(tp))
    state = MemberState.STABLE if len(gets) == len(wants) else MemberState.UNRELEASED
    previous = at.epoch if at.epoch != target_epoch else at.previous_epoch
    return at.but(epoch=target_epoch, previous_epoch=previous, state=state, assigned=keeps | gets, revoking=NOTHING)
