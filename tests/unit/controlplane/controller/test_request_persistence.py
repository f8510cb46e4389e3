"""Requests of clients as rows: written atomically and once, with their actor, in new generations."""

from __future__ import annotations

import pytest

from controlplane.controller.events import (
    DesiredFailed,
)
from controlplane.models import Change, HandledRequest, Topic
from controlplane.services import topics
from tests.unit.controlplane.controller.test_database import CoreHarness, topic_payload
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_client_requests_and_operator_acts_write_the_same_rows(world: World) -> None:
    response = CoreHarness().request(
        "create_topics", topic_payload("flights", configs={"retention.ms": "5", "segment.ms": None})
    )
    row = Topic.objects.get()
    assert (row.partitions, row.configs, row.request_id) == (2, {"retention.ms": "5"}, "r1")
    assert [(t.topic_id, t.request_id) for t in response.topics] == [(row.id, "r1")]
    assert Change.objects.get().actor == "client at broker 1", "a broker of before does not say who asked"


def test_a_change_row_has_the_principal_and_the_broker_of_the_request(world: World) -> None:
    core_harness = CoreHarness()
    core_harness.request("create_topics", topic_payload("t"), principal="User:ann")
    core_harness.request("delete_topics", {"name": "t"}, request_id="r2", principal="User:bob")
    quota = {"name": '{"user":"ann"}', "kind": "quota", "value": {"producer_byte_rate": 1.0}}
    core_harness.request("alter_access", quota, request_id="r3", principal="User:root")
    assert [(c.verb, c.actor) for c in Change.objects.order_by("id")] == [
        ("topic.create", "User:ann at broker 1"),
        ("topic.delete", "User:bob at broker 1"),
        ("quota.set", "User:root at broker 1"),
    ]


def test_a_repeated_request_is_written_once_and_answered_each_time(world: World) -> None:
    core_harness = CoreHarness()
    first = core_harness.request("create_topics", topic_payload("a"), topic_payload("b"))
    again = core_harness.request("create_topics", topic_payload("a"), topic_payload("b"))
    assert {t.topic_id for t in first.topics} == {t.topic_id for t in again.topics}
    assert (Topic.objects.count(), HandledRequest.objects.count()) == (2, 1)


def test_a_request_is_written_atomically(world: World) -> None:
    core_harness = CoreHarness()
    topics.create_topic("taken", actor="alice")
    response = core_harness.request("create_topics", topic_payload("free"), topic_payload("taken"))
    assert isinstance(response, DesiredFailed)
    assert response.error == 36
    assert not Topic.objects.filter(name="free").exists()
    assert not HandledRequest.objects.exists()


def test_create_partitions_alter_and_delete_write_new_generations(world: World) -> None:
    core_harness = CoreHarness()
    core_harness.request("create_topics", topic_payload("t", configs={"segment.ms": "5"}))
    grown = core_harness.request(
        "create_partitions", {"name": "t", "partitions": 4, "assignment": [[1], [2]]}, request_id="r2"
    )
    assert (grown.topics[0].generation, grown.topics[0].assignment) == (2, {2: (1,), 3: (2,)})
    operations = [
        {"name": "retention.ms", "value": "9", "op": "set"},
        {"name": "segment.ms", "value": None, "op": "delete"},
    ]
    altered = core_harness.request("alter_topic_configs", {"name": "t", "configs": operations}, request_id="r3")
    assert altered.topics[0].configs == {"retention.ms": "9"}
    row = Topic.objects.get()
    gone = core_harness.request("delete_topics", {"id": str(row.id)}, request_id="r4")
    assert (gone.topics[0].deleted, gone.topics[0].generation) == (True, 4)


def test_an_alter_request_without_a_change_is_answered(world: World) -> None:
    core_harness = CoreHarness()
    core_harness.request("create_topics", topic_payload("t", configs={"retention.ms": "9"}))
    same = {"name": "t", "configs": [{"name": "retention.ms", "value": "9", "op": "set"}]}
    response = core_harness.request("alter_topic_configs", same, request_id="r2")
    assert [(t.generation, t.request_id) for t in response.topics] == [(1, "r2")]


def test_a_change_to_a_topic_without_a_row_is_rejected(world: World) -> None:
    topic_id = world.topic("ghost", (1,), row=False)
    response = CoreHarness().request("delete_topics", {"id": str(topic_id)})
    assert isinstance(response, DesiredFailed)
    assert "adopt" in response.message
