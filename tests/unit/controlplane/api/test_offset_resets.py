"""Offset resets by REST: preview, apply, cancel, undo, permission, and the errors' shape."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from tests.unit.controlplane.group_world import GroupWorld, group_world, member

pytestmark = pytest.mark.django_db
URL = "/api/v1/offset-resets"


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> GroupWorld:
    return group_world(monkeypatch)


def post(client: APIClient, path: str = "", **body: Any) -> Any:
    return client.post(f"{URL}{path}", body, format="json")


def test_preview_apply_and_undo(group: GroupWorld, operator: APIClient) -> None:
    made = post(operator, group_id="g", target="earliest", topics=["orders"])
    assert made.status_code == 201
    row = made.data["row"]
    assert (row["state"], row["can"], row["partitions"], row["changes"]) == (
        "previewed",
        ["apply", "cancel", "preview"],
        3,
        3,
    )
    assert [(p["now"], p["after"], p["replayed"]) for p in made.data["partitions"]] == [
        (50, 10, 40),
        (100, 10, 90),
        (None, 10, None),
    ]
    assert post(operator, f"/{row['id']}/apply").json()["field"] == "comment"
    done = post(operator, f"/{row['id']}/apply", comment="replay")
    assert (done.status_code, done.data["row"]["state"], done.data["row"]["can"]) == (200, "applied", ["undo"])
    undo = post(operator, f"/{row['id']}/undo")
    assert (undo.status_code, undo.data["row"]["target"], undo.data["row"]["undo_of"]) == (201, "undo", row["id"])
    assert post(operator, f"/{undo.data['row']['id']}/apply", comment="undo").data["row"]["state"] == "applied"
    listed = operator.get(f"{URL}?group_id=g").data
    assert [r["target"] for r in listed["rows"]] == ["undo", "earliest"]
    assert operator.get(f"{URL}?group_id=other").data["total"] == 0
    assert operator.get(f"{URL}/{row['id']}").data["partitions"][0]["topic"] == "orders"


def test_a_difference_is_a_conflict_and_is_kept(group: GroupWorld, operator: APIClient) -> None:
    reset = post(operator, group_id="g", target="latest").data["row"]["id"]
    group.commit(60)
    rejected = post(operator, f"/{reset}/apply", comment="skip")
    assert rejected.status_code == 409 and "50 -> 60" in rejected.json()["detail"]
    row = operator.get(f"{URL}/{reset}").data["row"]
    assert row["cause"] == "changed"
    assert post(operator, f"/{reset}/preview").data["partitions"][0]["now"] == 60
    assert row["differences"] == [{"topic": "orders", "partition": 0, "expected": 50, "found": 60}]


def test_a_wait_is_accepted_and_cancelled(group: GroupWorld, operator: APIClient) -> None:
    group.members = [member()]
    reset = post(operator, group_id="g", target="latest").data["row"]["id"]
    waiting = post(operator, f"/{reset}/apply", comment="skip", wait_minutes=5)
    assert (waiting.status_code, waiting.data["row"]["state"], waiting.data["row"]["can"]) == (
        202,
        "waiting",
        ["cancel"],
    )
    assert post(operator, f"/{reset}/cancel").data["row"]["state"] == "cancelled"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"target": "earliest"}, "group_id"),
        ({"group_id": "g", "target": "undo"}, "target"),
        ({"group_id": "g", "target": "sideways"}, "target"),
        ({"group_id": "g", "target": "time"}, "time_ms"),
        ({"group_id": "g", "target": "earliest", "topics": ["absent"]}, "topics"),
        (
            {"group_id": "g", "target": "file", "offsets": [{"topic": "orders", "partition": 0, "offset": -1}]},
            "offsets.0.offset",
        ),
    ],
)
def test_an_invalid_field_is_named(group: GroupWorld, operator: APIClient, body: dict[str, Any], field: str) -> None:
    response = post(operator, **body)
    assert (response.status_code, response.json()["field"]) == (400, field)


def test_a_viewer_reads_and_does_not_act(group: GroupWorld, operator: APIClient, viewer_client: APIClient) -> None:
    reset = post(operator, group_id="g", target="latest").data["row"]["id"]
    assert viewer_client.get(f"{URL}/{reset}").status_code == 200
    assert post(viewer_client, group_id="g", target="latest").status_code == 403
    assert post(viewer_client, f"/{reset}/apply", comment="skip").status_code == 403
    body = {"group_id": "g", "member_id": "m-1", "comment": "x"}
    assert viewer_client.post("/api/v1/member-removals", body, format="json").status_code == 403
    assert "commit" not in group.calls
    assert operator.get(f"{URL}/999999").status_code == 404
    assert post(operator, f"/{reset}/dance").status_code == 404


def test_a_member_is_removed(group: GroupWorld, operator: APIClient) -> None:
    group.members = [member()]
    body = {"group_id": "g", "member_id": "m-1", "comment": "hangs"}
    assert operator.post("/api/v1/member-removals", body, format="json").status_code == 204
    assert group.members == []
    assert operator.post("/api/v1/member-removals", body, format="json").json()["field"] == "member_id"
