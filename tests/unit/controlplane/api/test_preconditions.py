"""If-Match: a change of an object that was changed meanwhile is rejected with the current state."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from rest_framework.test import APIClient

from controlplane.models import Change, Move, NotificationDelivery, SparkJob, SparkRun, Topic
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
API = "/api/v1"
RETENTION = {"configs": {"retention.ms": "9"}}


@pytest.fixture
def topic(world: World) -> str:
    world.topic("orders", (1, 2))
    return f"{API}/topics/orders"


@pytest.fixture
def move(topic: str, operator: APIClient) -> str:
    body = {"scope": {"kind": "drain", "broker": 1}, "comment": "x"}
    return f"{API}/moves/{operator.post(f'{API}/moves', body, format='json').json()['id']}"


def patch(client: APIClient, path: str, body: Any, tag: str) -> Any:
    return client.patch(path, body, format="json", HTTP_IF_MATCH=tag)


def test_the_tag_of_a_topic_is_its_generation_and_guards_changes(topic: str, operator: APIClient) -> None:
    read = operator.get(topic)
    assert read.headers["ETag"] == f'"{read.json()["row"]["generation"]}"' == '"1"'
    changed = patch(operator, topic, RETENTION, '"1"')
    assert (changed.status_code, changed.headers["ETag"]) == (202, '"2"')
    late = patch(operator, topic, {"configs": {"retention.ms": "10"}}, '"1"')
    assert (late.status_code, late.json()["code"], late.headers["ETag"]) == (412, "precondition_failed", '"2"')
    assert late.json()["current"]["configs"] == {"retention.ms": "9"}
    assert Topic.objects.get().configs == {"retention.ms": "9"}


@pytest.mark.parametrize("tag", ['"9"', 'W/"1"', "1", '"1x"'])
def test_only_the_same_strong_tag_matches(topic: str, operator: APIClient, tag: str) -> None:
    assert patch(operator, topic, RETENTION, tag).status_code == 412


@pytest.mark.parametrize("tag", ["*", '"7", "1"'])
def test_any_and_one_of_several_tags_match(topic: str, operator: APIClient, tag: str) -> None:
    assert patch(operator, topic, RETENTION, tag).status_code == 202


def test_a_delete_is_guarded_too(topic: str, operator: APIClient) -> None:
    body = {"comment": "over"}
    assert operator.delete(topic, body, format="json", HTTP_IF_MATCH='"2"').status_code == 412
    assert operator.delete(topic, body, format="json", HTTP_IF_MATCH='"1"').status_code == 202


def test_the_tag_of_a_move_counts_its_writes(move: str, operator: APIClient) -> None:
    tag = operator.get(move).headers["ETag"]
    approved = operator.post(f"{move}/approve", {}, format="json", HTTP_IF_MATCH=tag)
    assert approved.status_code == 200 and approved.headers["ETag"] != tag
    late = operator.post(f"{move}/start", {}, format="json", HTTP_IF_MATCH=tag)
    assert (late.status_code, late.json()["current"]["state"]) == (412, "approved")
    assert Move.objects.get().state == "approved"
    assert operator.get(f"{move}/history").headers.get("ETag") is None


def test_the_tag_of_a_plan_changes_with_its_approval(topic: str, operator: APIClient) -> None:
    body = {"scope": {"kind": "drain", "broker": 1}, "comment": "x"}
    plan = operator.post(f"{API}/plans", body, format="json").json()
    path = f"{API}/plans/{plan['id']}"
    tag = operator.get(path).headers["ETag"]
    approval = {"digest": plan["digest"], "comment": "x"}
    approved = operator.post(f"{path}/approve", approval, format="json", HTTP_IF_MATCH=tag)
    assert approved.status_code == 200, approved.content
    late = operator.post(f"{path}/move", {"digest": plan["digest"]}, format="json", HTTP_IF_MATCH=tag)
    assert (late.status_code, Move.objects.count()) == (412, 0)


def test_a_rejection_under_a_precondition_is_in_the_audit_log(topic: str, operator: APIClient) -> None:
    rejected = patch(operator, topic, {"partitions": 1, "configs": {"retention.ms": "x"}}, '"1"')
    assert rejected.status_code == 400
    assert Change.objects.filter(outcome="refused", verb="topic.alter").count() == 1


def test_a_missing_object_is_404_and_a_path_without_tags_400(topic: str, operator: APIClient) -> None:
    assert patch(operator, f"{API}/topics/nope", RETENTION, '"1"').status_code == 404
    response = operator.post(f"{API}/brokers/1/cordon", {}, format="json", HTTP_IF_MATCH='"1"')
    assert (response.status_code, response.json()["field"]) == (400, "If-Match")


@pytest.mark.parametrize("path", ["records", "record-copies", "record-copies/preview"])
def test_a_precondition_of_a_request_to_a_broker_is_400(topic: str, operator: APIClient, path: str) -> None:
    """A transaction around the request to the broker would lock the database during the request."""
    response = operator.post(f"{topic}/{path}", {"value": "x"}, format="json", HTTP_IF_MATCH='"1"')
    assert (response.status_code, response.json()["field"]) == (400, "If-Match")
    assert not Change.objects.filter(verb__startswith="record").exists()


def administrator() -> APIClient:
    client = APIClient()
    client.force_authenticate(get_user_model().objects.create_user("root", is_staff=True, is_superuser=True))
    return client


def test_a_precondition_of_a_test_notification_is_400(db: None) -> None:
    client = administrator()
    channel = {"name": "ops", "kind": "webhook", "url": "https://a.example/"}
    path = f"{API}/notification-channels/{client.post(f'{API}/notification-channels', channel, format='json').json()['id']}"
    response = client.post(f"{path}/test", {}, format="json", HTTP_IF_MATCH="*")
    assert (response.status_code, response.json()["field"]) == (400, "If-Match")
    assert not NotificationDelivery.objects.exists()
    assert patch(client, path, {"enabled": False}, '"1"').status_code == 200


def test_no_guarded_request_opens_a_connection(
    topic: str, move: str, operator: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []

    def connect(_: socket.socket, address: Any) -> None:
        opened.append(address)
        raise OSError

    monkeypatch.setattr(socket.socket, "connect", connect)
    plan = operator.post(f"{API}/plans", {"scope": {"kind": "drain", "broker": 1}, "comment": "x"}, format="json")
    stored, digest = f"{API}/plans/{plan.json()['id']}", {"digest": plan.json()["digest"], "comment": "x"}
    requests: list[tuple[str, str, Any]] = [
        ("patch", topic, RETENTION),
        ("post", f"{move}/approve", {}),
        ("post", f"{move}/start", {}),
        ("post", f"{move}/throttle", {"throttle_bytes_per_s": 9}),
        ("post", f"{move}/throttle", {"throttle_bytes_per_s": 9_000_000, "adaptive": {}}),
        ("post", f"{move}/schedule", {"window": None}),
        ("post", f"{move}/pause", {}),
        ("post", f"{move}/resume", {}),
        ("post", f"{move}/cancel", {"comment": "x"}),
        ("post", f"{move}/roll_back", {"comment": "x"}),
        ("post", f"{stored}/approve", digest),
        ("post", f"{stored}/move", digest),
        ("delete", stored, {}),
        ("delete", topic, {"comment": "x"}),
    ]
    responses = [getattr(operator, verb)(path, body, format="json", HTTP_IF_MATCH="*") for verb, path, body in requests]
    assert {a.status_code for a in responses} <= {200, 201, 202, 204, 400, 409}
    assert not [a.json() for a in responses if a.status_code == 400 and a.json()["field"] == "If-Match"]
    assert opened == []


def test_a_precondition_and_a_key_work_together(move: str, operator: APIClient) -> None:
    headers = {"HTTP_IF_MATCH": operator.get(move).headers["ETag"], "HTTP_IDEMPOTENCY_KEY": "k"}
    first = operator.post(f"{move}/approve", {}, format="json", **headers)
    again = operator.post(f"{move}/approve", {}, format="json", **headers)
    assert (first.status_code, again.status_code) == (200, 200), again.content
    assert again.headers["Idempotency-Replayed"] == "true"


def test_the_tag_of_a_threshold_counts_changes_for_the_cluster_and_for_objects() -> None:
    client = administrator()
    path = f"{API}/alert-thresholds/disk_free_low"
    assert client.get(path).headers["ETag"] == '"0"'
    changed = patch(client, path, {"value": 20}, '"0"')
    assert (changed.status_code, changed.headers["ETag"]) == (200, '"1"')
    late = patch(client, path, {"value": 30}, '"0"')
    assert (late.status_code, late.headers["ETag"], late.json()["current"]["value"]) == (412, '"1"', 20)
    override = f"{path}/overrides/2"
    assert client.put(override, {"value": 25}, format="json", HTTP_IF_MATCH='"0"').status_code == 412
    assert client.put(override, {"value": 25}, format="json", HTTP_IF_MATCH='"1"').headers["ETag"] == '"2"'
    assert client.delete(override, {}, format="json", HTTP_IF_MATCH='"1"').status_code == 412
    assert client.delete(override, {}, format="json", HTTP_IF_MATCH='"2"').headers["ETag"] == '"3"'
    assert patch(client, f"{API}/alert-thresholds/no_such", {"value": 1}, '"0"').status_code == 404


def test_the_tag_of_a_spark_job_counts_changes_and_no_runs(operator: APIClient) -> None:
    job = SparkJob.objects.create(name="p", kind="profile", parameters={"topics": ["t"]}, actor="a")
    path = f"{API}/spark-jobs/{job.pk}"
    first = operator.post(f"{path}/schedule", {"schedule": "0 3 * * *"}, format="json", HTTP_IF_MATCH='"1"')
    assert (first.status_code, first.headers["ETag"], first.json()["version"]) == (200, '"2"', 2)
    SparkRun.objects.create(job=job, actor="a", state="stopped")
    assert operator.get(path).headers["ETag"] == '"2"'
    late = operator.post(f"{path}/schedule", {"schedule": ""}, format="json", HTTP_IF_MATCH='"1"')
    assert (late.status_code, late.json()["current"]["schedule"]) == (412, "0 3 * * *")
    assert operator.delete(path, {}, format="json", HTTP_IF_MATCH='"1"').status_code == 412
    assert operator.delete(path, {}, format="json", HTTP_IF_MATCH='"2"').status_code == 204
    assert operator.delete(path, {}, format="json", HTTP_IF_MATCH='"2"').status_code == 404
