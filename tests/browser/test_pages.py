"""Every page in a real browser: nothing is blocked by the content policy, no script fails, and a picture of each for a person to judge."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import Desk, Served
from tests.browser.served import PASSWORD, USER

pytestmark = pytest.mark.browser

PAGES = {
    "overview": "/", "brokers": "/brokers/", "broker": "/brokers/1/", "topics": "/topics/?internal=1", "topic": "/topics/flights/",
    "topic-configs": "/topics/orders/?tab=configs", "topic-groups": "/topics/orders/?tab=groups", "partition": "/topics/orders/1/",
    "topic-new": "/new/topic/", "topic-alter": "/topics/orders/alter/", "topic-delete": "/topics/flights/delete/", "groups": "/groups/",
    "group": "/groups/slow-reader/", "moves": "/moves/", "move": "/moves/1/", "move-cancel": "/moves/1/cancel/", "move-throttle": "/moves/1/throttle/",
    "move-1-choose": "/moves/new/?kind=partitions&topic=orders&p=1", "move-2-where": "/moves/new/?kind=partitions&topic=orders&step=where&p=0&p=2&over=1&over=2&over=4",
    "move-refused": "/moves/2/", "plans": "/plans/", "plan": "/plans/1/", "plan-difference": "/plans/1/difference/?other=2", "plan-move": "/plans/1/move/", "move-schedule": "/moves/1/schedule/", "move-plan-file": "/moves/new/?kind=plan", "proposals": "/proposals/", "proposal": "/proposals/1/",
    "move-1-lifted": "/moves/new/?kind=partitions&topic=ledger&step=review&p=0&r0=4", "move-3-review": "/moves/new/?kind=drain&broker=1&step=review", "recoveries": "/moves/?tab=recoveries", "messages": "/messages/",
    "acls": "/acls/", "acl-new": "/acls/new/", "pipeline": "/pipeline/", "job": "/pipeline/1/", "audit": "/audit/", "change": "/audit/1/",
    "move-paused": "/moves/3/", "move-stuck": "/moves/4/", "move-will-not-finish": "/moves/5/", "move-cancelled": "/moves/6/", "move-rolled-back": "/moves/7/", "move-failed": "/moves/8/",
    "move-tail-ready": "/moves/9/", "alerts-ended": "/alerts/?only=ended", "alerts": "/alerts/", "damage": "/moves/?tab=damage", "restarts": "/brokers/restarts/", "restart": "/brokers/restarts/1/", "restart-new": "/brokers/restarts/new/?b=1&b=2",
    "broker-drain": "/brokers/1/drain/", "rebalance": "/brokers/rebalance/", "move-tail": "/moves/new/?kind=partitions&topic=orders&step=review&p=0&r0=1,2,4", "topic-changes": "/topics/orders/?tab=changes",
    "search": "/search/?q=or", "missing": "/topics/nope/",
}  # fmt: skip

CUT = """[...document.querySelectorAll(".figures dd, .figures dt, .health, .seg, .head, .filters, .form")]
    .concat(innerWidth < 1280 ? [] : [...document.querySelectorAll(".wrap")])
    .filter((e) => e.scrollWidth > e.clientWidth + 1 || e.getBoundingClientRect().right > innerWidth + 1)
    .map((e) => `${e.className || e.tagName}: ${e.innerText.slice(0, 40)}`)"""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_without_a_complaint(desk: Desk, name: str) -> None:
    desk.page.goto(PAGES[name])
    desk.live()
    desk.shot(name)
    # Nothing wider than the window: a table that runs out of sight hides a state.
    assert desk.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # A page that is not there answers 404, which the browser reports by itself.
    desk.complaints = [c for c in desk.complaints if not (name == "missing" and "404" in c)]


@pytest.mark.parametrize("theme", ["dark", "contrast"])
def test_the_same_in_other_themes(chromium: Browser, served: Served, theme: str) -> None:
    desk = Desk(chromium, served.base, USER, PASSWORD)
    desk.page.click("#user-menu summary")
    desk.page.click(f"button[value={theme}]")
    desk.page.wait_for_selector(f"html[data-theme={theme}]")
    for name in ("overview", "topic", "move", "group", "topic-delete", "move-3-review", "topic-configs"):
        desk.page.goto(PAGES[name])
        desk.live()
        desk.shot(f"{name}-{theme}")
    desk.context.close()
    assert not desk.complaints


@pytest.mark.parametrize(("what", "width", "height"), [("small", 1280, 720), ("phone", 390, 844)])
def test_every_page_fits_a_smaller_window(
    chromium: Browser, served: Served, what: str, width: int, height: int
) -> None:
    """Neither the page nor a value in a figure is cut; a table wider than a phone scrolls inside its frame."""
    desk = Desk(chromium, served.base, USER, PASSWORD, viewport={"width": width, "height": height})
    misfits = []
    for name, address in PAGES.items():
        desk.page.goto(address)
        desk.shot(f"{name}-{what}")
        if not desk.page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
            misfits.append((name, "page", desk.page.evaluate("document.documentElement.scrollWidth")))
        misfits += [(name, "cut", cut) for cut in desk.page.evaluate(CUT)]
    desk.context.close()
    assert not misfits, misfits


def test_who_may_not_act_and_who_is_not_logged_in_are_told_so(chromium: Browser, served: Served) -> None:
    desk = Desk(chromium, served.base, "onlooker", PASSWORD)
    desk.page.goto("/moves/3/")
    desk.live()
    desk.shot("onlooker-move")
    assert desk.page.locator("#move-acts [disabled], #move-acts .off").count() > 3
    desk.page.goto("/new/topic/")
    desk.shot("denied")
    assert "operator role" in desk.page.inner_text("main")
    desk.context.clear_cookies()
    desk.page.goto("/moves/")
    desk.shot("login")
    assert desk.page.url.endswith("/login/?next=%2Fmoves%2F")
    desk.context.close()


def test_a_page_says_in_words_that_the_observer_is_silent(desk: Desk, served: Served) -> None:
    """Old figures look like new ones: the words say whose silence it is and how old they are, and health is what it was."""
    desk.page.goto("/topics/")
    desk.live()
    assert desk.page.locator("#stale").is_hidden()
    served.say("age", 95)
    try:
        desk.page.wait_for_selector("#stale.lost", timeout=20_000)
        words = desk.page.inner_text("#stale")
        assert "The observer is silent" in words and re.search(r"What you see is \d+ s old", words), words
        assert desk.page.evaluate("getComputedStyle(document.querySelector('.health'), '::before').content") == '"was "'
        desk.shot("stale")
        desk.page.goto("/")
        assert "Nothing was read from the cluster" in desk.page.inner_text(".health")
    finally:
        served.say("age", 0)
    desk.page.wait_for_selector("#stale", state="hidden", timeout=20_000)
