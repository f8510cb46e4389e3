"""Pages of health checks, scores and anomalies."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.models import Anomaly, AnomalySwitch, HealthResult
from controlplane.services import health
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def text(client: Client, address: str, status: int = 200) -> str:
    response = client.get(address)
    assert response.status_code == status
    return re.sub(r"\s+", " ", response.content.decode())


def test_checks_say_what_why_and_what_next(viewer: Client, world: World) -> None:
    assert "No check has run yet" in text(viewer, "/health/")
    world.topic("single", (1,))
    health.evaluate()
    page = text(viewer, "/health/")
    assert "Topic is replicated" in page and "is lost with its disk" in page and "at least 2" in page
    assert "/alerts/thresholds/health_replication/" in page and "Change the replication factor" in page
    assert "Broker is up" not in text(viewer, "/health/?scope=topic")
    assert "ZooKeeper responds" in page and "Without ZooKeeper no leader" not in page  # only of checks that fail
    check = text(viewer, "/health/checks/replication/")
    assert 'href="/topics/single/"' in check and "1 of 1" in check
    passed = text(viewer, "/health/checks/offline_partitions/")
    assert (
        "No object fails this check." in passed and "<dt>Next step</dt>" not in passed and "<dt>Next step</dt>" in check
    )
    scores = text(viewer, "/health/scores/topic/")
    assert "single" in scores and "0 others with a score of 100" in scores
    text(viewer, "/health/checks/nothing/", 404)
    text(viewer, "/health/scores/nothing/", 404)


def test_old_checks_are_called_old(viewer: Client, world: World) -> None:
    """The page had results of hours ago with a time, and no word about the monitor that had stopped."""
    health.evaluate()
    page = text(viewer, "/health/")
    assert "checked 0 s ago" in page or "checked 1 s ago" in page
    assert "has not checked for" not in page
    HealthResult.objects.update(checked_at=timezone.now() - timedelta(minutes=10))
    page = text(viewer, "/health/")
    assert "checked 10 min ago" in page and "The cluster monitor has not checked for 10 min" in page


def test_anomalies_and_their_switches(viewer: Client, operator: Client, world: World) -> None:
    now = timezone.now()
    Anomaly.objects.create(
        subject="topic:flights",
        metric="records_per_s",
        state="low",
        value=20,
        usual=1000,
        distance=-9.8,
        baseline="days",
        values=7,
        since=now - timedelta(hours=1),
        checked_at=now,
    )
    page = text(viewer, "/health/anomalies/")
    assert 'href="/topics/flights/?range=7d"' in page and "-9.8" in page and "7 days" in page
    assert "1 metric is unusual" in text(viewer, "/health/")
    assert viewer.post("/health/anomalies/topic.records_per_s/on/").status_code == 403
    assert operator.post("/health/anomalies/topic.records_per_s/on/").status_code == 302
    assert AnomalySwitch.objects.get().alerts
    assert operator.post("/health/anomalies/none/on/").status_code == 404


def test_a_failed_check_leads_to_the_page_of_its_next_step(viewer: Client, world: World) -> None:
    world.topic("single", (1,))
    health.evaluate()
    assert 'href="/health/checks/replication/">failed objects' in text(viewer, "/health/")
    page = text(viewer, "/health/checks/replication/")
    assert 'href="/moves/new/?kind=replication_factor&amp;topic=single"' in page
