"""A deleted group leaves the memory, and the next coordinator's, when its tombstones are replicated. A rejected deletion deletes nothing."""

from __future__ import annotations

import pytest

from brokerd.wire.errors import ErrorCode
from tests.unit.coordinator.share_group.test_group import Scene


def scene_with_empty_group() -> Scene:
    scene = Scene()
    scene.join_and_heartbeat("m")
    scene.share_beat("m", -1)
    return scene


def delete_group_errors(scene: Scene) -> list[int]:
    errors: list[int] = []
    scene.groups.tombstones("g", scene.share_group, (), True, errors.append)
    return errors


def test_a_share_group_is_deleted_with_all_its_records() -> None:
    scene = scene_with_empty_group()
    assert delete_group_errors(scene) == [0]
    assert scene.groups.find_existing("g") == (None, 0) == scene.reloaded_scene().groups.find_existing("g")
    assert scene.join("m").epoch == 1, "a new group"


def test_a_rejected_deletion_deletes_nothing() -> None:
    scene = scene_with_empty_group()
    scene.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert delete_group_errors(scene) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert scene.share_group.epoch and scene.reloaded_scene().share_group.epoch


@pytest.mark.parametrize("error", [0, ErrorCode.REQUEST_TIMED_OUT])
def test_a_group_is_not_used_while_it_is_deleted(error: int) -> None:
    scene = scene_with_empty_group()
    scene.log.later = []
    errors = delete_group_errors(scene)
    assert scene.join("m") == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and not errors
    for done in scene.log.later:
        done(error)
    scene.log.later = None
    scene.load()
    assert errors == [ErrorCode.COORDINATOR_NOT_AVAILABLE if error else 0]
    assert scene.groups.find_existing("g") == (None, 0), "the tombstones are in the log"
