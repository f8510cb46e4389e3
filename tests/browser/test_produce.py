"""The Produce page in a real browser, with a schema registry: fields of a schema are shown only for the format that needs them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import BrowserSession, WebServer
from tests.browser.seeded_server import PASSWORD, USER
from tests.unit.registry_server import running_registry

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def with_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    with running_registry() as registry, pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEIR_SCHEMA_REGISTRY_URL", registry.url)
        running = WebServer(tmp_path_factory.mktemp("served-registry"))
        yield running
        running.end()


def test_fields_of_a_schema_follow_the_format(chromium: Browser, with_registry: WebServer) -> None:
    session = BrowserSession(chromium, with_registry.base, USER, PASSWORD, at="/topics/orders/produce/")
    page = session.page
    subject, label = page.locator("#id_value_subject"), page.locator("label[for=id_value_subject]")
    expect(page.locator("#id_value_format")).to_be_visible()
    expect(subject).to_be_hidden()
    expect(label).to_be_hidden()
    page.select_option("#id_value_format", "schema")
    expect(subject).to_be_visible()
    expect(label).to_be_visible()
    expect(page.locator("#id_key_subject")).to_be_hidden()
    session.shot("produce-schema", full=True)
    page.select_option("#id_value_format", "json")
    expect(subject).to_be_hidden()
    page.goto("/topics/orders/")
    page.click("main a[href='/topics/orders/produce/']")  # loaded into the page by htmx
    expect(page.locator("#id_value_format")).to_be_visible()
    expect(subject).to_be_hidden()
    session.context.close()
    assert not session.errors
