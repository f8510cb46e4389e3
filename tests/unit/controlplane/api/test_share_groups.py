"""Share groups in REST."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.clients import kafka
from tests.unit.controlplane.share_group_responses import ShareGroupWorld, patch_responses
from tests.unit.controlplane.world import World


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch, world: World) -> ShareGroupWorld:
    found = patch_responses(monkeypatch)
    found.groups = {"team/billing": {("orders", 0): (5, 7)}}
    monkeypatch.setattr(kafka, "delete_group", found.groups.pop)
    return found


def test_a_list_has_pages_filters_and_csv(operator: APIClient, groups: ShareGroupWorld) -> None:
    found = operator.get("/api/v1/share-groups?query=bill&sort=-state&limit=10").json()
    assert (found["total"], found["rows"][0]["group_id"], found["rows"][0]["lag_records"]) == (1, "team/billing", 7)
    lines = operator.get("/api/v1/share-groups", headers={"Accept": "text/csv"}).content.decode().splitlines()
    assert lines[0].startswith("group_id,state") and len(lines) == 2
    assert operator.get("/api/v1/share-groups?nonsense=1").status_code == 400


def test_one_group_may_have_slashes_and_silence_is_not_absence(operator: APIClient, groups: ShareGroupWorld) -> None:
    found = operator.get("/api/v1/share-groups/team/billing").json()
    assert found["row"]["state"] == "Empty" and found["partitions"][0]["start_offset"] == 5
    assert operator.get("/api/v1/share-groups/nobody").status_code == 404
    groups.silent = {1}
    unknown = operator.get("/api/v1/share-groups/team/billing")
    assert unknown.status_code == 200 and unknown.json()["row"] is None


def test_a_deletion_needs_an_operator_and_a_reason(
    operator: APIClient, viewer_client: APIClient, groups: ShareGroupWorld
) -> None:
    path, body = "/api/v1/share-groups/team/billing", {"comment": "obsolete"}
    assert viewer_client.delete(path, body, format="json").status_code == 403
    assert operator.delete(path, {}, format="json").status_code == 400
    assert operator.delete(path, body, format="json").status_code == 204 and groups.groups == {}
    assert operator.delete(path, body, format="json").status_code == 404
