"""Tasks of a streams group: a subtopology and a partition, in one of three roles. Values without behaviour of a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple


class TaskId(NamedTuple):
    """The part of a subtopology that processes one partition number of its source topics."""

    subtopology_id: str
    partition: int


TaskSet = frozenset[TaskId]
NO_TASKS: TaskSet = frozenset()


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of a member. An active task processes records, a standby task has a copy of the state, a warm-up task restores the state."""

    active: TaskSet = NO_TASKS
    standby: TaskSet = NO_TASKS
    warmup: TaskSet = NO_TASKS

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    def __iter__(self) -> Iterator[TaskSet]:
        return iter((self.active, self.standby, self.warmup))

    def __or__(self, other: Tasks) -> Tasks:
        return Tasks(*(mine | theirs for mine, theirs in zip(self, other, strict=True)))

    def __and__(self, other: Tasks) -> Tasks:
        return Tasks(*(mine & theirs for mine, theirs in zip(self, other, strict=True)))

    def __sub__(self, other: Tasks) -> Tasks:
        return Tasks(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))

    def __le__(self, other: Tasks) -> bool:
        return all(mine <= theirs for mine, theirs in zip(self, other, strict=True))


EMPTY_TASKS = Tasks()


def by_subtopology(tasks: Iterable[TaskId]) -> dict[str, list[int]]:
    """{subtopology id: sorted partitions}"""
    out: dict[str, list[int]] = {}
    for subtopology_id, partition in sorted(tasks):
        out.setdefault(subtopology_id, []).append(partition)
    return out
