"""Alerts of automatic unclean leader elections, from the audit log to the end of the alert."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.models import Alert, Change
from controlplane.selectors import alerts as selectors
from controlplane.selectors.next_steps import next_steps
from controlplane.services import alerts
from controlplane.services.unclean_elections import unclean_elections
from tests.unit.controlplane.world import World


def record_unclean_election(topic: str, *partitions: int, verb: str = "topic.elect_unclean_automatically") -> None:
    Change.objects.create(
        actor="controller",
        verb=verb,
        object_kind="topic",
        object_name=topic,
        outcome="confirmed",
        after={str(index): {"leader": 2, "isr": [2]} for index in partitions},
    )


def test_elections_of_a_topic_are_one_alert_that_leads_to_the_newest(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.topic("clicks", *[(1, 2)] * 5)
    record_unclean_election("clicks", 0)
    record_unclean_election("clicks", 3, 4)
    record_unclean_election("deleted", 0)
    record_unclean_election("clicks", 1, verb="topic.elect-unclean")
    alerts.evaluate()
    (row,) = Alert.objects.filter(kind="unclean_election")
    assert (row.subject, row.severity, row.ended_at) == ("clicks", "at_risk", None)
    assert row.text.startswith("3 partitions (clicks-0, clicks-3, clicks-4) had an automatic unclean leader election")
    (shown,) = selectors.alert_list(state="open", query="clicks").rows
    assert [(s.kind, s.target) for s in next_steps(shown)] == [
        ("open_partition", ["clicks", "3"]),
        ("edit_configs", ["clicks"]),
    ]
    later = timezone.now() + timedelta(days=1, minutes=1)
    monkeypatch.setattr("controlplane.services.alert_facts.timezone.now", lambda: later)
    alerts.evaluate()
    assert not Alert.objects.filter(kind="unclean_election", ended_at__isnull=True).exists()


def test_earlier_elections_are_omitted(world: World) -> None:
    world.topic("clicks", (1, 2))
    record_unclean_election("clicks", 0)
    assert unclean_elections(timezone.now()) == ()
    (found,) = unclean_elections(timezone.now() - timedelta(hours=1))
    assert (found.topic, found.partitions) == ("clicks", (1, ("clicks-0",)))
