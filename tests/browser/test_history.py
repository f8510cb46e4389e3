"""Charts of recorded values in a browser: value under the pointer on all charts of a page, the table behind a chart, ranges in the URL."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import BrowserSession, WebServer
from tests.browser.seeded_server import PASSWORD, USER

pytestmark = pytest.mark.browser
PAGES = {
    "overview": "/",
    "topic": "/topics/flights/",
    "group": "/groups/slow-reader/",
    "broker": "/brokers/1/",
    "partition": "/topics/orders/1/",
}


def test_all_charts_of_a_page_show_the_value_under_the_pointer(session: BrowserSession) -> None:
    page = session.page
    # The samples were written when the server started: with the default range of 15 minutes a slow run finds none of them in the charts.
    page.goto("/topics/flights/?range=6h")
    session.live()
    chart = page.locator(".history .u-over").first
    shown = page.locator(".history .readout:visible")
    expect(page.locator(".history .uplot")).to_have_count(4)
    times: list[str] = []
    deadline = time.monotonic() + 240
    # A live update may draw the charts again between a move of the pointer and the look at the readouts.
    while len(times) < 2 or len(set(times)) != 1:
        assert time.monotonic() < deadline, f"the charts are not synchronised: {times}"
        for x in (100, 150):
            chart.hover(position={"x": x, "y": 40})
        times = [text.split(" UTC")[0] for text in shown.all_inner_texts()]


def test_the_table_behind_a_chart_has_its_values(session: BrowserSession) -> None:
    page = session.page
    page.goto("/topics/flights/?range=6h")
    values = page.locator(".history details.values").first
    values.locator("summary").click()
    expect(values.locator("tbody tr").nth(3)).to_be_visible()
    assert [len(r.locator("td").all()) for r in values.locator("tbody tr").all()[:3]] == [3, 3, 3]


def test_the_range_is_in_the_url(session: BrowserSession) -> None:
    page = session.page
    page.goto("/groups/slow-reader/")
    page.click(".history .seg a:has-text('7 d')")
    page.wait_for_url("**range=7d**")
    expect(page.locator(".history .seg a[aria-current]")).to_have_text("7 d")
    page.click(".history details.range summary")
    page.fill(".history input[name=since]", "2026-11-20T03:00")
    page.click(".history button:has-text('Show')")
    page.wait_for_url("**since=2026-11-20T03**")
    expect(page.locator(".history .seg a[aria-current]")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_screenshots_of_the_charts(chromium: Browser, web_server: WebServer, scheme: str) -> None:
    session = BrowserSession(chromium, web_server.base, USER, PASSWORD, color_scheme=scheme)
    for name, address in PAGES.items():
        session.page.goto(address)
        expect(session.page.locator(".history .uplot:visible").first).to_be_visible()
        session.shot(f"history-{name}-{scheme}")
    session.context.close()
    assert not session.errors, session.errors
