"""A topic is deleted in the same pass in which another event concerns it. The log gets no record about the topic after its deletion."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from brokerd.cluster.configs import ALL_BROKERS
from brokerd.cluster.levels import LEVEL_MAX
from brokerd.cluster.metadata import BROKER, IsrRejected, PartitionChanged, ReplicaReset, RequestCompleted, TopicDeleted
from brokerd.cluster.model import Now, PartitionState
from brokerd.cluster.znodes import IsrProposal
from controlplane.controller.core import PREFERRED_EVERY_MS
from controlplane.controller.events import (
    AppendMetadata,
    ControllerTick,
    DesiredAccess,
    DesiredAssignment,
    DesiredRead,
    DesiredReset,
    DesiredTopic,
    IsrProposed,
    Report,
    Requested,
)
from tests.unit.controlplane.controller.test_elections import ALL, LED_BY_2, LOST, NOW, TOPIC, CoreHarness
from tests.unit.stored_requests import forwarded_request

DELETED = DesiredTopic(TOPIC, "t", 2, True, 1, 3)
LED_BY_1 = replace(LED_BY_2, leader=1, leader_broker_epoch=101)
MOVED = replace(LED_BY_1, replicas=(2, 3, 1), removing=(1,))
WITH_ELR = replace(LED_BY_1, isr=ALL[:1], elr=(2,))


def records(effects: list[Any]) -> list[Any]:
    return [r for e in effects if isinstance(e, AppendMetadata) for r in e.records]


@pytest.mark.parametrize(
    ("state", "also"),
    [
        pytest.param(
            LED_BY_1, DesiredRead(assignments=(DesiredAssignment(TOPIC, 0, (2, 1, 3), 0, "1"),)), id="reassignment"
        ),
        pytest.param(LED_BY_1, DesiredRead(resets=(DesiredReset(TOPIC, 0, 3, "r"),)), id="reset"),
        pytest.param(
            WITH_ELR,
            DesiredRead(access=(DesiredAccess(BROKER, str(ALL_BROKERS), 1, {"min.insync.replicas": "1"}),)),
            id="minimum of all brokers",
        ),
        pytest.param(MOVED, DesiredRead(), id="end of a reassignment"),
        pytest.param(replace(LOST, last_isr=(3,)), DesiredRead(), id="election"),
        pytest.param(LED_BY_2, ControllerTick(), id="preferred leader"),
        pytest.param(LED_BY_1, IsrProposed(1, 101, (IsrProposal(TOPIC, 0, 5, 9, ALL[:2]),)), id="ISR"),
    ],
)
def test_nothing_is_written_about_a_topic_after_its_deletion(state: PartitionState, also: Any) -> None:
    core_harness = CoreHarness(state)
    core_harness.core.registrations = {
        b: replace(r, metadata_levels=(1, LEVEL_MAX)) for b, r in (core_harness.core.registrations or {}).items()
    }
    core_harness.image.metadata_version = LEVEL_MAX
    core_harness.core.in_flight = True
    core_harness.core.handle(also, NOW)
    core_harness.core.handle(DesiredRead((DELETED,)), NOW)
    core_harness.core.in_flight = False
    effects = core_harness.core.handle(ControllerTick(), Now(NOW.mono_ms + PREFERRED_EVERY_MS, NOW.wall_ms))
    written = records(effects)
    assert TopicDeleted(TOPIC, "t", 2) in written
    assert not [r for r in written if isinstance(r, PartitionChanged | ReplicaReset | IsrRejected)]
    core_harness.apply_appended(effects)
    assert TOPIC not in core_harness.image.topics


def test_a_topic_with_the_name_of_a_deleted_topic_is_created_next_without_a_conflict() -> None:
    core_harness = CoreHarness(LED_BY_1)
    again = DesiredTopic(UUID(int=8), "t", 1, False, 1, 3)
    effects = core_harness.core.handle(DesiredRead((again, DELETED)), NOW)
    assert records(effects) == [TopicDeleted(TOPIC, "t", 2)]
    effects += core_harness.apply_appended(effects)
    assert not [e for e in effects if isinstance(e, Report)]
    for e in effects[1:]:
        if isinstance(e, AppendMetadata):
            for record in e.records:
                core_harness.image.apply(record)
    topic = core_harness.image.topic_named("t")
    assert topic is not None and (topic.topic_id, topic.ready) == (again.topic_id, True)


def reassign(core_harness: CoreHarness, request_id: str, *replicas: int) -> list[Any]:
    item = {"name": "t-0", "topic": "t", "partition": 0, "replicas": list(replicas)}
    payload = {"principal": "User:ann", "topics": [item]}
    return core_harness.core.handle(
        Requested(forwarded_request(request_id, 1, 101, "alter_reassignments", payload)), NOW
    )


def responses(effects: list[Any]) -> dict[str, int]:
    """By request: the error of its only item."""
    return {
        r.request_id: int(r.result["results"][0]["error"]) for r in records(effects) if isinstance(r, RequestCompleted)
    }
