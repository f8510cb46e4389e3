"""Values for Prometheus: from rows, without a sample for an unknown value, topics on request."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from controlplane.models import Broker, ObservedTopic, ShareGroupLetters, ShareGroupPartition, TopicMessages
from controlplane.monitoring.history import HistoryRecorder
from controlplane.selectors import metrics
from tests.unit.console.seed import group
from tests.unit.controlplane.history_rows import record
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def samples(*, topics: bool = False) -> dict[str, dict[tuple[str, ...], float]]:
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(metrics.exposition(topics=topics).decode()):
        for s in family.samples:
            found.setdefault(s.name, {})[tuple(s.labels.values())] = s.value
    return found


def test_metrics_of_the_cluster_its_brokers_and_groups(world: World) -> None:
    world.topic("flights", (1, 2), (2, 1))
    world.put("flights", 0, isr=(1,))
    world.down(3)
    group("billing", {("flights", 0): (10, 15)}, "stalled")
    Broker.objects.filter(broker_id=1).update(free_bytes=5)
    found = samples()
    assert found["weir_partitions"][()] == 2 and found["weir_partitions_under_replicated"][()] == 1
    assert found["weir_broker_alive"] == {("1",): 1, ("2",): 1, ("3",): 0}
    assert found["weir_group_lag_records"] == {("billing",): 5}
    assert found["weir_group_lag_seconds"] == {("billing",): 0.005}, "in seconds"
    assert found["weir_group_status"] == {("billing", "stalled"): 1}


def test_share_groups_have_their_newest_recorded_metrics(world: World) -> None:
    now = int(timezone.now().timestamp()) // 10 * 10
    lag, members = ("share_group:workers", "lag_records"), ("share_group:workers", "member_count")
    record(HistoryRecorder(), {now - 90: {lag: 9, members: 3}, now - 30: {lag: 5}, now - 20: {lag: 7}})
    found = samples()
    assert found["weir_share_group_lag_records"] == {("workers",): 7}
    assert "weir_share_group_members" not in found, "the last value is too old"


def test_share_groups_have_their_greatest_lag_in_time(world: World) -> None:
    for index, values in enumerate(({"lag_ms": 1_500}, {"lag_ms": 900, "lag_at_least": True}, {"lag_ms": None})):
        ShareGroupPartition.objects.create(
            group_id="workers", topic="t", index=index, observed_at=timezone.now(), **values
        )
    found = samples()
    assert found["weir_share_group_lag_seconds"] == {("workers",): 1.5}
    assert found["weir_share_group_lag_seconds_is_lower_bound"] == {("workers",): 1}


def test_an_unknown_metric_has_no_sample(world: World) -> None:
    Broker.objects.update(free_bytes=None)
    group("nightly", {("flights", 0): (None, 9)}, "unknown", members=0)
    found = samples()
    assert "weir_broker_disk_free_bytes" not in found and "weir_group_lag_records" not in found
    assert found["weir_group_status"] == {("nightly", "unknown"): 1}


def test_metrics_of_topics_are_optional(world: World) -> None:
    world.topic("flights", (1, 2))
    ObservedTopic.objects.update(size_bytes=7, records_per_s=1.5)
    assert not any(name.startswith("weir_topic_") for name in samples())
    assert samples(topics=True)["weir_topic_size_bytes"] == {("flights",): 7}


def test_bytes_in_and_out_are_exposed(world: World) -> None:
    world.topic("flights", (1, 2))
    ObservedTopic.objects.update(bytes_in_per_s=1.5, bytes_out_per_s=4, replication_bytes_in_per_s=3)
    Broker.objects.filter(broker_id=1).update(bytes_in_per_s=1.5, replication_bytes_out_per_s=3)
    found = samples(topics=True)
    assert found["weir_bytes_in_per_second"][()] == 1.5 and found["weir_replication_bytes_per_second"][()] == 3
    assert found["weir_topic_bytes_out_per_second"] == {("flights",): 4}
    assert found["weir_broker_bytes_in_per_second"] == {("1",): 1.5}
    assert found["weir_broker_replication_bytes_out_per_second"] == {("1",): 3}


def test_requests_by_api_and_error_are_exposed(world: World) -> None:
    row = {
        "name": "Produce",
        "requests_per_s": 12.5,
        "p50_ms": 1.0,
        "p99_ms": 25.0,
        "greatest_ms": 1_234.0,
        "errors": {"6": 0.5, "31999": 2.0},
    }
    Broker.objects.filter(broker_id=1).update(requests=[row])
    found = samples()
    assert found["weir_broker_requests_per_second"] == {("Produce", "1"): 12.5}
    assert found["weir_broker_request_p99_milliseconds"] == {("Produce", "1"): 25}
    assert found["weir_broker_request_errors_per_second"]["Produce", "1", "NOT_LEADER_OR_FOLLOWER"] == 0.5


def test_rejected_requests_are_exposed_by_reason(world: World) -> None:
    Broker.objects.filter(broker_id=1).update(refusals=[{"reason": "throttled", "total": 9, "per_s": 0.5}])
    found = samples()
    assert found["weir_broker_refused_requests_total"] == {("1", "throttled"): 9}
    assert found["weir_broker_refused_requests_per_second"] == {("1", "throttled"): 0.5}


def test_messages_have_their_metrics_unless_they_are_old(world: World) -> None:
    now = timezone.now()
    TopicMessages.objects.create(
        topic="orders",
        half_undecided=3,
        half_oldest_at=now - timedelta(seconds=100),
        half_checks=7,
        delayed_pending=1,
        delayed_next_at=now - timedelta(seconds=5),
        sampled_at=now - timedelta(seconds=10),
    )
    TopicMessages.objects.create(topic="silent", half_undecided=3, sampled_at=now - timedelta(minutes=2))
    ShareGroupLetters.objects.create(
        group_id="workers", topic="tasks", broker_id=1, written=5, unwritten=2, changed_at=now
    )
    found = samples()
    assert found["weir_half_messages_undecided"] == {("orders",): 3}
    assert found["weir_half_messages_oldest_seconds"]["orders",] == pytest.approx(90)
    assert found["weir_half_messages_checks_total"] == {("orders",): 7}
    assert found["weir_delayed_messages_overdue_seconds"] == {("orders",): 0}, "due after the sample"
    assert "weir_dead_letters" not in found and "weir_delayed_messages_late_seconds" not in found
    assert found["weir_share_group_archived_without_dead_letter_total"] == {("1", "workers", "tasks"): 2}
    text = metrics.exposition().decode()
    assert "# TYPE weir_share_group_dead_letters_total counter" in text
    assert "# TYPE weir_half_messages_undecided gauge" in text
