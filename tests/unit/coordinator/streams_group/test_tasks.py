"""Sets of tasks in three roles."""

from __future__ import annotations

from brokerd.coordinator.streams_group.tasks import EMPTY_TASKS, Tasks, by_subtopology
from tests.unit.coordinator.streams_group.scene import active, ids


def test_sets_are_combined_by_role() -> None:
    one, other = Tasks(ids("0", 0, 1), ids("1", 0)), Tasks(ids("0", 1), ids("0", 0))
    assert one | other == Tasks(ids("0", 0, 1), ids("1", 0) | ids("0", 0))
    assert one & other == active("0", 1)
    assert one - other == Tasks(ids("0", 0), ids("1", 0))
    assert active("0", 1) <= one and not one <= other
    assert one and not EMPTY_TASKS


def test_tasks_by_subtopology() -> None:
    assert by_subtopology(ids("1", 2, 0) | ids("0", 5)) == {"0": [5], "1": [0, 2]}
