"""The points of charts in live updates."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.domain.history import METRICS
from controlplane.monitoring.live_events import LiveUpdate
from controlplane.monitoring.live_points import LIVE_METRICS, metrics


def metrics_of_update(kind: str, data: dict[str, Any]) -> dict[tuple[str, str], float]:
    update = LiveUpdate(run="r", seq=1, kind=kind, data=data)
    return {(subject, metric): value for subject, metric, value in metrics(update)}


def test_every_fed_metric_is_recorded() -> None:
    for kind, names in LIVE_METRICS.items():
        assert set(names) <= {f.name for f in METRICS[kind]}


@pytest.mark.parametrize("kind", ["moves", "archives", "changes"])
def test_other_updates_have_none(kind: str) -> None:
    assert metrics_of_update(kind, {}) == {}


def test_unknown_metrics_are_left_out() -> None:
    assert metrics_of_update("topics", {"topics": [{"name": "t", "records_per_s": None, "size_bytes": 5}]}) == {
        ("topic:t", "size_bytes"): 5
    }
    assert metrics_of_update(
        "groups", {"groups": [{"group_id": "g", "lag_records": 4, "lag_ms_max": 1500, "consumed_per_s": None}]}
    ) == {
        ("group:g", "lag_records"): 4,
        ("group:g", "lag_s"): 1.5,
    }


def test_share_groups() -> None:
    group = {"group_id": "workers", "lag_records": None, "member_count": 2}
    assert metrics_of_update("share_groups", {"groups": [group]}) == {("share_group:workers", "member_count"): 2}
    assert (
        metrics_of_update("share_groups", {"groups": [{**group, "lag_records": 7}]})[
            "share_group:workers", "lag_records"
        ]
        == 7
    )


def test_brokers_and_partitions() -> None:
    broker = {"broker_id": 1, "replicas": 5, "replicas_out_of_sync": 2, "leaders": 1, "size_bytes": None}
    known = {("broker:1", "replicas_in_sync"): 3, ("broker:1", "replicas_out_of_sync"): 2, ("broker:1", "leaders"): 1}
    assert metrics_of_update("brokers", {"brokers": [broker]}) == known
    space = {"total_bytes": 10, "free_bytes": 4, "answered": True}
    assert metrics_of_update("brokers", {"brokers": [{**broker, **space}]}) == {
        **known,
        ("broker:1", "disk_used_bytes"): 6,
    }
    silent = {**broker, **space, "size_bytes": 9, "answered": False}
    assert metrics_of_update("brokers", {"brokers": [silent]}) == known, "the last known values are no new points"
    assert metrics_of_update("brokers", {"brokers": [{**silent, "answered": True}]})["broker:1", "size_bytes"] == 9
    assert metrics_of_update(
        "partitions", {"topic": "t", "partitions": [{"index": 0, "isr": [1, 2], "size_bytes": 7}]}
    ) == {
        ("partition:t:0", "size_bytes"): 7,
        ("partition:t:0", "replicas_in_sync"): 2,
    }
