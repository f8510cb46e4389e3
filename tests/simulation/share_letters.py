"""The rules of dead letters of a share group, for `ShareChecker`: what the leaders had to write, what was stored, and what is in the topic at the end.

A record may fail once in each state epoch: after a change of the start offset it is delivered again. A state epoch that ends before the dead letter is
written may have none. Does not check the order of dead letters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from brokerd.coordinator.share_state.records import SharePartitionKey
from tests.simulation.checkers import Violation
from tests.simulation.world import World

Place = tuple[int, int]
"""(partition, offset)."""


class Failure(NamedTuple):
    """A record in one state epoch."""

    share_partition: SharePartitionKey
    state_epoch: int
    offset: int

    @property
    def place(self) -> Place:
        return self.share_partition.partition, self.offset


@dataclass(slots=True)
class DeadLetters:
    """The dead letters in their topic, by record. `copies`: those with the key and the value of the record; the others have neither."""

    every: Counter[Place] = field(default_factory=Counter)
    copies: Counter[Place] = field(default_factory=Counter)


class LetterChecker:
    def __init__(self, world: World) -> None:
        self.world = world
        self._due: set[Failure] = set()
        """Those whose state ARCHIVING was stored."""
        self._open: set[Failure] = set()
        """Those of `_due` whose end is not stored."""
        self.ended: Counter[Place] = Counter()
        """How often the end after a dead letter was stored."""
        self._copies_min: Counter[Place] = Counter()
        """How often a leader said that a dead letter is written while its log still had the record."""
        self._leaders: Counter[Failure] = Counter()
        """How many leaders had the dead letter to write."""
        self._accepted: set[Failure] = set()

    def must_write(self, failure: Failure) -> None:
        self._leaders[failure] += 1

    def on_failure_stored(self, failure: Failure) -> None:
        self._due.add(failure)
        self._open.add(failure)

    def end_stored(self, failure: Failure) -> None:
        if failure in self._open:
            self._open.remove(failure)
            self.ended[failure.place] += 1

    def start_stored(self, share_partition: SharePartitionKey, state_epoch: int, start: int) -> None:
        for failure in [f for f in self._open if f[:2] == (share_partition, state_epoch) and f.offset < start]:
            self.end_stored(failure)

    def on_letter_written(self, failure: Failure, log_start: int) -> None:
        """A leader, whose log starts at `log_start`, says that the dead letter is written."""
        self._copies_min[failure.place] += failure.offset >= log_start

    def accept_stored(self, failure: Failure) -> None:
        self._accepted.add(failure)

    def verify(self, found: DeadLetters, deleted: Mapping[int, int]) -> None:
        """`deleted`: {partition: the greatest offset to which a client has deleted records}."""
        for place, least in sorted(self.ended.items()):
            if found.every[place] < least:
                raise Violation(f"{place} is archived {least} times, and has {found.every[place]} dead letters")
        for place, least in sorted(self._copies_min.items()):
            if found.copies[place] < least:
                raise Violation(f"{place} has {found.copies[place]} dead letters with a copy, at least {least} are due")
        for place, number in sorted(found.every.items()):
            due = [f for f in self._due if f.place == place]
            if not due:
                raise Violation(f"{place} has a dead letter before its state is stored")
            most = sum(self._leaders[f] for f in due if f not in self._accepted)
            if not most:
                raise Violation(f"{place} has a dead letter, and its acceptance is stored")
            if number > most:
                raise Violation(f"{place} has {number} dead letters of {most} leaders")
            if number > found.copies[place] and place[1] >= deleted.get(place[0], 0):
                raise Violation(f"{place} has a dead letter without a copy, and nobody deleted it")
            self.world.reached["dead letter"] += 1
            self.world.reached["second dead letter after a change of the leader"] += number > len(due)
            self.world.reached["dead letters in two state epochs"] += len(due) > 1 and number > 1
            self.world.reached["dead letter of a deleted record"] += number > found.copies[place]
