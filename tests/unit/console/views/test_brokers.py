"""Brokers: a data directory in doubt, operations, and the review of a drain."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.models import Broker, Change, Move
from controlplane.models.restart import RestartStep, RollingRestart
from controlplane.selectors import next_steps
from tests.unit.controlplane.forecast_runs import finished_run
from tests.unit.controlplane.world import World


def test_a_rejected_data_directory_is_explained_on_the_broker_s_page_and_in_rest(
    operator: Client, seeded_cluster: Any
) -> None:
    assert 'id="tail-doubt"' not in operator.get("/brokers/1/").content.decode()
    Broker.objects.filter(broker_id=1).update(tail_doubt="directory-older")
    page = operator.get("/brokers/1/").content.decode()
    assert "directory-older" in page and "is an older copy" in page and "restore that directory" in page
    row = operator.get("/api/v1/brokers/1").json()
    assert (
        row["tail_doubt"] == "directory-older" and "older copy" in row["tail_doubt_reason"] and row["tail_doubt_action"]
    )


def test_the_values_of_a_broker_that_does_not_respond_are_marked_as_old(world: World, operator: Client) -> None:
    assert 'id="old-values"' not in operator.get("/brokers/1/").content.decode()
    Broker.objects.filter(broker_id=1).update(sampled_at=timezone.now() - timedelta(minutes=8))
    page = operator.get("/brokers/1/").content.decode()
    assert "The broker has not responded for 8 min" in page and '<span class="st st-amber">8 min' in page


def test_a_drain_is_reviewed_with_its_bytes_and_becomes_a_move(world: World, operator: Client) -> None:
    world.topic("flights", (1, 2), (2, 1), size=3_000_000)
    page = operator.get("/brokers/1/drain/").content.decode()
    assert "Drain: move 2 replicas, 6.0 MB" in page
    rejected = operator.post("/brokers/1/drain/", {"throttle_bytes_per_s": "2"})
    assert rejected.status_code == 409 and not Move.objects.exists(), "a reason is required"
    done = operator.post("/brokers/1/drain/", {"throttle_bytes_per_s": "2", "comment": "old disk"}, follow=True)
    move = Move.objects.get()
    assert done.redirect_chain == [(f"/moves/{move.pk}/", 302)] and move.throttle_bytes_per_s == 2_000_000
    assert f"Broker 1 is draining: move {move.pk}." in done.content.decode()


def test_a_drain_that_is_not_possible_shows_its_reason_and_no_plan(world: World, operator: Client) -> None:
    """The page said `The broker is cordoned`, and its disabled button had a number of replicas."""
    world.topic("flights", (1, 2, 3))
    page = operator.get("/brokers/1/drain/").content.decode()
    assert "This broker cannot be drained" in page and "?kind=replication_factor" in page
    assert "The broker is cordoned" not in page and "Drain: move" not in page


def test_a_broker_without_replicas_is_only_cordoned_and_demoted(world: World, operator: Client) -> None:
    assert "Cordon and demote" in operator.get("/brokers/3/drain/").content.decode()
    page = operator.post("/brokers/3/drain/", {"comment": "old disk"}, follow=True).content.decode()
    assert "Broker 3 has no replicas. It is cordoned and demoted." in page and not Move.objects.exists()


def test_unknown_brokers_and_operations_are_not_found_and_a_get_changes_nothing(world: World, operator: Client) -> None:
    assert operator.post("/brokers/9/cordon/").status_code == operator.post("/brokers/1/explode/").status_code == 404
    response = operator.get("/brokers/1/cordon/")
    assert response.headers["Location"] == "/brokers/1/" and not Change.objects.exists()


def test_the_page_has_the_forecast_of_the_disk(seeded_cluster: dict[str, Any], viewer: Client) -> None:
    assert "Forecast, disk full" not in viewer.get("/brokers/1/").content.decode()
    finished_run()
    text = " ".join(viewer.get("/brokers/1/").content.decode().split())
    assert "Forecast, disk full:" in text and "82.5 % of 40 earlier forecasts" in text and "– after" in text


def test_requests_by_api_are_a_table_and_charts(seeded_cluster: dict[str, Any], viewer: Client) -> None:
    assert "The broker has not reported its requests." in viewer.get("/brokers/2/").content.decode()
    row = {
        "name": "Produce",
        "requests_per_s": 12.5,
        "p50_ms": 1.0,
        "p99_ms": 25.0,
        "greatest_ms": 1_234.0,
        "errors": {"6": 0.5, "31999": 2.0},
    }
    Broker.objects.filter(broker_id=1).update(requests=[row])
    page = viewer.get("/brokers/1/").content.decode()
    assert "NOT_LEADER_OR_FOLLOWER 0.5" in page and "1,234" in page and "?api=Produce#history" in page
    assert 'data-chart="broker_api:1:FetchConsumer|p99_ms"' in page
    chosen = viewer.get("/brokers/1/?api=Produce&range=6h").content.decode()
    assert 'data-chart="broker_api:1:Produce|errors_per_s"' in chosen and "FetchConsumer|p99_ms" not in chosen
    assert "Produce · Requests per second" in chosen


def test_the_page_of_a_dead_broker_starts_its_process_and_does_not_restart_it(
    seeded_cluster: dict[str, Any], operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Restart this broker" in operator.get("/brokers/1/").content.decode()
    Broker.objects.filter(broker_id=1).update(alive=False)
    page = operator.get("/brokers/1/").content.decode()
    assert "start brokerd on its host" in page and "Restart this broker" not in page
    assert "If the process still runs, it is frozen" in page
    monkeypatch.setattr(next_steps.supervisor, "is_kept_stopped", lambda folder, name: name == "broker-1")
    page = operator.get("/brokers/1/").content.decode()
    assert "/start/process/broker-1/" in page and "start brokerd on its host" not in page


def test_the_page_of_a_dead_broker_has_old_values_and_no_act_that_needs_it(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    Broker.objects.filter(broker_id=1).update(
        sampled_at=timezone.now() - timedelta(minutes=11), size_bytes=5_000_000, total_bytes=1000, free_bytes=500
    )
    page = operator.get("/brokers/1/").content.decode()
    assert "Move leadership off (" in page and "Rebalance onto this broker" in page and "11 min old" not in page
    Broker.objects.filter(broker_id=1).update(alive=False)
    page = operator.get("/brokers/1/").content.decode()
    assert "Move leadership off (" not in page and "Rebalance onto this broker" not in page
    assert page.count("11 min old") == 2
    rows = page[page.index('id="list"') :]
    assert ">offline</span>" in rows and ">out of sync</span>" not in rows


def test_a_failed_disk_of_a_broker_that_must_not_restart_advises_no_restart(world: World, operator: Client) -> None:
    world.topic("flights", (1, 2), configs={"min.insync.replicas": "2"})
    Broker.objects.filter(broker_id=1).update(dirs_failed=["/b"], dirs_hung=["/b"])
    page = " ".join(operator.get("/brokers/1/").content.decode().split())
    assert "alive, 1 failed directory" in page and "Not safe to restart now." in page
    assert "Do not restart the broker now: see above." in page and "which is not safe now" in page
    assert "Fix the disk and restart the broker, or drain" not in page
    restart = RollingRestart.objects.create(actor="alice", by_supervisor=True)
    RestartStep.objects.create(restart=restart, place=0, broker_id=1, note="Not safe to restart yet: flights-0")
    page = " ".join(operator.get("/brokers/1/").content.decode().split())
    assert "It waits for this broker." in page and "Not safe to restart yet" not in page
