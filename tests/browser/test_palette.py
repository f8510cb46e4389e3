"""The command palette in a real browser, with keys only."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Route, expect

from tests.browser.conftest import BrowserSession
from tests.browser.test_pages import wait_until

pytestmark = pytest.mark.browser


def selected_entry(session: BrowserSession) -> str:
    return session.page.inner_text("#palette-list [aria-selected=true]")


def test_a_page_is_opened_with_keys(session: BrowserSession) -> None:
    page = session.page
    page.goto("/brokers/")
    session.live()
    page.keyboard.press("Control+k")
    page.wait_for_selector("#palette-list a")
    # One request: the response to a part of the text would be replaced later, and the first entry chosen again.
    page.keyboard.insert_text("flights")
    wait_until(session, "document.querySelector('#palette-list a')?.innerText.includes('flights')", "the topic")
    session.shot("palette")
    first = selected_entry(session)
    page.keyboard.press("ArrowDown")
    assert selected_entry(session) != first
    page.keyboard.press("ArrowUp")
    assert selected_entry(session) == first
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/flights/")
    assert not page.is_visible("#palette")
    assert not session.errors


def test_enter_before_the_response_opens_what_was_typed(session: BrowserSession) -> None:
    page = session.page
    page.goto("/")
    session.live()
    page.keyboard.press("Control+k")
    page.wait_for_selector("#palette-list a")
    delayed: list[Route] = []

    def delay(route: Route) -> None:
        delayed.append(route)

    page.route(re.compile(r"q=create%20topic$"), delay)
    page.keyboard.type("create topic")
    deadline = time.monotonic() + 60
    while not delayed:
        assert time.monotonic() < deadline, "the palette did not ask for the typed text"
        page.wait_for_timeout(50)
    page.keyboard.press("Enter")
    delayed[0].continue_()
    page.wait_for_url("**/new/topic/")
    assert not session.errors


def test_enter_right_after_typing_opens_what_was_typed(session: BrowserSession) -> None:
    page = session.page
    page.goto("/")
    session.live()
    page.keyboard.press("Control+k")
    page.keyboard.type("create topic")
    page.keyboard.press("Enter")
    page.wait_for_url("**/new/topic/")
    page.keyboard.press("Control+k")
    page.wait_for_selector("#palette-list a")
    page.keyboard.press("Escape")
    wait_until(session, "!document.getElementById('palette').open", "the palette to close")
    assert not session.errors


def test_the_keyboard_shortcuts_open_with_a_key_and_close(session: BrowserSession) -> None:
    page = session.page
    page.goto("/topics/")
    page.keyboard.press("?")
    shortcuts = page.locator("#keys")
    expect(shortcuts).to_be_visible()
    expect(shortcuts).to_contain_text("Audit log")
    page.keyboard.press("Escape")
    expect(shortcuts).to_be_hidden()
    page.keyboard.press("?")
    shortcuts.locator("button").click()
    expect(shortcuts).to_be_hidden()
