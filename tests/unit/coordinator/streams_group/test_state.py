"""The persisted state of a streams group: roll-back, free tasks, and the tombstones of all records."""

from __future__ import annotations

import copy

from brokerd.coordinator.streams_group.events import StreamsGroupChange, StreamsMemberMetadata, StreamsRecordKey
from brokerd.coordinator.streams_group.reconciliation import StreamsMemberAssignment
from brokerd.coordinator.streams_group.state import INITIAL_METADATA, PersistedStreamsGroup
from brokerd.coordinator.streams_group.tasks import EMPTY_TASKS, Tasks
from tests.unit.coordinator.streams_group.scene import PLAIN, Scene, active, ids
from tests.unit.coordinator.streams_group.test_records import CURRENT, MEMBER

FIELDS = ("metadata", "topology", "target_epoch", "members", "current_assignments", "targets", "owners", "copies")


def copy_of_state(group: PersistedStreamsGroup) -> dict[str, object]:
    return {name: copy.deepcopy(getattr(group, name)) for name in FIELDS}


def test_changes_are_rolled_back() -> None:
    scene = Scene()
    scene.join("m1")
    group = scene.streams_group
    before = copy_of_state(group)
    group.begin(0)
    group.change(StreamsRecordKey.MEMBER, "m2", MEMBER)
    group.change(StreamsRecordKey.CURRENT_ASSIGNMENT, "m2", StreamsMemberAssignment(assigned=active("1", 0)))
    group.change(StreamsRecordKey.TARGET_EPOCH, "", 7)
    group.change(StreamsRecordKey.TOPOLOGY, "", None)
    assert copy_of_state(group) != before
    group.roll_back()
    assert copy_of_state(group) == before and not group.changes


def test_tombstones_remove_everything() -> None:
    scene = Scene()
    scene.join("m1")
    group = scene.streams_group
    for gone in group.tombstones():
        group.apply(gone)
    assert (group.metadata, group.topology, group.members, group.targets) == (INITIAL_METADATA, None, {}, {})
    assert not group.owners and not group.copies


def test_tasks_are_free_unless_another_member_prevents_them() -> None:
    group = PersistedStreamsGroup("g", topology=PLAIN)
    for member, process in (("m1", "p1"), ("m2", "p1"), ("m3", "p2")):
        group.members[member] = StreamsMemberMetadata(None, "c", "/h", 1, 1, process)
    roles = {"m1": Tasks(ids("0", 0), ids("0", 1)), "m3": Tasks(ids("0", 2), ids("0", 3))}
    for member, tasks in roles.items():
        group.apply(
            StreamsGroupChange(StreamsRecordKey.CURRENT_ASSIGNMENT, member, StreamsMemberAssignment(assigned=tasks))
        )
    everything = ids("0", 0, 1, 2, 3, 4)
    assert group.free_tasks("m2", Tasks(everything)) == active("0", 3, 4), "3 is a copy in another process"
    assert group.free_tasks("m2", Tasks(standby=everything)) == Tasks(standby=ids("0", 2, 3, 4))
    assert group.free_tasks("m1", Tasks(everything)).active == ids("0", 0, 1, 3, 4), "its own tasks do not prevent it"


def test_assignments_without_a_member_are_purged() -> None:
    group = PersistedStreamsGroup("g")
    group.apply(StreamsGroupChange(StreamsRecordKey.TARGET_ASSIGNMENT, "m", active("0", 1)))
    group.apply(StreamsGroupChange(StreamsRecordKey.CURRENT_ASSIGNMENT, "m", CURRENT))
    group.purge()
    assert not group.targets and not group.current_assignments and not group.owners
    assert Tasks() == EMPTY_TASKS
