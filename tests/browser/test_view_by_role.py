"""A viewer of some topics and groups in a browser (WEIR_VIEW_BY_ROLE): no live update and no palette entry has a name of others, what is missing is explained,
health and totals of what is visible are current, and each shown link leads to a page without names of others (the browser resolves the links). Names in pages and files: tests/unit/console/test_view_by_role.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.urls import Resolver404, resolve
from playwright.sync_api import Browser

from tests.browser.conftest import BrowserSession, WebServer
from tests.browser.pages import PAGES
from tests.browser.responses import TEAM
from tests.browser.seeded_server import PASSWORD
from tests.browser.test_pages import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

HIDDEN = (
    "flights",
    "payments",
    "ledger",
    "invoices",
    "checkout",
    "app-0",
    "warehouse",
    "slow-reader",
    "nightly",
    "refunds",
    "shop/",
)
"""Names, or parts of names, of topics and groups of others."""


READ = """async (address) => {
  const response = await fetch(address)
  const text = await response.text()
  const type = response.headers.get('content-type') || ''
  const page = type.startsWith('text/html') ? new DOMParser().parseFromString(text, 'text/html') : null
  const links = page ? [...page.querySelectorAll('a[href]')].map((a) => new URL(a.getAttribute('href'), response.url)) : []
  const own = links.filter((link) => link.origin === location.origin).map((link) => link.pathname + link.search)
  const unusable = page ? page.querySelectorAll('#incidents .off, #incidents [disabled], #incident .off, #incident [disabled]').length : 0
  return { status: response.status, text, unusable, links: [...new Set(own)] }
}"""
EXAMPLES = ("/moves/new/?kind=plan", "/api/v1/docs/", "/api/v1/schema")
"""Pages without data of the cluster whose texts have a topic of the demo as an example."""
EXPLAINED = ("/messages/",)
"""Pages that also open without the role to read records, and name it."""
PAGES_MIN = 25


@pytest.fixture(scope="module")
def role_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    running = WebServer(tmp_path_factory.mktemp("by-role"), WEIR_VIEW_BY_ROLE="on")
    yield running
    running.end()


@pytest.fixture
def session(chromium: Browser, role_server: WebServer) -> Iterator[BrowserSession]:
    session = BrowserSession(chromium, role_server.base, TEAM, PASSWORD)
    yield session
    session.context.close()


def hidden_names(text: str, address: str = "") -> list[str]:
    return [name for name in HIDDEN if name in text and name not in address]


def test_live_updates_and_the_palette_have_no_name_of_others(session: BrowserSession, role_server: WebServer) -> None:
    page, frames = session.page, list[str]()
    page.on("websocket", lambda socket: socket.on("framereceived", lambda data: frames.append(str(data))))
    page.goto("/groups/billing/")
    session.live()
    group = {
        "group_id": "billing",
        "state": "Stable",
        "member_count": 7,
        "consumed_per_s": 10.0,
        "produced_per_s": 30.0,
        "lag_records": 50_000,
        "lag_ms_max": 9_000,
        "lag_at_least": False,
        "status": "falling_behind",
        "lost_records": 0,
        "retention_partition": "flights-5",
        "retention_in_s": 600.0,
        "retention_limit": "retention.bytes",
        "retention_at_most": False,
    }
    role_server.publish(
        "groups",
        {"groups": [group, {**group, "group_id": "slow-reader"}], "gone": ["nightly"], "statuses_changed": True},
    )
    wait_until(session, "document.querySelector('.figures [data-f=members]').innerText === '7'", "the update")
    assert "of another topic in 10 min" in page.inner_text("[data-f=pace]")
    assert frames and not hidden_names(" ".join(frames))
    page.goto("/")
    session.live()
    for word in ("a", "o", "s", "flights", "slow"):
        page.keyboard.press("Control+k")
        page.fill("#palette-query", word)
        page.wait_for_load_state("networkidle")
        assert not hidden_names(page.inner_text("#palette-list"))
        page.keyboard.press("Escape")


@pytest.mark.parametrize("name", ["topic", "group", "audit", "top", "time-travel", "restarts", "spark-jobs"])
def test_what_is_missing_is_explained(session: BrowserSession, name: str) -> None:
    response = session.page.goto(PAGES[name])
    assert response is not None and response.status == 403
    text = session.page.inner_text("main")
    assert re.search("needs? the role", text) and "limited view" in session.page.inner_text("header")
    assert not hidden_names(session.page.title())


def test_health_and_totals_of_what_is_visible_are_current(session: BrowserSession, role_server: WebServer) -> None:
    """The monitor publishes totals of all resources. A page that shows others must not keep those of its first second."""
    session.page.goto("/")
    session.live()
    total = session.page.inner_text(".figures [data-f=topics]")
    assert int(total) < 10
    session.page.evaluate("document.querySelector('.figures [data-f=topics]').textContent = 'old'")
    role_server.publish("changes", {"id": 1, "pending": 0})
    wait_until(session, f"document.querySelector('.figures [data-f=topics]').innerText === '{total}'", "the heartbeat")


def shape(address: str) -> tuple[str, ...]:
    """The page and the names of its parameters: one address of each is visited."""
    parts = urlsplit(address)
    try:
        name = str(resolve(parts.path).url_name)
    except Resolver404:
        name = parts.path
    return (name, *sorted(re.findall(r"(?:^|&)([^=&]+)=", parts.query)))


def test_each_shown_link_leads_to_a_page_without_names_of_others(session: BrowserSession) -> None:
    session.page.goto("/")
    queue, known = [("/", "/")], {shape("/")}
    dead, leaks, visited = list[tuple[int, str, str]](), dict[str, Any](), 0
    while queue:
        address, origin = queue.pop(0)
        found = session.page.evaluate(READ, address)
        visited += 1
        if found["status"] == 403 and address.startswith(EXPLAINED):
            assert "the role" in found["text"], address
        elif found["status"] >= 400:
            dead.append((found["status"], address, f"link on {origin}"))
            continue
        assert not found["unusable"], f"{address} has a next step that the user cannot take"
        if not address.startswith(EXAMPLES) and (names := hidden_names(found["text"], address)):
            leaks[address] = names
        for link in found["links"]:
            if (key := shape(link)) not in known:
                known.add(key)
                queue.append((link, address))
    assert not dead and not leaks, "\n".join(map(str, [*dead, *leaks.items()]))
    assert visited >= PAGES_MIN
