"""Template tags of all pages: links that keep the query, sorted headers, pagers, REST calls, links of alerts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.template import RequestContext
from django.test import RequestFactory

from console.panels import lazy
from console.templatetags import weir
from controlplane.domain.alert_thresholds import ThresholdUnit
from controlplane.selectors.paging import Page, PageWindow


def context(address: str = "/topics/?q=o&page=3", **values: Any) -> Any:
    request = RequestFactory().get(address)
    return RequestContext(request, {"request": request, **values})


def test_an_expiry_shows_the_time_that_is_left() -> None:
    now = datetime.now(UTC)
    assert "in 40 d" in weir.expires_in(now + timedelta(days=40, minutes=1))
    assert weir.expires_in(now - timedelta(minutes=1)) == ""


def test_a_link_changes_some_parameters_and_keeps_the_others() -> None:
    assert weir.url_with(context(), sort="name") == "?q=o&page=3&sort=name"
    assert weir.url_with(context(), page="", q=None) == "?"
    assert weir.choice_url(context(), "only", "drift") == "?q=o&only=drift"


@pytest.mark.parametrize(
    ("sort", "kind", "order", "href"),
    [
        ("other", "", "", "sort=name"),
        ("other", "num", "", "sort=-name"),
        ("name", "", "ascending", "sort=-name"),
        ("-name", "num", "descending", "sort=name"),
    ],
)
def test_a_second_click_on_a_header_reverses_the_order(sort: str, kind: str, order: str, href: str) -> None:
    found = weir.th(context(page=SimpleNamespace(sort=sort)), "Name", "name", kind)
    assert (found["order"], found["href"]) == (order, f"?q=o&{href}")
    assert weir.th(context(), "Name")["href"] == ""


def test_a_header_has_its_order_if_the_page_is_read_when_it_is_first_used() -> None:
    """Headers of the lists of a move, a topic and a broker had no mark, and a second click did not reverse them."""
    found = weir.th(context(page=lazy(SimpleNamespace, sort="name")), "Name", "name")
    assert (found["order"], found["href"]) == ("ascending", "?q=o&sort=-name")


@pytest.mark.parametrize(
    ("page", "before", "after"),
    [(1, "", "?q=o&page=2"), (2, "?q=o", "?q=o&page=3"), (3, "?q=o&page=2", "")],
)
def test_a_pager_links_the_previous_and_the_next_page(page: int, before: str, after: str) -> None:
    rows: Page[int] = Page([], 25, PageWindow(page, 3, 10, None), "id", "")
    found = weir.pager(context(csv=True), rows, "topics")
    assert (found["before"], found["after"], found["csv"]) == (before, after, "?q=o&format=csv")
    one: Page[int] = Page([], 1, PageWindow(1, 1, 10, None), "id", "")
    assert (
        weir.pager(context(), one, "topics")["rows"] == "1 topic" and weir.pager(context(), one, "topics")["csv"] == ""
    )


def test_the_rest_call_of_a_form_can_be_pasted_into_a_shell() -> None:
    found = weir.curl(context(), "POST", "/topics", {"comment": "it's"})
    assert found["url"] == "http://testserver/api/v1/topics" and found["body"] == '{"comment": "it\'\\\'\'s"}'
    assert weir.curl_acts(context(), "moves", 3, ["pause"])["urls"] == ["http://testserver/api/v1/moves/3/pause"]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (90, ThresholdUnit.SECONDS, "1 min 30 s"),
        (12.5, ThresholdUnit.PERCENT, "12.5 %"),
        (7, ThresholdUnit.DAYS, "7 d"),
        (5000, "records", "5,000"),
    ],
)
def test_a_threshold_has_its_unit(value: float, unit: str, text: str) -> None:
    assert weir.threshold(value, unit) == text


@pytest.mark.parametrize(
    ("value", "tone", "text"),
    [(None, "", "–"), (-9.6, "", "−10"), (10, "skew1", "+10"), (-30, "skew2", "−30"), (80, "skew3", "+80")],
)
def test_a_deviation_from_the_mean_has_a_tone(value: float | None, tone: str, text: str) -> None:
    assert weir.skew_tone(value) == tone and text in weir.signed_pct(value)


def test_a_long_list_shows_its_first_lines_and_the_number_of_the_others() -> None:
    lines = [str(i) for i in range(weir.LINES_SHOWN_MAX + 3)]
    assert weir.first_lines(lines) == {"shown": lines[:-3], "more": 3}


@pytest.mark.parametrize(
    ("kind", "subject", "shown"),
    [
        ("drift", "", '<a class="go" href="/topics/?state=drift">topics with drift</a>'),
        ("broker_down", "3", '<a class="go" href="/brokers/3/">broker 3</a>'),
        ("disk_low", "3", '<a class="go" href="/brokers/3/?sort=-size_bytes#list">largest replicas of broker 3</a>'),
        ("group_stalled", "billing", '<a class="go" href="/groups/billing/">group billing</a>'),
        ("group_stalled", "", '<a class="go" href="/groups/?sort=-lag_records">groups</a>'),
        ("share_group_stopped", "workers", '<a class="go" href="/share-groups/workers/">share group workers</a>'),
        ("share_group_stopped", "", '<a class="go" href="/share-groups/">share groups</a>'),
        ("monitor_silent", "", '<a class="go" href="/zookeeper/">state of ZooKeeper</a>'),
        ("no_controller", "", ""),
    ],
)
def test_an_alert_links_to_its_page(kind: str, subject: str, shown: str) -> None:
    assert weir.alert_link(SimpleNamespace(kind=kind, subject=subject)) == shown


def test_a_config_value_shows_its_meaning() -> None:
    config = SimpleNamespace(name="retention.ms")
    assert weir.config_value(config, "-1") == '<span title="-1">unlimited</span>'
    assert weir.config_value(config, "60000") == '60000 <span class="sub">(1 min)</span>'
    assert weir.config_value(config, "") == "–"


def test_points_of_a_chart_are_times_and_values() -> None:
    assert weir.points([(1.04, 5.0), (2.0, None)]) == "[[1.0, 2.0], [5.0, null]]"
    assert weir.pretty(None) == "" and weir.pretty({"b": 1, "a": "ä"}) == '{\n  "a": "ä",\n  "b": 1\n}'
