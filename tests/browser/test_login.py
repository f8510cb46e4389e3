"""Login through OpenID Connect with a real browser and a real provider on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import SHOTS, WebServer
from tests.foreign.provider import Provider, provider

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def idp() -> Iterator[Provider]:
    with provider() as running:
        running.set_user("s-1", preferred_username="grace", groups=["ops"])
        running.set_user("s-2", preferred_username="mallory", groups=["sales"])
        yield running


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, idp: Provider) -> Iterator[WebServer]:
    running = WebServer(
        tmp_path_factory.mktemp("oidc"),
        WEIR_OIDC_ISSUER=idp.url,
        WEIR_OIDC_NAME="Example ID",
        WEIR_OIDC_CLIENT_SECRET="of the console",
        WEIR_LOGIN_OPERATOR_GROUPS="ops",
        WEIR_PASSWORD_LOGIN="off",
    )
    yield running
    running.end()


def test_a_user_logs_in_through_the_provider_and_lands_on_the_page_that_was_asked_for(
    chromium: Browser, console: WebServer, tmp_path: Path
) -> None:
    context = chromium.new_context(base_url=console.base, viewport={"width": 1280, "height": 800})
    context.set_default_timeout(120_000)
    page = context.new_page()
    errors: list[str] = []
    # The provider's page wants a font of another site.
    page.on("console", lambda m: errors.append(m.text) if m.location["url"].startswith(console.base) else None)
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.goto("/topics/?q=flights")
    assert page.locator("input[type=password]").count() == 0
    page.screenshot(path=SHOTS / "login-oidc.png")
    page.click("text=Log in with Example ID")
    page.fill("input[name=sub]", "s-1")
    page.click("button[type=submit] >> nth=0")
    page.wait_for_url(f"{console.base}/topics/?q=flights")
    assert "grace" in page.inner_text("header")
    page.wait_for_selector("#live.on")
    assert errors == [], "the content security policy permits the way to the provider and back"
    context.close()


def test_the_page_of_a_rejected_login_says_which_group_would_help(chromium: Browser, console: WebServer) -> None:
    context = chromium.new_context(base_url=console.base, viewport={"width": 390, "height": 800}, color_scheme="dark")
    context.set_default_timeout(120_000)
    page = context.new_page()
    page.goto("/login/oidc/?next=/brokers/")
    page.fill("input[name=sub]", "s-2")
    page.click("button[type=submit] >> nth=0")
    page.wait_for_selector("h1:has-text('Login failed')")
    assert "ops" in page.inner_text("[role=alert]")
    page.screenshot(path=SHOTS / "login-failed.png")
    context.close()
