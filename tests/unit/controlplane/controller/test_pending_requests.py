"""Requests that wait for their records are answered once, also when their topic is deleted."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from brokerd.cluster.metadata import TopicDeleted
from brokerd.wire.errors import ErrorCode
from controlplane.controller.events import (
    ControllerTick,
    DesiredAssignment,
    DesiredRead,
    DesiredTopic,
    Requested,
)
from tests.unit.controlplane.controller.test_elections import NOW, TOPIC, CoreHarness
from tests.unit.controlplane.controller.test_reconcile_pass import DELETED, LED_BY_1, reassign, records, responses
from tests.unit.stored_requests import forwarded_request


def test_a_reassignment_of_a_deleted_topic_is_answered_in_the_entry_of_the_deletion() -> None:
    core_harness = CoreHarness(LED_BY_1)
    assert responses(reassign(core_harness, "r", 2, 1, 3)) == {}
    core_harness.core.in_flight = True
    core_harness.core.handle(DesiredRead(assignments=(DesiredAssignment(TOPIC, 0, (2, 1, 3), 0, "1", "r"),)), NOW)
    core_harness.core.handle(DesiredRead((DELETED,)), NOW)
    core_harness.core.in_flight = False
    assert responses(core_harness.core.handle(ControllerTick(), NOW)) == {"r": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_reassignment_without_a_row_is_answered_when_its_topic_is_deleted() -> None:
    """The database thread saw the deletion and wrote no row. A new topic of the same name is another topic."""
    core_harness = CoreHarness(LED_BY_1)
    reassign(core_harness, "r", 2, 1, 3)
    again = DesiredTopic(UUID(int=8), "t", 1, False, 1, 3)
    effects = core_harness.core.handle(DesiredRead((DELETED, again)), NOW)
    assert responses(effects) == {"r": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_both_requests_of_one_assignment_are_answered() -> None:
    """A client repeats its request with another broker: both have the same row."""
    core_harness = CoreHarness(LED_BY_1)
    reassign(core_harness, "a", 2, 1, 3)
    reassign(core_harness, "b", 2, 1, 3)
    core_harness.core.in_flight = True
    for request_id in ("a", "b"):
        core_harness.core.handle(
            DesiredRead(assignments=(DesiredAssignment(TOPIC, 0, (2, 1, 3), 0, "1", request_id),)), NOW
        )
    core_harness.core.in_flight = False
    assert responses(core_harness.core.handle(ControllerTick(), NOW)) == {"a": 0, "b": 0}


def test_a_config_change_of_a_deleted_topic_is_answered_with_the_deletion() -> None:
    core_harness = CoreHarness(LED_BY_1)
    changes = {"name": "t", "configs": [{"name": "retention.ms", "op": "set", "value": "1000"}]}
    payload = {"principal": "User:ann", "topics": [changes]}
    effects = core_harness.core.handle(Requested(forwarded_request("c", 1, 101, "alter_topic_configs", payload)), NOW)
    assert responses(effects) == {}, "it waits for the database"
    core_harness.core.in_flight = True
    core_harness.core.handle(DesiredRead((replace(DELETED, deleted=False, request_id="c"),)), NOW)
    core_harness.core.handle(DesiredRead((replace(DELETED, generation=3),)), NOW)
    core_harness.core.in_flight = False
    effects = core_harness.core.handle(ControllerTick(), NOW)
    assert TopicDeleted(TOPIC, "t", 3) in records(effects)
    assert responses(effects) == {"c": 0}
