"""Thresholds of alerts over REST."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from rest_framework.test import APIClient

from controlplane.domain.alert_thresholds import ThresholdName
from controlplane.models import AlertThreshold, Change

URL = "/api/v1/alert-thresholds"


@pytest.fixture
def administrator(db: None) -> Any:
    client = APIClient()
    client.force_authenticate(get_user_model().objects.create_user("root", is_staff=True, is_superuser=True))
    return client


def test_thresholds_are_listed_read_changed_and_reset(administrator: Any, viewer_client: APIClient) -> None:
    listed = viewer_client.get(URL).json()
    assert [row["name"] for row in listed["rows"]] == sorted(ThresholdName)
    row = viewer_client.get(f"{URL}/disk_free_low").json()
    assert (row["value"], row["default"], row["unit"], row["changed_at"]) == (10, 10, "percent", None)
    assert row["alert_kinds"] == ["disk_low"]
    changed = administrator.patch(f"{URL}/disk_free_low", {"value": 25, "comment": "x"}, format="json")
    assert (changed.status_code, changed.json()["value"], changed.json()["changed_by"]) == (200, 25, "root")
    reset = administrator.patch(f"{URL}/disk_free_low", {"value": None}, format="json")
    assert (reset.json()["value"], reset.json()["changed_at"]) == (10, None)
    assert viewer_client.get(f"{URL}/no_such").status_code == 404
    assert administrator.patch(f"{URL}/no_such", {"value": 1}, format="json").status_code == 404


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({"value": 99}, "value", "rejected"),
        ({"value": "much"}, "value", "invalid"),
        ({}, "value", "required"),
        ({"value": 9, "unit": "seconds"}, "unit", "unknown_field"),
    ],
)
def test_wrong_input_is_a_problem(administrator: Any, body: dict[str, Any], field: str, code: str) -> None:
    response = administrator.patch(f"{URL}/disk_free_low", body, format="json")
    assert (response.status_code, [(e["field"], e["code"]) for e in response.json()["errors"]]) == (
        400,
        [(field, code)],
    )
    assert not AlertThreshold.objects.exists()


def test_only_administrators_change_thresholds(operator: APIClient, viewer_client: APIClient) -> None:
    assert operator.patch(f"{URL}/disk_free_low", {"value": 20}, format="json").status_code == 403
    assert Change.objects.get(verb="threshold.alter").outcome == "refused"
    assert viewer_client.patch(f"{URL}/disk_free_low", {"value": 20}, format="json").status_code == 403
    assert not AlertThreshold.objects.exists()


def test_operators_set_the_value_of_one_object(operator: APIClient, viewer_client: APIClient) -> None:
    here = f"{URL}/group_behind/overrides"
    done = operator.put(f"{here}/team/billing", {"value": 600, "comment": "batch"}, format="json")
    assert done.status_code == 200, done.content
    (own,) = done.json()["overrides"]
    assert (own["subject"], own["value"], done.json()["objects"], done.json()["value"]) == (
        "team/billing",
        600,
        "group",
        30,
    )
    listed = viewer_client.get(here).json()
    assert ([r["subject"] for r in listed["rows"]], listed["total"]) == (["team/billing"], 1)
    assert viewer_client.put(f"{here}/a", {"value": 600}, format="json").status_code == 403
    assert operator.put(f"{URL}/no_such/overrides/a", {"value": 600}, format="json").status_code == 404
    assert operator.put(f"{URL}/group_alerts_max/overrides/a", {"value": 6}, format="json").status_code == 400
    gone = operator.delete(f"{here}/team/billing", {"comment": "done"}, format="json")
    assert (gone.status_code, gone.json()["overrides"]) == (200, [])
