"""The charts of a page: range, points, marks."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client, RequestFactory
from django.utils import timezone

from console.history_charts import RANGES, PageCharts, page_charts
from controlplane.models import Alert, Change, ClusterEvent
from controlplane.selectors import history
from weir_common.lake_history import HistoryResult
from weir_common.lake_queries import QueryError

pytestmark = pytest.mark.django_db
PAGES = {
    "/": "cluster|records_per_s",
    "/topics/flights/": "topic:flights|size_bytes",
    "/groups/slow-reader/": "group:slow-reader|lag_s",
    "/brokers/1/": "broker:1|disk_used_bytes",
    "/topics/orders/1/": "partition:orders:1|replicas_in_sync",
}


def charts(query: str = "", subject: str = "topic:flights", *metrics: str) -> PageCharts:
    return page_charts(RequestFactory().get(f"/{query}"), subject, *(metrics or ("records_per_s",)))


@pytest.mark.parametrize(("address", "chart"), PAGES.items())
def test_the_charts_of_a_page_are_drawn_from_rows(
    seeded_cluster: dict[str, Any], viewer: Client, address: str, chart: str
) -> None:
    text = viewer.get(address).content.decode()
    found = re.search(rf'data-chart="{re.escape(chart)}" data-points="([^"]*)"', text)
    assert found, "no chart"
    times, values = json.loads(found.group(1).replace("&quot;", '"'))
    assert 50 <= len(times) <= 60 and values.count(None) == 6, "a gap stays a gap"
    assert text.count('aria-current="true">15 min</a>') == 1


@pytest.mark.parametrize("choice", RANGES)
def test_a_range_ends_now(seeded_cluster: dict[str, Any], choice: str) -> None:
    found = charts(f"?range={choice}")
    assert (found.choice, found.problem, found.until - found.since) == (choice, "", RANGES[choice][1])
    columns = json.loads(found.charts[0].points)
    assert len(columns) == (3 if found.charts[0].peaks else 2) and found.charts[0].peaks == (
        choice not in ("15m", "1h")
    )


def test_a_range_between_two_times_is_utc_and_not_live(seeded_cluster: dict[str, Any]) -> None:
    found = charts("?since=2026-11-20T03:00&until=2026-11-20T05:30")
    assert (found.choice, found.live, found.since_input, found.until_input) == (
        "",
        False,
        "2026-11-20T03:00",
        "2026-11-20T05:30",
    )


@pytest.mark.parametrize("query", ["?since=yesterday", "?since=2026-11-20&until=2026-11-19", "?since=1999-01-01"])
def test_an_impossible_range_has_a_reason_and_shows_the_default(seeded_cluster: dict[str, Any], query: str) -> None:
    found = charts(query)
    assert found.problem and found.choice == "15m" and found.live


def test_an_unknown_range_is_the_default(seeded_cluster: dict[str, Any]) -> None:
    assert charts("?range=1y").choice == "15m"


def test_marks_have_links(seeded_cluster: dict[str, Any], viewer: Client) -> None:
    now = timezone.now()
    ClusterEvent.objects.create(at=now, kind="leaders_changed", text="Leader election for 1 partition (flights-0).")
    ClusterEvent.objects.create(at=now, kind="broker_down", subject="2", text="Broker 2 left.")
    change, alert = Change.objects.filter(object_kind="topic").first(), Alert.objects.first()
    assert change is not None and alert is not None
    text = viewer.get("/?range=24h").content.decode().partition('class="marks"')[2].partition("</details>")[0]
    assert f'href="/alerts/{alert.pk}/"' in text and 'href="/audit/' in text and 'href="/brokers/2/"' in text
    assert 'href="/brokers/leader-elections/"' in text
    kinds = set(re.findall(r'<li><i class="mark" data-kind="(\w+)" aria-hidden="true"></i> <time datetime=', text))
    assert kinds == {"change", "alert", "election", "broker"}, "as the charts read them"


def test_the_values_are_available_as_csv(seeded_cluster: dict[str, Any], viewer: Client) -> None:
    response = viewer.get(charts().charts[0].csv)
    assert response.status_code == 200 and response.content.decode().startswith("at,value,peak\r\n")


def test_a_page_without_history_has_empty_charts(seeded_cluster: dict[str, Any], viewer: Client) -> None:
    text = viewer.get("/topics/payments.audit/").content.decode()
    assert 'data-points="[[],[]]"' in text
    assert charts("", "topic:payments.audit").since < timezone.now() - timedelta(minutes=14)


@pytest.mark.parametrize(("part", "text"), [("read", "metrics.points"), ("no_table", "no <a"), ("failed", "too slow")])
def test_a_page_names_the_origin_of_old_values(
    seeded_cluster: dict[str, Any], viewer: Client, monkeypatch: pytest.MonkeyPatch, part: str, text: str
) -> None:
    errors = {"read": None, "no_table": QueryError.NO_TABLE, "failed": QueryError.TIME}
    response = HistoryResult(error=errors[part], detail="too slow")
    monkeypatch.setattr(history.lake, "history", lambda *_: response)
    assert text in viewer.get("/topics/flights/?range=90d").content.decode()
