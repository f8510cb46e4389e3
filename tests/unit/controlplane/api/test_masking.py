"""Masking rules over REST."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from rest_framework.test import APIClient

from controlplane.models import Change

RULES = "/api/v1/masking-rules"
RULE = {"topics": "pay.*", "target": "value", "field": "$.card"}


@pytest.fixture
def administrator(db: None) -> Any:
    client = APIClient()
    client.force_authenticate(get_user_model().objects.create_user("root", is_staff=True, is_superuser=True))
    return client


def test_an_administrator_creates_lists_and_deletes_rules(administrator: Any) -> None:
    made = administrator.post(RULES, RULE, format="json")
    assert made.status_code == 201 and made.json()["created_by"] == "root"
    listed = administrator.get(f"{RULES}?query=pay").json()
    assert listed["total"] == 1 and listed["rows"] == [made.json()]
    assert administrator.get(f"{RULES}?query=orders").json()["total"] == 0
    assert administrator.delete(f"{RULES}/{made.json()['id']}", {"comment": "old"}, format="json").status_code == 204
    assert administrator.get(RULES).json()["total"] == 0


def test_an_operator_may_read_rules_only(operator: APIClient, administrator: Any) -> None:
    number = administrator.post(RULES, RULE, format="json").json()["id"]
    assert operator.get(RULES).status_code == 200
    assert operator.post(RULES, {**RULE, "field": "$.x"}, format="json").status_code == 403
    response = operator.delete(f"{RULES}/{number}", {"comment": "x"}, format="json")
    assert (response.status_code, "administrators" in response.json()["detail"]) == (403, True)
    assert Change.objects.filter(outcome="refused").count() == 2


def test_a_wrong_rule_names_its_field(administrator: Any) -> None:
    response = administrator.post(RULES, {**RULE, "field": "card"}, format="json")
    assert (response.status_code, response.json()["field"]) == (400, "field")
