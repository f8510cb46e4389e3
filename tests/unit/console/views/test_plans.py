"""Saved plans: review, upload, approval, start in a window."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone


def test_a_plan_is_saved_from_its_review_approved_and_started_in_a_window(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    form = {
        "scope": '{"kind": "topic", "topic": "payments.audit", "brokers": [1, 2, 4]}',
        "parts_in_flight_max": "8",
        "parts_per_broker_max": "4",
        "comment": "later",
        "act": "save",
    }
    page = operator.post("/moves/new/", form, follow=True).content.decode()
    assert "Plan 3 saved" in page and "payments.audit-0" in page
    digest = operator.get("/api/v1/plans/3").json()["digest"]
    wrong = operator.post("/plans/3/approve/", {"digest": "0" * 64, "comment": "ok"})
    assert (wrong.status_code, "has digest" in wrong.content.decode()) == (409, True)
    operator.post("/plans/3/approve/", {"digest": digest, "comment": "ok"})
    asked = {"digest": digest, "parts_in_flight_max": "2", "parts_per_broker_max": "2", "comment": "later"}
    bad = operator.post("/plans/3/move/", {**asked, "opens": "late", "stop_by": "05:30"})
    assert (bad.status_code, "not a time of day" in bad.content.decode()) == (409, True)
    # A window that is closed at every time of day the test can run: it opens in six hours.
    opens, stop_by = (f"{timezone.now() + timedelta(hours=hours):%H:%M}" for hours in (6, 8))
    window = {"opens": opens, "stop_by": stop_by, "days": ["0", "4"]}
    made = operator.post("/plans/3/move/", {**asked, **window}, follow=True)
    text = made.content.decode()
    assert "Move 3 created from plan 3." in text and f"{opens} to {stop_by} UTC Mon Fri" in text
    assert operator.get("/api/v1/moves/3").json()["state"] == "approved"
    gone = operator.post("/moves/3/schedule/", {"comment": "always"}, follow=True)
    assert "Maintenance window of move 3 removed" in gone.content.decode()
    operator.post("/plans/3/drop/", {"comment": "over"})
    assert "payments" not in operator.get("/plans/").content.decode()


def test_a_long_plan_is_uploaded_as_a_file_and_saved_without_a_review(
    seeded_cluster: dict[str, Any], operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from console.views import move_new

    monkeypatch.setattr(move_new, "REVIEWED_MAX", 1)
    body = {"version": 1, "partitions": [{"topic": "orders", "partition": i, "replicas": [4, 2, 1]} for i in range(2)]}

    def file() -> io.BytesIO:
        return io.BytesIO(json.dumps(body).encode())

    too_long = operator.post("/moves/new/?kind=plan", {"plan": "", "file": file()})
    assert (
        too_long.status_code,
        "The plan has 2 partitions, more than a review shows" in too_long.content.decode(),
    ) == (400, True)
    silent = operator.post("/moves/new/?kind=plan", {"plan": "", "file": file(), "act": "save"})
    assert (silent.status_code, "Give a reason" in silent.content.decode()) == (400, True)
    saved = operator.post(
        "/moves/new/?kind=plan", {"plan": "", "file": file(), "act": "save", "comment": "x"}, follow=True
    )
    assert "Plan 3 saved" in saved.content.decode()
