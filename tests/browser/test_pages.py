"""Every page in a real browser: no content security policy violation, no script error, and a screenshot of each for review."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Route, ViewportSize, expect

from controlplane.domain.text import duration
from tests.browser.conftest import BrowserSession, WebServer
from tests.browser.pages import CUT, NIGHT_PAGES, PAGES, SILENT_MONITOR, TABLES_IN_768_PIXELS
from tests.browser.responses import ADMINISTRATOR
from tests.browser.seeded_server import PASSWORD, USER
from tests.browser.widest_values import hidden_by_widest_values
from tests.cluster.local import wait_for
from tests.live_moves import MOVE

pytestmark = pytest.mark.browser


def wait_until(session: BrowserSession, expression: str, what: str, seconds: float = 60) -> None:
    """Wait for a condition in the page. Evaluated from outside: the content security policy forbids eval in the page."""
    deadline = time.monotonic() + seconds
    while not session.page.evaluate(expression):
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        session.page.wait_for_timeout(100)


SIZE: ViewportSize = {"width": 1440, "height": 900}


@pytest.fixture(scope="module")
def visitor(chromium: Browser, web_server: WebServer) -> Iterator[BrowserSession]:
    """One session for all pages: a new one reads and compiles all scripts again, which takes two thirds of the CPU of a test."""
    session = BrowserSession(chromium, web_server.base, ADMINISTRATOR, PASSWORD, viewport=SIZE)
    yield session
    session.context.close()


@pytest.fixture(scope="module")
def visitor_at_night(chromium: Browser, night: WebServer) -> Iterator[BrowserSession]:
    session = BrowserSession(chromium, night.base, ADMINISTRATOR, PASSWORD, viewport=SIZE)
    yield session
    session.context.close()


@contextmanager
def without_errors(session: BrowserSession) -> Iterator[BrowserSession]:
    """The session of other tests, without their page, window size and errors."""
    session.page.goto("about:blank")
    session.page.set_viewport_size(SIZE)
    session.errors.clear()
    yield session
    session.page.goto("about:blank")
    assert not session.errors, session.errors


@pytest.fixture
def administrator(visitor: BrowserSession) -> Iterator[BrowserSession]:
    with without_errors(visitor) as session:
        yield session


@pytest.fixture
def administrator_at_night(visitor_at_night: BrowserSession) -> Iterator[BrowserSession]:
    with without_errors(visitor_at_night) as session:
        yield session


WINDOWS = {"phone": (390, 844), "portrait": (768, 1024), "tablet": (1024, 768), "small": (1280, 720)}
"""(width, height) in pixels of the smaller windows, the narrowest first."""


def open_page(session: BrowserSession, name: str, address: str) -> None:
    page = session.page
    response = page.goto(address)
    assert response is not None and response.status == (404 if name == "missing" else 200), response.status
    session.live()
    session.shot(name)
    # Nothing is wider than the window: a cut table hides a state.
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert " object at 0x" not in page.inner_text("body"), "a value of Python that is no text"


def find_misfits(session: BrowserSession, address: str) -> list[tuple[object, ...]]:
    """Pages and values that are cut or too wide in the smaller windows. A table that is wider than a phone scrolls inside its frame. The open page is resized, because most of the time
    of a test is its request. Charts follow the width later, so a page with charts is opened at each size."""
    page, found = session.page, list[tuple[object, ...]]()
    charts = page.locator("[data-chart]").count()
    for what, (width, height) in WINDOWS.items():
        page.set_viewport_size({"width": width, "height": height})
        if charts:
            page.goto(address)
        if not page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
            found.append((what, "page", page.evaluate("document.documentElement.scrollWidth")))
        found += [(what, "cut", cut) for cut in page.evaluate(CUT)]
    return found


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_without_errors_and_fits_smaller_windows(administrator: BrowserSession, name: str) -> None:
    session = administrator
    open_page(session, name, PAGES[name])
    assert not (found := find_misfits(session, PAGES[name])), found
    # The browser reports the 404 of the missing page.
    session.errors[:] = [c for c in session.errors if not (name == "missing" and "404" in c)]


@pytest.mark.parametrize("name", [n for n in NIGHT_PAGES if n != SILENT_MONITOR])
def test_a_page_of_a_cluster_with_every_problem_opens_and_fits_smaller_windows(
    administrator_at_night: BrowserSession, name: str
) -> None:
    open_page(administrator_at_night, name, NIGHT_PAGES[name])
    assert not (found := find_misfits(administrator_at_night, NIGHT_PAGES[name])), found


def test_the_alert_of_a_silent_monitor_opens(administrator_at_night: BrowserSession, night: WebServer) -> None:
    session = administrator_at_night
    session.page.goto("/alerts/")
    night.publish("age", 95)
    try:
        wait_for(lambda: session.context.request.get(NIGHT_PAGES[SILENT_MONITOR]).ok, "the alert")
        open_page(session, SILENT_MONITOR, NIGHT_PAGES[SILENT_MONITOR])
    finally:
        night.publish("age", 0)


@pytest.mark.parametrize("theme", ["dark", "contrast"])
def test_the_same_in_other_themes(chromium: Browser, web_server: WebServer, theme: str) -> None:
    session = BrowserSession(chromium, web_server.base, USER, PASSWORD, at="/")
    session.page.click("#user-menu summary")
    session.page.click(f"button[value={theme}]")
    session.page.wait_for_selector(f"html[data-theme={theme}]")
    for name in ("overview", "topic", "move", "group", "topic-delete", "move-3-review", "topic-configs"):
        session.page.goto(PAGES[name])
        session.live()
        session.shot(f"{name}-{theme}")
    session.context.close()
    assert not session.errors


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_tables_have_all_columns_in_a_smaller_window(chromium: Browser, web_server: WebServer, language: str) -> None:
    """At 768 pixels the last columns of most tables were outside of their frames, some only while a move had a long state or a client was connected for an hour."""
    session = BrowserSession(
        chromium, web_server.base, ADMINISTRATOR, PASSWORD, viewport={"width": 768, "height": 1024}
    )
    session.context.add_cookies([{"name": "weir_language", "value": language, "url": web_server.base}])
    cut = {}
    for name in TABLES_IN_768_PIXELS:
        session.page.goto(PAGES[name])
        widths = "[...document.querySelectorAll('main .wrap')].map((w) => w.scrollWidth - w.clientWidth)"
        if hidden := [px for px in session.page.evaluate(widths) if px > 1]:
            cut[name] = hidden
        if hidden := [px for px in hidden_by_widest_values(session.page, language) if px > 1]:
            cut[f"{name} with the widest values"] = hidden
    session.context.close()
    assert not cut


def test_a_viewer_and_an_anonymous_user_see_what_is_missing(chromium: Browser, web_server: WebServer) -> None:
    session = BrowserSession(chromium, web_server.base, "viewer", PASSWORD)
    session.page.goto("/moves/3/")
    session.live()
    session.shot("viewer-move")
    assert session.page.locator("#move-acts [disabled], #move-acts .off").count() > 3
    session.page.goto("/new/topic/")
    session.shot("denied")
    assert "operator role" in session.page.inner_text("main")
    session.context.clear_cookies()
    session.page.goto("/moves/")
    session.shot("login")
    assert session.page.url.endswith("/login/?next=%2Fmoves%2F")
    session.page.fill("#id_username", USER)
    session.page.fill("#id_password", PASSWORD)
    session.page.click("button.primary")
    session.page.wait_for_url(web_server.base + "/moves/")
    session.context.close()


def test_a_banner_says_that_the_cluster_monitor_does_not_report(session: BrowserSession, web_server: WebServer) -> None:
    """Stale values look like current ones: the banner says why they are stale and how old they are, and the health has a "was"."""
    session.page.goto("/topics/")
    session.live()
    assert session.page.locator("#stale").is_hidden()
    web_server.publish("age", 95)
    try:
        session.page.wait_for_selector("#stale.lost", timeout=120_000)
        text = session.page.inner_text("#stale")
        assert "The cluster monitor does not report" in text and re.search(r"data on this page is \d+ s old", text), (
            text
        )
        assert (
            session.page.evaluate("getComputedStyle(document.querySelector('.health'), '::before').content") == '"was "'
        )
        session.shot("stale")
        session.page.goto("/")
        assert "The cluster monitor has read nothing from the cluster" in session.page.inner_text(".health")
    finally:
        web_server.publish("age", 0)
    session.page.wait_for_selector("#stale", state="hidden", timeout=120_000)


def test_the_reason_of_old_data_is_not_cut_in_a_window_of_1280_pixels(
    session: BrowserSession, web_server: WebServer
) -> None:
    session.page.set_viewport_size({"width": 1280, "height": 800})
    session.page.goto("/")
    session.live()
    web_server.publish("age", 95)
    try:
        session.page.wait_for_selector("#stale:visible", timeout=120_000)
        session.page.goto("/")
        session.page.wait_for_selector("#stale:visible", timeout=120_000)
        assert "The cluster monitor has read nothing from the cluster" in session.page.inner_text(".health")
        missing = "(e => e.scrollWidth - e.clientWidth)(document.querySelector('.health'))"
        assert session.page.evaluate(missing) <= 1
    finally:
        web_server.publish("age", 0)
        session.page.set_viewport_size({"width": 1440, "height": 900})
    session.page.wait_for_selector("#stale", state="hidden", timeout=120_000)


def test_the_box_of_a_broker_that_restarted_is_not_wider_than_its_frame(session: BrowserSession) -> None:
    """The badge and the state of a restarted broker were drawn over the next box, and the page scrolled sideways."""
    add_badges = """document.querySelectorAll(".strip .row:first-child > :first-child").forEach((e) =>
        e.insertAdjacentHTML("beforeend", ' <span class="st st-amber">restarted 59 min 59 s ago</span>'))"""
    cut = "[...document.querySelectorAll('.strip a')].map((e) => e.scrollWidth - e.clientWidth)"
    try:
        for width in (1440, 1280, 390):
            session.page.set_viewport_size({"width": width, "height": 900})
            session.page.goto("/")
            session.page.evaluate(add_badges)
            found = session.page.evaluate(cut)
            assert found and max(found) <= 1, (width, found)
    finally:
        session.page.set_viewport_size({"width": 1440, "height": 900})


def test_a_banner_says_that_zookeeper_does_not_respond(session: BrowserSession, web_server: WebServer) -> None:
    session.page.goto("/groups/")
    session.live()
    web_server.publish("zookeeper_away", True)
    web_server.publish("age", 40)
    try:
        text = "document.querySelector('#stale').textContent"
        wait_until(session, f"{text}.startsWith('ZooKeeper does not respond')", "the banner to name ZooKeeper")
        assert "offsets and lag are current" in session.page.inner_text("#stale")
        assert session.page.evaluate("document.documentElement.dataset.old") is None, "the health line is current"
    finally:
        web_server.publish("zookeeper_away", False)
        web_server.publish("age", 0)
    wait_until(session, "document.querySelector('#stale').hidden", "the banner to go")


PHONE_LISTS = (
    "brokers",
    "topics",
    "topic",
    "move",
    "connect",
    "groups",
    "group",
    "share-groups",
    "partition",
    "broker",
    "dead-letters",
    "quotas",
    "audit",
)
OUTSIDE = """() => [...document.querySelectorAll(".cards td, .cards th")]
    .filter((cell) => cell.getBoundingClientRect().right > innerWidth || cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.innerText)"""
UNLABELLED = """() => [...document.querySelectorAll(".cards td.num:not(:has(> .name))")]
    .filter((cell) => getComputedStyle(cell, "::before").content === "none").map((cell) => cell.outerHTML)"""


def test_lists_show_all_columns_on_the_screen_of_a_phone(chromium: Browser, web_server: WebServer) -> None:
    """The lag of a group and the replicas out of sync of a broker were outside of the screen."""
    session = BrowserSession(chromium, web_server.base, ADMINISTRATOR, PASSWORD, viewport={"width": 390, "height": 844})
    for name in PHONE_LISTS:
        session.page.goto(PAGES[name])
        assert session.page.locator(".cards td").count() > 0, name
        assert session.page.evaluate(OUTSIDE) == [] and session.page.evaluate(UNLABELLED) == [], name
    session.context.close()


def test_the_number_of_alerts_is_on_the_screen_of_a_phone(chromium: Browser, web_server: WebServer) -> None:
    session = BrowserSession(chromium, web_server.base, USER, PASSWORD, viewport={"width": 390, "height": 844})
    for address in ("/", "/groups/slow-reader/"):
        session.page.goto(address)
        badge = session.page.locator(".top .alerts-now b")
        box = badge.bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390 and box["y"] < 844
        assert int(badge.inner_text()) > 0
    session.shot("phone-alerts")
    session.context.close()


def test_lag_that_grows_is_shown_as_falling_behind_without_a_reload(
    session: BrowserSession, web_server: WebServer
) -> None:
    """Status, rates, retention forecast and a lower-bound lag change in place."""
    page = session.page
    page.goto("/groups/slow-reader/")
    session.live()
    page.evaluate("window.weirMark = true")
    group = {
        "group_id": "slow-reader",
        "state": "Stable",
        "member_count": 2,
        "consumed_per_s": 1200.0,
        "produced_per_s": 2000.0,
        "lost_records": 0,
        "retention_partition": "",
        "retention_in_s": None,
        "retention_limit": "",
        "retention_at_most": False,
    }
    for minute in range(1, 6):
        soon = {
            "retention_partition": "flights-5",
            "retention_in_s": 900.0 - 60 * minute,
            "retention_limit": "retention.bytes",
        }
        metrics = {"lag_records": 48_000 * minute, "lag_ms_max": 24_000 * minute, "lag_at_least": minute < 3}
        status = "healthy" if minute < 2 else "falling_behind"
        web_server.publish(
            "groups",
            {
                "groups": [{**group, **metrics, "status": status, **(soon if minute > 1 else {})}],
                "gone": [],
                "statuses_changed": True,
            },
        )
        lag = str(duration(24 * minute))
        wanted = f"{'> ' if minute < 3 else ''}{lag}"
        wait_until(
            session, f"document.querySelector('.figures [data-f=lag_s]').innerText === '{wanted}'", f"a lag of {wanted}"
        )
        assert page.inner_text(".figures [data-f=status]") == ("Healthy" if minute < 2 else "Falling behind")
    assert page.inner_text(".figures [data-f=retention]") == "10 min"
    pace = page.inner_text("[data-f=pace]")
    assert "Reads 1,200 records/s, 2,000/s arrive; lag grows by 48,000 records a minute" in pace
    assert pace.endswith("retention.bytes deletes unread records of flights-5 in 10 min.")
    assert page.evaluate("window.weirMark"), "the page was loaded again"


def test_a_live_update_during_a_click_does_not_put_a_page_into_the_page(
    session: BrowserSession, web_server: WebServer
) -> None:
    """A live update replaces the panel of a clicked link during its request. The response then replaced the content of #main with a whole page,
    and the navigation of that page covered the form."""
    page = session.page
    requests: list[Route] = []
    page.goto("/moves/1/")
    session.live()
    page.route("**/moves/1/throttle/", lambda route: requests.append(route))
    link = page.query_selector("#move-acts a[href*=throttle]")
    assert link is not None
    link.click(no_wait_after=True)
    deadline = time.monotonic() + 60
    while not requests or link.evaluate("(link) => link.isConnected"):
        assert time.monotonic() < deadline, "waited 60 s for the panel to be replaced during the request"
        web_server.publish("moves", {"moves": [MOVE], "listed": False})
        page.wait_for_timeout(300)
    requests[0].continue_()
    page.wait_for_selector("#id_throttle_bytes_per_s")
    assert page.locator("main").count() == 1 and page.locator("nav.rail").count() == 1
    page.click("text=Set throttle", trial=True, timeout=10_000)


def test_the_page_of_dead_letters_has_rows_to_look_at(session: BrowserSession) -> None:
    """Responses for the records of another topic once replaced those for dead letters: the page and its screenshots were empty."""
    session.page.goto("/topics/invoices/dead-letters/")
    expect(session.page.locator("main tbody input[type=checkbox]").first).to_be_visible()


def test_the_page_of_a_running_spark_job_stays_whole(session: BrowserSession) -> None:
    """It polled with the inherited target of links: after five seconds the values had replaced the whole page, with its button Stop."""
    page, reloads = session.page, list[str]()
    page.on("response", lambda r: reloads.append(r.request.headers.get("weir-panels", "")))
    page.goto("/spark-jobs/1/")
    deadline = time.monotonic() + 60
    while sum("job-acts" in ids for ids in reloads) < 2:
        assert time.monotonic() < deadline, f"waited 60 s for two reloads of the panels: {reloads}"
        page.wait_for_timeout(200)
    expect(page.locator("main h1")).to_have_text("orders to the lake")
    expect(page.locator("main #last dl.figures")).to_have_count(1)
    page.click("main #job-acts button:has-text('Stop')", trial=True, timeout=10_000)
