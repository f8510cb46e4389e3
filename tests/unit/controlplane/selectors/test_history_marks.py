"""Marks on the time line of charts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.models import Alert, ClusterEvent
from controlplane.selectors import history_marks
from controlplane.selectors.history_marks import marks
from controlplane.services.common import record

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def events_of_the_last_hour(db: None) -> None:
    now = timezone.now()
    record("alice", "topic.alter", "topic", "flights")
    record("alice", "broker.cordon", "broker", "2")
    for kind, subject in (("broker_down", "2"), ("group_stalled", "g"), ("drift", "")):
        Alert.objects.create(kind=kind, subject=subject, severity="degraded", text=kind, do="", since=now)
    for kind, subject in (("leaders_changed", ""), ("broker_down", "2"), ("broker_down", "3"), ("zookeeper_lost", "")):
        ClusterEvent.objects.create(at=now, kind=kind, subject=subject, text=f"{kind} {subject}".strip())


def marks_of(subject: str) -> list[tuple[str, str]]:
    now = timezone.now()
    return sorted((m.kind, m.text) for m in marks(subject, now - HOUR, now + HOUR).rows)


def test_the_cluster_has_all_marks() -> None:
    assert len(marks_of("cluster")) == 2 + 3 + 3


def test_a_broker_has_its_own_marks_and_all_elections() -> None:
    assert marks_of("broker:2") == [
        ("alert", "broker_down"),
        ("broker", "broker_down 2"),
        ("change", "broker.cordon 2, alice"),
        ("election", "leaders_changed"),
    ]


def test_a_partition_has_the_changes_of_its_topic() -> None:
    events = [("broker", "broker_down 2"), ("broker", "broker_down 3"), ("election", "leaders_changed")]
    assert (
        marks_of("partition:flights:0")
        == marks_of("topic:flights")
        == sorted([*events, ("change", "topic.alter flights, alice")])
    )


def test_a_group_has_its_alerts() -> None:
    assert ("alert", "group_stalled") in marks_of("group:g") and ("alert", "group_stalled") not in marks_of(
        "group:other"
    )


def test_only_the_newest_marks_of_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_marks, "MARKS_MAX", 2)
    now = timezone.now()
    page = marks("cluster", now - HOUR, now + HOUR)
    assert len(page.rows) == 2 and page.more and page.rows[0].at <= page.rows[1].at
    assert marks("cluster", now - 2 * HOUR, now - HOUR).rows == []
