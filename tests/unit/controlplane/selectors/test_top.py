"""The objects with the greatest values."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.domain.errors import Rejected
from controlplane.models import Broker, ConsumerGroup, ObservedPartition, ObservedTopic
from controlplane.monitoring.history import HistoryRecorder
from controlplane.selectors import top
from controlplane.selectors.top import METRICS, TopOf, TopRow, top_list
from tests.unit.controlplane.history_rows import record
from tests.unit.controlplane.selectors.test_clients import client, patch_responses
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def names(of: str, by: str, limit: int = 10) -> list[tuple[str, float]]:
    return [(r.name, r.value) for r in top_list(of, by, limit).rows]


def test_topics_by_rate_and_size_with_shares(world: World) -> None:
    for name, rate, size in (("a", 30.0, 5), ("b", 10.0, None), ("c", 60.0, 7), ("d", 0.0, 0)):
        world.topic(name, (1,))
        ObservedTopic.objects.filter(name=name).update(records_per_s=rate, size_bytes=size)
    found = top_list("topics")
    assert (found.by, found.unit) == ("records_per_s", "records/s")
    assert found.rows == [
        TopRow("c", 60.0, 60.0, "topic:c"),
        TopRow("a", 30.0, 30.0, "topic:a"),
        TopRow("b", 10.0, 10.0, "topic:b"),
    ]
    assert names("topics", "size_bytes") == [("c", 7.0), ("a", 5.0)], "unknown and zero are left out"
    assert names("topics", "records_per_s", 1) == [("c", 60.0)]


def test_internal_topics_are_left_out(world: World) -> None:
    world.topic("__consumer_offsets", (1,), row=False)
    ObservedTopic.objects.update(records_per_s=5)
    assert ObservedTopic.objects.get().internal
    assert names("topics", "records_per_s") == []


def test_growth_is_the_difference_of_an_hour(world: World) -> None:
    now = int(timezone.now().timestamp()) // 60 * 60
    for name in ("up", "down", "new"):
        world.topic(name, (1,))
    ObservedTopic.objects.update(size_bytes=1000)
    frames = {
        now - 3000 + 60 * i: {
            ("topic:up", "size_bytes"): 100_000.0 + 6000 * i,
            ("topic:down", "size_bytes"): 90_000.0 - i,
        }
        for i in range(40)
    }
    record(HistoryRecorder(), frames)
    ((name, value),) = names("topics", "growth_bytes_per_s")
    assert name == "up" and 90 <= value <= 110


def test_partitions_by_skew(world: World) -> None:
    world.topic("even", (1,), (1,), (1,), size=2_000_000)
    world.topic("skewed", (1,), (1,), (1,), (1,), size=1_000_000)
    ObservedPartition.objects.filter(topic__name="skewed", index=2).update(size_bytes=9_000_000)
    found = top_list("partitions", "skew_pct", 2).rows
    assert [(r.name, r.value, r.subject) for r in found] == [
        ("skewed-2", 300.0, "partition:skewed:2"),
        ("even-0", 100.0, "partition:even:0"),
    ]
    assert [r.name for r in top_list("partitions", "size_bytes", 1).rows] == ["skewed-2"]


def test_groups_by_lag_and_its_growth(world: World) -> None:
    for name, lag, ms, consumed, produced in (
        ("a", 10, 9000, 5, 50),
        ("b", 99, None, 50, 5),
        ("c", None, 1000, None, None),
    ):
        ConsumerGroup.objects.create(
            group_id=name,
            state="Stable",
            lag_records=lag,
            lag_ms_max=ms,
            consumed_per_s=consumed,
            produced_per_s=produced,
            observed_at=timezone.now(),
        )
    assert names("groups", "lag_records") == [("b", 99), ("a", 10)]
    assert names("groups", "lag_s") == [("a", 9), ("c", 1)]
    assert names("groups", "lag_growth_per_s") == [("a", 45)]
    assert top_list("groups", "lag_s").rows[0].share_pct is None


def test_brokers_by_every_metric(world: World) -> None:
    world.topic("t", (1, 2), (1, 2), (2, 1))
    Broker.objects.filter(pk=1).update(total_bytes=1000, free_bytes=250, size_bytes=10)
    assert names("brokers", "leaders") == [("1", 2), ("2", 1)]
    assert names("brokers", "disk_used_pct") == [("1", 75)]
    for metric in METRICS[TopOf.BROKERS]:
        top_list("brokers", metric.by)


def test_clients_and_principals_are_summed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = client("shop", 1000, principal="User:alice")
    batch = client("batch", 500, principal="User:alice", host="10.0.0.9")
    patch_responses(monkeypatch, {1: [shop, batch], 2: [client("web", 600, principal="User:bob")]}, silent=[3])
    rows = top_list("principals", "bytes_per_s").rows
    assert [r.name for r in rows] == ["User:alice", "User:bob"] and rows[0].subject == ""
    assert sum(r.share_pct or 0 for r in rows) == pytest.approx(100, abs=0.2)
    found = top_list("clients", "bytes_per_s", 1)
    assert found.rows[0].name.startswith("shop (User:alice") and found.brokers_silent == [3]


def test_unknown_kinds_and_metrics_name_the_known_ones(world: World) -> None:
    with pytest.raises(Rejected, match="topics, partitions"):
        top_list("nothing")
    with pytest.raises(Rejected, match="records_per_s, bytes_in_per_s"):
        top_list("topics", "nothing")
    assert timedelta(hours=1) == top.GROWTH


def test_topics_partitions_and_brokers_by_traffic(world: World) -> None:
    world.topic("a", (1,), (1,))
    world.topic("b", (1,))
    ObservedPartition.objects.filter(topic__name="a", index=1).update(bytes_in_per_s=30.0, bytes_out_per_s=0.0)
    ObservedPartition.objects.filter(topic__name="b").update(bytes_in_per_s=90.0, bytes_out_per_s=7.0)
    for name, rate in (("a", 30.0), ("b", 90.0)):
        ObservedTopic.objects.filter(name=name).update(bytes_in_per_s=rate, replication_bytes_in_per_s=rate / 3)
    Broker.objects.filter(broker_id=1).update(replication_bytes_out_per_s=40.0)
    assert top_list("topics", "bytes_in_per_s").rows[0] == TopRow("b", 90.0, 75.0, "topic:b")
    assert names("topics", "replication_bytes_in_per_s") == [("b", 30.0), ("a", 10.0)]
    assert top_list("partitions", "bytes_in_per_s").rows[1] == TopRow("a-1", 30.0, 25.0, "partition:a:1")
    assert names("partitions", "bytes_out_per_s") == [("b-0", 7.0)]
    assert names("brokers", "replication_bytes_out_per_s") == [("1", 40.0)]
