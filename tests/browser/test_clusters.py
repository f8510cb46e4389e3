"""Two consoles as processes: one shows the other, follows it without a reload, and leads to the same page of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import BrowserSession, WebServer
from tests.browser.seeded_server import PASSWORD, USER
from tests.browser.test_axe import AXE, RULES, RUN
from tests.cluster.local import ROOT

pytestmark = pytest.mark.browser


@pytest.fixture
def consoles(tmp_path: Path) -> Iterator[tuple[WebServer, WebServer]]:
    folders = [tmp_path / name for name in ("here", "there")]
    for folder in folders:
        folder.mkdir()
    there = WebServer(folders[1], WEIR_CLUSTER_COLOUR="red", WEIR_SECRET_KEY="of-the-other-console")
    token = tmp_path / "there.token"
    command = [sys.executable, "manage.py", "ensure_operator", "--username", "reader", "--token-out", str(token)]
    environment = {**os.environ, "WEIR_DATA_DIR": str(folders[1]), "WEIR_PASSWORD": PASSWORD}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=120)
    clusters = tmp_path / "clusters.yaml"
    entries = [
        {"name": "production", "url": there.base, "colour": "red", "token_file": token.name},
        {"name": "nowhere", "url": "http://127.0.0.1:9", "colour": "blue", "token": "weir_none"},
    ]
    clusters.write_text(json.dumps(entries))
    here = WebServer(folders[0], WEIR_CLUSTER_COLOUR="green", WEIR_CLUSTERS_FILE=str(clusters))
    yield here, there
    here.end()
    there.end()


def test_another_cluster_is_shown_followed_and_opened_at_the_same_page(
    chromium: Browser, consoles: tuple[WebServer, WebServer]
) -> None:
    here, there = consoles
    session = BrowserSession(chromium, here.base, USER, PASSWORD, at="/clusters/")
    page = session.page
    session.live()
    production, nowhere = (page.locator("#clusters tr", has_text=name) for name in ("production", "nowhere"))
    expect(production).to_contain_text("not read yet")
    here.publish("ask_other_clusters", None)
    expect(production).to_contain_text("degraded")
    expect(production).not_to_contain_text("unreachable")
    expect(nowhere).to_contain_text("no connection")
    for theme in ("light", "dark"):
        session.context.add_cookies([{"name": "weir_theme", "value": theme, "url": here.base}])
        page.reload()
        session.live()
        session.shot(f"clusters-two-{theme}")
        page.evaluate(AXE)
        assert page.evaluate(RUN, RULES) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    session.shot("clusters-two-phone")
    page.set_viewport_size({"width": 1440, "height": 900})

    page.goto("/topics/?q=flights")
    session.live()
    page.click("#cluster-menu summary")
    session.shot("clusters-menu")
    link = page.locator("#cluster-menu a", has_text="production")
    link.focus()
    assert link.get_attribute("href") == f"{there.base}/topics/?q=flights"
    page.goto("/moves/1/")
    page.click("#cluster-menu summary")
    link.focus()
    assert link.get_attribute("href") == f"{there.base}/moves/", "the move of this number is another one there"
    link.click()
    page.wait_for_url(f"{there.base}/login/**")
    page.fill("#id_username", USER)
    page.fill("#id_password", PASSWORD)
    page.click("button.primary")
    page.wait_for_url(f"{there.base}/moves/")
    names = {c.get("name", "") for c in session.context.cookies()}
    assert sum(name.startswith("weir_session_") for name in names) == 2, "one host name, two sessions"

    page.goto(f"{here.base}/clusters/")
    session.live()
    there.end()
    here.publish("ask_other_clusters", None)
    expect(production).to_contain_text("unreachable")
    expect(production).to_contain_text("The values are the last known ones.")
    expect(production).not_to_contain_text("healthy")
    session.shot("clusters-unreachable")
    session.context.close()
    assert not session.errors, session.errors
