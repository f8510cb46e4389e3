"""Offsets and groups are deleted when their tombstones are replicated, not before. A failed deletion changes nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.apis.group_offsets import GroupOffsetsApi
from brokerd.apis.groups import GroupsApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.cluster.image import Image
from brokerd.cluster.model import Now
from brokerd.coordinator.classic import events
from brokerd.coordinator.classic.events import Offset
from brokerd.wire import end_transaction_marker
from brokerd.wire import messages as m
from brokerd.wire.end_transaction_marker import Marker
from brokerd.wire.errors import ErrorCode
from tests.unit.coordinator.classic.test_offsets import NOW
from tests.unit.coordinator.consumer.test_records import Harness, Log

RETENTION_MS = 1 << 40
PRODUCER = 77


class Scene(Harness):
    def __init__(self, log: Log | None = None) -> None:
        self.now = NOW
        super().__init__(log, clock=lambda: self.now)

    def load(self) -> None:
        for _ in range(3):
            self.groups.tick(self.now)

    def offset(self, at: int, topic: str = "a", producer_id: int | None = None) -> None:
        responses: list[Any] = []
        offsets = {(topic, 0): Offset(at, -1, "", self.now.wall_ms)}
        event: Any = events.Commit(responses.append, "", None, -1, offsets)
        if producer_id is not None:
            event = events.TransactionalCommit(responses.append, "", None, -1, offsets, producer_id, 0)
        assert self.groups.handle("g", event) == 0
        assert self.log.later is not None or [a.error for a in responses] == [0]

    def end(self, committed: bool) -> None:
        at = self.log.end
        self.log.write(end_transaction_marker.marker(PRODUCER, 0, Marker(committed, 0), 1))
        self.groups.transaction_ended(0, PRODUCER, committed, at)

    def delete_group(self) -> list[int]:
        """The error, or None without a response yet."""
        return self._send_request(
            GroupsApi(self.groups, lambda *_: None, session_ms_min=1, session_ms_max=10_000, auth=ALLOW_ALL).delete,
            m.DeleteGroupsRequest(groups_names=["g"]),
            lambda response: response.results[0].error_code,
        )

    def delete_offset(self, topic: str = "a") -> list[int]:
        part = m.OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)
        topics = [m.OffsetDeleteRequest.OffsetDeleteRequestTopic(name=topic, partitions=[part])]
        return self._send_request(
            GroupOffsetsApi(self.groups, lambda: self.now, ALLOW_ALL, Image).delete_offsets,
            m.OffsetDeleteRequest(group_id="g", topics=topics),
            lambda response: response.error_code,
        )

    @staticmethod
    def _send_request(api: Any, body: Any, error_of: Any) -> list[int]:
        errors: list[int] = []
        request: Any = SimpleNamespace(body=body, reply=lambda response: errors.append(int(error_of(response))))
        api(request)
        return errors

    def advance(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)
        self.load()

    @property
    def offsets(self) -> dict[str, int]:
        return {t: o.offset for (t, _), o in self.group.commits.offsets.items()} if self.group else {}

    def reloaded_scene(self) -> Scene:
        return Scene(Log(self.log.data, self.log.end))


@pytest.mark.parametrize("delete", [Scene.delete_group, Scene.delete_offset])
def test_a_rejected_deletion_deletes_nothing(delete: Any) -> None:
    scene = Scene()
    scene.offset(5)
    scene.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert delete(scene) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert scene.offsets == {"a": 5}, "rejected, and deleted all the same"
    scene.log.error = 0
    scene.offset(6)
    assert scene.offsets == {"a": 6} == scene.reloaded_scene().offsets
    assert delete(scene) == [0]
    assert scene.offsets == {} == scene.reloaded_scene().offsets


def test_a_deletion_of_unknown_outcome_is_resolved_from_the_log() -> None:
    scene = Scene()
    scene.offset(5)
    scene.log.later = []
    responses = scene.delete_group()
    assert scene.offsets == {"a": 5} and not responses
    scene.log.later.pop()(ErrorCode.REQUEST_TIMED_OUT)
    assert responses == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    scene.log.later = None
    scene.load()
    assert scene.group is None, "the tombstones are in the log"


def test_a_group_is_blocked_until_its_deletion_is_written() -> None:
    scene = Scene()
    scene.offset(5)
    scene.log.later = []
    responses = scene.delete_group()
    beat = events.Commit(lambda a: None, "", None, -1, {("a", 0): Offset(9, -1, "", 1)})
    assert scene.groups.handle("g", beat) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    scene.log.later.pop()(0)
    assert responses == [0] and scene.group is None
    scene.log.later = None
    scene.offset(9)
    assert scene.offsets == {"a": 9} == scene.reloaded_scene().offsets


def test_an_offset_that_is_committed_after_its_tombstone_stays() -> None:
    scene = Scene()
    scene.offset(5)
    scene.log.later = []
    responses = scene.delete_offset()
    scene.offset(9)
    deleted, committed = scene.log.later
    deleted(0)
    committed(0)
    assert responses == [0] and scene.offsets == {"a": 9} == scene.reloaded_scene().offsets


def test_a_deletion_includes_pending_commits() -> None:
    scene = Scene()
    scene.log.later = []
    scene.offset(5)
    responses = scene.delete_offset()
    committed, deleted = scene.log.later
    committed(0)
    deleted(0)
    assert responses == [0] and scene.offsets == {} == scene.reloaded_scene().offsets


@pytest.mark.parametrize("delete", [Scene.delete_group, Scene.delete_offset])
def test_pending_transactional_offsets_are_deleted_too(delete: Any) -> None:
    """As in Kafka: a later commit of the transaction does not restore the offset and the group."""
    scene = Scene()
    scene.offset(5)
    scene.offset(12, producer_id=PRODUCER)
    scene.offset(13, "b", PRODUCER)
    successor = scene.reloaded_scene()
    assert delete(scene) == [0]
    assert scene.group is None if delete is Scene.delete_group else scene.group.commits.unstable() == {("b", 0)}
    scene.end(True)
    left = {} if delete is Scene.delete_group else {"b": 13}
    assert scene.offsets == left == scene.reloaded_scene().offsets
    assert delete(successor) == [0]
    successor.end(True)
    assert successor.offsets == left


def test_a_group_with_only_transactional_offsets_can_be_deleted() -> None:
    scene = Scene()
    scene.offset(12, producer_id=PRODUCER)
    assert scene.delete_offset() == [0]
    scene.end(True)
    assert scene.offsets == {} == scene.reloaded_scene().offsets


def test_a_transaction_commits_offsets_written_after_a_deletion() -> None:
    scene = Scene()
    scene.offset(12, producer_id=PRODUCER)
    assert scene.delete_offset() == [0]
    scene.offset(14, producer_id=PRODUCER)
    scene.end(True)
    assert scene.offsets == {"a": 14} == scene.reloaded_scene().offsets


def test_a_rejected_expiration_is_retried() -> None:
    scene = Scene()
    scene.offset(5)
    scene.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    scene.advance(RETENTION_MS + 61_000)
    assert scene.offsets == {"a": 5}
    scene.log.error = 0
    scene.advance(61_000)
    assert scene.group is None and scene.reloaded_scene().group is None


def test_offsets_of_a_deleted_topic_are_deleted_when_the_log_accepts_writes() -> None:
    scene = Scene()
    scene.offset(5)
    scene.offset(6, "b")
    scene.offset(7, producer_id=PRODUCER)
    scene.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    scene.groups.topic_deleted("a")
    assert scene.offsets == {"a": 5, "b": 6}
    scene.log.error = 0
    scene.advance(61_000)
    assert scene.offsets == {"b": 6}
    scene.end(True)
    assert scene.offsets == {"b": 6} == scene.reloaded_scene().offsets


def test_the_offsets_of_a_topic_of_the_same_name_stay() -> None:
    scene = Scene()
    scene.offset(5)
    scene.groups.topic_deleted("a")
    scene.offset(1)
    scene.advance(61_000)
    scene.advance(61_000)
    assert scene.offsets == {"a": 1}
    assert scene.groups.shards[0].deleted_topics == {}


def test_a_deletion_in_several_batches_is_complete_or_resolved_from_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brokerd.coordinator.classic.records.BATCH_BYTES", 1)
    scene = Scene()
    for i in range(3):
        scene.offset(i, f"t{i}")
    scene.log.later = []
    responses = scene.delete_group()
    first, *rest = scene.log.later
    assert len(rest) == 3, "three offsets and the group"
    first(0)
    assert len(scene.offsets) == 3 and not responses
    for done in rest:
        done(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert responses == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert not scene.groups.shards[0].loaded, "a part of it is in the log"
