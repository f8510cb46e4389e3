"""Bindings of a route are entered as rows, with the keyboard, and a wrong one says why beside its input."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import BrowserSession

pytestmark = pytest.mark.browser


def test_a_route_is_entered_without_json(session: BrowserSession) -> None:
    page = session.page
    page.set_default_timeout(60_000)
    page.goto("/new/route/")
    page.fill("#id_name", "eu-orders")
    page.fill("#id_source", "orders")
    page.fill("[name=bindings-0-target]", "a b")
    page.fill("[name=bindings-0-match]", "eu.*")
    page.select_option("[name=bindings-0-kind]", "pattern")
    page.get_by_role("button", name="Add binding").click()
    expect(page.locator("[name=bindings-1-target]")).to_be_focused()
    page.fill("[name=bindings-1-target]", "payments")
    page.select_option("[name=bindings-1-kind]", "headers_all")
    page.fill("[name=bindings-1-match]", "kind=paid\nregion=eu")
    page.press("[name=bindings-1-target]", "Enter")
    expect(page.locator("#id_bindings-0-target-error")).to_be_visible()
    assert page.input_value("[name=bindings-1-match]") == "kind=paid\nregion=eu"
    assert page.input_value("#id_source") == "orders"
    session.shot("route-new-wrong", full=True)
    session.errors = [e for e in session.errors if "400 (Bad Request)" not in e]  # the response to the wrong row
    page.fill("[name=bindings-0-target]", "payments")
    page.press("[name=bindings-0-target]", "Enter")
    page.wait_for_url(re.compile("/routes/eu-orders/"))
    page.goto("/routes/eu-orders/edit/")
    assert page.input_value("[name=bindings-1-kind]") == "headers_all"
    session.shot("route-edit", full=True)
    page.get_by_role("button", name="Remove binding 1").click()
    expect(page.locator("[name=bindings-1-target]")).to_have_count(0)
    page.get_by_role("link", name="Edit as JSON").click()
    expect(page.locator("textarea[name=bindings]")).to_be_visible()
