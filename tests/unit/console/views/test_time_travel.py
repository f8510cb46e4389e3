"""The page "Time travel"."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from django.test import Client

from console.time_links import at_url, before_url
from controlplane.services import topics
from tests.unit.controlplane.metadata_log import KeptLog, flights, time_at
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def text(viewer: Client, query: str = "") -> str:
    response = viewer.get(f"/time-travel/{query}")
    assert response.status_code == 200
    return re.sub(r"\s+", " ", response.content.decode())


@pytest.fixture
def flights_in_kept_log(db: None) -> None:
    flights(KeptLog())


def test_the_newest_known_time_is_compared_with_fifteen_minutes_before(
    flights_in_kept_log: None, viewer: Client
) -> None:
    page = text(viewer)
    assert 'value="2026-01-20T12:30:00"' in page and 'value="2026-01-20T12:15:00"' in page
    assert "broker 2" in page and "ISR expands 1" in page and "alive, 127.0.0.1:9002" in page
    viewer.cookies["weir_language"] = "zh-hans"
    chinese = text(viewer)
    assert "Broker 2" in chinese and "存活，127.0.0.1:9002" in chinese and "alive" not in chinese


def test_each_tab_shows_the_chosen_time(flights_in_kept_log: None, viewer: Client) -> None:
    when = "at=2026-01-20T12:12:00"
    page = text(viewer, f"?tab=partitions&{when}")
    assert "flights-0" in page and page.count("under-replicated</span>") == 2
    assert "flights-0" not in text(viewer, f"?tab=partitions&{when}&broker=3")
    assert "No matching partitions" in text(viewer, "?tab=partitions&at=2026-01-20T12:05:00&kind=problems")
    assert '<span class="st st-red">down</span>' in text(viewer, f"?tab=brokers&{when}")
    assert "topic:flights" in text(viewer, f"?tab=configs&{when}")
    changes = text(viewer, f"?tab=changes&since=2026-01-20T12:05:00&{when}")
    assert "01-20 12:10:00" in changes and "Leader changes 1" in changes and "3 of 3" not in changes
    only = text(viewer, f"?since=2026-01-20T12:05:00&{when}&kind=leader")
    assert "flights-1" in only and "flights-0" not in only


def test_unknown_times_link_to_the_nearest_known_one(flights_in_kept_log: None, viewer: Client) -> None:
    page = text(viewer, "?tab=brokers&at=2026-01-20T11:00:00")
    assert "is not known: known from 2026-01-20 12:00:00 UTC" in page and "Show the first known time after" in page
    assert "is not a time such as" in text(viewer, "?at=yesterday")
    assert "before the second" in text(viewer, "?since=2026-01-20T12:20:00&at=2026-01-20T12:10:00")
    assert "earlier time" in text(viewer, "?since=2026-01-20T12:10:00&at=2026-01-20T12:10:00")
    assert text(viewer, "?broker=x&page=y&tab=none&kind=none&at=2026-01-20T12:10:00")


def test_a_gap_is_named(flights_in_kept_log: None, viewer: Client) -> None:
    log = KeptLog()
    log.begin()
    log.image.seq = 100
    log.recorder.image_loaded(log.image, int(time_at(60).timestamp() * 1000))
    while len(log.recorder._items) > 1:
        log.recorder._items.popleft()
    log.keep(60)
    assert "Gap from" in text(viewer) and "Gap" not in text(viewer).split("Retained history:")[0]


def test_nothing_is_kept_before_the_first_start(viewer: Client, world: World) -> None:
    assert "No history yet" in text(viewer)


def test_charts_alerts_and_changes_link_to_their_time(viewer: Client, world: World) -> None:
    moment = datetime(2026, 1, 20, 12, 10, tzinfo=UTC)
    assert at_url(moment) == "/time-travel/?at=2026-01-20T12%3A10%3A00"
    assert "since=2026-01-20T11%3A55%3A00&at=2026-01-20T12%3A11%3A00&tab=changes" in before_url(moment)
    topics.create_topic(name="orders", partitions=1, replication_factor=1, configs={}, actor="alice")
    change = viewer.get("/audit/1/").content.decode()
    assert "/time-travel/?at=" in change and "what differed before" in change
    assert "what differed before" in viewer.get("/").content.decode()
