"""axe-core on every page, in the light and the dark theme: no violation of WCAG 2.2 AA and of the best practices."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import BrowserSession, WebServer
from tests.browser.pages import PAGES
from tests.browser.responses import ADMINISTRATOR
from tests.browser.seeded_server import PASSWORD

pytestmark = pytest.mark.browser
SAMPLE = ("overview", "topics", "topic-alter", "bulk-topics", "move", "alerts")
"""Pages that `make test` examines. `make browser` examines all."""

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text()
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RUN = """async (tags) => (await axe.run(document, {runOnly: {type: "tag", values: tags}, resultTypes: ["violations"]}))
    .violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" | ")}`)"""


def violations(chromium: Browser, served: WebServer, theme: str, names: Iterable[str]) -> list[str]:
    session = BrowserSession(chromium, served.base, ADMINISTRATOR, PASSWORD)
    session.context.add_cookies([{"name": "weir_theme", "value": theme, "url": served.base}])
    found: list[str] = []
    for name in names:
        session.page.goto(PAGES[name])
        session.page.evaluate(AXE)  # not by a script element: the content security policy forbids it
        found += [f"{name}: {violation}" for violation in session.page.evaluate(RUN, RULES)]
    session.context.close()
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_sample_of_pages_has_no_violation(chromium: Browser, web_server: WebServer, theme: str) -> None:
    assert "\n".join(violations(chromium, web_server, theme, SAMPLE)) == ""


@pytest.mark.long
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_has_a_violation(chromium: Browser, web_server: WebServer, theme: str) -> None:
    assert "\n".join(violations(chromium, web_server, theme, PAGES)) == ""
