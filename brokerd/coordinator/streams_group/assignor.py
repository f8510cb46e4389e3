"""The assignor `sticky` of streams groups: which member gets which tasks. Pure and deterministic.

Invariants: each task is active at exactly one member, and no member has two active tasks more than another. A process has a task at most once. A stateful
task has as many standby tasks as configured, if there are enough processes. Tasks stay where their state is, where the balance permits it.
Does not contain current assignments (`reconciliation`), client tags and racks, which Kafka 4.3 ignores too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from brokerd.coordinator.streams_group.tasks import EMPTY_TASKS, TaskId, Tasks


@dataclass(slots=True)
class _Load:
    """The tasks that the members have got so far."""

    process_of: Mapping[str, str]
    active: dict[str, set[TaskId]] = field(default_factory=dict)
    standby: dict[str, set[TaskId]] = field(default_factory=dict)
    members_of: dict[str, list[str]] = field(default_factory=dict)
    tasks_of: dict[str, set[TaskId]] = field(default_factory=dict)
    """{process: its tasks in any role}."""

    def __post_init__(self) -> None:
        for member, process in sorted(self.process_of.items()):
            self.active[member], self.standby[member] = set(), set()
            self.members_of.setdefault(process, []).append(member)
            self.tasks_of.setdefault(process, set())

    def total(self, member: str) -> int:
        return len(self.active[member]) + len(self.standby[member])

    def process_load(self, process: str) -> float:
        return len(self.tasks_of[process]) / len(self.members_of[process])

    def give(self, task: TaskId, member: str, role: dict[str, set[TaskId]]) -> None:
        role[member].add(task)
        self.tasks_of[self.process_of[member]].add(task)


def assign(
    task_counts: Mapping[str, int],
    stateful: frozenset[str],
    process_of: Mapping[str, str],
    previous: Mapping[str, Tasks],
    standby_replicas: int,
) -> dict[str, Tasks]:
    """{member: its tasks}. `task_counts`: {subtopology: number of tasks}. `process_of`: {member: its process}. `previous`: the target assignment
    before."""
    if not process_of:
        return {}
    load = _Load(process_of)
    # The stateful tasks come first: to move them costs the restoration of their state.
    order = sorted(task_counts, key=lambda s: (s not in stateful, s))
    tasks = [TaskId(s, p) for s in order for p in range(task_counts[s])]
    _assign_active(load, tasks, previous)
    if standby_replicas > 0:
        _assign_standby(load, [t for t in tasks if t.subtopology_id in stateful], previous, standby_replicas)
    return {m: Tasks(frozenset(load.active[m]), frozenset(load.standby[m])) for m in process_of}


def _holders(previous: Mapping[str, Tasks], members: Iterable[str], role: str) -> dict[TaskId, list[str]]:
    found: dict[TaskId, list[str]] = {}
    for member in sorted(members):
        for task in getattr(previous.get(member, EMPTY_TASKS), role):
            found.setdefault(task, []).append(member)
    return found


def _assign_active(load: _Load, tasks: list[TaskId], previous: Mapping[str, Tasks]) -> None:
    least, larger = divmod(len(tasks), len(load.process_of))
    per_process = {p: -(-len(tasks) * len(ms) // len(load.process_of)) for p, ms in load.members_of.items()}
    before = _holders(previous, load.process_of, "active")
    copies = _holders(previous, load.process_of, "standby")

    def has_room(member: str) -> bool:
        size = len(load.active[member])
        return size < least or (size == least and larger > 0)

    def give(task: TaskId, member: str) -> None:
        nonlocal larger
        larger -= len(load.active[member]) == least
        load.give(task, member, load.active)

    def pick(candidates: Iterable[str], bounded: bool = True) -> str | None:
        fitting = [
            m
            for m in candidates
            if has_room(m) and (not bounded or len(load.tasks_of[load.process_of[m]]) < per_process[load.process_of[m]])
        ]
        return min(fitting, key=lambda m: (load.process_load(load.process_of[m]), len(load.active[m]), m), default=None)

    def same_process(members: Iterable[str]) -> list[str]:
        return [m for p in sorted({load.process_of[x] for x in members}) for m in load.members_of[p]]

    # The member itself, a member with a copy of the state, another member of one of their processes.
    choices: tuple[Callable[[TaskId], Sequence[str]], ...] = (
        lambda t: before.get(t, ()),
        lambda t: copies.get(t, ()),
        lambda t: same_process([*before.get(t, ()), *copies.get(t, ())]),
    )
    left = tasks
    for choice in choices:
        rest = []
        for task in left:
            member = pick(choice(task))
            if member is None:
                rest.append(task)
            else:
                give(task, member)
        left = rest
    for task in left:
        member = pick(load.process_of, bounded=False)
        assert member is not None, "the members have room for all tasks"
        give(task, member)


def _assign_standby(load: _Load, tasks: list[TaskId], previous: Mapping[str, Tasks], replicas: int) -> None:
    replicas = min(replicas, len(load.members_of) - 1)
    everything = sum(map(len, load.active.values())) + len(tasks) * replicas
    per_member = -(-everything // len(load.process_of))
    copies = _holders(previous, load.process_of, "standby")
    before = _holders(previous, load.process_of, "active")
    for task in tasks:
        for _ in range(replicas):
            open_members = [m for m, p in load.process_of.items() if task not in load.tasks_of[p]]
            keeps = [
                m
                for holders in (copies, before)
                for m in holders.get(task, ())
                if m in open_members and load.total(m) < per_member
            ]
            member = (
                keeps[0]
                if keeps
                else min(open_members, key=lambda m: (load.process_load(load.process_of[m]), load.total(m), m))
            )
            load.give(task, member, load.standby)
