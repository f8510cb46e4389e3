"""Rounds of the collection of message values: rows, leaders that do not respond, limits, growth, and alerts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from brokerd.wire.messages.delayed_messages import DelayedMessagesResponse
from controlplane.models import ObservedPartition, ObservedTopic, ShareGroupLetters, TopicMessages
from controlplane.monitoring import message_metrics as module
from controlplane.monitoring.message_metrics import MessageMetricCollector
from controlplane.selectors.alerts import open_alerts
from controlplane.selectors.next_steps import next_steps
from controlplane.services import alerts
from tests.unit.controlplane import delayed_responses, half_responses
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def row(topic: str = "orders") -> TopicMessages:
    return TopicMessages.objects.get(topic=topic)


def test_half_messages_of_all_partitions_are_one_row(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    world.topic("orders.half.expired", (1,), configs={"weir.half.source": "orders.half"})
    half_responses.patch_responses(monkeypatch, world)
    ObservedPartition.objects.filter(topic__name="orders.half.expired").update(start_offset=2, end_offset=5)
    collector = MessageMetricCollector()
    collector.collect()
    found = row()
    assert (found.half_undecided, found.half_checks, found.half_expired, found.half_oldest_checks) == (2, 40, 3, 1)
    assert found.half_oldest_at is not None and found.delayed_pending is None and found.dead_letters is None
    assert collector.latest["orders"].half_undecided == 2


def test_a_silent_partition_keeps_its_response_and_its_time(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    responses = half_responses.patch_responses(monkeypatch, world)
    responses.silent = {2}
    collector = MessageMetricCollector()
    collector.collect()
    assert not TopicMessages.objects.exists(), "one partition has never answered"
    responses.silent = set()
    collector.collect()
    before = row().sampled_at
    responses.silent, responses.messages[0] = {2}, []
    collector.collect()
    assert (row().half_undecided, row().sampled_at) == (1, before)
    ObservedTopic.objects.filter(name="orders.half").delete()
    collector.collect()
    assert not TopicMessages.objects.exists() and not collector.latest


def test_a_round_is_limited_and_the_next_one_continues(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    half_responses.patch_responses(monkeypatch, world)
    monkeypatch.setattr(module, "PARTITIONS_MAX", 1)
    collector = MessageMetricCollector()
    collector.collect()
    assert not TopicMessages.objects.exists()
    collector.collect()
    assert row().half_undecided == 2


def test_delayed_messages_that_are_due_count_until_they_are_delivered(
    monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    delayed_responses.patch_responses(monkeypatch, world)
    collector = MessageMetricCollector()
    collector.collect()
    found = row()
    assert (found.delayed_pending, found.delayed_late_ms) == (5, None)
    assert found.delayed_next_at is not None and found.delayed_next_at > timezone.now()
    late = delayed_responses.NOW_MS - 90_000

    def respond_with_due_messages(*_: object) -> DelayedMessagesResponse:
        return DelayedMessagesResponse(due=2, last_due_ms=late, last_sent_ms=late + 1_500)

    monkeypatch.setattr(module.delayed_messages, "fetch_pending", respond_with_due_messages)
    collector.collect()
    found = row()
    assert (found.delayed_pending, found.delayed_late_ms) == (4, 1_500)
    assert found.delayed_next_at is not None and found.delayed_next_at.timestamp() * 1000 == pytest.approx(late)


def test_new_dead_letters_are_counted_over_a_window(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    world.topic("orders.dead", (1,), (2,), configs={"weir.retry.source": "orders"})
    world.topic("dlq.tasks", (1,), configs={"errors.deadletterqueue.group.enable": "true"})
    world.topic("plain", (1,), configs={"errors.deadletterqueue.group.enable": "false"})
    world.project()
    ObservedPartition.objects.update(start_offset=0, end_offset=10)
    collector = MessageMetricCollector()
    collector.collect()
    assert {r.topic: (r.dead_letters, r.dead_letters_grown) for r in TopicMessages.objects.all()} == {
        "orders": (20, 0),
        "dlq.tasks": (10, 0),
    }
    ObservedPartition.objects.filter(topic__name="orders.dead", index=0).update(end_offset=40)
    collector.collect()
    assert (row().dead_letters, row().dead_letters_grown) == (50, 30)
    ObservedPartition.objects.filter(topic__name="orders.dead").update(end_offset=1)
    collector.collect()
    assert row().dead_letters_grown == 0, "created again"
    monkeypatch.setattr(module, "GROWTH_S", 0)
    ObservedPartition.objects.filter(topic__name="orders.dead").update(end_offset=5)
    for _ in range(3):
        collector.collect()
    assert row().dead_letters_grown == 0, "an old growth is not new"


def test_metrics_beyond_their_thresholds_are_alerts_with_a_next_step(world: World) -> None:
    now = timezone.now()
    TopicMessages.objects.create(
        topic="orders",
        half_undecided=3,
        half_oldest_at=now - timedelta(minutes=10),
        half_expired=2,
        delayed_pending=1,
        delayed_next_at=now - timedelta(minutes=2),
        dead_letters=100,
        dead_letters_grown=40,
        sampled_at=now,
    )
    world.topic("dlq.tasks", (1,), configs={"errors.deadletterqueue.group.enable": "true"})
    TopicMessages.objects.create(topic="dlq.tasks", dead_letters=100, dead_letters_grown=40, sampled_at=now)
    quiet = {"half_oldest_at": now, "half_expired": 0, "delayed_next_at": now, "dead_letters_grown": 9}
    TopicMessages.objects.create(topic="quiet", sampled_at=now, **quiet)
    due_since = now - timedelta(minutes=2)
    TopicMessages.objects.create(topic="on time", sampled_at=due_since, delayed_pending=1, delayed_next_at=due_since)
    ShareGroupLetters.objects.create(
        group_id="a: b",
        topic="tasks",
        broker_id=1,
        written=1,
        unwritten=2,
        reason="topic-missing",
        unwritten_at=now,
        changed_at=now,
    )
    alerts.evaluate()
    of_share_groups = next(a for a in open_alerts() if a.subject == "dlq.tasks")
    assert [(s.kind, s.target) for s in next_steps(of_share_groups)] == [("open_dead_letters", ["dlq.tasks"])]
    found = {a.kind: a for a in open_alerts() if a.subject in ("orders", "quiet", "on time", "a: b: tasks")}
    assert {kind: a.subject for kind, a in found.items()} == {
        "dead_letters_missing": "a: b: tasks",
        "half_undecided": "orders",
        "half_expired": "orders",
        "delayed_overdue": "orders",
        "dead_letters_growing": "orders",
    }
    missing = found["dead_letters_missing"]
    assert missing.severity == "at_risk" and "its topic of dead letters does not exist" in missing.text
    steps = {kind: [(s.kind, s.target) for s in next_steps(a)] for kind, a in found.items()}
    assert steps["dead_letters_missing"] == [("open_share_group", ["a: b"])]
    assert [k for k, _ in steps["half_expired"]] == ["read_topic", "open_half_messages"]
    assert steps["delayed_overdue"] == [("open_delayed_messages", ["orders"])]
    assert steps["dead_letters_growing"] == [("open_dead_letters", ["orders"])]
