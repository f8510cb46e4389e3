"""Bulk operations in the console: the filter with all pages, preview, confirmation, results; acknowledgement of several alerts."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from controlplane.models import Alert, Topic
from controlplane.services import bulk_topics, topics

SET = {"operation": "configs", "configs": "retention.ms=2 d\n", "comment": "less disk"}


@pytest.fixture(autouse=True)
def app_topics(seeded_cluster: dict[str, Any]) -> None:
    for n in range(4):
        topics.create_topic(f"app-{n}.events", actor="alice")


def chosen_topics(page: str) -> dict[str, int]:
    found = re.search(r'name="topics" value="([^"]*)"', page)
    assert found is not None
    value: dict[str, int] = json.loads(unescape(found[1]))
    return value


def test_all_pages_of_a_filter_are_changed(seeded_cluster: dict[str, Any], operator: Client) -> None:
    names = set(Topic.objects.filter(deleted_at__isnull=True, name__contains="app-").values_list("name", flat=True))
    page = operator.get("/bulk/topics/?q=app-").content.decode()
    assert f"Change {len(names)} topics" in page
    preview = operator.post("/bulk/topics/?q=app-", SET).content.decode()
    assert "172800000" in preview
    found = chosen_topics(preview)
    assert set(found) == names
    result = operator.post(
        "/bulk/topics/?q=app-", {**SET, "step": "apply", "topics": json.dumps(found)}
    ).content.decode()
    assert "Result" in result
    values = Topic.objects.filter(name__in=names).values_list("configs", flat=True)
    assert {c["retention.ms"] for c in values} == {"172800000"}


def test_selected_topics_only(seeded_cluster: dict[str, Any], operator: Client) -> None:
    assert set(chosen_topics(operator.post("/bulk/topics/?t=orders&t=flights", SET).content.decode())) == {
        "orders",
        "flights",
    }


@pytest.mark.parametrize("query", ["", "?internal=1"])
def test_a_deletion_of_all_topics_is_rejected(seeded_cluster: dict[str, Any], operator: Client, query: str) -> None:
    form = {"operation": "delete", "comment": "old"}
    before = Topic.objects.filter(deleted_at__isnull=True).count()
    sent = json.dumps({t.name: t.generation for t in Topic.objects.all()})
    for step in ({}, {"step": "apply", "topics": sent, "confirm_count": str(before)}):
        response = operator.post(f"/bulk/topics/{query}", {**form, **step})
        assert response.status_code == 409 and "needs a filter" in response.content.decode()
    assert Topic.objects.filter(deleted_at__isnull=True).count() == before
    assert operator.post(f"/bulk/topics/{query}", SET).status_code == 200


def test_a_deletion_needs_the_number_of_topics(seeded_cluster: dict[str, Any], operator: Client) -> None:
    form = {"operation": "delete", "comment": "old"}
    found = chosen_topics(operator.post("/bulk/topics/?q=app-", form).content.decode())
    apply = {**form, "step": "apply", "topics": json.dumps(found)}
    for typed in ("", "1", "all"):
        response = operator.post("/bulk/topics/?q=app-", {**apply, "confirm_count": typed})
        assert response.status_code == 400
        assert chosen_topics(response.content.decode()) == found
    assert Topic.objects.filter(name__in=found, deleted_at__isnull=True).count() == len(found)
    response = operator.post("/bulk/topics/?q=app-", {**apply, "confirm_count": str(len(found))})
    assert response.status_code == 200
    assert not Topic.objects.filter(name__in=found, deleted_at__isnull=True).exists()


def test_every_error_of_the_form_is_shown_at_once(seeded_cluster: dict[str, Any], operator: Client) -> None:
    wrong = {"operation": "configs", "configs": "retention.ms=7 parsecs\nsegment.bytes=1 d\nnonsense", "comment": ""}
    response = operator.post("/bulk/topics/?q=app-", wrong)
    page = unescape(response.content.decode())
    assert response.status_code == 400
    assert "“parsecs” is not a unit" in page and "“d” is not a unit" in page and "“nonsense” has no '='" in page
    assert "Give a reason" in page


def test_a_filter_with_too_many_topics_is_rejected_with_the_limit(
    seeded_cluster: dict[str, Any], operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_topics, "TOPICS_MAX", 2)
    page = operator.get("/bulk/topics/?q=app-").content.decode()
    assert "has at most 2: narrow the filter" in page
    assert operator.post("/bulk/topics/?q=app-", SET).status_code == 400


@pytest.mark.parametrize("sent", ["", "[]", "{", '{"orders": "x"}', '{"orders": null}'])
def test_an_incomplete_second_step_changes_nothing(seeded_cluster: dict[str, Any], operator: Client, sent: str) -> None:
    before = Topic.objects.get(name="orders").generation
    response = operator.post("/bulk/topics/?t=orders", {**SET, "step": "apply", "topics": sent})
    assert response.status_code == 400
    assert Topic.objects.get(name="orders").generation == before


def test_a_viewer_changes_nothing(seeded_cluster: dict[str, Any], viewer: Client) -> None:
    assert viewer.post("/bulk/topics/?t=orders", SET).status_code == 403
    assert viewer.post("/bulk/alerts/acknowledge/", {"a": "1"}).status_code == 403
    assert "Change all" not in viewer.get("/topics/").content.decode()


def test_several_alerts_are_acknowledged_at_once(seeded_cluster: dict[str, Any], operator: Client) -> None:
    open_alerts = list(Alert.objects.filter(ended_at__isnull=True).values_list("pk", flat=True))
    response = operator.post("/bulk/alerts/acknowledge/", {"a": [*map(str, open_alerts), "999999", "x"]}, follow=True)
    page = response.content.decode()
    assert f"{len(open_alerts)} alert" in page
    assert "1 not:" in page
