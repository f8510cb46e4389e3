"""Requests of a page for live updates: one for all panels, none in a hidden tab. A reload of panels must keep input, focus and other pages."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import BrowserSession, WebServer
from tests.browser.test_pages import wait_until
from tests.live_moves import MOVE

pytestmark = pytest.mark.browser
HIDE = """(hidden) => {
    Object.defineProperty(document, "hidden", {configurable: true, get: () => hidden});
    document.dispatchEvent(new Event("visibilitychange"));
}"""
DISPATCH = """(panelSpreadMs) => {
    const { run, seq } = document.documentElement.dataset;
    const age = {age_s: 0, zookeeper_away: false, samples_current: true};
    const detail = {run, seq: Number(seq), ...age, panel_spread_ms: panelSpreadMs, cells: [], points: [], gone: [], refresh: ["changes"]};
    document.dispatchEvent(new CustomEvent("weir:message", {detail}));
}"""
SETTLE_MS = 4_000
"""Longer than two of the page's intervals between requests (PANEL_MS_MIN)."""


def page_requests(session: BrowserSession, path: str) -> list[str]:
    """The requests for the page itself from now on, as the browser sends them."""
    found: list[str] = []

    def note(request: Any) -> None:
        if request.url.endswith(path) and request.resource_type in ("fetch", "xhr"):
            found.append(request.url)

    session.page.on("request", note)
    return found


def first_request(session: BrowserSession, found: list[str]) -> None:
    for _ in range(600):
        if found:
            return
        session.page.wait_for_timeout(100)
    raise AssertionError("waited 60 s for the first request")


def publish(served: WebServer, percent: float) -> None:
    served.publish("moves", {"moves": [{**MOVE, "percent": percent}], "listed": True})


@pytest.mark.parametrize(("path", "panels"), [("/moves/1/", 5), ("/", 1)])
def test_one_update_leads_to_one_request_for_all_panels(
    session: BrowserSession, web_server: WebServer, path: str, panels: int
) -> None:
    page = session.page
    page.goto(path)
    session.live()
    selector = '[data-refresh-slowly~="move:1"]' if path == "/moves/1/" else '[data-refresh~="moves"]'
    assert page.locator(selector).count() >= panels
    found = page_requests(session, path)
    publish(web_server, 51.0)
    first_request(session, found)
    page.wait_for_timeout(SETTLE_MS)
    assert len(found) == 1, found


def test_a_request_for_panels_waits_for_its_part_of_the_spread_of_the_server(
    session: BrowserSession, web_server: WebServer
) -> None:
    """One update reaches all open pages: the message has the time over which they spread their requests. A page without others waits 0.1 s."""
    page = session.page
    page.goto("/")
    session.live()
    page.evaluate("Math.random = () => 1")
    found = page_requests(session, "/")
    for spread_ms in (6_000, 10):
        sent = time.monotonic()
        page.evaluate(DISPATCH, spread_ms)
        first_request(session, found)
        assert spread_ms == 10 or time.monotonic() - sent > 5.9
        found.clear()
        page.wait_for_timeout(SETTLE_MS)


def test_progress_of_a_move_reloads_its_panels_slowly_and_its_state_at_once(
    session: BrowserSession, web_server: WebServer
) -> None:
    page = session.page
    page.goto("/moves/1/")
    session.live()
    requested: list[str] = []
    page.on("request", lambda r: requested.append(r.headers.get("weir-panels", "")))
    for second in range(8):
        publish(web_server, 51.0 + second)
        page.wait_for_timeout(700)
    started_ms = (
        "performance.getEntriesByType('resource')"
        ".filter(e => e.initiatorType === 'xmlhttprequest' && e.name.endsWith('/moves/1/')).map(e => e.startTime)"
    )
    wait_until(session, f"{started_ms}.length >= 2", "two requests")
    times = page.evaluate(started_ms)
    assert all(later - earlier > 4_900 for earlier, later in pairwise(times)), times
    assert not any("move-timeline" in panels for panels in requested)
    web_server.publish("moves", {"moves": [{**MOVE, "state": "paused"}], "listed": True})
    deadline = time.monotonic() + 60
    while not any("move-timeline" in panels and "move-acts" in panels for panels in requested):
        assert time.monotonic() < deadline, requested
        page.wait_for_timeout(100)


def test_updates_of_several_kinds_share_the_request_of_a_tick(session: BrowserSession, web_server: WebServer) -> None:
    page = session.page
    page.goto("/")
    session.live()
    found = page_requests(session, "/")
    for percent in (52.0, 53.0, 54.0):
        publish(web_server, percent)
        web_server.publish("changes", {})
    first_request(session, found)
    page.wait_for_timeout(SETTLE_MS)
    assert 1 <= len(found) <= 2, "one at once, and one for what arrived during it"


def test_a_hidden_tab_makes_no_request_and_catches_up_when_it_is_shown(
    session: BrowserSession, web_server: WebServer
) -> None:
    page = session.page
    page.goto("/moves/1/")
    session.live()
    found = page_requests(session, "/moves/1/")
    page.evaluate(HIDE, True)
    for percent in (61.0, 62.0):
        publish(web_server, percent)
    wait_until(session, "document.querySelector('[data-f=percent]').innerText.includes('62')", "the updates")
    page.wait_for_timeout(SETTLE_MS)
    assert found == []
    page.evaluate(HIDE, False)
    page.wait_for_timeout(SETTLE_MS)
    assert len(found) == 1, found


