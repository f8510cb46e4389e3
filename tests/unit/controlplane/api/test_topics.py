"""Topics over REST."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.models import Change, ReplicaTruncation
from tests.unit.controlplane.api.test_api import API
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_a_topic_is_created_altered_and_deleted_over_rest(world: World, operator: APIClient) -> None:
    made = operator.post(f"{API}/topics", {"name": "flights", "partitions": 2, "comment": "demo"}, format="json")
    assert made.status_code == 202
    assert (made.json()["state"], made.json()["partitions"]) == ("creating", 2)
    changed = operator.patch(
        f"{API}/topics/flights", {"configs": {"retention.ms": "9"}, "partitions": 3}, format="json"
    )
    assert changed.status_code == 202
    assert changed.json()["configs"] == {"retention.ms": "9"}
    back = operator.patch(f"{API}/topics/flights", {"configs": {"retention.ms": None}}, format="json")
    assert back.json()["configs"] == {}
    assert operator.delete(f"{API}/topics/flights", {"comment": "over"}, format="json").status_code == 202
    assert operator.get(f"{API}/topics/flights").status_code == 404
    verbs = [c["verb"] for c in operator.get(f"{API}/changes").json()["rows"]]
    assert verbs == ["topic.delete", "topic.alter", "topic.alter", "topic.create"]
    assert Change.objects.filter(actor="alice").count() == 4


def test_an_assignment_has_partition_numbers_as_keys(world: World, operator: APIClient) -> None:
    body = {"name": "placed", "partitions": 2, "assignment": {"0": [1, 2], "1": [2, 3]}}
    assert operator.post(f"{API}/topics", body, format="json").status_code == 202
    wrong = operator.post(f"{API}/topics", {**body, "name": "t", "assignment": {"x": [1]}}, format="json")
    assert (wrong.status_code, wrong.json()["field"]) == (400, "assignment")


def test_partitions_and_configs_of_a_topic(world: World, operator: APIClient) -> None:
    world.topic("flights", (1, 2), (2, 1), configs={"retention.ms": "5"})
    page = operator.get(f"{API}/topics/flights/partitions").json()
    assert [(p["index"], p["replicas"]) for p in page["rows"]] == [(0, [1, 2]), (1, [2, 1])]
    one = operator.get(f"{API}/topics/flights/partitions/1").json()
    assert (one["leader"], one["state"]) == (2, "in_sync")
    assert operator.get(f"{API}/topics/flights/partitions/7").status_code == 404
    configs = operator.get(f"{API}/topics/flights/configs?sort=-source&limit=1").json()
    (row,) = configs["rows"]
    assert (row["name"], row["value"], row["source"]) == ("retention.ms", "5", "topic")
    assert configs["total"] > 20 and configs["next_cursor"]
    assert operator.get(f"{API}/topics/none/configs").status_code == 404


def test_a_change_bound_to_a_generation_is_rejected_after_another_change(world: World, operator: APIClient) -> None:
    world.topic("flights", (1, 2))
    here = f"{API}/topics/flights"
    first = operator.patch(here, {"partitions": 2, "if_generation": 1}, format="json")
    again = operator.patch(here, {"partitions": 3, "if_generation": 1}, format="json")
    assert (first.status_code, again.status_code) == (202, 409)


def test_only_topics_with_half_messages_list_them(world: World, operator: APIClient) -> None:
    world.topic("flights", (1, 2))
    assert operator.get(f"{API}/topics/flights/half-messages").status_code == 404


def test_the_truncations_of_a_partition(world: World, operator: APIClient) -> None:
    world.topic("flights", (1, 2))
    ReplicaTruncation.objects.create(
        topic_id=world.image.topic_ids["flights"],
        topic_name="flights",
        partition=0,
        broker_id=2,
        first_offset=10,
        end_offset=15,
        high_watermark=12,
        leader_epoch=3,
        truncated_at="2026-11-29T12:00:00Z",
    )
    listed = operator.get(f"{API}/topics/flights/partitions/0/truncations").json()
    assert listed["total"] == 1
    assert listed["rows"][0] == {
        "topic": "flights",
        "partition": 0,
        "broker_id": 2,
        "first_offset": 10,
        "last_offset": 14,
        "records": 5,
        "acknowledged": 2,
        "leader_epoch": 3,
        "truncated_at": "2026-11-29T12:00:00+00:00",
        "approval_request": None,
        "automatic_election": None,
    }
    assert operator.get(f"{API}/topics/flights/partitions/9/truncations").status_code == 404
