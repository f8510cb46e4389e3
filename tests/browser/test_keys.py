"""A whole move without a mouse, in few keys."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import BrowserSession

pytestmark = pytest.mark.browser

KEYS_MAX = 40


class Keyboard:
    """Presses keys and counts them. A combination is one key."""

    def __init__(self, session: BrowserSession) -> None:
        self._keyboard = session.page.keyboard
        self.pressed = 0

    def press(self, *keys: str) -> None:
        for key in keys:
            self._keyboard.press(key)
            self.pressed += 1

    def type(self, text: str) -> None:
        self.press(*text)


def test_a_move_is_created_in_under_forty_keys(session: BrowserSession) -> None:
    page, keys = session.page, Keyboard(session)
    page.goto("/")
    session.live()
    heading = page.locator("#main h1")
    keys.press("g", "m")
    expect(heading).to_have_text("Moves")
    keys.press("n")
    expect(page.locator("#main input[name=topic]")).to_be_focused()
    keys.type("payments.audit")
    keys.press("Enter")
    expect(page.locator("#choice")).to_be_visible()
    expect(heading).to_be_focused()
    keys.press("j", "x", "Control+Enter")
    expect(heading).to_have_text("Target brokers for payments.audit")
    expect(page.locator("#main input[name=r0]")).to_be_focused()
    keys.press("Control+a")
    keys.type("1,2,4")
    keys.press("Control+Enter")
    expect(heading).to_have_text("Review move")
    expect(page.locator("#id_comment")).to_be_focused()
    keys.type("rack 7")
    keys.press("Control+Enter")
    expect(heading).to_contain_text("payments.audit-0")
    assert keys.pressed < KEYS_MAX
