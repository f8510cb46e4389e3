"""Every error of the API is a problem of RFC 9457 with a code, and names all faults of the input."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import OperationalError
from rest_framework.exceptions import ErrorDetail, Throttled
from rest_framework.test import APIClient

from controlplane.api.errors import field_errors, handle
from controlplane.models import Topic
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
API = "/api/v1"
MEDIA_TYPE = "application/problem+json"


def check_problem(response: Any, status: int, code: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(response.content)
    assert (response.status_code, response.headers["Content-Type"]) == (status, MEDIA_TYPE), response.content
    assert (body["status"], body["code"], body["type"]) == (status, code, f"urn:weir:problem:{code}")
    assert body["title"] and body["detail"]
    return body


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("get", "/api/v1/nothing", 404, "not_found"),
        ("post", "/api/v2/topics", 404, "not_found"),
        ("get", "/api/", 404, "not_found"),
        ("get", "/api/v1/topics/nope", 404, "not_found"),
        ("put", "/api/v1/topics", 405, "method_not_allowed"),
        ("get", "/api/v1/brokers/1/cordon", 405, "method_not_allowed"),
    ],
)
def test_an_error_has_a_code(world: World, operator: APIClient, method: str, path: str, status: int, code: str) -> None:
    check_problem(getattr(operator, method)(path), status, code)


def test_the_other_statuses_have_codes_too(world: World, operator: APIClient, viewer_client: APIClient) -> None:
    topics = f"{API}/topics"
    anonymous = APIClient().get(topics)
    check_problem(anonymous, 401, "not_authenticated")
    assert anonymous.headers["WWW-Authenticate"]
    check_problem(viewer_client.post(topics, {"name": "t"}, format="json"), 403, "permission_denied")
    check_problem(operator.get(topics, HTTP_ACCEPT="image/png"), 406, "not_acceptable")
    check_problem(operator.generic("POST", topics, "{", content_type="application/json"), 400, "malformed")
    check_problem(operator.generic("POST", topics, "x", content_type="text/plain"), 415, "unsupported_media_type")
    scope = {"kind": "drain", "broker": 1}
    world.topic("orders", (1, 2))
    move = operator.post(f"{API}/moves", {"scope": scope, "comment": "x", "start": True}, format="json").json()["id"]
    conflict = check_problem(operator.post(f"{API}/moves/{move}/start", {}, format="json"), 409, "conflict")
    assert (conflict["field"], conflict["errors"]) == ("", [])


def test_a_throttled_request_is_429_with_the_time_to_wait() -> None:
    response = handle(Throttled(wait=7), {})
    assert response is not None
    check_problem(response, 429, "too_many_requests")
    assert response.headers["Retry-After"] == "7"


def test_a_database_that_does_not_respond_is_503() -> None:
    check_problem(handle(OperationalError("locked"), {}), 503, "unavailable")


def test_a_defect_is_500_in_the_same_shape(world: World, operator: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlplane.selectors.brokers.broker_list", lambda: 1 / 0)
    operator.raise_request_exception = False
    check_problem(operator.get(f"{API}/brokers"), 500, "internal_error")


def test_a_misspelled_field_is_rejected_with_the_right_one(world: World, operator: APIClient) -> None:
    body = {"name": "typo1", "partitons": 30, "config": {"retention.ms": "1"}, "replication_factor": "many"}
    response = check_problem(operator.post(f"{API}/topics", body, format="json"), 400, "invalid")
    assert {(e["field"], e["code"]) for e in response["errors"]} == {
        ("partitons", "unknown_field"),
        ("config", "unknown_field"),
        ("replication_factor", "invalid"),
    }
    assert "Did you mean partitions?" in response["errors"][0]["detail"]
    assert response["field"] == response["errors"][0]["field"] == "partitons"
    assert response["detail"].endswith("(2 more in `errors`)")
    assert not Topic.objects.exists()


@pytest.mark.parametrize(
    ("query", "faults"),
    [
        ("onyl=ended", {("onyl", "unknown_parameter")}),
        (
            "state=nonsense&limit=0&x=1",
            {("state", "invalid_choice"), ("limit", "too_small"), ("x", "unknown_parameter")},
        ),
    ],
)
def test_all_faults_of_a_query_are_named(
    world: World, operator: APIClient, query: str, faults: set[tuple[str, str]]
) -> None:
    response = check_problem(operator.get(f"{API}/topics?{query}"), 400, "invalid")
    assert {(e["field"], e["code"]) for e in response["errors"]} == faults


@pytest.mark.parametrize(("method", "path"), [("get", "brokers/1"), ("get", "overview"), ("post", "topics")])
def test_a_path_without_parameters_rejects_each(world: World, operator: APIClient, method: str, path: str) -> None:
    response = operator.generic(method.upper(), f"{API}/{path}?dry=1", '{"name": "t"}', content_type="application/json")
    assert [e["field"] for e in check_problem(response, 400, "invalid")["errors"]] == ["dry"]
    assert not Topic.objects.exists()


def test_nested_details_have_dotted_paths_and_codes() -> None:
    detail = {
        "configs": {"retention.ms": [ErrorDetail("No.", "min_value")]},
        "partitions": [{}, {"topic": [ErrorDetail("Give one.", "required")]}],
        "non_field_errors": [ErrorDetail("Both.", "special")],
    }
    assert [(e.field, e.code.value) for e in field_errors(detail)] == [
        ("configs.retention.ms", "too_small"),
        ("partitions.1.topic", "required"),
        ("", "invalid"),
    ]
