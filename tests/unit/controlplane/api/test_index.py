"""The root of the REST API names every noun."""

from __future__ import annotations

from rest_framework.test import APIClient

from controlplane.api.reference import api_reference


def test_the_root_lists_paths_that_exist(operator: APIClient) -> None:
    found = operator.get("/api/v1/").json()
    assert (found["docs"], found["schema"]) == ("/api/v1/docs/", "/api/v1/schema")
    assert set(found["paths"]) == {page.noun for page in api_reference()} - {"index"}
    assert found["paths"]["topics"] == "/api/v1/topics" and found["paths"]["rebalance"] == "/api/v1/rebalance"
    assert operator.get("/api/v1/?nonsense=1").status_code == 400


def test_the_root_needs_a_login(db: None) -> None:
    assert APIClient().get("/api/v1/").status_code == 401
