"""Membership of share groups: heartbeats, epochs, initialization of partitions, sessions, and a coordinator that loads the group again."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.cluster.model import Now
from brokerd.config.share_groups import ShareGroupConfig
from brokerd.coordinator.classic import events as classic
from brokerd.coordinator.classic.events import Completed
from brokerd.coordinator.groups import TypeConfigs
from brokerd.coordinator.share_group.events import (
    InitializeState,
    OffsetsAltered,
    ShareHeartbeat,
    ShareHeartbeatReply,
    StateDeleted,
    StateInitialized,
)
from brokerd.coordinator.share_group.group import SOON_MS, ShareGroup
from brokerd.wire.errors import ErrorCode
from tests.unit.coordinator.classic.test_offsets import NOW
from tests.unit.coordinator.consumer.test_records import Harness, Log
from tests.unit.coordinator.topics import A, B, share

CONFIG = ShareGroupConfig(session_ms=10_000, heartbeat_ms=1_000, assignment_ms=0, size_max=3)


class Scene(Harness):
    def __init__(self, log: Log | None = None, config: ShareGroupConfig = CONFIG) -> None:
        self.now = NOW
        self.requests: list[tuple[InitializeState, Any]] = []
        self.failing = False
        self.waits = False
        super().__init__(
            log,
            clock=lambda: self.now,
            type_configs=TypeConfigs(share=lambda group_id: config),
            initialize_state=lambda group_id, request, done: self.initialize(request, done),
        )

    def initialize(self, request: InitializeState, done: Any) -> None:
        self.requests.append((request, done))
        if not self.waits:
            done(StateInitialized({} if self.failing else request.partitions))

    def join(self, member: str, *topics: str) -> Any:
        return self.share_beat(member, 0, topics=frozenset(topics or ("a",)))

    def share_beat(self, member: str, epoch: int, **more: Any) -> Any:
        """The response, the number of an error, or None without a response yet."""
        responses: list[ShareHeartbeatReply] = []
        error = self.groups.handle("g", ShareHeartbeat(responses.append, member, epoch, "c", "/h", **more))
        if error:
            return error
        return responses[0].error or responses[0] if responses else None

    def join_and_heartbeat(self, member: str) -> ShareHeartbeatReply:
        """Join, and send the heartbeat after the initialization."""
        joined = self.join(member)
        found = self.share_beat(member, joined.epoch)
        assert isinstance(found, ShareHeartbeatReply)
        self.share_group.validate()
        return found

    @property
    def share_group(self) -> ShareGroup:
        group, error = self.groups.find_existing("g")
        assert isinstance(group, ShareGroup) and not error
        return group

    def reloaded_scene(self) -> Scene:
        scene = Scene(Log(self.log.data, self.log.end))
        scene.now = self.now
        return scene

    def pass_ms(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)
        self.groups.tick(self.now)


def test_a_member_gets_its_partitions_after_their_state_is_initialized() -> None:
    scene = Scene()
    joined = scene.join("m")
    assert (joined.epoch, joined.assigned, joined.heartbeat_ms) == (1, frozenset(), SOON_MS)
    ((request, _),) = scene.requests
    assert request.partitions == {A: ("a", frozenset(range(4)))} and request.state_epoch == 1
    found = scene.share_beat("m", 1)
    assert (found.epoch, found.assigned, found.heartbeat_ms) == (2, share(A, 0, 1, 2, 3), 1_000)
    assert scene.share_beat("m", 2).assigned is None, "nothing has changed"


def test_members_share_partitions() -> None:
    scene = Scene()
    scene.join_and_heartbeat("m1")
    second = scene.join("m2")
    assert len(second.assigned) == 2
    first = scene.share_beat("m1", 2)
    assert first.assigned | second.assigned == share(A, 0, 1, 2, 3)
    scene.share_group.validate()


def test_a_failed_initialization_is_repeated_but_never_runs_twice_at_once() -> None:
    scene = Scene()
    scene.failing = True
    scene.join("m")
    scene.share_beat("m", 1)
    assert len(scene.requests) == 2
    scene.waits = True
    scene.share_beat("m", 1)
    scene.share_beat("m", 1)
    assert len(scene.requests) == 3
    scene.failing = False
    scene.requests[-1][1](StateInitialized(scene.requests[-1][0].partitions))
    assert scene.share_beat("m", 1).assigned == share(A, 0, 1, 2, 3)


def test_new_partitions_are_initialized_and_assigned() -> None:
    scene = Scene()
    found = scene.join_and_heartbeat("m")
    scene.topics.there["a"] = (A, 5)
    scene.topics.version += 1
    scene.share_beat("m", found.epoch)
    assert scene.requests[-1][0].partitions == {A: ("a", frozenset({4}))}
    assert scene.share_beat("m", found.epoch).assigned == share(A, 0, 1, 2, 3, 4)


def test_a_new_subscription_changes_the_assignment() -> None:
    scene = Scene()
    found = scene.join_and_heartbeat("m")
    both = scene.share_beat("m", found.epoch, topics=frozenset({"b"}))
    assert both.assigned == frozenset()
    assert scene.share_beat("m", both.epoch).assigned == share(B, 0, 1, 2)


def test_epochs_are_checked() -> None:
    scene = Scene()
    assert scene.share_beat("m", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    found = scene.join_and_heartbeat("m")
    assert scene.share_beat("other", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.share_beat("m", found.epoch + 1) == ErrorCode.FENCED_MEMBER_EPOCH
    assert scene.share_beat("m", found.epoch - 1).assigned == share(A, 0, 1, 2, 3), "the last response was lost"
    assert scene.join("m").assigned == share(A, 0, 1, 2, 3), "the member has restarted"


def test_a_full_group_rejects_members() -> None:
    scene = Scene()
    for m in "xyz":
        scene.join(m)
    assert scene.join("more") == ErrorCode.GROUP_MAX_SIZE_REACHED
    scene.share_beat("x", -1)
    assert isinstance(scene.join("more"), ShareHeartbeatReply)


def test_the_partitions_of_a_member_go_to_the_others_when_it_leaves_or_its_session_ends() -> None:
    scene = Scene()
    scene.join_and_heartbeat("m1")
    scene.join("m2")
    assert scene.share_beat("m1", -1).epoch == -1
    found = scene.share_beat("m2", scene.share_group.current_assignments["m2"].epoch)
    assert found.assigned == share(A, 0, 1, 2, 3)
    scene.pass_ms(CONFIG.session_ms + 1)
    assert not scene.share_group.members and scene.share_group.state.value == "Empty"


def test_assignments_wait_for_the_assignment_interval() -> None:
    scene = Scene(config=ShareGroupConfig(assignment_ms=1_000, session_ms=10_000, heartbeat_ms=1_000))
    scene.join_and_heartbeat("m1")
    first = scene.share_beat("m1", 1)
    assert first.heartbeat_ms == SOON_MS
    scene.pass_ms(1_000)
    assert scene.share_beat("m1", 1).assigned == share(A, 0, 1, 2, 3)


def test_a_member_that_joins_within_the_assignment_interval_gets_its_partitions_after_it() -> None:
    scene = Scene(config=ShareGroupConfig(assignment_ms=1_000, session_ms=10_000, heartbeat_ms=1_000))
    scene.join_and_heartbeat("m1")
    scene.pass_ms(1_000)
    first = scene.share_beat("m1", 1)
    second = scene.join("m2")
    assert (second.assigned, second.heartbeat_ms) == (frozenset(), SOON_MS) and second.epoch > 0
    scene.pass_ms(1_000)
    found = [scene.share_beat("m2", second.epoch), scene.share_beat("m1", first.epoch)]
    assert found[0].assigned | found[1].assigned == share(A, 0, 1, 2, 3)
    assert {len(x.assigned) for x in found} == {2}
    scene.share_group.validate()


def test_a_successor_has_the_same_group() -> None:
    scene = Scene()
    scene.join_and_heartbeat("m1")
    scene.join("m2")
    for s in (scene, scene.reloaded_scene()):
        group = s.share_group
        assert sorted(group.members) == ["m1", "m2"]
        assert group.state_partitions.initialized == {A: ("a", frozenset(range(4)))}
        assert s.share_beat("m2", group.current_assignments["m2"].epoch).error == 0
        assert not s.share_group.current_assignments["m2"].assigned <= frozenset()
        group.validate()


@pytest.mark.parametrize("error", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT])
def test_a_member_whose_record_is_not_written_is_not_in_the_group(error: ErrorCode) -> None:
    scene = Scene()
    scene.join_and_heartbeat("m1")
    scene.log.error = error
    assert scene.join("m2") in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
    scene.log.error = 0
    scene.load()
    assert sorted(scene.share_group.members) == ["m1"]


def test_requests_of_other_group_types_are_rejected() -> None:
    scene = Scene()
    scene.join_and_heartbeat("m")
    assert scene.classic_join() == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert scene.beat("other", 0, "a") == ErrorCode.GROUP_ID_NOT_FOUND
    commit = classic.Commit(print, "", None, -1, {("a", 0): classic.Offset(1, -1, "", 1)})
    assert scene.groups.handle("g", commit) == ErrorCode.GROUP_ID_NOT_FOUND
    assert scene.groups.handle("g", classic.Heartbeat(print, "m", None, 1)) == ErrorCode.UNKNOWN_MEMBER_ID
    other = Scene()
    other.classic_join()
    assert other.join("m") == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_are_altered_only_without_members_and_start_a_new_epoch() -> None:
    scene = Scene()
    scene.join_and_heartbeat("m")
    responses: list[Completed] = []
    scene.groups.handle("g", OffsetsAltered(responses.append, {B: ("b", frozenset({1}))}))
    assert responses[-1].error == ErrorCode.NON_EMPTY_GROUP
    scene.share_beat("m", -1)
    before = scene.share_group.epoch
    scene.groups.handle("g", OffsetsAltered(responses.append, {B: ("b", frozenset({1}))}))
    assert responses[-1].error == 0 and scene.share_group.epoch > before
    assert scene.share_group.state_partitions.initialized[B] == ("b", frozenset({1}))


def test_deleted_state_is_initialized_again_for_the_next_member() -> None:
    scene = Scene()
    found = scene.join_and_heartbeat("m")
    responses: list[Completed] = []
    scene.groups.handle("g", StateDeleted(responses.append, frozenset({A})))
    assert responses[0].error == 0 and not scene.share_group.state_partitions.initialized
    scene.share_beat("m", found.epoch)
    assert scene.requests[-1][0].partitions == {A: ("a", frozenset(range(4)))}
    assert scene.requests[-1][0].state_epoch > 1


def test_the_end_of_the_leadership_answers_waiting_members() -> None:
    scene = Scene()
    scene.join_and_heartbeat("m1")
    scene.log.later = []
    responses: list[ShareHeartbeatReply] = []
    scene.groups.handle("g", ShareHeartbeat(responses.append, "m2", 0, "c", "/h", None, frozenset({"a"})))
    scene.groups.on_resignation(0, NOW)
    assert [a.error for a in responses] == [ErrorCode.NOT_COORDINATOR]
