"""Membership of streams groups: heartbeats, epochs, topologies, reconciliation, sessions, offsets, and a coordinator that loads the group again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from brokerd.coordinator.classic import events as classic
from brokerd.coordinator.classic.group import Group
from brokerd.coordinator.streams_group.events import StatusCode, StreamsGroupState, UserEndpoint
from brokerd.coordinator.streams_group.reconciliation import StreamsMemberState
from brokerd.coordinator.streams_group.tasks import EMPTY_TASKS, Tasks
from brokerd.coordinator.streams_group.topology import Subtopology, Topology
from brokerd.wire.errors import ErrorCode
from tests.unit.coordinator.streams_group.scene import CONFIG, COUNT, PLAIN, STATEFUL, Scene, active, ids


def codes(response: Any) -> list[StatusCode]:
    return [s.code for s in response.statuses]


# -- joining -----------------------------------------------------------------------------------------------------------------
def test_a_member_joins_and_gets_all_tasks() -> None:
    scene = Scene()
    joined = scene.join("m")
    assert (joined.epoch, joined.assigned, joined.heartbeat_ms, joined.statuses) == (
        2,
        active("0", 0, 1, 2, 3),
        1_000,
        (),
    )
    assert scene.streams_group.state is StreamsGroupState.STABLE
    assert scene.streams_beat("m", 2).assigned is None, "nothing has changed"


def test_a_new_member_gets_tasks_only_after_they_are_revoked() -> None:
    scene = Scene()
    scene.join("m1")
    second = scene.join("m2")
    assert (second.epoch, second.assigned) == (3, EMPTY_TASKS)
    assert scene.streams_group.state is StreamsGroupState.RECONCILING
    first = scene.streams_beat("m1", 2)
    keeps = first.assigned
    assert first.epoch == 2 and len(keeps.active) == 2
    assert scene.streams_beat("m2", 3).assigned is None, "the tasks are not revoked yet"
    assert scene.streams_beat("m1", 2, owned=active("0", 0, 1, 2, 3)).epoch == 2, "it still has them"
    assert scene.streams_beat("m1", 2, owned=keeps).epoch == 3
    got = scene.streams_beat("m2", 3).assigned
    assert got.active | keeps.active == ids("0", 0, 1, 2, 3) and not got.active & keeps.active
    assert scene.streams_group.state is StreamsGroupState.STABLE


def test_a_member_that_leaves_gives_its_tasks_to_the_others() -> None:
    scene = Scene()
    scene.join("m1")
    scene.join("m2")
    scene.settle_members("m1", "m2")
    left = scene.streams_beat("m1", -1)
    assert (left.error, left.epoch, left.statuses) == (0, -1, ())
    scene.settle_members("m2")
    assert scene.tasks_of("m2") == active("0", 0, 1, 2, 3)
    scene.streams_beat("m2", -1)
    assert scene.streams_group.state is StreamsGroupState.EMPTY


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(1, ErrorCode.FENCED_MEMBER_EPOCH), (3, ErrorCode.FENCED_MEMBER_EPOCH), (9, ErrorCode.FENCED_MEMBER_EPOCH)],
)
def test_a_wrong_epoch_is_fenced(epoch: int, error: int) -> None:
    scene = Scene()
    scene.join("m1")
    assert scene.streams_beat("m1", epoch) == error
    assert scene.streams_beat("other", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.streams_beat("other", -1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_previous_epoch_is_accepted_with_the_tasks_of_a_lost_response() -> None:
    scene = Scene()
    scene.join("m1")
    scene.join("m2")
    scene.settle_members("m1", "m2")
    epoch = scene.streams_group.current_assignments["m1"].epoch
    scene.streams_beat("m2", -1)
    response = scene.streams_beat("m1", epoch, owned=scene.tasks_of("m1"))
    assert response.epoch > epoch
    assert scene.streams_beat("m1", epoch) == ErrorCode.FENCED_MEMBER_EPOCH, "the tasks are not named"
    again = scene.streams_beat("m1", epoch, owned=active("0"))
    assert again.assigned == scene.tasks_of("m1")


def test_a_member_that_reports_other_tasks_gets_its_assignment_again() -> None:
    """The response with the tasks was lost, and the epoch is the same."""
    scene = Scene()
    scene.join("m1")
    scene.join("m2")
    kept = scene.streams_beat("m1", 2).assigned
    scene.streams_beat("m1", 2, owned=kept)
    assert scene.streams_beat("m2", 3).assigned == scene.tasks_of("m2")
    assert scene.streams_beat("m2", 3).assigned is None
    assert scene.streams_beat("m2", 3, owned=EMPTY_TASKS).assigned == scene.tasks_of("m2")
    assert scene.streams_beat("m2", 3, owned=scene.tasks_of("m2")).assigned is None


def test_a_restarted_member_gets_its_whole_assignment() -> None:
    scene = Scene()
    scene.join("m1")
    epoch = scene.streams_group.epoch
    again = scene.join("m1")
    assert (again.epoch, again.assigned) == (2, active("0", 0, 1, 2, 3))
    assert scene.streams_group.epoch == epoch


def test_the_group_has_a_maximum_size() -> None:
    scene = Scene(config=replace(CONFIG, size_max=1))
    scene.join("m1")
    assert scene.join("m2") == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert scene.join("m1").epoch == 2


# -- topologies ----------------------------------------------------------------------------------------------------------------
def test_a_group_waits_for_its_internal_topics() -> None:
    scene = Scene()
    joined = scene.join("m", COUNT)
    assert codes(joined) == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert {(t.name, t.partitions) for t in joined.missing_topics} == {("g-r", 4), ("g-c", 4)}
    assert joined.assigned == EMPTY_TASKS and scene.streams_group.state is StreamsGroupState.NOT_READY
    scene.create_internal_topics()
    found = scene.streams_beat("m", joined.epoch)
    assert found.assigned.active == ids("0", 0, 1, 2, 3) | ids("1", 0, 1, 2, 3)
    assert not found.statuses and not found.missing_topics


def test_a_group_without_its_source_topics_has_no_tasks() -> None:
    scene = Scene()
    joined = scene.join("m", Topology(1, (Subtopology("0", ("a", "absent")),)))
    assert codes(joined) == [StatusCode.MISSING_SOURCE_TOPICS] and "absent" in joined.statuses[0].detail
    assert joined.missing_topics == () and joined.assigned == EMPTY_TASKS


def test_a_deleted_topic_ends_the_tasks() -> None:
    scene = Scene()
    scene.join("m")
    del scene.topics.there["a"]
    scene.topics.version += 1
    response = scene.streams_beat("m", 2)
    assert codes(response) == [StatusCode.MISSING_SOURCE_TOPICS] and response.assigned == EMPTY_TASKS
    assert scene.streams_group.state is StreamsGroupState.NOT_READY
    assert scene.streams_beat("m", 2, owned=EMPTY_TASKS).epoch == 3


def test_new_partitions_become_tasks() -> None:
    scene = Scene()
    scene.join("m")
    scene.topics.there["a"] = (scene.topics.there["a"][0], 6)
    scene.topics.version += 1
    assert scene.streams_beat("m", 2).assigned == active("0", 0, 1, 2, 3, 4, 5)


def test_a_member_with_an_older_topology_is_told() -> None:
    scene = Scene()
    scene.join("m1", replace(PLAIN, epoch=3))
    assert codes(scene.join("m2", replace(PLAIN, epoch=2))) == [StatusCode.STALE_TOPOLOGY]


def test_another_topology_is_rejected_and_changes_nothing() -> None:
    scene = Scene()
    scene.join("m1")
    before = (scene.streams_group.epoch, dict(scene.streams_group.members))
    assert scene.join("m2", STATEFUL) == ErrorCode.INVALID_REQUEST
    assert scene.join("m2", replace(PLAIN, epoch=2)) == ErrorCode.INVALID_REQUEST
    assert (scene.streams_group.epoch, scene.streams_group.members) == before


def test_an_impossible_topology_is_rejected() -> None:
    scene = Scene()
    broken = Topology(1, (Subtopology("0", ("a",)), replace(COUNT.subtopologies[1], subtopology_id="1")))
    assert scene.join("m", broken) == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert not scene.streams_group.members


def test_unknown_tasks_are_rejected() -> None:
    scene = Scene()
    scene.join("m")
    assert scene.streams_beat("m", 2, owned=active("0", 4)) == ErrorCode.INVALID_REQUEST
    assert scene.streams_beat("m", 2, owned=active("9", 0)) == ErrorCode.INVALID_REQUEST


# -- settings --------------------------------------------------------------------------------------------------------------------
def test_members_that_join_during_the_initial_delay_are_assigned_together() -> None:
    scene = Scene(config=replace(CONFIG, initial_delay_ms=3_000))
    for member in ("m1", "m2"):
        joined = scene.join(member)
        assert codes(joined) == [StatusCode.ASSIGNMENT_DELAYED] and joined.assigned == EMPTY_TASKS
        assert joined.epoch == 1, "with epoch 0 it would have to join again"
    scene.pass_ms(2_999)
    assert scene.streams_group.target_epoch == 1
    scene.pass_ms(1)
    assert scene.streams_group.target_epoch == scene.streams_group.epoch
    sizes = [len(scene.join(member).assigned.active) for member in ("m1", "m2")]
    assert sizes == [2, 2]


def test_assignments_have_a_minimum_interval() -> None:
    scene = Scene(config=replace(CONFIG, assignment_ms=2_000))
    scene.join("m1")
    delayed = scene.join("m2")
    assert codes(delayed) == [StatusCode.ASSIGNMENT_DELAYED] and delayed.epoch == 2
    scene.pass_ms(2_000)
    scene.settle_members("m1", "m2")
    assert len(scene.tasks_of("m2").active) == 2


def test_standby_tasks_follow_the_setting_of_the_group() -> None:
    scene = Scene()
    scene.create_internal_topics()
    scene.join("m1", STATEFUL)
    scene.join("m2", STATEFUL)
    scene.settle_members("m1", "m2")
    assert not scene.tasks_of("m1").standby
    scene.config = replace(CONFIG, standby_replicas=1)
    scene.groups.group_config_changed("g")
    scene.settle_members("m1", "m2")
    assert scene.tasks_of("m1").standby == scene.tasks_of("m2").active
    assert scene.tasks_of("m2").standby == scene.tasks_of("m1").active
    assert scene.streams_group.metadata.configs == (("num.standby.replicas", "1"),)


# -- endpoints and shutdown ----------------------------------------------------------------------------------------------------------
def test_members_learn_the_partitions_of_endpoints() -> None:
    scene = Scene()
    joined = scene.join("m1", endpoint=UserEndpoint("h", 1))
    assert joined.endpoint_epoch == 1
    (found,) = joined.endpoints
    assert (found.endpoint, found.active, found.standby) == (UserEndpoint("h", 1), {"a": [0, 1, 2, 3]}, {})
    assert scene.streams_beat("m1", 2, endpoint_epoch=1).endpoints is None
    scene.join("m2")
    scene.settle_members("m1", "m2")
    response = scene.streams_beat("m2", scene.streams_group.current_assignments["m2"].epoch, endpoint_epoch=1)
    assert response.endpoint_epoch > 1 and len(response.endpoints[0].active["a"]) == 2


def test_a_shutdown_reaches_all_members() -> None:
    scene = Scene()
    scene.join("m1")
    scene.join("m2")
    scene.streams_beat("m1", -1, shutdown=True)
    assert codes(scene.streams_beat("m2", 3)) == [StatusCode.SHUTDOWN_APPLICATION]
    scene.streams_beat("m2", -1)
    assert not codes(scene.join("m3")), "a new application does not stop"


# -- time ----------------------------------------------------------------------------------------------------------------------------
def test_a_silent_member_is_removed() -> None:
    scene = Scene()
    scene.join("m1")
    scene.join("m2")
    scene.pass_ms(9_000)
    scene.streams_beat("m2", 3)
    scene.pass_ms(1_000)
    assert set(scene.streams_group.members) == {"m2"}
    assert scene.streams_beat("m1", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    scene.settle_members("m2")
    assert scene.tasks_of("m2") == active("0", 0, 1, 2, 3)


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    scene = Scene()
    scene.join("m1")
    scene.join("m2")
    scene.streams_beat("m1", 2)
    assert scene.streams_group.current_assignments["m1"].state is StreamsMemberState.UNREVOKED
    for _ in range(5):
        scene.pass_ms(1_000)
        if "m1" in scene.streams_group.members:
            scene.streams_beat("m1", 2, owned=active("0", 0, 1, 2, 3))
        scene.streams_beat("m2", scene.streams_group.current_assignments["m2"].epoch)
    assert set(scene.streams_group.members) == {"m2"}


# -- offsets -------------------------------------------------------------------------------------------------------------------------
def test_offsets_are_accepted_from_the_member_epoch() -> None:
    scene = Scene()
    scene.join("m1")
    assert scene.commit_as("m1", 2).error == 0
    assert scene.commit_as("m1", 3).error == ErrorCode.STALE_MEMBER_EPOCH
    assert scene.commit_as("x", 1).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.commit_as("", -1).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.commit_as("m1", 3, transactional=True).error == ErrorCode.ILLEGAL_GENERATION
    assert scene.streams_group.epoch_error("m1", 2) == 0
    assert scene.streams_group.epoch_error("m1", 0) == ErrorCode.STALE_MEMBER_EPOCH


def test_an_old_epoch_commits_only_tasks_that_the_member_still_has() -> None:
    scene = Scene()
    scene.join("m1")
    scene.join("m2")
    kept = scene.streams_beat("m1", 2).assigned
    scene.streams_beat("m1", 2, owned=kept)
    mine = [("a", t.partition) for t in sorted(kept.active)]
    given = [("a", p) for p in range(4) if ("a", p) not in mine]
    done = scene.commit_as("m1", 2, mine[0], given[0])
    assert done.error == 0 and done.partition_errors == {given[0]: ErrorCode.STALE_MEMBER_EPOCH}
    assert scene.commit_as("m1", 2, given[0]).error == ErrorCode.STALE_MEMBER_EPOCH
    assert set(scene.streams_group.commits.offsets) == {mine[0]}


def test_tools_commit_only_to_a_group_without_members() -> None:
    scene = Scene()
    scene.join("m1")
    scene.streams_beat("m1", -1)
    assert scene.commit_as("", -1).error == 0


# -- loading ---------------------------------------------------------------------------------------------------------------------------
def test_the_next_coordinator_continues() -> None:
    scene = Scene(config=replace(CONFIG, standby_replicas=1))
    scene.create_internal_topics()
    scene.join("m1", COUNT)
    scene.join("m2", COUNT, endpoint=UserEndpoint("h", 50_000), client_tags=(("zone", "z"),), rack_id="r")
    scene.settle_members("m1", "m2")
    scene.commit_as("m1", scene.streams_group.current_assignments["m1"].epoch)
    after = scene.reloaded_scene()
    for name in (
        "metadata",
        "topology",
        "target_epoch",
        "members",
        "current_assignments",
        "targets",
        "owners",
        "copies",
    ):
        assert getattr(after.streams_group, name) == getattr(scene.streams_group, name), name
    assert after.streams_group.commits.offsets == scene.streams_group.commits.offsets
    epoch = after.streams_group.epoch
    after.settle_members("m1", "m2")
    assert after.streams_group.epoch == epoch, "the new coordinator sees the same topics"


def test_after_a_rejected_write_the_member_joins_again() -> None:
    scene = Scene()
    scene.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert scene.join("m1") == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not scene.streams_group.members and scene.streams_group.topology is None
    scene.log.error = 0
    assert scene.join("m1").assigned == active("0", 0, 1, 2, 3)


# -- conversion --------------------------------------------------------------------------------------------------------------------------
def test_an_empty_classic_group_becomes_a_streams_group_and_the_reverse() -> None:
    scene = Scene()
    assert scene.commit_as("", -1).error == 0
    group, _ = scene.groups.find_existing("g")
    assert isinstance(group, Group)
    scene.join("m1")
    assert set(scene.streams_group.commits.offsets) == {("a", 0)}
    responses: list[Any] = []
    join = classic.Join(
        responses.append, "", "n", None, "c", "/h", 10_000, 10_000, "consumer", (("range", b""),), False
    )
    assert scene.groups.handle("g", join) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    scene.streams_beat("m1", -1)
    assert scene.groups.handle("g", join) == 0
    group, _ = scene.groups.find_existing("g")
    assert isinstance(group, Group) and set(group.commits.offsets) == {("a", 0)}
    loaded, _ = scene.reloaded_scene().groups.find_existing("g")
    assert isinstance(loaded, Group) and set(loaded.commits.offsets) == {("a", 0)}


def test_a_deleted_group_leaves_nothing() -> None:
    scene = Scene()
    scene.join("m1")
    scene.commit_as("m1", 2)
    scene.streams_beat("m1", -1)
    errors: list[int] = []
    group = scene.streams_group
    scene.groups.tombstones("g", group, sorted(group.commits.partitions_with_offset()), True, errors.append)
    assert errors == [0] and scene.groups.find_existing("g") == (None, 0)
    assert scene.reloaded_scene().groups.find_existing("g") == (None, 0)
    assert scene.streams_beat("m1", 2) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_task_is_not_started_where_its_process_still_has_a_copy() -> None:
    scene = Scene(config=replace(CONFIG, standby_replicas=1))
    scene.create_internal_topics()
    scene.join("m1", STATEFUL)
    scene.join("m2", STATEFUL)
    scene.settle_members("m1", "m2")
    before = scene.tasks_of("m2")
    scene.streams_beat("m1", -1)
    epoch = scene.streams_group.current_assignments["m2"].epoch
    response = scene.streams_beat("m2", epoch, owned=before)
    assert response.assigned == Tasks(before.active), "the copies are closed first"
    done = scene.streams_beat("m2", epoch, owned=Tasks(before.active))
    assert done.assigned == active("0", 0, 1, 2, 3)
