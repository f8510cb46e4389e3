"""REST resource of ACL templates."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.models import Acl

pytestmark = pytest.mark.django_db
HERE = "/api/v1/acl-templates"


def post(client: APIClient, name: str, body: dict[str, object]) -> tuple[int, object]:
    response = client.post(f"{HERE}/{name}/apply", body, format="json")
    return response.status_code, response.json()


def test_templates_are_listed_with_their_fields(viewer_client: APIClient) -> None:
    rows = {row["template"]: row for row in viewer_client.get(HERE).json()}
    assert rows["consumer"]["fields"] == ["topic", "group"]


def test_a_template_is_previewed_and_applied(operator: APIClient) -> None:
    body = {"principal": "User:a", "topic": "orders"}
    status, rows = post(operator, "producer", {**body, "dry": True})
    assert status == 200 and isinstance(rows, list) and not Acl.objects.exists()
    assert post(operator, "producer", body) == (200, rows)
    assert Acl.objects.count() == len(rows)


def test_wrong_input_is_rejected(operator: APIClient, viewer_client: APIClient) -> None:
    status, problem = post(operator, "producer", {"principal": "User:a"})
    assert status == 400 and isinstance(problem, dict) and problem["field"] == "topic"
    assert post(operator, "nothing", {"principal": "User:a"})[0] == 404
    assert post(viewer_client, "producer", {"principal": "User:a", "topic": "t"})[0] == 403
