"""Spark jobs over REST: create with typed parameters, run, stop, schedule, delete, errors with their field."""

from __future__ import annotations

from pathlib import Path
from typing import get_type_hints

import pytest
from django.contrib.auth import get_user_model
from rest_framework import serializers as drf
from rest_framework.test import APIClient

from controlplane.api import serializers
from controlplane.models import SparkRun
from controlplane.services import spark_jobs
from tests.unit.controlplane.world import World
from weir_common.spark_jobs import Parameter

pytestmark = pytest.mark.django_db


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> APIClient:
    monkeypatch.setattr(spark_jobs, "find_java", lambda: Path("java"))
    World(brokers=1).topic("orders", (1,))
    client = APIClient()
    client.force_authenticate(get_user_model().objects.create_user("alice", is_staff=True))
    return client


def test_the_life_of_a_job(api: APIClient) -> None:
    body = {"name": "p", "kind": "profile", "parameters": {"topics": ["orders"]}, "schedule": "0 3 * * *"}
    response = api.post("/api/v1/spark-jobs", body, format="json")
    assert response.status_code == 201, response.content
    path = f"/api/v1/spark-jobs/{response.json()['id']}"
    assert response.json()["state"] == "requested" and response.json()["next_run_at"]
    run = api.get("/api/v1/spark-runs").json()["rows"][0]
    assert run["parameters"] == {"topics": ["orders"], "records_per_partition": 100_000}
    assert api.post(f"{path}/run", {}, format="json").status_code == 409
    assert api.post(f"{path}/stop", {}, format="json").json()["state"] == "stopping"
    SparkRun.objects.update(state="stopped")
    assert api.post(f"{path}/schedule", {"schedule": ""}, format="json").json()["next_run_at"] is None
    assert api.get(f"/api/v1/spark-runs/{run['id']}/log").json() == {"text": ""}
    assert api.delete(path, {}, format="json").status_code == 204
    assert api.get(path).status_code == 404


def test_an_error_names_the_parameter(api: APIClient) -> None:
    body = {"name": "p", "kind": "profile", "parameters": {"topics": ["orders"], "records_per_partition": 1}}
    response = api.post("/api/v1/spark-jobs", body, format="json")
    assert response.status_code == 400 and "records_per_partition" in response.content.decode()


def test_kinds_have_their_parameters(api: APIClient) -> None:
    kinds = {k["name"]: k for k in api.get("/api/v1/spark-jobs/kinds").json()}
    assert kinds["archive"]["is_continuous"] is True
    assert kinds["profile"]["parameters"][1]["default"] == 100_000


def test_the_default_of_a_parameter_may_have_any_type_of_json() -> None:
    """A union would get the field of its first type, and the schema would reject the defaults of the others."""
    assert isinstance(serializers.field_of(get_type_hints(Parameter)["default"]), drf.JSONField)
