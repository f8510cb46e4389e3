"""Cells of the cluster and of the brokers."""

from __future__ import annotations

import time

import pytest
from django.utils import translation

from console import cluster_cells
from controlplane.monitoring import live_shapes as shapes


@pytest.mark.parametrize(
    ("free", "total", "severity", "text"),
    [
        (180 * 10**9, 500 * 10**9, "", '180 GB <span class="sub">36%</span>'),
        (49 * 10**9, 500 * 10**9, "degraded", '49.0 GB <span class="t-amber">10%</span>'),
        (14 * 10**9, 500 * 10**9, "at_risk", '14.0 GB <span class="t-red">3%</span>'),
        (0, 500 * 10**9, "at_risk", '<span class="zero">0</span> <span class="t-red">0%</span>'),
    ],
)
def test_free_disk_space_has_the_tone_of_its_alert(free: int, total: int, severity: str, text: str) -> None:
    assert cluster_cells.disk_free(free, total, severity) == text


@pytest.mark.parametrize(
    ("alive", "answered", "failed", "slow", "shown"),
    [
        (True, True, 0, 0, '<span class="st st-calm">alive</span>'),
        (True, None, 1, 0, '<span class="st st-red">alive, 1 failed directory</span>'),
        (True, True, 2, 1, '<span class="st st-red">alive, 2 failed directories</span>'),
        (True, True, 0, 1, '<span class="st st-amber">alive, 1 slow directory</span>'),
        (True, False, 2, 0, '<span class="st st-amber">not responding</span>'),
        (False, True, 2, 0, '<span class="st st-red">down</span>'),
    ],
)
def test_the_state_of_a_broker_has_the_tone_of_its_log_directories(
    alive: bool, answered: bool | None, failed: int, slow: int, shown: str
) -> None:
    assert cluster_cells.broker_state(alive, answered, failed, slow) == shown


@pytest.mark.parametrize(
    ("started_s", "unclean", "shown"),
    [(180, True, True), (180, False, False), (3_600, True, False), (None, True, False)],
)
def test_a_broker_that_restarted_after_an_unclean_shutdown_has_a_badge_for_an_hour(
    started_s: float | None, unclean: bool, shown: bool
) -> None:
    badge = cluster_cells.restart_badge(started_s, unclean)
    assert ("restarted 3 min ago" in badge) is shown and bool(badge) is shown


def test_a_live_update_of_a_silent_broker_has_the_age_of_its_values() -> None:
    shape: shapes.BrokerShape = {
        "broker_id": 1,
        "alive": True,
        "leaders": 1,
        "replicas": 1,
        "replicas_out_of_sync": 0,
        "size_bytes": 20_000_000,
        "total_bytes": 100,
        "free_bytes": 50,
        "answered": True,
        "dirs_failed": ["/a"],
        "dirs_slow": [],
        "size_as_of_ms": None,
    }
    shown = cluster_cells.broker(shape)
    assert shown["size"] == "20.0 MB" and "old" not in shown["disk_free"] and "1 failed directory" in shown["state"]
    shape["answered"], shape["size_as_of_ms"] = False, int(time.time() * 1000) - 660_000
    old = cluster_cells.broker(shape)
    assert "11 min old" in old["size"] and "11 min old" in old["disk_free"]
    shape["size_bytes"] = None
    assert "old" not in cluster_cells.broker(shape)["size"], "an unknown size has no age"


@pytest.mark.parametrize(("free", "total"), [(None, None), (None, 10), (10, None)])
def test_unknown_disk_space_is_a_dash_with_a_reason(free: int | None, total: int | None) -> None:
    shown = cluster_cells.disk_free(free, total, "")
    assert "not reported its disk space" in shown and "–" in shown


def test_the_reason_of_the_health_is_the_title_of_its_alert_in_the_language_of_the_page() -> None:
    health = {
        "word": "at_risk",
        "reason": "Broker 3 is down.",
        "reason_code": "alert",
        "reason_values": {},
        "alert_kind": "broker_down",
        "alert_subject": "3",
        "alert_metric": None,
        "alert_client": None,
    }
    data = {"health": health, "offline": 0, "under_min_isr": 0, "under_replicated": 4}
    assert cluster_cells.health_reason(data) == "Broker 3 is down."
    with translation.override("zh-hans"):
        assert "3" in cluster_cells.health_reason(data)
        assert "4" not in cluster_cells.health_reason(data)
    metric = {"name": "records_per_s", "object_kind": "topic", "object_name": "flights"}
    data["health"] = health | {"alert_kind": "anomaly", "alert_subject": "an id", "alert_metric": metric}
    assert cluster_cells.health_reason(data) == "Unusual metric: Records in per second (flights)."
    with translation.override("zh-hans"):
        assert cluster_cells.health_reason(data) == "异常指标：每秒流入消息数（flights）。"


def test_the_reason_of_the_health_is_a_sentence_with_its_numbers_in_each_language() -> None:
    down = {"count": 1, "total": 3, "lacking": 4}
    data = {"health": {"word": "degraded", "reason": "x", "reason_code": "brokers_down", "reason_values": down}}
    assert cluster_cells.health_reason(data) == "1 broker of 3 is down; 4 partitions lack a replica."
    with translation.override("zh-hans"):
        assert cluster_cells.health_reason(data) == "3 个 Broker 中有 1 个宕机；4 个分区缺少副本。"
    client = {"client": "User:x", "reason": "authentication_failed"}
    data["health"] = {
        "word": "degraded",
        "reason": "x",
        "reason_code": "alert",
        "reason_values": {},
        "alert_kind": "client_refused",
        "alert_subject": "an id",
        "alert_metric": None,
        "alert_client": client,
    }
    assert cluster_cells.health_reason(data) == "Rejected client: User:x (authentication failed)."
    with translation.override("zh-hans"):
        assert cluster_cells.health_reason(data).startswith("被拒绝的客户端：User:x（")