def broker(broker_id: int, *, alive: bool) -> dict[str, Any]:
    counts = {"leaders": 3, "replicas": 9, "replicas_out_of_sync": 0, "size_bytes": 10}
    return {"broker_id": broker_id, "alive": alive, "answered": alive, **counts}


def reload_brokers(session: BrowserSession, served: WebServer) -> None:
    """Change the list of brokers in the page, and wait until a reload of the panel has restored it."""
    session.page.evaluate("document.querySelector('#list tbody tr td:last-child').textContent = 'stale'")
    wait_until(session, "document.documentElement.dataset.seq !== undefined", "the position of the page")
    for alive in (True, False):
        before = session.page.evaluate("document.documentElement.dataset.seq")
        served.publish("brokers", {"brokers": [broker(1, alive=alive)]})
        wait_until(session, f"document.documentElement.dataset.seq !== '{before}'", "the update")
    wait_until(session, "!document.querySelector('#list').innerText.includes('stale')", "the panel to be reloaded")


def test_a_request_asks_for_the_due_panels_only(session: BrowserSession, web_server: WebServer) -> None:
    page = session.page
    frames: list[str | bytes] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: frames.append(frame)))
    page.goto("/")
    session.live()
    wait_until(session, "document.documentElement.dataset.seq !== undefined", "the position of the page")
    page.wait_for_timeout(
        SETTLE_MS
    )  # the last update of an earlier test may reach this page and make another panel due
    with page.expect_response(lambda r: "moves-now" in r.request.headers.get("weir-panels", "").split()) as got:
        publish(web_server, 71.0)
    response = got.value
    assert response.request.headers["weir-panels"] == "moves-now", frames
    assert 'id="moves-now"' in response.text()
    assert "<header" not in response.text() and 'id="problems"' not in response.text()


def test_the_panel_of_a_duration_is_read_again_each_minute(session: BrowserSession) -> None:
    """No update reloads the incidents while nothing changes: their duration would stand still."""
    page = session.page
    page.clock.install()
    page.goto("/")
    session.live()
    assert page.locator("#incidents [data-lasts]").count()
    page.clock.fast_forward(5_000)
    with page.expect_request(lambda r: "incidents" in r.headers.get("weir-panels", "").split()):
        page.clock.fast_forward(65_000)


def test_an_incident_is_acknowledged_without_leaving_the_overview(session: BrowserSession) -> None:
    page = session.page
    page.goto("/")
    session.live()
    incident = page.locator("#incidents .note", has=page.get_by_role("button", name="Acknowledge")).first
    address = incident.locator("a.name").get_attribute("href")
    incident.get_by_role("button", name="Acknowledge").click()
    acknowledged = page.locator("#incidents .note", has=page.locator(f"a.name[href='{address}']"))
    expect(acknowledged).to_contain_text("acknowledged by")
    assert page.evaluate("location.pathname") == "/"
    page.get_by_role("button", name="Undo").click()
    expect(acknowledged.get_by_role("button", name="Acknowledge")).to_be_visible()


def test_a_reload_of_a_panel_keeps_ticked_boxes_and_the_focus(session: BrowserSession, web_server: WebServer) -> None:
    page = session.page
    page.goto("/brokers/")
    session.live()
    page.check("input[name=b][value='2']")
    page.focus("#list a.name[href='/brokers/3/']")
    reload_brokers(session, web_server)
    assert page.is_checked("input[name=b][value='2']")
    assert not page.is_checked("input[name=b][value='1']")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "/brokers/3/"


def test_a_panel_in_use_is_reloaded_when_the_focus_leaves_it(session: BrowserSession, web_server: WebServer) -> None:
    page = session.page
    page.goto("/brokers/")
    session.live()
    found = page_requests(session, "/brokers/")
    page.evaluate("document.querySelector('#restart-now').remove()")
    page.focus("input[name=b][value='2']")
    page.evaluate("setTimeout(() => document.activeElement.blur(), 6000)")
    reload_brokers(session, web_server)
    assert page.evaluate("document.activeElement.tagName") == "BODY"
    assert len(found) == 1, "none while the panel was in use"


def test_a_panel_that_the_response_does_not_have_is_hidden(session: BrowserSession, web_server: WebServer) -> None:
    page = session.page
    page.goto("/brokers/")
    session.live()
    page.evaluate("""() => {
        const panel = Object.assign(document.createElement("p"), {id: "former", textContent: "a former panel"});
        panel.dataset.refresh = "brokers";
        document.querySelector("#main").append(panel);
    }""")
    reload_brokers(session, web_server)
    assert page.is_hidden("#former") and page.is_visible("#list")


def test_a_response_does_not_replace_a_list_that_was_opened_meanwhile(
    session: BrowserSession, web_server: WebServer
) -> None:
    """Every page calls its list #list: the response for one page must not change another page."""
    page = session.page
    page.goto("/brokers/")
    session.live()
    found = page_requests(session, "/brokers/")
    page.evaluate("""() => document.addEventListener("htmx:beforeSwap", () => {
        const other = document.querySelector("#list").cloneNode(true);
        other.querySelector("tbody tr td").textContent = "another list";
        document.querySelector("#list").replaceWith(other);
        window.weirOther = true;
        document.addEventListener("htmx:afterSwap", () => { window.weirKept = other.textContent.includes("another list"); }, {once: true});
    }, {once: true})""")
    reload_brokers(session, web_server)
    wait_until(session, "window.weirOther && window.weirKept !== undefined", "the response")
    assert page.evaluate("window.weirKept")
    wait_until(session, "!document.querySelector('#list').textContent.includes('another list')", "its own reload")
    assert len(found) == 2, found
