"""Forms and navigation in a real browser: failed requests, the focus, Ctrl+Enter, one submit per click."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Route, expect

from tests.browser.conftest import BrowserSession

pytestmark = pytest.mark.browser


def test_a_failed_request_is_reported_at_the_click(session: BrowserSession) -> None:
    page = session.page
    page.goto("/topics/")
    page.route("**/groups/", lambda route: route.abort())
    page.click(".rail [data-go=g]")
    expect(page.locator("#request-error")).to_contain_text("The console does not respond. Nothing was changed.")
    page.unroute("**/groups/")
    page.click(".rail [data-go=g]")
    expect(page.locator("#main h1")).to_have_text("Groups")
    expect(page.locator("#request-error")).to_be_hidden()
    session.errors.clear()  # the browser reports the request that was cut


def test_a_failed_operation_says_that_its_effect_is_unknown_and_can_be_sent_again(session: BrowserSession) -> None:
    page = session.page
    page.goto("/new/topic/")
    page.fill("#id_name", "sent-again")
    posts: list[str] = []

    def fail_posts(route: Route) -> None:
        if route.request.method == "POST":
            posts.append(route.request.url)
            route.fulfill(status=502, body="bad gateway")
        else:
            route.fallback()

    page.route("**/new/topic/", fail_posts)
    page.press("#id_name", "Control+Enter")
    expect(page.locator("#request-error")).to_contain_text("It is unknown whether the operation was carried out")
    expect(page.locator("#id_name")).to_have_value("sent-again")
    expect(page.locator("form[data-sent]")).to_have_count(0)
    page.press("#id_name", "Control+Enter")
    expect(page.locator("form[data-sent]")).to_have_count(0)
    assert len(posts) == 2
    session.errors.clear()


def test_the_busy_sign_ends_if_the_response_has_replaced_the_link(session: BrowserSession) -> None:
    page = session.page
    page.goto("/groups/")
    held: list[Route] = []
    page.route("**/groups/*/", lambda route: held.append(route))
    page.click("#list a.name")
    expect(page.locator("html[data-busy]")).to_have_count(1)
    held[0].continue_()
    expect(page.locator("#members")).to_be_visible()
    expect(page.locator("html[data-busy]")).to_have_count(0)


def test_a_choice_keeps_the_text_of_the_search(session: BrowserSession) -> None:
    page = session.page
    page.goto("/topics/")
    page.fill(".filters [name=q]", "ord")
    expect(page).to_have_url(re.compile(r"q=ord"))  # the search is done
    page.click(".seg a:has-text('With problems')")
    expect(page.locator(".seg [aria-current]")).to_have_text("With problems")
    expect(page.locator(".filters [name=q]")).to_have_value("ord")
    expect(page).to_have_url(re.compile(r"q=ord.*state=problems|state=problems.*q=ord"))


def ignore_aborted_refreshes(session: BrowserSession) -> None:
    """A clock that jumps lets several refreshes of a panel begin at once, and each aborts the one before. htmx logs that as an error."""
    session.errors[:] = [e for e in session.errors if not e.startswith(("htmx:afterRequest", "htmx:sendAbort"))]


def test_a_choice_replaces_a_search_that_was_not_sent_yet(session: BrowserSession) -> None:
    page = session.page
    requested: list[str] = []
    page.goto("/topics/")
    page.on(
        "request", lambda r: requested.append(r.url) if "q=ord" in r.url and "weir-panels" not in r.headers else None
    )
    waiting: list[Route] = []
    page.route(re.compile(r"state=problems"), lambda route: waiting.append(route))
    page.clock.install()
    page.clock.pause_at(
        datetime.now(UTC) + timedelta(seconds=2)
    )  # on a busy machine the search would be sent before the click
    page.locator(".filters [name=q]").press_sequentially("ord")
    page.click(".seg a:has-text('With problems')")
    page.clock.run_for(1_000)  # the delay of the search has passed while the choice is under way
    while not waiting:
        page.wait_for_timeout(20)
    waiting[0].continue_()
    expect(page.locator(".seg [aria-current]")).to_have_text("With problems")
    expect(page.locator(".filters [name=q]")).to_have_value("ord")
    expect(page).to_have_url(re.compile(r"q=ord.*state=problems|state=problems.*q=ord"))
    assert len(requested) == 1, requested
    ignore_aborted_refreshes(session)


def test_an_order_keeps_a_search_that_was_not_sent_yet(session: BrowserSession) -> None:
    page = session.page
    page.goto("/topics/")
    page.clock.install()
    page.locator(".filters [name=q]").press_sequentially("ord")
    page.click("#list th a >> nth=0")
    page.clock.run_for(1_000)
    expect(page).to_have_url(re.compile(r"q=ord.*sort=|sort=.*q=ord"))
    expect(page.locator("#list tbody a.name")).to_have_text(["orders"])
    ignore_aborted_refreshes(session)


def test_the_focus_follows_navigation_and_rejections(session: BrowserSession) -> None:
    page = session.page
    page.goto("/topics/")
    page.click(".rail [data-go=g]")
    expect(page.locator("#main h1")).to_have_text("Groups")
    expect(page.locator("#main h1")).to_be_focused()
    expect(page.locator("#announcement")).to_contain_text("Groups")
    page.goto("/new/topic/")
    page.fill("#id_name", "bad name!")
    page.fill("#id_partitions", "3")
    page.press("#id_partitions", "Control+Enter")
    expect(page.locator(".error").first).to_be_visible()
    expect(page.locator("#id_name")).to_be_focused()
    page.fill("#id_name", "good-name")
    page.fill("#id_configs", "no.such.config=1")
    page.press("#id_partitions", "Control+Enter")
    expect(page.locator("#id_configs")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#id_configs")).to_be_focused()  # not the name, which has autofocus
    session.errors.clear()  # the browser reports the status 400


def test_a_form_is_submitted_once_during_its_request(session: BrowserSession) -> None:
    page = session.page
    page.goto("/new/topic/")
    page.fill("#id_name", "bad name!")
    held: list[Route] = []
    page.route(
        "**/new/topic/", lambda route: held.append(route) if route.request.method == "POST" else route.fallback()
    )
    page.click("button.primary")
    expect(page.locator("button.primary")).to_have_attribute("aria-busy", "true")
    page.click("button.primary")
    page.press("#id_name", "Enter")
    assert len(held) == 1
    held[0].continue_()
    expect(page.locator(".error").first).to_be_visible()
    expect(page.locator("[aria-busy]")).to_have_count(0)
    session.errors.clear()


def test_only_the_fields_that_a_choice_needs_are_shown(session: BrowserSession) -> None:
    page = session.page
    page.goto("/acls/from-template/?template=producer&principal=User:ann")
    expect(page.locator("#id_principal")).to_have_value("User:ann")
    expect(page.locator("#id_topic")).to_be_visible()
    for name in ("group", "transactional_id", "application_id", "name_prefix"):
        expect(page.locator(f"#id_{name}")).to_be_hidden()
    page.select_option("#id_template", "consumer")
    expect(page.locator("#id_group")).to_be_visible()
    page.click(".rail [data-go=q]")
    page.click("main a[href='/new/quota/']")  # loaded into the page by htmx
    expect(page.locator("#id_user")).to_be_visible()
    expect(page.locator("#id_ip")).to_be_hidden()
    expect(page.locator("#id_connection_creation_rate")).to_be_hidden()
    page.select_option("#id_applies_to", "ip")
    expect(page.locator("#id_ip")).to_be_visible()
    expect(page.locator("#id_user")).to_be_hidden()
    expect(page.locator("#id_producer_byte_rate")).to_be_hidden()


def test_a_long_form_of_configs_is_filtered_by_name(session: BrowserSession) -> None:
    page = session.page
    page.goto("/topics/orders/alter/")
    expect(page.locator(".subject").first).to_have_text("Changed most often")
    page.locator("main h1").click()
    page.keyboard.press("f")
    expect(page.locator("#name-filter")).to_be_focused()
    page.fill('[name="c:retention.bytes"]', "5 GB")
    page.fill("#name-filter", "MS segment")
    expect(page.locator('[name="c:segment.ms"]')).to_be_visible()
    expect(page.locator('[name="c:segment.bytes"]')).to_be_hidden()
    expect(page.locator(".subject:visible")).to_have_text(["Changed most often", "Segments and flushing"])
    expect(page.locator(".name-filter output")).to_have_text(re.compile(r"^2 of \d+$"))
    page.press("#name-filter", "Enter")  # does not send the form
    expect(page.locator('[name="c:segment.ms"]')).to_be_focused()
    page.click("button.primary")
    expect(page.locator("main")).to_contain_text("retention.bytes")  # a hidden field is sent


def test_the_filter_of_configs_works_after_the_table_was_loaded_again(session: BrowserSession) -> None:
    page = session.page
    page.goto("/topics/orders/?tab=configs&only=changed")
    expect(page.locator("#name-filter")).to_have_count(0)
    page.locator("#list .seg a").first.click()
    page.fill("#name-filter", "index")
    expect(page.locator("#list tbody tr:visible .name")).to_have_text(
        ["weir.index.keys", "weir.index.header", "segment.index.bytes", "index.interval.bytes"]
    )
