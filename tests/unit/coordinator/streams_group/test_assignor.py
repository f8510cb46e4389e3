"""The assignor `sticky` of streams groups: balance, stickiness, standby tasks, and generated groups."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from brokerd.coordinator.streams_group.assignor import assign
from brokerd.coordinator.streams_group.tasks import TaskId, Tasks
from tests.unit.coordinator.streams_group.scene import active, ids

STATEFUL, STATELESS = frozenset({"0"}), frozenset[str]()


def check_assignment(
    counts: Mapping[str, int],
    stateful: frozenset[str],
    process_of: Mapping[str, str],
    replicas: int,
    assigned: Mapping[str, Tasks],
) -> None:
    everything = {TaskId(s, p) for s, n in counts.items() for p in range(n)}
    owned = [t for tasks in assigned.values() for t in tasks.active]
    assert sorted(owned) == sorted(everything), "each task is active once"
    sizes = [len(tasks.active) for tasks in assigned.values()]
    assert max(sizes) - min(sizes) <= 1
    copies = [t for tasks in assigned.values() for t in tasks.standby]
    expected = min(replicas, len(set(process_of.values())) - 1)
    for task in everything:
        assert copies.count(task) == (expected if task.subtopology_id in stateful else 0)
    for process in set(process_of.values()):
        held = [t for m, p in process_of.items() if p == process for t in (*assigned[m].active, *assigned[m].standby)]
        assert len(set(held)) == len(held), "a process has a task once"


def test_tasks_are_divided_by_members() -> None:
    assigned = assign({"0": 4}, STATELESS, {"m1": "p1", "m2": "p1", "m3": "p2"}, {}, 0)
    assert sorted(len(t.active) for t in assigned.values()) == [1, 1, 2]


def test_tasks_stay_at_their_member() -> None:
    before = {"m1": active("0", 0, 3), "m2": active("0", 1, 2)}
    assert assign({"0": 4}, STATEFUL, {"m1": "p1", "m2": "p2"}, before, 0) == before


def test_a_new_member_gets_only_what_the_balance_requires() -> None:
    before = {"m1": active("0", 0, 1, 2), "m2": active("0", 3, 4, 5)}
    assigned = assign({"0": 6}, STATEFUL, {"m1": "p1", "m2": "p2", "m3": "p3"}, before, 0)
    assert assigned["m1"].active < before["m1"].active and assigned["m2"].active < before["m2"].active
    assert len(assigned["m3"].active) == 2


def test_a_member_with_a_copy_becomes_the_owner() -> None:
    before = {"m1": active("0", 0, 1), "m2": Tasks(ids("0", 2), ids("0", 1)), "m3": Tasks(ids("0", 3), ids("0", 0))}
    assigned = assign({"0": 4}, STATEFUL, {"m2": "p2", "m3": "p3"}, before, 0)
    assert assigned == {"m2": active("0", 1, 2), "m3": active("0", 0, 3)}


def test_another_member_of_the_same_process_takes_over() -> None:
    """Its state is on the disk of the process."""
    before = {"m1": active("0", 0), "m2": active("0", 1), "m3": active("0", 2)}
    assigned = assign({"0": 3}, STATEFUL, {"m2": "p1", "m3": "p2"}, {**before, "m2": active("0", 0)}, 0)
    assert TaskId("0", 0) in assigned["m2"].active


def test_standby_tasks_are_in_other_processes() -> None:
    processes = {"m1": "p1", "m2": "p1", "m3": "p2"}
    assigned = assign({"0": 3}, STATEFUL, processes, {}, 1)
    check_assignment({"0": 3}, STATEFUL, processes, 1, assigned)
    assert assign({"0": 3}, STATELESS, processes, {}, 1)["m3"].standby == frozenset()


def test_standby_tasks_stay() -> None:
    processes = {"m1": "p1", "m2": "p2", "m3": "p3"}
    first = assign({"0": 6}, STATEFUL, processes, {}, 1)
    assert assign({"0": 6}, STATEFUL, processes, first, 1) == first


def test_without_members_nothing_is_assigned() -> None:
    assert assign({"0": 3}, STATEFUL, {}, {}, 1) == {}
    assert assign({}, STATELESS, {"m": "p"}, {"m": active("0", 1)}, 1) == {"m": Tasks()}


@pytest.mark.parametrize("seed", range(40))
def test_generated_groups(seed: int) -> None:
    """Members come and go; every assignment is complete and balanced, and the same input gives the same result."""
    rng = random.Random(seed)
    counts = {str(s): rng.randint(1, 9) for s in range(rng.randint(1, 4))}
    stateful = frozenset(s for s in counts if rng.random() < 0.6)
    replicas = rng.randint(0, 2)
    previous: dict[str, Tasks] = {}
    processes: dict[str, str] = {}
    for step in range(8):
        if len(processes) > 1 and rng.random() < 0.4:
            del processes[rng.choice(sorted(processes))]
        else:
            processes[f"m{step}"] = f"p{rng.randint(0, 3)}"
        assigned = assign(counts, stateful, processes, previous, replicas)
        check_assignment(counts, stateful, processes, replicas, assigned)
        assert assign(counts, stateful, dict(reversed(processes.items())), previous, replicas) == assigned
        previous = assigned
